"""Stored ratings, CSR with users that stand behind several devices, against the oracle; and nothing shows them."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.device import Cohort, Device
from actors.ratings import StoredRatings
from coordinator.protocol.coins import as_words

ITEMS = 12
MASTER = as_words(worlds.SECRET)

USERS = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=1, max_size=6)


def stored(users: list[dict[int, bool]], behind: list[int], items: int = ITEMS) -> StoredRatings:
    """The users' ratings; device i stands for user ``behind[i]``."""
    return StoredRatings(rows=worlds.likes(users, items), user=np.array(behind, np.int32))


@settings(max_examples=examples(60))
@given(users=USERS, data=st.data(), sensing=st.sampled_from([0.1, 0.5, 1.0]))
def test_releases_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, sensing: float
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=30))
    first = data.draw(st.integers(0, len(behind) - 1))
    query = worlds.maxsense_query(items=ITEMS, sensing=sensing, epsilon=Fraction(1))
    devices, flips = range(first, len(behind)), reference.flips(Fraction(1))
    expected = [
        reference.maxsense_bit(users[behind[device]], sensed)
        ^ (reference.release_coin(worlds.SECRET, device, query.id, 0) < flips)
        for device, sensed in zip(devices, worlds.sensing_sets(query, devices), strict=True)
    ]
    cohort = Cohort(stored(users, behind), worlds.SECRET, first, len(behind), None)
    assert cohort.answer(query, first, len(behind)).unpacked()[:, 0].tolist() == expected


def test_long_blocks_of_stored_users_keep_devices_apart() -> None:
    """Six hundred users who like one item each, all different: what one left behind must not show later."""
    users = [{(7 * device) % 1000: True} for device in range(600)]
    query = worlds.maxsense_query(items=1000, sensing=0.2)
    expected = [
        reference.maxsense_bit(user, sensed)
        for user, sensed in zip(users, worlds.sensing_sets(query, range(600)), strict=True)
    ]
    cohort = Cohort(stored(users, list(range(600)), items=1000), worlds.SECRET, 0, 600, None)
    assert cohort.answer(query, 0, 600).unpacked()[:, 0].tolist() == expected
    assert set(expected) == {0, 1}


@settings(max_examples=examples(60))
@given(users=USERS, data=st.data())
def test_rated_returns_each_devices_own_row(users: list[dict[int, bool]], data: st.DataObject) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=12))
    first = data.draw(st.integers(0, len(behind)))
    count = data.draw(st.integers(0, len(behind) - first))
    told = stored(users, behind).rated(MASTER, first, count)
    starts, items, likes = told.starts, told.items, told.values
    assert starts.size == count + 1
    for k in range(count):
        own = slice(starts[k], starts[k + 1])
        row = dict(zip(items[own].tolist(), likes[own].tolist(), strict=True))
        assert row == users[behind[first + k]]
        assert items[own].tolist() == sorted(row)


@pytest.mark.parametrize(("first", "stop"), [(0, 3), (2, 3), (-1, 2)])
def test_a_cohort_of_devices_without_ratings_is_refused(first: int, stop: int) -> None:
    """Answering for them would read memory that is not theirs."""
    with pytest.raises((IndexError, ValueError)):
        Cohort(stored([{3: True}], [0, 0]), worlds.SECRET, first, stop, None)


def test_devices_of_one_user_flip_by_their_own_coins() -> None:
    """Forty devices of one user who liked everything: without noise all alike, with noise not."""
    ratings = stored([dict.fromkeys(range(ITEMS), True)], [0] * 40)
    bare = worlds.maxsense_query(items=ITEMS, sensing=1.0)
    noisy = worlds.maxsense_query(items=ITEMS, sensing=1.0, epsilon=Fraction(1, 2))
    cohort = Cohort(ratings, worlds.SECRET, 0, 40, None)
    assert cohort.answer(bare, 0, 40).unpacked().all()
    assert 0 < int(cohort.answer(noisy, 0, 40).unpacked().sum()) < 40


def test_nothing_that_is_printed_shows_ratings_or_secrets() -> None:
    telling = stored([{3: True, 7: False, 11: True}], [0, 0])
    world = worlds.world(items=30, rated=6, like=((0.8125, 0.1875),), shares=(1.0,))
    drawn = worlds.block_ratings(world, users=2)
    for ratings in (telling, drawn):
        cohort = Cohort(ratings, worlds.SECRET, 0, 2, None)
        device = Device(ratings, worlds.SECRET, 0, None)
        for shown in (repr(ratings), str(ratings), repr(cohort), repr(device), repr(cohort.ledger)):
            told = shown.split(" object at 0x")[0]
            assert "array" not in told
            assert not any(
                part in told for part in ("0.8125", "0.1875", "True", "False", "11", "[", worlds.SECRET.hex())
            )


def test_ratings_survive_the_journey_to_another_process() -> None:
    ratings = stored([{3: True, 7: False}, {1: True}], [1, 0, 1])
    query = worlds.maxsense_query(items=ITEMS, sensing=0.5, epsilon=Fraction(1))
    there = Cohort(pickle.loads(pickle.dumps(ratings)), worlds.SECRET, 0, 3, None)
    here = Cohort(ratings, worlds.SECRET, 0, 3, None)
    assert there.answer(pickle.loads(pickle.dumps(query)), 0, 3) == here.answer(query, 0, 3)
