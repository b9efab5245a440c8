"""Pairwise-Preference: its statistic, and its exact moments."""

import math
from collections.abc import Iterator
from itertools import combinations

import evidence
import numpy as np
import pytest
import worlds
from worlds import in_world

from coordinator.protocol.arrays import Floats, Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import BlockParameters, curator_signal, pair_agreement
from coordinator.protocol.pools import AGREEMENTS
from coordinator.protocol.public_draws import pairs_among
from scenarios.theory.emulated_runs import draw_pairs, draw_totals


def asked(items: int, agreement: str = "rated-equal", epsilon: Epsilon = None) -> Query:
    return in_world(Pairwise, items=items, agreement=agreement).query(
        round_number=0, public_seed=worlds.PUBLIC, epsilon=epsilon
    )


def agreement_bit(name: str, first: int | None, second: int | None) -> bool:
    return {
        "rated-equal": first is not None and first == second,
        "equal": bool(first) == bool(second),
        "positive": bool(first) and bool(second),
    }[name]


def pairs_of(items: int, users: int) -> Indices2:
    return pairs_among(device_streams(round_key(worlds.PUBLIC, 0), 0, users), np.full(users, items))


@pytest.mark.statistical
def test_pairs_are_uniform() -> None:
    """False alarm 1e-6 (chi-square); the twin, pairs with item 0 likelier by 6 %, is rejected."""
    items, users = 7, 200_000
    pairs, counts = np.unique(pairs_of(items, users), axis=0, return_counts=True)
    cells = list(combinations(range(items), 2))
    assert [tuple(pair) for pair in pairs.tolist()] == cells
    assert evidence.chi_square_fits(counts, np.ones(len(cells)))
    skewed = np.array([1.06 if 0 in pair else 1.0 for pair in cells])
    assert not evidence.chi_square_fits(counts, skewed)


@pytest.mark.parametrize("items", [1, 5001])
def test_impossible_designs_are_refused(items: int) -> None:
    with pytest.raises(InputError, match=f"items is {items}"):
        in_world(Pairwise, items=items)


SIZES = np.array([2, 3])
CLUSTER = (0, 0, 1, 1, 1)


def parameters(rated: int) -> BlockParameters:
    like = np.array([[0.9, 0.3], [0.2, 0.6]])
    return BlockParameters(rated=rated, like=like, class_shares=np.array([0.25, 0.75]), cluster_sizes=SIZES)


def worlds_of_one_user(model: BlockParameters) -> Iterator[tuple[float, dict[int, bool]]]:
    """Every (probability, ratings) of one user."""
    return worlds.holdings(model.like.tolist(), model.class_shares.tolist(), CLUSTER, model.rated)


def enumerated(model: BlockParameters, name: str, epsilon: float, *, public: bool) -> Floats:
    """P(S = 1 | pair) by clusters, every user, pair and flip counted."""
    asked, ones = np.zeros((2, 2)), np.zeros((2, 2))
    keep = 1 / (1 + math.exp(-epsilon))
    for chance, ratings in worlds_of_one_user(model):
        pairs = list(combinations(sorted(ratings) if public else range(5), 2))
        for one, other in pairs:
            bit = agreement_bit(name, ratings.get(one), ratings.get(other))
            for cell in {(CLUSTER[one], CLUSTER[other]), (CLUSTER[other], CLUSTER[one])}:
                asked[cell] += chance / len(pairs)
                ones[cell] += chance / len(pairs) * (keep if bit else 1 - keep)
    if public:  # over the devices every pair is asked about equally often: 1, 6 and 3 of 10 pairs
        assert asked.ravel().tolist() == pytest.approx([0.1, 0.6, 0.6, 0.3])
    return np.asarray(ones / asked)


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("name", AGREEMENTS)
@pytest.mark.parametrize("rated", [2, 4, 5])
def test_agreement_is_that_of_every_world(name: str, rated: int, *, public: bool) -> None:
    model = parameters(rated)
    found = pair_agreement(model, agreement=name, epsilon=1.5, rated_public=public)
    assert found == pytest.approx(enumerated(model, name, 1.5, public=public), abs=1e-12)


def test_one_rated_item_makes_no_public_pair() -> None:
    assert pair_agreement(parameters(1), agreement="equal", epsilon=1).shape == (2, 2)
    with pytest.raises(InputError, match="rated = 1"):
        pair_agreement(parameters(1), agreement="equal", epsilon=1, rated_public=True)


@pytest.mark.statistical
@pytest.mark.parametrize("users", [70, 200, 3000])
def test_drawn_pairs_have_the_moments_of_devices_that_answer(users: int) -> None:
    """400 draws over ten pairs: means and variances of ``n`` and ``n rate``, normal and chi-square, 1e-6 each.

    Twins: means that are a fifth off, and variances.
    """
    chance, coins = np.array([0.7, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.55, 0.55, 0.55]), np.random.default_rng(1)
    asked, agreed = np.array([draw_pairs(chance, users=users, coins=coins) for _ in range(400)]).transpose(1, 0, 2)
    assert (agreed <= asked).all()
    if users < 3000:  # exactly
        assert (asked.sum(axis=1) == users).all()
    for counts, each in ((asked, np.full(10, 0.1)), (agreed, 0.1 * chance)):
        strays = (counts - users * each) / np.sqrt(users * each * (1 - each))
        radius = evidence.normal_radius(len(counts) ** -0.5, comparisons=10)
        assert np.abs(strays.mean(axis=0)).max() < radius
        less = (counts - 0.8 * users * each) / np.sqrt(0.8 * users * each * (1 - 0.8 * each))
        assert np.abs(less.mean(axis=0)).max() > radius
        fits = [evidence.variance_fits(strays, variance) for variance in (0.8, 1.0, 1.25)]
        assert fits == [False, True, False]


@pytest.mark.statistical
def test_drawn_totals_have_the_moments_of_the_curators_signal() -> None:
    """2,000 draws: means and variances of four entries, and how far those of a row go together, false alarm 1e-6 each.

    Normal and chi-square laws. Twins: variances three tenths larger, and entries that have nothing in common.
    """
    alike = pair_agreement(parameters(4), agreement="equal", epsilon=math.inf, rated_public=True)
    signal, coins = curator_signal(alike, SIZES, users=7, rated=4), np.random.default_rng(2)
    draws, cluster = np.array([draw_totals(signal, coins) for _ in range(2000)]), np.repeat([0, 1], SIZES)
    for i, j in ((0, 1), (0, 3), (2, 3), (3, 4)):
        variance = signal.variances[cluster[i], cluster[j]]
        strays = draws[:, i, j] - signal.means[cluster[i], cluster[j]]
        assert abs(strays.mean()) < evidence.normal_radius(math.sqrt(variance / len(draws)), comparisons=8)
        assert evidence.variance_fits(strays, variance, false_alarm=1e-6 / 8)
        assert not evidence.variance_fits(strays, 1.3 * variance)
    rows = [(i, j, k) for i in range(5) for j, k in combinations(range(5), 2) if i not in (j, k)]
    shared = np.array([signal.shared[cluster[i], cluster[j], cluster[k]] for i, j, k in rows])
    spread = np.array([signal.variances[cluster[i], cluster[[j, k]]].prod() for i, j, k in rows])
    found = np.array([np.cov(draws[:, i, j], draws[:, i, k])[0, 1] for i, j, k in rows])
    radius = evidence.normal_radius((len(draws) * (shared**2 / spread).sum()) ** -0.5)
    slope = (found * shared / spread).sum() / (shared**2 / spread).sum()
    assert abs(slope - 1) < radius < abs(slope)


def test_curator_totals_have_the_moments_of_every_world() -> None:
    """Means and variances of an entry and covariances along a row, of one user and then of seven."""
    model = parameters(4)
    values, chances = [], []
    for likely, ratings in worlds_of_one_user(model):
        sign = np.array([2 * ratings[item] - 1 if item in ratings else 0 for item in range(5)])
        values.append(np.outer(sign, sign))
        chances.append(likely)
    chance, entries = np.array(chances), np.array(values, dtype=np.float64)
    mean = np.einsum("c,cij->ij", chance, entries)
    spread = entries - mean
    alike = pair_agreement(model, agreement="equal", epsilon=math.inf, rated_public=True)
    found = curator_signal(alike, SIZES, users=7, rated=4)
    places = {0: (0, 1), 1: (2, 3, 4)}
    for (own, other), expected in np.ndenumerate(found.means):
        i, j = places[own][0], places[other][-1]
        assert expected == pytest.approx(7 * mean[i, j])
        assert found.variances[own, other] == pytest.approx(7 * (chance @ spread[:, i, j] ** 2))
    i, j, k = 2, 3, 4
    assert found.shared[1, 1, 1] == pytest.approx(7 * (chance @ (spread[:, i, j] * spread[:, i, k])))
    assert found.shared[1, 0, 1] == pytest.approx(7 * (chance @ (spread[:, i, 0] * spread[:, i, k])))
    assert found.shared[0, 1, 1] == pytest.approx(7 * (chance @ (spread[:, 0, j] * spread[:, 0, k])))
