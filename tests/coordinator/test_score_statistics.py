"""Sums of releases: message by message in plain Python, and the same whatever the order of merging."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.messages import Query
from coordinator.server.mechanisms import no_release
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.scores import aggregate_scores as aggregate


def brute_force(query: Query, bits: list[int], silent: set[int], first: int) -> dict[str, object]:
    """Message by message: every answering device adds its bit to every item that it sensed."""
    sensed, scores = [0] * query.items, [0] * query.items
    for k, members in enumerate(worlds.sensing_sets(query, range(first, first + len(bits)))):
        for item in members if k not in silent else []:
            sensed[item] += 1
            scores[item] += bits[k]
    heard = [bit for k, bit in enumerate(bits) if k not in silent]
    return {
        "sensed": sensed,
        "scores": scores,
        "devices": len(bits),
        "answered": len(heard),
        "refused": len(silent),
        "ones": sum(heard),
    }


@settings(max_examples=examples(30))
@given(
    bits=st.lists(st.integers(0, 1), min_size=1, max_size=40),
    silent=st.sets(st.integers(0, 39)),
    first=st.sampled_from([0, 3, 10**6]),
    sensing=st.sampled_from([0.05, 0.5, 1.0]),
)
def test_a_block_is_its_messages_one_by_one(bits: list[int], silent: set[int], first: int, sensing: float) -> None:
    query = worlds.maxsense_query(items=13, sensing=sensing, epsilon=Fraction(1))
    silent = {k for k in silent if k < len(bits)}
    release = worlds.release_of(query, bits, first=first, silent=sorted(silent))
    assert worlds.as_numbers(aggregate(query, release)) == brute_force(query, bits, silent, first)


@settings(max_examples=examples(20))
@given(data=st.data(), bits=st.lists(st.integers(0, 1), min_size=3, max_size=50))
def test_blocks_merge_to_the_whole_in_any_order_and_grouping(data: st.DataObject, bits: list[int]) -> None:
    query = worlds.maxsense_query(items=7, sensing=0.4)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(bits)), min_size=2, max_size=2)))
    parts = [
        aggregate(query, worlds.release_of(query, bits[a:b], first=a))
        for a, b in itertools.pairwise([0, *cuts, len(bits)])
    ]
    whole = worlds.as_numbers(aggregate(query, worlds.release_of(query, bits)))
    for one, two, three in itertools.permutations(parts):
        assert worlds.as_numbers((one + two) + three) == worlds.as_numbers(one + (two + three)) == whole
    assert worlds.as_numbers(sum(parts, start=worlds.empty_statistic(7))) == whole


def test_merging_changes_neither_part() -> None:
    query = worlds.maxsense_query(items=4, sensing=1.0)
    one, two = (aggregate(query, worlds.release_of(query, [1, 0], first=first)) for first in (0, 2))
    before = worlds.as_numbers(one)
    assert worlds.as_numbers(one + two)["scores"] == [2] * 4
    assert worlds.as_numbers(one) == before
    empty = worlds.empty_statistic(4)
    assert worlds.as_numbers(empty + one) == before
    assert not empty.sensed.any()


@pytest.mark.parametrize("devices", [65_534, 65_535, 65_536, 131_071, 200_003])
def test_counts_beyond_sixteen_bits(devices: int) -> None:
    """Everybody senses everything and answers 1: each count is the number of devices."""
    query = worlds.maxsense_query(items=2, sensing=1.0)
    statistic = aggregate(query, worlds.release_of(query, [1] * devices))
    assert statistic.sensed.tolist() == statistic.scores.tolist() == [devices] * 2
    assert statistic.ones == devices


def test_silent_devices_do_not_count_towards_large_counts() -> None:
    query = worlds.maxsense_query(items=2, sensing=1.0)
    silent = range(0, 150_000, 2)
    bits = [int(k % 3 == 0) for k in range(150_000)]
    statistic = aggregate(query, worlds.release_of(query, bits, silent=silent))
    assert statistic.sensed.tolist() == [75_000] * 2
    assert statistic.scores.tolist() == [25_000] * 2
    assert (statistic.devices, statistic.answered, statistic.refused, statistic.missing) == (150_000, 75_000, 75_000, 0)


def test_large_blocks_equal_their_pieces() -> None:
    query = worlds.maxsense_query(items=5, sensing=0.9)
    bits = np.random.default_rng(0).integers(0, 2, 150_000).tolist()
    whole = aggregate(query, worlds.release_of(query, bits))
    pieces = [
        aggregate(query, worlds.release_of(query, bits[first : first + 9_001], first=first))
        for first in range(0, 150_000, 9_001)
    ]
    assert worlds.as_numbers(sum(pieces, start=worlds.empty_statistic(5))) == worlds.as_numbers(whole)
    assert int(whole.sensed.max()) > 2 * 65_535


def test_a_release_of_another_query_is_refused() -> None:
    query = worlds.maxsense_query(items=4, sensing=0.5)
    other = worlds.maxsense_query(items=4, sensing=0.5, round_number=1)
    with pytest.raises(ValueError, match=other.id.hex()[:8]):
        aggregate(query, worlds.release_of(other, [1, 0]))


def test_no_device_at_all() -> None:
    query = worlds.maxsense_query(items=4, sensing=0.5)
    nobody = aggregate(query, no_release(query))
    assert worlds.as_numbers(nobody) == worlds.as_numbers(worlds.empty_statistic(4))
    assert nobody.answer_rate == 0
    everybody_silent = aggregate(query, worlds.release_of(query, [1, 1], silent=[0, 1]))
    assert everybody_silent.answer_rate == 0
    assert everybody_silent.refused == 2


def test_missing_are_those_who_neither_answered_nor_refused() -> None:
    nothing = np.zeros(2, np.int64)
    statistic = ScoreStatistic(sensed=nothing, scores=nothing, devices=10, answered=5, refused=2, ones=4)
    assert statistic.missing == 3
    assert statistic.answer_rate == 0.8
    assert (statistic + statistic).missing == 6
