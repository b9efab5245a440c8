"""Pairs among public rated items: who can answer, about which pair, with which bit, and what that gives away."""

import itertools
from dataclasses import replace
from fractions import Fraction

import evidence
import numpy as np
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import in_world

from actors.device import PIECE, Cohort
from actors.ratings import Ratings
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.pools import AGREEMENTS
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.transcript import digest

ITEMS = 9
USERS = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=1, max_size=6)


def asked(agreement: str = "rated-equal", epsilon: Epsilon = None, items: int = ITEMS, round_number: int = 0) -> Query:
    design = in_world(Pairwise, items=items, agreement=agreement, rated_items="public")
    return design.query(round_number=round_number, public_seed=worlds.PUBLIC, epsilon=epsilon)


def answer(ratings: Ratings, query: Query, first: int, stop: int, budget: Epsilon = None) -> Release:
    return Cohort(ratings, worlds.SECRET, first, stop, budget).answer(query, first, stop)


def expected(query: Query, device: int, ratings: dict[int, bool]) -> tuple[list[int], list[int]]:
    """The oracle's pair and released bit; nothing of a device without a pair."""
    if len(ratings) < 2:
        return [-1, -1], [0]
    agreement = query.design.removeprefix("pairwise-").removesuffix("-of-rated")
    one, other = evidence.two_of(worlds.public_stream(query, device), sorted(ratings))
    bit = int(evidence.agrees(agreement, ratings[one], ratings[other]))
    return [one, other], worlds.released(query, worlds.SECRET, device, [bit])


def pairs_in(release: Release) -> list[list[int]]:
    found = release.public_pairs()
    assert found is not None
    pairs: list[list[int]] = found.tolist()
    return pairs


@settings(max_examples=examples(60))
@given(users=USERS, data=st.data(), agreement=st.sampled_from(AGREEMENTS), epsilon=st.sampled_from([None, 1, 3]))
def test_releases_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, agreement: str, epsilon: int | None
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=20))
    first = data.draw(st.integers(0, len(behind)))
    query = asked(agreement, None if epsilon is None else Fraction(epsilon))
    release = answer(worlds.stored_ratings(users, behind, ITEMS), query, first, len(behind))
    told = [expected(query, device, users[behind[device]]) for device in range(first, len(behind))]
    assert pairs_in(release) == [pair for pair, _ in told]
    assert release.unpacked().tolist() == [bit for _, bit in told]
    assert release.answered_mask().tolist() == [len(users[user]) >= 2 for user in behind[first:]]
    assert release.refused == 0


@settings(max_examples=examples(40))
@given(users=USERS, others=USERS)
def test_silence_is_a_function_of_the_number_of_rated_items(
    users: list[dict[int, bool]], others: list[dict[int, bool]]
) -> None:
    """Which items, and how they were rated, changes nothing about who is silent; opinions change no pair either."""
    query = asked(epsilon=Fraction(1))
    sizes = [len(user) for user in users]
    moved = [dict(zip(range(ITEMS - size, ITEMS), [True] * size, strict=True)) for size in sizes]
    turned = [{item: not like for item, like in user.items()} for user in users]
    releases = [
        answer(worlds.stored_ratings([*some, *others], range(len(users)), ITEMS), query, 0, len(users))
        for some in (users, moved, turned)
    ]
    assert len({release.answered_mask().tobytes() for release in releases}) == 1
    assert pairs_in(releases[0]) == pairs_in(releases[2])


def test_silent_devices_release_nothing_and_are_charged_all_the_same() -> None:
    """At a tiny epsilon half of all private zeros would come out as ones."""
    ratings = worlds.stored_ratings([{}, {3: True}, {1: True, 2: True}], [0, 1, 2] * 30, ITEMS)
    query = asked(epsilon=Fraction(1, 1000))
    cohort = Cohort(ratings, worlds.SECRET, 0, 90, Fraction(1))
    release = cohort.answer(query, 0, 90)
    silent = ~release.answered_mask()
    assert silent.tolist() == [True, True, False] * 30
    assert not release.unpacked()[silent].any()
    assert release.unpacked()[~silent].any()
    assert {cohort.ledger.spent(device) for device in range(90)} == {Fraction(1, 1000)}
    assert cohort.answer(query, 0, 90) == release
    assert {cohort.ledger.spent(device) for device in range(90)} == {Fraction(1, 1000)}


def test_who_cannot_answer_is_missing_and_who_cannot_pay_refuses() -> None:
    ratings = worlds.stored_ratings([{}, {1: True, 2: True}], [0, 1, 0, 1, 0, 1], ITEMS)
    cohort = Cohort(ratings, worlds.SECRET, 0, 6, Fraction(1))
    cohort.answer(asked(epsilon=Fraction(1)), 0, 2)
    query = asked(epsilon=Fraction(1), round_number=1)
    release = cohort.answer(query, 0, 6)
    assert release.answered_mask().tolist() == [False, False, False, True, False, True]
    statistic = worlds.pairs_of(aggregate(query, release))
    assert (statistic.devices, statistic.answered, statistic.refused, statistic.missing) == (6, 2, 2, 2)
    assert Cohort(ratings, worlds.SECRET, 0, 1, Fraction(1, 2)).answer(query, 0, 1).refused == 1


def test_a_release_without_its_pairs_is_no_answer() -> None:
    """The server must not make pairs up: those of the private design are others."""
    query = asked()
    release = answer(worlds.block_ratings(worlds.world(items=ITEMS, rated=4)), query, 0, 40)
    with pytest.raises(ValueError, match="pair"):
        aggregate(query, replace(release, pairs=None))


def test_the_digest_covers_public_pairs() -> None:
    """Pairs leave the devices with the bits, so runs that differ in them must differ in their digest."""
    query = asked(epsilon=Fraction(1))
    release = answer(worlds.block_ratings(worlds.world(items=ITEMS, rated=4)), query, 0, 40)
    pairs = np.array(pairs_in(release), "<i4")
    moved = replace(release, pairs=pairs[::-1].copy().tobytes())
    assert digest([release]) != digest([moved])


@pytest.mark.parametrize("lone", [[70_000], [5], [5, 140_000], []])
def test_pieces_without_a_mask_are_joined_with_those_that_have_one(lone: list[int]) -> None:
    """Three pieces of the size at which they are drawn: only some hold a device that can say nothing."""
    assert PIECE == 1 << 16
    users = [{item: item % 2 == 0 for item in range(ITEMS)}, {3: True}]
    behind = np.zeros(2 * PIECE + 13_000, np.int32)
    behind[lone] = 1
    ratings, query = worlds.stored_ratings(users, behind.tolist(), ITEMS), asked(epsilon=Fraction(1))
    whole = answer(ratings, query, 0, behind.size)
    assert np.flatnonzero(~whole.answered_mask()).tolist() == sorted(lone)
    assert (whole.answered is None) == (not lone)
    split = [answer(ratings, query, *ends) for ends in itertools.pairwise([0, 40_000, 120_000, behind.size])]
    assert digest([whole]) == digest(split)
    assert aggregate(query, whole).answered == behind.size - len(lone)


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("rated", [2, 4, 5, 9])
def test_releases_of_a_block_model_are_the_oracles(agreement: str, rated: int) -> None:
    world = worlds.world(items=ITEMS, rated=rated, like=((0.9, 0.3), (0.2, 0.8)), shares=(0.25, 0.75))
    query, ratings = asked(agreement, Fraction(1)), worlds.block_ratings(world)
    told = [expected(query, device, world.ratings(device)) for device in range(1000, 1080)]
    release = answer(ratings, query, 1000, 1080)
    assert pairs_in(release) == [pair for pair, _ in told]
    assert release.unpacked().tolist() == [bit for _, bit in told]
    assert release.answered is None
    alone = Cohort(ratings, worlds.SECRET, 1003, 1004, Fraction(1)).answer(query, 1003, 1004)
    assert (pairs_in(alone)[0], alone.unpacked()[0].tolist()) == told[3]
