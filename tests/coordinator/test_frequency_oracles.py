"""Frequency oracles: exact supports and rates, and beside other people's libraries."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import FALSE_ALARM, binomial_bounds, chi_square_fits, counts_fit, normal_radius, variance_fits
from runs import Command, refused
from worlds import in_world

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon, add
from coordinator.protocol.channels import COIN, flipped_bits, unary_channel
from coordinator.protocol.decoding.estimates import popularity
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import InWorld, World
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.oracles import Frequencies, Oracle
from coordinator.protocol.mechanisms.rappor import Rappor
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import buckets_of, count_supports, gather, odd, signs_of, transform
from coordinator.protocol.statistics.counts import CountStatistic, Rates
from coordinator.protocol.value_channels import kary_channel
from coordinator.server.aggregation import aggregate
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario

ORACLES = {name: kind for name, kind in registered_mechanisms().items() if issubclass(kind, Oracle)}
"""Those that are told one random item."""
SECRET = bytes(range(16))
USERS = 40_000


def design_of(name: str, items: int, rated: int = 1, **settings: Any) -> InWorld:
    """An oracle as a run has it."""
    return in_world(ORACLES[name], items=items, rated=rated, **settings)


def reports(design: InWorld, query: Query) -> Rates:
    """How often a report speaks for a value."""
    assert isinstance(design.mechanism, Frequencies)
    return design.mechanism.reports(query)


def asked_of(design: InWorld, epsilon: Epsilon, seed: bytes = worlds.PUBLIC) -> Query:
    return design.query(round_number=0, public_seed=seed, epsilon=epsilon)


def counted(query: Query, ratings: StoredRatings) -> CountStatistic:
    statistic = aggregate(query, Cohort(ratings, SECRET, 0, ratings.users, None).answer(query, 0, ratings.users))
    assert isinstance(statistic, CountStatistic)
    return statistic


def who_like(rows: list[list[int]], items: int, users: int) -> StoredRatings:
    """Devices of which the i-th likes the items of row ``i`` modulo their number, and has rated nothing else."""
    behind = [device % len(rows) for device in range(users)]
    return worlds.stored_ratings([dict.fromkeys(row, True) for row in rows], behind, items)


def stated(name: str, epsilon: float, items: int, query: Query) -> tuple[float, float]:
    """The probabilities p and q of the papers."""
    odds = float(np.exp(epsilon))
    if name == "grr":
        return odds / (odds + items), 1 / (odds + items)
    size = int(query.parameters["buckets"]) if name == "olh" else 2 ** int(query.parameters["rows"])
    return odds / (odds + size - 1), 1 / size


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["grr", "olh", "hadamard"])
@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(3)])
def test_reports_speak_for_values_with_p_and_q(name: str, epsilon: Fraction) -> None:
    """All devices like item 5 alone: its count is binomial with p, all others with q. False alarm 1e-6 together.

    The twin: at an epsilon a tenth larger item 5 would be counted more often than that.
    """
    design = design_of(name, items=21)
    query = asked_of(design, epsilon)
    rates, counts = reports(design, query), counted(query, who_like([[5]], 21, USERS)).sums
    p, q = stated(name, float(epsilon), 21, query)
    assert [rates.mine, rates.others] == pytest.approx([p, q], rel=1e-12)
    assert counts_fit(counts, USERS, np.where(np.arange(counts.size) == 5, p, q))
    assert counts[5] < binomial_bounds(USERS, stated(name, float(epsilon) * 1.1, 21, query)[0])[0]


@pytest.mark.parametrize("told", ["liked", "rated"])
def test_one_answer_is_expected_to_tell_what_it_tells_where_counts_are_the_expected_ones(told: str) -> None:
    """By it policies say how many devices a round takes; here every item has the same share of likes."""
    devices, liked = 10**9, 0.3
    for name, kind in ORACLES.items():
        if "told" not in kind.settings.model_fields:
            continue
        design = design_of(name, 8, 3, told=told)
        query = asked_of(design, Fraction(2))
        rates, expected = reports(design, query), design.rates(query, np.full(8, liked))
        assert isinstance(design.mechanism, Frequencies)
        slope, _ = design.mechanism.line(query, design.world)
        shares = [slope * liked] if told == "liked" else [slope / 2 * liked, slope / 2 * (1 - liked)]
        sums = np.concatenate([np.full(8, rates.others + rates.contrast * share) for share in shares] + [np.zeros(1)])
        statistic = CountStatistic(
            sums=np.rint(sums * devices).astype(np.int64), ones=0, devices=devices, answered=devices, refused=0
        )
        estimates = design.read(query, statistic)
        np.testing.assert_allclose(estimates.value, np.full(8, liked), rtol=1e-6)
        np.testing.assert_allclose(estimates.information, devices * expected, rtol=1e-6)
        assert (expected > 0).all()


def test_buckets_and_rows_are_those_with_the_least_noise() -> None:
    def told(name: str, epsilon: Epsilon) -> float:
        query = asked_of(design_of(name, items=100), epsilon)
        return query.parameters["buckets" if name == "olh" else "rows"]

    assert [told("olh", Fraction(eps)) for eps in (1, 2, 4)] == [4, 8, 56]
    assert (told("olh", Fraction(20)), told("olh", None), told("hadamard", None)) == (1024, 1024, 10)
    for epsilon in (Fraction(1, 10), Fraction(1), Fraction(2), Fraction(4), Fraction(6)):
        noise = []
        for rows in range(1, 11):
            design = design_of("hadamard", items=100, rows=rows)
            noise.append(float(reports(design, asked_of(design, epsilon)).spread(np.zeros(1))[0]))
        assert told("hadamard", epsilon) == 1 + int(np.argmin(noise))


def test_numbers_of_up_to_32_bits_are_odd_by_their_ones() -> None:
    for word in [*(1 << place for place in range(32)), *np.random.default_rng(0).integers(1 << 32, size=200).tolist()]:
        assert odd(np.uint64(word)) == word.bit_count() % 2


@pytest.mark.statistical
@pytest.mark.parametrize("buckets", [2, 4, 56])
def test_hashes_of_two_values_are_uniform_pairs(buckets: int) -> None:
    """Over devices every pair of buckets is as frequent, whichever two values: chi-square, false alarm 1e-6 in all.

    The twins: one hash for two values is caught, and so is a bucket that loses a tenth to the next.
    """
    devices, pairs = 1 << 18, [(0, 1), (0, 2), (2, 3), (5, 1000), (999, 1000)]
    streams = device_streams(np.array([1, 2], np.uint64), 0, devices)
    even = np.full(buckets**2, buckets**-2.0)

    def hashed(value: int) -> Ints:
        return buckets_of(streams, np.full(devices, value, np.int32), buckets).astype(np.int64)

    def uniform(one: Ints, other: Ints) -> bool:
        counts = np.bincount(one * buckets + other, minlength=buckets**2)
        return chi_square_fits(counts, even, false_alarm=FALSE_ALARM / len(pairs))

    assert all(uniform(hashed(one), hashed(other)) for one, other in pairs)
    assert not uniform(hashed(6), hashed(6))
    moved = np.where((hashed(0) == 0) & (np.arange(devices) % 10 == 0), 1, hashed(0))
    assert not chi_square_fits(np.bincount(moved, minlength=buckets), even[:buckets])


@pytest.mark.parametrize("values", [2, 3, 11, 64, 101])
def test_supports_are_what_hashing_every_value_as_each_device_does_counts(values: int) -> None:
    streams, world = device_streams(np.array([3, 4], np.uint64), 5, 200), np.random.default_rng(0)
    told: Indices = world.integers(0, 7, 200).astype(np.int32)
    counts = np.zeros(values, np.int64)
    count_supports(streams, told, 7, counts)
    for value in range(values):
        assert counts[value] == (buckets_of(streams, np.full(200, value, np.int32), 7) == told).sum()


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
@pytest.mark.parametrize("columns", [2, 16, 128])
def test_one_transform_counts_what_looking_at_every_device_and_value_counts(rows: int, columns: int) -> None:
    streams, world = device_streams(np.array([5, 6], np.uint64), 0, 150), np.random.default_rng(1)
    told: Indices = world.integers(0, 1 << rows, 150).astype(np.int32)
    sums = np.zeros(columns, np.int64)
    gather(streams, told, rows, sums)
    transform(sums)
    assert not (sums % (1 << rows)).any()
    for value in range(columns):
        own = signs_of(streams, np.full(150, value, np.int32), rows, columns)
        assert sums[value] >> rows == (own == told).sum()


LIKES = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [4, 5, 6, 7, 8], []]  # What six kinds of devices like, of 12 items
TRUE = np.array([sum((item in row) / len(row) for row in LIKES if row) / len(LIKES) for item in range(12)])
RUNS = 10  # As few as tell a twin, which is 3.2 standard errors of a run off, with 4 deviations to spare


def errors(name: str, epsilon: Fraction, read_at: Fraction) -> Floats:
    """How far items' shares lie from the truth in standard errors, shape (runs, items)."""
    design, ratings = design_of(name, items=12, rated=2), who_like(LIKES, 12, 6000)
    found = []
    for seed in range(RUNS):
        query = asked_of(design, epsilon, seed=bytes([seed]) * 16)
        read = asked_of(design, read_at, seed=bytes([seed]) * 16)
        value, error = popularity(query, reports(design, read), counted(query, ratings))
        found.append((value - TRUE) / error)
    return np.array(found)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ORACLES)
def test_estimates_are_unbiased_and_scatter_by_their_standard_errors(name: str) -> None:
    """Share of devices whose random liked item it is: means of items are normal, and 120 squares have a chi-square law.

    False alarm 1e-6 each. The twins: read at an epsilon a tenth larger some item is off; variances three times off.
    """
    found = errors(name, Fraction(2), Fraction(2))
    radius = normal_radius(RUNS**-0.5, comparisons=12)
    assert np.abs(found.mean(axis=0)).max() < radius
    assert [variance_fits(found, variance) for variance in (1 / 3, 1.0, 3.0)] == [False, True, False]
    assert np.abs(errors(name, Fraction(2), Fraction(11, 5)).mean(axis=0)).max() > radius


def test_one_device_without_noise_is_no_certainty() -> None:
    design, one = design_of("grr", items=12), np.eye(1, 12, dtype=np.int64)[0]
    statistic = CountStatistic(sums=one, ones=0, devices=1, answered=1, refused=0)
    assert np.isfinite(design.read(asked_of(design, None), statistic).information).all()


@pytest.mark.parametrize("name", [*ORACLES, "set"])
def test_liked_items_are_asked_about_all_together(name: str, blindrec: Command) -> None:
    """How often a device names one item of a few depends on how it likes the others: no round tells that."""
    line = refused(blindrec, "run", "--design", name, "--policy", "eliminate")
    assert "choose one of one-round, fixed" in line
    assert ("set told to rated" in line) == (name != "set")
    half = registered_mechanisms()[name]
    design = half.design(half.settings(), World(items=12, rated=2, users=9, clusters=2, epsilon=Fraction(1)))
    assert isinstance(design, InWorld)
    with pytest.raises(InputError, match="about all items together"):
        design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(1), pool=np.arange(3, dtype=np.int32))


EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
MISSING = "the package {} is not installed; pip install it"


def kept(epsilon: Fraction) -> float:
    """How probably one bit is told as it is."""
    return flipped_bits(1, epsilon).if_one / COIN


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_opendp_says_of_our_flips_what_our_channels_say(epsilon: Fraction) -> None:
    """Randomized response of one bit, and among k values: OpenDP's privacy map at our probabilities."""
    opendp = pytest.importorskip("opendp.prelude", reason=MISSING.format("opendp"))
    opendp.enable_features("contrib")
    measurement = opendp.m.make_randomized_response_bool(prob=kept(epsilon))
    assert measurement.map(1) == pytest.approx(flipped_bits(1, epsilon).epsilon, abs=1e-12)
    channel = kary_channel(epsilon, values=8)
    own = float(max(channel.chances(np.array([3]))))
    several = opendp.m.make_randomized_response(categories=list(range(8)), prob=own)
    assert several.map(1) == pytest.approx(channel.epsilon, abs=1e-12)
    off = opendp.m.make_randomized_response_bool(prob=kept(epsilon) + 0.01)
    assert off.map(1) > flipped_bits(1, epsilon).epsilon + 0.01


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("rounds", [2, 5])
def test_dp_accounting_composes_our_flips_to_what_the_ledger_books(epsilon: Fraction, rounds: int) -> None:
    """Its privacy loss distribution of randomized response, composed with itself, ends at our sum."""
    accounting = pytest.importorskip("dp_accounting", reason=MISSING.format("dp-accounting"))
    flipped = 2 * (1 - kept(epsilon))  # it draws anew where ours flips
    interval = 1e-4
    loss = accounting.pld.privacy_loss_distribution.from_randomized_response(
        flipped, 2, value_discretization_interval=interval
    )
    total: Fraction | None = Fraction(0)
    for _ in range(rounds):
        total = add(total, epsilon)
    assert total is not None
    composed = loss.self_compose(rounds).get_epsilon_for_delta(0.0)
    assert float(total) <= composed + 1e-9
    assert composed <= float(total) + rounds * interval + 1e-9


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_ldp_says_of_frequency_oracles_what_our_channels_say(epsilon: Fraction) -> None:
    """k-ary response, OUE and OLH: P(own value), P(another one) and the buckets; at half of epsilon others."""
    oracles = pytest.importorskip("pure_ldp.frequency_oracles", reason=MISSING.format("pure-ldp"))
    unary, kary = unary_channel(epsilon, values=20), kary_channel(epsilon, values=20)
    buckets = round(math.exp(epsilon)) + 1
    hashed = kary_channel(epsilon, values=buckets)
    ours = {
        "DEClient": (kary.same / COIN, (1 - kary.same / COIN) / 19),
        "UEClient": tuple(float(rate) for rate in unary.rates),
        "LHClient": (hashed.same / COIN, (1 - hashed.same / COIN) / (buckets - 1)),
    }
    more = {"DEClient": {}, "UEClient": {"use_oue": True}, "LHClient": {"use_olh": True}}
    for name, expected in ours.items():
        client, half = (getattr(oracles, name)(float(one), 20, **more[name]) for one in (epsilon, epsilon / 2))
        assert (client.p, client.q) == pytest.approx(expected, abs=1e-12)
        assert half.p / half.q < 0.98 * client.p / client.q
        assert getattr(client, "g", buckets) == buckets
    scenario = Scenario(design="olh", items=20, rated=4, users=100, epsilon=epsilon)
    query = resolve(scenario).design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    assert query.parameters["buckets"] == buckets


# RAPPOR: the error that it states is exact given the filters, which tell all items apart.


WORLD = World(items=6, rated=3, users=1000, clusters=2, epsilon=Fraction(8))
SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05])  # Of devices with each item as their value; others have none


def query_of(rappor: Rappor) -> Query:
    return rappor.query(WORLD, round_number=0, public_seed=bytes(range(16)), epsilon=WORLD.epsilon)


def filters_of(rappor: Rappor, query: Query) -> Floats2:
    """The bits that each item sets, shape (bits, N)."""
    bits = np.zeros((query.questions, query.items))
    bits[rappor._positions(query), np.arange(query.items)] = 1
    return bits


def covariance(rappor: Rappor, query: Query) -> Floats2:
    """The exact covariance of the bits of one device's report, by going through its values."""
    channel, filters = rappor.channel(query), filters_of(rappor, query)
    values = np.append(filters, np.zeros((query.questions, 1)), axis=1)  # and an empty filter
    chances = np.append(SHARES, 1 - SHARES.sum())
    means = np.where(values == 1, channel.if_one / COIN, channel.if_zero / COIN)
    mean = means @ chances
    exact: Floats2 = np.diag((means * (1 - means)) @ chances) + (means * chances) @ means.T - np.outer(mean, mean)
    return exact


def exact_variances(rappor: Rappor, query: Query) -> Floats:
    """The variances of one device's estimates of items, by the covariance of its bits."""
    _, contrast = rappor._rates(query)
    inverse = np.linalg.pinv(filters_of(rappor, query)) / contrast
    variances: Floats = np.diag(inverse @ covariance(rappor, query) @ inverse.T)
    return variances


@pytest.mark.parametrize("bits", [0, 10])
def test_the_variance_is_exact_given_the_filters(bits: int) -> None:
    rappor = Rappor(filter_bits=bits)
    query = query_of(rappor)
    shared = filters_of(rappor, query).sum(axis=1).max() > 1
    assert shared == (bits > 0)
    stated, exact = rappor._variance(query, SHARES), exact_variances(rappor, query)
    assert np.allclose(stated, exact, rtol=1e-9)
    if shared:  # as if no bit were shared, it would be wrong
        unshared = Rappor()
        assert not np.allclose(unshared._variance(query_of(unshared), SHARES), exact, rtol=1e-2)


def test_filters_tell_all_items_apart() -> None:
    for seed in range(20):
        query = replace(query_of(Rappor(filter_bits=10)), public_seed=bytes([seed]) * 16)
        assert np.linalg.matrix_rank(filters_of(Rappor(), query)) == 6
    with pytest.raises(InputError, match="shares of 6 items follow from 7 bits at least"):
        Rappor(filter_bits=6).check_world(WORLD)
