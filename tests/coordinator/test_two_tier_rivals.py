"""Laplace noise on a grid: what the channel is, and that the sampler follows it coin by coin."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import evidence
import numpy as np
import pytest
import worlds
from evidence import hoeffding_radius
from scipy import integrate, special

from actors.seeds import Coins
from coordinator.protocol.arrays import Floats, Floats2, Words, Words2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import basis_of
from coordinator.protocol.public_draws import candidate
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order.laplace import grid_laplace, noisy_places
from coordinator.protocol.second_order.privunit import CapChannel, PrivUnit, cap_channel, directions, named
from coordinator.protocol.second_order.sslp import Sslp, corners, sslp_bound, sslp_clip
from coordinator.protocol.value_channels import choice_channel


def pack_moment(moment: Floats2) -> Floats:
    """The lower triangle of a symmetric matrix with its inner product: off the diagonal times sqrt(2)."""
    rows, columns = np.tril_indices(moment.shape[0])
    return moment[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2))


class NamedCoins(Coins):
    """Coins that a test names: of places, which side, the pick on it, and fair ones."""

    named: Words2
    sides: Words
    picks: Words
    words: Words2

    def places(self, many: int) -> Words2:
        assert self.named.shape == (self.devices, many)
        return self.named

    def whole(self, question: int = 0) -> Words:
        return self.picks if question else self.sides

    def fair(self, items: int) -> Words2:
        assert items <= 64
        return self.words


def test_the_noise_is_the_two_sided_geometric_one() -> None:
    channel = grid_laplace(Fraction(2))
    row = channel.row(40)[channel.beyond : channel.beyond + channel.steps]
    ratios = [float(other / one) for one, other in itertools.pairwise(row[40:])]
    np.testing.assert_allclose(ratios, np.exp(-2 / channel.steps), rtol=1e-5)


def test_every_coin_falls_where_the_table_says() -> None:
    channel = grid_laplace(Fraction(5))
    half = 1 << 63
    edges = [int(word) for word in channel.at_least[:: channel.at_least.size // 20]]
    words = [sign + coin for edge in edges for coin in (edge - 1, edge) for sign in (0, half)]
    coins = NamedCoins(*worlds.coins(1))
    coins.named = np.array([words], np.uint64)
    told = noisy_places(np.full((1, len(words)), 0.25), channel, coins)[0]
    for noisy, word in zip(told.tolist(), words, strict=True):
        size = sum(word % half < int(edge) for edge in channel.at_least)
        place = channel.steps // 4 + (size if word >= half else -size)
        assert noisy == min(max(place, -channel.beyond), channel.steps + channel.beyond)


def test_coordinates_off_the_range_and_what_is_no_number_are_clipped() -> None:
    """Otherwise a model that overflows on some devices alone would tell them by a release outside of all noise."""
    channel = grid_laplace(Fraction(20))
    for far, edge in ((-3.0, 0.0), (1.5, 1.0), (np.nan, 0.0), (np.inf, 1.0)):
        one, other = (noisy_places(np.full((3, 40), share), channel, worlds.coins(3)) for share in (far, edge))
        assert np.array_equal(one, other)


def test_an_epsilon_that_coins_cannot_express_is_refused() -> None:
    for most, make in ((20, grid_laplace), (30, lambda epsilon: cap_channel(epsilon, 10))):
        for epsilon in (None, Fraction(most + 1)):
            with pytest.raises(InputError, match=f"above {most}"):
                make(epsilon)


QUERY = bytes(range(16))


@pytest.mark.parametrize("dimension", [1, 2, 7])
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5, 2)])
def test_the_length_is_the_expected_component_and_kept_the_best(epsilon: Fraction, dimension: int) -> None:
    """By the law of each order statistic, level by level, for every number that could be kept."""
    channel = cap_channel(epsilon, dimension)
    vectors = channel.vectors

    def expected(rank: int) -> float:  # E of the rank-th largest of the sizes of cosines: integral of P(it is above x)
        def above(size: float) -> float:
            beyond = special.betainc((dimension - 1) / 2, 0.5, 1 - size**2) if dimension > 1 else 1.0
            return float(special.bdtrc(rank - 1, vectors, beyond))

        return float(integrate.quad(above, 0, 1, limit=200)[0])

    sums = np.cumsum([expected(rank) for rank in range(1, vectors + 1)])
    channels = [choice_channel(epsilon, choices=2 * vectors, best_count=kept) for kept in range(1, vectors + 1)]
    lengths = [channel.contrast * total for channel, total in zip(channels, sums, strict=True)]
    assert channel.length == pytest.approx(max(lengths), rel=1e-6)
    assert lengths[channel.choice.best_count - 1] == pytest.approx(max(lengths), rel=1e-7)


def reached(vector: Floats, channel: CapChannel, side: int) -> set[int]:
    """All answers of device 5 whose first coin is ``side``, over two thousand picks."""
    coins = NamedCoins(*worlds.coins(1, first=5))
    found = set()
    for pick in range(2000):
        coins.sides, coins.picks = np.array([side], np.uint64), np.array([pick << 32], np.uint64)
        found.add(int(named(vector[None], channel, QUERY, coins)[0]))
    return found


@pytest.mark.parametrize(
    "vector",
    [np.eye(6)[2], np.full(6, -(6**-0.5)), np.zeros(6), np.full(6, np.nan), np.array([np.inf, 1, 0, 0, 0, -np.inf])],
)
def test_the_coin_divides_all_answers_into_the_kept_ones_and_the_others(vector: Floats) -> None:
    """Also where nothing can be ranked: otherwise silence, or the same answer always, would tell of such a vector."""
    channel = cap_channel(Fraction(1), 6)
    best, other = (reached(vector, channel, side) for side in (channel.choice.misses, channel.choice.misses - 1))
    assert len(best) == channel.choice.best_count
    assert best | other == set(range(channel.choice.choices))
    assert not best & other
    if np.linalg.norm(vector) == 1:
        near = {one: (1 - 2 * (one % 2)) * candidate(QUERY, 5, one // 2, 6) @ vector for one in best | other}
        assert min(near[answer] for answer in best) > max(near[answer] for answer in other)


def test_directions_are_unit_moments_in_the_models_basis() -> None:
    model = worlds.features(items=40, unseen=10)
    mine = np.random.default_rng(0).normal(size=(3, 40))
    mine[2, :30] = 0.0
    told, basis = directions(mine, basis_of(model)), basis_of(model)
    for row, private in zip(told[:2], mine, strict=False):
        taste = basis.T @ private
        np.testing.assert_allclose(row, pack_moment(np.outer(taste, taste)) / (taste @ taste), atol=1e-12)
        assert np.linalg.norm(row) == pytest.approx(1)
    assert not told[2].any()


def on_the_old_grid(numbers: Floats, length: float) -> bool:
    """Whether all are the Gaussian's inverse at odd multiples of 2^-53 over the length: noise and nothing more."""
    near = np.rint(special.ndtr(numbers * length) * 2.0**52 - 0.5)
    steps = near[:, None] + np.arange(-4, 5)
    return bool((special.ndtri((steps + 0.5) * 2.0**-52) / length == numbers[:, None]).any(axis=1).all())


@pytest.mark.statistical
def test_low_bits_do_not_tell_who_has_nothing_in_the_models_directions() -> None:
    """The attack that told 500 of 500 such devices from 0 of 500 others, at epsilon 1; false alarm 1e-6.

    Nobody's advantage may exceed ``tanh(epsilon / 2)``, whatever is looked at: here the diagonal of what is read from a
    release. Twin: the release of the version before, a Gaussian on a grid of 2^-52 that is turned, is caught.
    """
    model, many = worlds.features(items=40, rank=10, unseen=10), 500
    query = worlds.query(model, "privunit")
    items, values = np.tile([1, 2, 30, 31], 2 * many).reshape(-1, 4), np.tile([1.0, 5.0, 2.0, 4.0], 2 * many)
    items[many:, :2] = 32, 33
    ratings = worlds.Rated(np.arange(2 * many + 1, dtype=np.int64) * 4, np.sort(items).ravel().astype(np.int32), values)
    cohort = worlds.announced(ratings, query, 0, 2 * many, items=40)
    devices, payloads = query.payloads(cohort.answer(query, model, 0, 2 * many), model)
    length = cap_channel(Fraction(1), 55).length
    caught = [
        on_the_old_grid(np.diag(moment), length) for moment in PrivUnit().moments(payloads, devices, query, model)
    ]
    allowed = math.tanh(0.5) + math.sqrt(2) * hoeffding_radius(many)  # of a difference
    assert abs(np.mean(caught[:many]) - np.mean(caught[many:])) < allowed
    noise = special.ndtri((np.random.default_rng(0).integers(0, 1 << 52, (many, 10)) + 0.5) * 2.0**-52)
    turned = noise + 0.3 * np.linspace(0.1, 0.9, 10)
    old = [[on_the_old_grid(row / length, length) for row in rows] for rows in (noise, turned)]
    assert abs(np.mean(old[0]) - np.mean(old[1])) > allowed


@pytest.mark.few(2)
@pytest.mark.parametrize("epsilon", [1, 10, 30])
@pytest.mark.parametrize("rank", [10, 100, 200, 512])
def test_the_length_is_accurate_in_as_many_dimensions_as_are_accepted(
    rank: int, epsilon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of 32 times as many angles: at rank 200 and epsilon 10 the length was .38 of the right one."""
    used = cap_channel(Fraction(epsilon), rank * (rank + 1) // 2)
    monkeypatch.setattr("coordinator.protocol.second_order.privunit._ANGLES", 1 << 17)
    fine = cap_channel.__wrapped__(Fraction(epsilon), rank * (rank + 1) // 2)
    assert fine.choice.best_count == used.choice.best_count
    assert used.length == pytest.approx(fine.length, rel=1e-8)


# SSLP by enumeration: unbiased, of a second moment that tells nothing, within epsilon; and the sampler follows it.
EPSILON = Fraction(3, 2)


def cube(d: int) -> Floats2:
    return np.array(list(itertools.product((-1.0, 1.0), repeat=d)))


def law(shares: Floats, epsilon: float) -> Floats:
    """Probability of every corner of `cube`, given the private vector over its bound."""
    points = cube(shares.size)
    near = np.prod((1 + points * shares) / 2, axis=1)
    keep = 1 / (1 + math.exp(-epsilon))
    sides = np.sign(points @ points.T)
    given = np.where(sides > 0, 2 * keep, np.where(sides < 0, 2 * (1 - keep), 1.0)) / len(points)
    return np.asarray(given @ near)


@pytest.mark.parametrize("d", [2, 3, 4, 5])
@pytest.mark.parametrize("epsilon", [Fraction(1, 2), Fraction(5)])
def test_the_release_is_unbiased_and_its_second_moment_tells_nothing(d: int, epsilon: Fraction) -> None:
    """``E Z = r'`` and ``E Z Z^T = B^2 I`` for every vector, so it carries no second-order information at all."""
    model = worlds.features(items=d, rank=1)
    clip, bound = sslp_clip(model), sslp_bound(model, epsilon)
    points = cube(d)
    for private in (*np.random.default_rng(d).uniform(-1, 1, (3, d)), np.ones(d), np.zeros(d)):
        chances = law(private, float(epsilon))
        assert chances.sum() == pytest.approx(1)
        np.testing.assert_allclose(bound * points.T @ chances, private * clip, atol=1e-12 * bound)
        second = (points * chances[:, None]).T @ points
        np.testing.assert_allclose(second, np.eye(d), atol=1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 4, 5, 6])
def test_the_samplers_own_law_is_exactly_within_epsilon(d: int) -> None:
    """By every coin there is: all uniform corners, turned and not, from all private corners v~.

    All 2**d uniform corners are as probable, and a coin below `flips` turns them. A release given v~ has 2 q, 1 (at
    right angles) or 2 (1 - q) parts of 2**d, whatever d. Whatever law v~ has given the private vector, which is all
    that rounding could change there, mixing keeps the ratios.
    """
    channel = bit_channel(EPSILON)
    coins = NamedCoins(*worlds.coins(2 ** (d + 1)))
    coins.words = np.tile(np.arange(2**d, dtype=np.uint64), 2)[:, None]
    coins.named = np.zeros((2 ** (d + 1), d), np.uint64)  # with any coins a corner is drawn around itself
    coins.sides = np.repeat(np.array([channel.flips - 1, channel.flips], np.uint64), 2**d)
    laws = []
    for corner in cube(d):
        told = corners(np.tile(corner, (2 ** (d + 1), 1)), channel, coins) @ (1 << np.arange(d))
        turned, straight = (np.bincount(part, minlength=2**d) for part in np.split(told, 2))
        law = [
            (int(a) * channel.flip_probability + int(b) * (1 - channel.flip_probability)) / 2**d
            for a, b in zip(turned, straight, strict=True)
        ]
        assert sum(law) == 1
        laws.append(law)
    ratio = max(max(column) / min(column) for column in zip(*laws, strict=True))
    assert ratio == 1 / channel.flip_probability - 1 <= evidence.exp_bounds(EPSILON)[0]


def test_the_bound_is_the_specifications_at_movielens_10m() -> None:
    """Half stars, m = 10,677, epsilon 5: B = 295."""
    stars = replace(worlds.features(items=10_677, rank=1), lowest=0.5, highest=5.0)
    assert sslp_bound(stars, Fraction(5)) == pytest.approx(295, abs=0.5)


def test_a_device_clips_its_residuals_at_half_the_range() -> None:
    """A residual of M moves as one of 2 M does, and one of M / 2 does not."""
    model = worlds.features(items=5, rank=1)
    query = SecondOrderQuery(model=model.digest, mechanism="sslp", epsilon=EPSILON)
    half, edge, far = (
        Sslp().randomize(np.full((300, 5), size * sslp_clip(model)), query, model, worlds.coins(300))
        for size in (0.5, 1.0, 2.0)
    )
    assert np.array_equal(edge, far)
    assert not np.array_equal(half, edge)


def test_vectors_are_8192_at_most() -> None:
    assert [cap_channel(Fraction(epsilon), 3).vectors for epsilon in (10, 20)] == [1 << 13, 1 << 13]
