"""Devices and cohorts release the oracle's bits, bit for bit, however the population is cut."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import World
from thoroughness import examples

from actors.device import Cohort, Device
from actors.ratings import Ratings
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

ONE = ((0.9, 0.1),)
MANY = ((0.9, 0.1, 0.5), (0.0, 1.0, 0.25))

CASES: dict[str, tuple[World, float, Epsilon]] = {
    "one item": (worlds.world(items=1, rated=1), 0.4, Fraction(1)),
    "two items, one rated": (worlds.world(items=2, rated=1), 0.5, Fraction(1)),
    "two items, both rated and sensed": (worlds.world(items=2, rated=2), 2.0, None),
    "few rated": (worlds.world(items=40, rated=3, like=MANY, shares=(0.3, 0.7)), 1.0, Fraction(1, 2)),
    "half rated": (worlds.world(items=40, rated=20, like=MANY, shares=(0.5, 0.5)), 1.0, None),
    "just above half rated": (worlds.world(items=41, rated=21, like=MANY, shares=(0.0, 1.0)), 1.0, Fraction(3)),
    "most rated": (worlds.world(items=30, rated=29), 0.7, None),
    "all rated": (worlds.world(items=30, rated=30), 1.0, Fraction(1)),
    "rated and sensed are one set": (worlds.world(items=30, rated=4), 4.0, None),
    "long gaps": (worlds.world(items=1500, rated=5), 0.01, Fraction(1)),
    "many sensed": (worlds.world(items=200, rated=80, like=((0.02, 0.01),)), 60.0, None),
    "tiny epsilon": (worlds.world(items=40, rated=3), 1.0, Fraction(1, 10**6)),
    "largest epsilon": (worlds.world(items=40, rated=3), 1.0, Fraction(30)),
    "nobody likes anything": (worlds.world(items=20, rated=9, like=((0.0, 0.0),)), 3.0, None),
    "everybody likes everything": (worlds.world(items=20, rated=9, like=((1.0, 1.0),)), 3.0, Fraction(2)),
}


def released(ratings: Ratings, query: Query, first: int, stop: int, secret: bytes = worlds.SECRET) -> list[int]:
    release = Cohort(ratings, secret, first, stop, None).answer(query, first, stop)
    assert (release.query_id, release.first, release.count, release.width) == (query.id, first, stop - first, 1)
    assert (release.answered, release.refused) == (None, 0)
    return [int(bit) for bit in release.unpacked()[:, 0]]


@pytest.mark.parametrize("name", CASES)
def test_cohort_and_devices_release_the_oracles_bits(name: str) -> None:
    world, theta, epsilon = CASES[name]
    query = worlds.maxsense_query(items=world.items, sensing=theta / world.rated, epsilon=epsilon)
    ratings, devices = worlds.block_ratings(world), range(10**6, 10**6 + 100)
    expected = worlds.expected_bits(world, query, devices)
    assert released(ratings, query, devices.start, devices.stop) == expected
    for device in (devices[0], devices[7], devices[-1]):
        alone = Device(ratings, world.secret, device, epsilon).answer(query)
        assert (alone.first, alone.count) == (device, 1)
        assert alone.unpacked().tolist() == [[expected[device - devices.start]]]


def test_the_oracle_tells_the_cases_apart() -> None:
    """Cases whose bits were all alike would test nothing: most hold both."""
    mixed = 0
    for world, theta, epsilon in CASES.values():
        query = worlds.maxsense_query(items=world.items, sensing=theta / world.rated, epsilon=epsilon)
        mixed += set(worlds.expected_bits(world, query, range(30))) == {0, 1}
    assert mixed >= len(CASES) - 2


@pytest.mark.parametrize(("items", "rated", "sensing"), [(600, 1, 0.2), (600, 599, 0.01)])
def test_long_blocks_keep_devices_apart(items: int, rated: int, sensing: float) -> None:
    """Hundreds of devices in one call, and sets that hardly meet: what one device left behind must not show later."""
    world = worlds.world(items=items, rated=rated, like=((0.9, 0.01),) if rated == 1 else ((0.2, 0.1),))
    query = worlds.maxsense_query(items=items, sensing=sensing)
    expected = worlds.expected_bits(world, query, range(600))
    assert released(worlds.block_ratings(world), query, 0, 600) == expected
    assert set(expected) == {0, 1}


@settings(max_examples=examples(25))
@given(cuts=st.lists(st.integers(0, 300), max_size=8), cohorts=st.lists(st.integers(1, 299), max_size=3, unique=True))
def test_every_cut_into_cohorts_and_blocks_gives_the_same_bits(cuts: list[int], cohorts: list[int]) -> None:
    world = worlds.world(items=50, rated=6)
    query = worlds.maxsense_query(items=50, sensing=1 / 6, epsilon=Fraction(1))
    ratings = worlds.block_ratings(world)
    whole = released(ratings, query, 0, 300)
    pieces: list[int] = []
    for start, end in zip([0, *sorted(cohorts)], [*sorted(cohorts), 300], strict=True):
        cohort = Cohort(ratings, world.secret, start, end, None)
        marks = [start, *sorted(cut for cut in cuts if start <= cut <= end), end]
        for first, stop in itertools.pairwise(marks):
            pieces += cohort.answer(query, first, stop).unpacked()[:, 0].tolist()
    assert pieces == whole


def test_blocks_may_be_asked_in_any_order() -> None:
    world = worlds.world(items=50, rated=6)
    query = worlds.maxsense_query(items=50, sensing=1 / 6, epsilon=Fraction(1))
    cohort = Cohort(worlds.block_ratings(world), world.secret, 0, 90, None)
    parts = {first: cohort.answer(query, first, first + 30).unpacked()[:, 0].tolist() for first in (60, 0, 30)}
    assert parts[0] + parts[30] + parts[60] == worlds.expected_bits(world, query, range(90))


@pytest.mark.parametrize("seed", [0, 1, 2**64])
def test_another_population_and_another_public_seed_are_the_oracles_too(seed: int) -> None:
    world = worlds.world(items=30, rated=6, secret=reference.derive(seed, "devices"))
    query = worlds.maxsense_query(
        items=30, sensing=1 / 6, epsilon=Fraction(2), round_number=3, public_seed=reference.derive(seed, "public")
    )
    expected = worlds.expected_bits(world, query, range(150))
    assert released(worlds.block_ratings(world), query, 0, 150, world.secret) == expected


def test_an_empty_block_releases_nothing() -> None:
    world = worlds.world(items=30, rated=6)
    cohort = Cohort(worlds.block_ratings(world), world.secret, 5, 20, None)
    release = cohort.answer(worlds.maxsense_query(items=30, sensing=0.5), 9, 9)
    assert (release.count, release.bits, release.refused) == (0, b"", 0)


def test_devices_of_another_cohort_are_not_answered_for() -> None:
    world = worlds.world(items=30, rated=6)
    cohort = Cohort(worlds.block_ratings(world), world.secret, 5, 20, None)
    query = worlds.maxsense_query(items=30, sensing=0.5, epsilon=Fraction(1))
    for first, stop in ((4, 10), (10, 21), (0, 5), (20, 30)):
        with pytest.raises(IndexError):
            cohort.answer(query, first, stop)
    assert cohort.ledger.spent(10) == 0


def test_a_rehearsal_costs_nothing_and_changes_nothing() -> None:
    world = worlds.world(items=30, rated=6)
    query = worlds.maxsense_query(items=30, sensing=1 / 6, epsilon=Fraction(1))
    cohort = Cohort(worlds.block_ratings(world), world.secret, 0, 40, Fraction(1))
    assert cohort.rehearse(query) is None  # type: ignore[func-returns-value]  # nothing may leave
    assert cohort.ledger.spent(0) == 0
    assert cohort.answer(query, 0, 40).unpacked()[:, 0].tolist() == worlds.expected_bits(world, query, range(40))


@pytest.mark.parametrize(("design", "items"), [("minsense", 30), ("maxsense", 31)])
def test_a_query_about_something_else_is_refused_in_one_line(design: str, items: int) -> None:
    world = worlds.world(items=30, rated=6)
    query = Query(
        design=design, items=items, round=0, public_seed=worlds.PUBLIC, epsilon=None, parameters={"sensing": 0.5}
    )
    with pytest.raises(InputError) as caught:
        Device(worlds.block_ratings(world), world.secret, 0, None).answer(query)
    assert "\n" not in str(caught.value)
    assert design in str(caught.value) or "31" in str(caught.value)


def test_a_release_holds_one_bit_a_device_and_no_more() -> None:
    world = worlds.world(items=30, rated=6)
    query = worlds.maxsense_query(items=30, sensing=1 / 6, epsilon=Fraction(1))
    release = Cohort(worlds.block_ratings(world), world.secret, 0, 77, None).answer(query, 0, 77)
    assert len(release.bits) == 10
    assert int(np.frombuffer(release.bits, np.uint8)[-1]) % 8 == 0
