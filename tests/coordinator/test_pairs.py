"""Pairwise-Preference from public pair to spectral clusters, against brute force and the exact moments."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import statistical
import worlds

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairwise import AGREEMENTS
from coordinator.protocol.messages import Query
from coordinator.protocol.public_draws import random_pairs
from coordinator.server.decoding.spectral import decode_pairs
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.pairwise import Pairwise
from coordinator.server.moments.blocks import BlockParameters
from coordinator.server.moments.pair_moments import pair_agreement
from coordinator.server.statistics.pairs import PairStatistic
from coordinator.server.statistics.statistic import merge

LIKE = ((0.9, 0.3), (0.2, 0.8))
SHARES = (0.25, 0.75)


def asked(items: int, agreement: str = "rated-equal", epsilon: Epsilon = None) -> Query:
    return Pairwise(items=items, agreement=agreement).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=epsilon)


def answers(query: Query, rated: int, users: int) -> tuple[Cohort, PairStatistic]:
    world = worlds.world(items=query.items, rated=rated, like=LIKE, shares=SHARES)
    cohort = Cohort(worlds.block_ratings(world, users), worlds.SECRET, 0, users, None)
    statistic = aggregate(query, cohort.answer(query, 0, users))
    assert isinstance(statistic, PairStatistic)
    return cohort, statistic


def pairs_of(items: int, users: int) -> tuple[list[int], list[int]]:
    low, high = random_pairs(round_key(worlds.PUBLIC, 0), 0, users, items)
    return low.tolist(), high.tolist()


@pytest.mark.statistical
def test_pairs_are_uniform() -> None:
    """False alarm 1e-6 (chi-square); the twin, pairs with item 0 likelier by 6 %, is rejected."""
    items, users = 7, 200_000
    low, high = pairs_of(items, users)
    assert all(0 <= one < other < items for one, other in zip(low, high, strict=True))
    cells = list(combinations(range(items), 2))
    counts = np.zeros(len(cells))
    np.add.at(counts, [cells.index(pair) for pair in zip(low, high, strict=True)], 1)
    assert statistical.chi_square_fits(counts, np.ones(len(cells)))
    skewed = np.array([1.06 if 0 in pair else 1.0 for pair in cells])
    assert not statistical.chi_square_fits(counts, skewed)


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("rated", [2, 5, 8])
def test_bits_and_statistic_are_those_of_the_ratings(agreement: str, rated: int) -> None:
    """Message by message from what the devices rated: no noise, every device's pair and bit."""
    users, query = 500, asked(8, agreement)
    cohort, statistic = answers(query, rated, users)
    told = cohort._ratings.rated(cohort._master, 0, users)
    starts, items, likes = told.starts, told.items, told.values
    pairs, agreed = np.zeros((8, 8), np.int64), np.zeros((8, 8), np.int64)
    for device, (one, other) in enumerate(zip(*pairs_of(8, users), strict=True)):
        own = slice(starts[device], starts[device + 1])
        known = dict(zip(items[own].tolist(), likes[own].tolist(), strict=True))
        first, second = known.get(one), known.get(other)
        bit = {
            "rated-equal": first is not None and first == second,
            "equal": bool(first) == bool(second),
            "positive": bool(first) and bool(second),
        }[agreement]
        pairs[one, other] += 1
        agreed[one, other] += bit
    assert np.array_equal(statistic.pairs, pairs)
    assert np.array_equal(statistic.agreed, agreed)
    assert (statistic.devices, statistic.answered, statistic.ones) == (users, users, agreed.sum())


def test_blocks_merge_to_the_whole() -> None:
    query = asked(9, epsilon=Fraction(1))
    cohort, whole = answers(query, 4, 300)
    parts = [aggregate(query, cohort.answer(query, a, b)) for a, b in ((0, 7), (7, 200), (200, 300))]
    for order in (parts, parts[::-1]):
        merged = merge(*order)
        assert isinstance(merged, PairStatistic)
        assert np.array_equal(merged.pairs, whole.pairs)
        assert np.array_equal(merged.agreed, whole.agreed)
        assert merged.answered == 300


@pytest.mark.statistical
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_agreement_happens_as_often_as_the_exact_moments_say(agreement: str) -> None:
    """False alarm 1e-6 for each of four cells (Clopper-Pearson); epsilon wrong by 15 % is rejected somewhere."""
    users, epsilon = 400_000, Fraction(2)
    query = asked(12, agreement, epsilon)
    _, statistic = answers(query, 6, users)
    parameters = BlockParameters(
        rated=6, like=np.array(LIKE), class_shares=np.array(SHARES), cluster_sizes=np.array([6, 6])
    )
    cluster = np.arange(12) % 2

    def fits(nats: float) -> bool:
        expected = pair_agreement(parameters, agreement=agreement, epsilon=nats)
        cells = [(cluster[:, None] == one) & (cluster[None, :] == other) for one in (0, 1) for other in (0, 1)]
        return all(
            statistical.rate_fits(int(statistic.agreed[cell].sum()), int(statistic.pairs[cell].sum()), rate)
            for cell, rate in zip(cells, expected.ravel(), strict=True)
        )

    assert fits(as_float(epsilon))
    assert not fits(as_float(epsilon) * 1.15)


@pytest.mark.parametrize("decoder", ["centred", "paper"])
def test_planted_clusters_are_recovered_without_noise(decoder: str) -> None:
    """All 30 items right where every pair was asked hundreds of times; cluster 0 has the highest mean score."""
    query = asked(30)
    world = worlds.world(items=30, rated=30, like=((0.9, 0.1), (0.1, 0.9)), shares=(0.5, 0.5))
    cohort = Cohort(worlds.block_ratings(world, 100_000), worlds.SECRET, 0, 100_000, None)
    statistic = aggregate(query, cohort.answer(query, 0, 100_000))
    assert isinstance(statistic, PairStatistic)
    model = decode_pairs(statistic, clusters=2, decoder=decoder)
    found = model.cluster == np.arange(30) % 2
    assert found.all() or not found.any()
    assert model.score[model.cluster == 0].mean() >= model.score[model.cluster == 1].mean()


def test_affinity_is_symmetric_and_centred_sums_to_nothing() -> None:
    _, statistic = answers(asked(9, epsilon=Fraction(1)), 4, 1000)
    affinity = statistic.affinity(statistic.ones / statistic.answered)
    assert np.array_equal(affinity, affinity.T)
    assert math.isclose(affinity.sum(), 0, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"items": 1}, "items is 1"),
        ({"items": 5001}, "items is 5001"),
        ({"items": 9, "agreement": "same"}, "agreement is 'same'"),
    ],
)
def test_impossible_designs_are_refused(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        Pairwise(**change)  # type: ignore[arg-type] # what is tried


@pytest.mark.parametrize(("clusters", "decoder"), [(1, "centred"), (9, "centred"), (2, "best")])
def test_impossible_decoding_is_refused(clusters: int, decoder: str) -> None:
    _, statistic = answers(asked(9), 4, 100)
    with pytest.raises(InputError):
        decode_pairs(statistic, clusters=clusters, decoder=decoder)
