"""MaxSense about a pool of items: bits and sums are the oracle's, and the whole catalogue is one of the pools."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.device import Cohort, Device
from coordinator.protocol.messages import Query, Release
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.statistics.statistic import merge

TWO_CLASSES = ((0.9, 0.1, 0.5), (0.0, 1.0, 0.25))
WORLDS = {
    "few rated": worlds.world(items=150, rated=7, like=TWO_CLASSES, shares=(0.3, 0.7)),
    "half rated": worlds.world(items=40, rated=20, like=TWO_CLASSES, shares=(0.5, 0.5)),
    "just above half": worlds.world(items=41, rated=21),
    "all": worlds.world(items=30, rated=30, like=((0.2, 0.1),)),
    "one of one": worlds.world(items=1, rated=1),
}


def pools(items: int) -> dict[str, list[int]]:
    return {
        "whole": list(range(items)),
        "half": list(range(0, items, 2)),
        "one item": [items // 2],
        "last item": [items - 1],
    }


def answer(name: str, query: Query, first: int, stop: int) -> Release:
    return Cohort(worlds.block_ratings(WORLDS[name]), worlds.SECRET, first, stop, None).answer(query, first, stop)


@pytest.mark.parametrize("pool", ["whole", "half", "one item", "last item"])
@pytest.mark.parametrize("name", WORLDS)
def test_bits_are_the_oracles(name: str, pool: str) -> None:
    world = WORLDS[name]
    for sensing, epsilon in ((0.5, None), (0.07, Fraction(1)), (1.0, Fraction(1))):
        query = worlds.maxsense_query(
            items=world.items, sensing=sensing, epsilon=epsilon, pool=pools(world.items)[pool]
        )
        expected = worlds.expected_bits(world, query, range(900, 940))
        release = answer(name, query, 900, 940)
        assert release.unpacked()[:, 0].tolist() == expected
        assert (release.width, release.answered, release.refused) == (1, None, 0)
        alone = Device(worlds.block_ratings(world), worlds.SECRET, 911, None).answer(query)
        assert alone.unpacked().tolist() == [[expected[11]]]


@settings(max_examples=examples(60))
@given(data=st.data(), items=st.integers(1, 80), sensing=st.sampled_from([0.05, 0.5, 1.0]))
def test_stored_devices_are_the_oracles(data: st.DataObject, items: int, sensing: float) -> None:
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=4))
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=12))
    query = worlds.maxsense_query(items=items, sensing=sensing, pool=sorted(data.draw(st.sets(item, min_size=1))))
    first = data.draw(st.integers(0, len(behind) - 1))
    sets = worlds.sensing_sets(query, range(first, len(behind)))
    expected = [reference.maxsense_bit(users[user], sensed) for user, sensed in zip(behind[first:], sets, strict=True)]
    cohort = Cohort(worlds.stored_ratings(users, behind, items), worlds.SECRET, 0, len(behind), None)
    assert cohort.answer(query, first, len(behind)).unpacked()[:, 0].tolist() == expected


@pytest.mark.parametrize("name", WORLDS)
def test_stored_and_synthetic_devices_of_the_same_ratings_agree(name: str) -> None:
    world = WORLDS[name]
    stored = worlds.stored_ratings([world.ratings(device) for device in range(100)], range(100), world.items)
    for pool in pools(world.items).values():
        query = worlds.maxsense_query(items=world.items, sensing=0.3, epsilon=Fraction(2), pool=pool)
        assert (
            Cohort(stored, worlds.SECRET, 0, 100, None).answer(query, 0, 100).bits == answer(name, query, 0, 100).bits
        )


def test_a_pool_of_all_items_senses_what_no_pool_does() -> None:
    """Without noise the bits and sums are the same; it is another question all the same, with other private coins."""
    named, plain = (worlds.maxsense_query(items=40, sensing=0.1, pool=pool) for pool in (range(40), None))
    releases = [answer("half rated", query, 0, 500) for query in (named, plain)]
    assert releases[0].bits == releases[1].bits
    one, other = (aggregate(query, release) for query, release in zip((named, plain), releases, strict=True))
    assert worlds.scores_of(one).scores.tolist() == worlds.scores_of(other).scores.tolist()
    assert named.id != plain.id


@settings(max_examples=examples(20))
@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_every_cut_gives_the_same_bits_and_sums(cuts: list[int]) -> None:
    query = worlds.maxsense_query(items=150, sensing=0.2, epsilon=Fraction(1), pool=range(0, 150, 4))
    whole = answer("few rated", query, 0, 200)
    parts = [answer("few rated", query, first, stop) for first, stop in itertools.pairwise([0, *sorted(cuts), 200])]
    assert [row for part in parts for row in part.unpacked().tolist()] == whole.unpacked().tolist()
    merged, total = (
        worlds.scores_of(one) for one in (merge(*(aggregate(query, p) for p in parts)), aggregate(query, whole))
    )
    assert (merged.sensed.tolist(), merged.scores.tolist()) == (total.sensed.tolist(), total.scores.tolist())
    assert (merged.devices, merged.answered, merged.ones) == (200, 200, total.ones)


def test_a_device_asked_twice_repeats_and_spends_nothing() -> None:
    query = worlds.maxsense_query(items=40, sensing=0.2, epsilon=Fraction(1), pool=range(7, 30))
    cohort = Cohort(worlds.block_ratings(WORLDS["half rated"]), worlds.SECRET, 0, 64, Fraction(1))
    first = cohort.answer(query, 0, 64)
    assert cohort.answer(query, 0, 64) == first
    assert cohort.ledger.spent(0) == 1
    smaller = replace(query, pool=np.arange(7, 29, dtype=np.int32))
    assert cohort.answer(smaller, 0, 64).refused == 64


def brute_force(query: Query, bits: Sequence[int], silent: set[int]) -> tuple[list[int], list[int]]:
    sensed, scores = [0] * query.items, [0] * query.items
    for device, items in enumerate(worlds.sensing_sets(query, range(len(bits)))):
        for item in items if device not in silent else []:
            sensed[item] += 1
            scores[item] += bits[device]
    return sensed, scores


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 50), bits=st.lists(st.integers(0, 1), min_size=1, max_size=30))
def test_sums_are_the_oracles(data: st.DataObject, items: int, bits: list[int]) -> None:
    """Items outside the pool stay at 0; devices that did not answer do not count."""
    pool = sorted(data.draw(st.sets(st.integers(0, items - 1), min_size=1)))
    silent = data.draw(st.sets(st.integers(0, len(bits) - 1)))
    query = worlds.maxsense_query(items=items, sensing=0.4, pool=pool)
    statistic = worlds.scores_of(aggregate(query, worlds.release_of(query, bits, silent=sorted(silent))))
    assert (statistic.sensed.tolist(), statistic.scores.tolist()) == brute_force(query, bits, silent)
    assert statistic.sensed.dtype == statistic.scores.dtype == np.int64
    assert (statistic.devices, statistic.answered) == (len(bits), len(bits) - len(silent))


@pytest.mark.parametrize("devices", [65_535, 65_536, 140_001])
def test_counts_beyond_sixteen_bits(devices: int) -> None:
    query = worlds.maxsense_query(items=5, sensing=1.0, pool=[1, 4])
    statistic = worlds.scores_of(aggregate(query, worlds.release_of(query, [1] * devices)))
    assert statistic.sensed.tolist() == statistic.scores.tolist() == [0, devices, 0, 0, devices]


def test_the_design_senses_as_many_rated_items_of_a_smaller_pool() -> None:
    """Sensing rate theta N / (w M), at most 1/2 where not all are asked; a pool of all items is no pool."""
    design = MaxSense(items=1000, rated=30, theta=1.5)
    rates = {pool: design.sensing_in(pool) for pool in (1000, 999, 500, 100, 1)}
    assert rates == pytest.approx({1000: 0.05, 999: 50 / 999, 500: 0.1, 100: 0.5, 1: 0.5})
    pool = np.arange(0, 1000, 4, dtype=np.int32)
    query = design.query(round_number=2, public_seed=worlds.PUBLIC, epsilon=Fraction(1), pool=pool)
    assert query.parameters == {"sensing": pytest.approx(0.2)}
    assert query.pool is pool
    plain = design.query(round_number=2, public_seed=worlds.PUBLIC, epsilon=Fraction(1))
    whole = design.query(
        round_number=2, public_seed=worlds.PUBLIC, epsilon=Fraction(1), pool=np.arange(1000, dtype=np.int32)
    )
    assert plain == whole
    assert plain.pool is None
