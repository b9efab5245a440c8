"""Open ratings: item queries and full reveal."""

import itertools

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from statistical import chi_square_fits
from thoroughness import examples
from worlds import in_world

from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.coins import round_key
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.toys import ItemQuery
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.public_draws import random_subset
from coordinator.protocol.statistics.counts import PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.server.aggregation import aggregate

ITEMS = 10
USERS = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=1, max_size=5)


def answer(ratings: Ratings, query: Query, first: int, stop: int) -> Release:
    return Cohort(ratings, worlds.SECRET, first, stop, None).answer(query, first, stop)


@settings(max_examples=examples(50))
@given(users=USERS, data=st.data(), pool=st.sets(st.integers(0, ITEMS - 1), min_size=1))
def test_bits_and_sums_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, pool: set[int]
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=25))
    first = data.draw(st.integers(0, len(behind)))
    places = np.array(sorted(pool), np.int32)
    query = in_world(ItemQuery, items=ITEMS).query(round_number=2, public_seed=worlds.PUBLIC, epsilon=None, pool=places)
    release = answer(worlds.stored_ratings([*users, {0: True}], behind, ITEMS), query, first, len(behind))
    bits, yes, liked = list[int](), [0] * ITEMS, [0] * ITEMS
    for device in range(first, len(behind)):
        item, value = reference.item_query(worlds.public_stream(query, device), sorted(pool))
        bits.append(int(users[behind[device]].get(item) is value))
        yes[item] += bits[-1]
        liked[item] += bits[-1] and value
    assert release.unpacked()[:, 0].tolist() == bits
    assert (release.answered, release.pairs) == (None, None)
    statistic = worlds.scores_of(aggregate(query, release))
    assert (statistic.sensed.tolist(), statistic.scores.tolist()) == (yes, liked)
    assert (statistic.devices, statistic.answered, statistic.ones) == (len(bits), len(bits), sum(bits))


NAMES = ["full-reveal", "curator-items", "curator-pairs"]
STREAMS = device_streams(round_key(worlds.PUBLIC, 0), 0, 120_000)


def reveals_asked(name: str = "full-reveal", *, items: int = ITEMS, most: int = ITEMS, share: float = 1.0) -> Query:
    return worlds.reveals_query(name, items=items, most=most, share=share)


def told(query: Query, device: int, ratings: dict[int, bool]) -> dict[int, bool]:
    """The oracle's ratings that a device tells."""
    stream = worlds.public_stream(query, device)
    if not reference.reveals(stream, query.parameters["share"]):
        return {}
    return {item: ratings[item] for item in reference.kept(stream, sorted(ratings), int(query.parameters["most"]))}


@settings(max_examples=examples(60))
@given(
    users=USERS,
    data=st.data(),
    most=st.integers(1, ITEMS),
    share=st.sampled_from([1e-9, 0.3, 1.0]),
    name=st.sampled_from(NAMES),
)
def test_bits_and_totals_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, most: int, share: float, name: str
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=20))
    first = data.draw(st.integers(0, len(behind)))
    query = reveals_asked(name, most=most, share=share)
    release = answer(worlds.stored_ratings(users, behind, ITEMS), query, first, len(behind))
    rows = [told(query, device, users[behind[device]]) for device in range(first, len(behind))]
    bits = [
        [int(item in row) for item in range(ITEMS)] + [int(row.get(item, False)) for item in range(ITEMS)]
        for row in rows
    ]
    assert release.unpacked().tolist() == bits
    assert (release.answered, release.width, release.pairs) == (None, 2 * ITEMS, None)
    assert all(len(row) <= most for row in rows)
    statistic = aggregate(query, release)
    assert (statistic.devices, statistic.answered, statistic.missing) == (len(rows), len(rows), 0)
    if isinstance(statistic, ScoreStatistic):
        assert statistic.sensed.tolist() == [sum(item in row for row in rows) for item in range(ITEMS)]
        assert statistic.scores.tolist() == [sum(row.get(item, False) for row in rows) for item in range(ITEMS)]
    else:
        assert isinstance(statistic, PairStatistic)
        check_pairs(statistic, rows)


def check_pairs(statistic: PairStatistic, rows: list[dict[int, bool]]) -> None:
    """Pair totals are those of going through all pairs of every user."""
    pairs, agreed = np.zeros((2, ITEMS, ITEMS), np.int64)
    for row in rows:
        for one, other in itertools.combinations(sorted(row), 2):
            pairs[one, other] += 1
            agreed[one, other] += row[one] is row[other]
    np.testing.assert_array_equal(statistic.pairs, pairs)
    np.testing.assert_array_equal(statistic.agreed, agreed)
    assert statistic.pairs.dtype == statistic.agreed.dtype == np.int64


@pytest.mark.statistical
@pytest.mark.parametrize(("size", "most"), [(5, 2), (5, 1), (4, 3)])
def test_truncation_keeps_a_uniform_subset_of_exactly_most(size: int, most: int) -> None:
    """Chi-square over all subsets, 120,000 devices; false alarm 1e-6.

    Twin: against a law in which subsets that hold the first entry are 6 % likelier, the same counts are refused.
    """
    keep = random_subset(STREAMS, np.arange(STREAMS.size + 1) * size, most).reshape(-1, size)
    assert (keep.sum(axis=1) == most).all()
    codes, counts = np.unique(keep @ (1 << np.arange(size)), return_counts=True)
    wanted = sorted(sum(1 << place for place in some) for some in itertools.combinations(range(size), most))
    assert codes.tolist() == wanted
    assert chi_square_fits(counts, np.ones(codes.size))
    assert not chi_square_fits(counts, [1.06 if code & 1 else 1.0 for code in wanted])
