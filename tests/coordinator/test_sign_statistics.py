"""Sign sensing's counts, kept in slices of bits, are those of adding up one sign after the other."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.arrays import Bits2, Bools, Ints
from coordinator.protocol.coins import round_key
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.sign import sign_words
from coordinator.protocol.messages import Query, Release, pack
from coordinator.server.mechanisms import aggregate, no_release
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.signs import count_agreements
from coordinator.server.statistics.statistic import merge


def query_about(pool: int, vectors: int, *, items: int = 300) -> Query:
    return worlds.sign_query(range(3, 3 + pool), items=items, vectors=vectors)


def answers(query: Query, devices: int, seed: int = 0) -> tuple[Bits2, Bools]:
    """Uniform answers, a tenth of them missing."""
    world = np.random.default_rng([seed, devices])
    return world.integers(0, 2, (devices, query.bits), np.uint8), world.random(devices) < 0.9


def naive(query: Query, first: int, bits: Bits2, heard: Bools) -> Ints:
    """Sign by sign; the project's streams are the oracle's, which other tests hold."""
    assert query.pool is not None
    pool = query.pool.size
    words = sign_words(pool)
    counts = np.zeros(pool, np.int64)
    streams = device_streams(round_key(query.public_seed, query.round), first, max(len(bits), 1))
    for stream, row, told in zip(streams.tolist(), bits.tolist(), heard.tolist(), strict=False):
        vector = sum(bit << place for place, bit in enumerate(reversed(row[1:])))
        drawn = b"".join(reference.draw(stream, vector * words + w).to_bytes(8, "little") for w in range(words))
        signs = np.unpackbits(np.frombuffer(drawn, np.uint8), bitorder="little")[:pool]
        counts += told * (signs == row[0])
    return counts


def release_of(query: Query, bits: Bits2, heard: Bools | None, first: int = 0) -> Release:
    return Release(
        query_id=query.id,
        first=first,
        count=len(bits),
        width=query.bits,
        bits=pack(bits if heard is None else bits * heard[:, None]),
        answered=None if heard is None else pack(heard.astype(np.uint8)),
        refused=0 if heard is None else int((~heard).sum()) // 2,
    )


def summed(query: Query, release: Release) -> ScoreStatistic:
    return worlds.scores_of(aggregate(query, release))


@pytest.mark.parametrize("devices", [0, 1, 2, 3, 4, 5, 17, 64, 65, 1000])
@pytest.mark.parametrize("pool", [1, 63, 64, 65, 200])
def test_counts_are_those_of_a_naive_sum(devices: int, pool: int) -> None:
    for vectors, first in ((1, 0), (4, 12_345)):
        query = query_about(pool, vectors)
        bits, heard = answers(query, devices, pool)
        expected = naive(query, first, bits, heard)
        found = count_agreements(query, first, bits, heard)
        assert found.tolist() == expected.tolist()
        assert found.dtype == np.int64


@settings(max_examples=examples(60))
@given(data=st.data(), pool=st.integers(1, 140), devices=st.integers(0, 40), vectors=st.sampled_from([1, 2, 8, 64]))
def test_counts_of_any_answers(data: st.DataObject, pool: int, devices: int, vectors: int) -> None:
    query, first = query_about(pool, vectors), data.draw(st.integers(0, 10**12))
    bits = np.array(
        data.draw(st.lists(st.integers(0, 1), min_size=devices * query.bits, max_size=devices * query.bits)), np.uint8
    ).reshape(devices, query.bits)
    heard = np.array(data.draw(st.lists(st.booleans(), min_size=devices, max_size=devices)), np.bool_)
    assert count_agreements(query, first, bits, heard).tolist() == naive(query, first, bits, heard).tolist()


@pytest.mark.parametrize("devices", [2**k + more for k in (1, 2, 3, 4, 9, 12) for more in (-1, 0, 1)])
def test_no_carry_is_lost_where_everybody_agrees(devices: int) -> None:
    """All planes fill up: each device names the sign that item 0 has, so that its count is the number of devices."""
    query = query_about(1, 1)
    bits = np.array([[reference.sign(worlds.public_stream(query, k), 0, 0, 1) > 0] for k in range(devices)], np.uint8)
    heard = np.ones(devices, np.bool_)
    assert count_agreements(query, 0, bits, heard).tolist() == [devices]
    assert count_agreements(query, 0, 1 - bits, heard).tolist() == [0]


def test_the_statistic_tells_of_the_pool_and_counts_who_answered() -> None:
    query = worlds.sign_query([2, 3, 70], items=80, vectors=2)
    bits, heard = answers(query, 501)
    found = summed(query, release_of(query, bits, heard, first=77))
    expected = np.zeros(80, np.int64)
    expected[[2, 3, 70]] = naive(query, 77, bits, heard)
    assert found.scores.tolist() == expected.tolist()
    assert found.sensed.tolist() == [int(heard.sum()) * (item in (2, 3, 70)) for item in range(80)]
    assert (found.devices, found.answered, found.questions) == (501, int(heard.sum()), 1)
    assert found.refused + found.missing == int((~heard).sum())
    assert found.ones == int(bits[heard, 0].sum())
    assert found.answer_rate == pytest.approx(bits[heard, 0].mean())


def test_scores_are_sums_of_signs() -> None:
    """``sum_u H_ui S_u = 2 scores - sensed``, with the oracle's signs."""
    query = worlds.sign_query(range(0, 90, 7), items=90)
    bits, _ = answers(query, 60)
    found = summed(query, release_of(query, bits, None))
    sums = np.zeros(90, np.int64)
    for device, bit in enumerate(bits[:, 0].tolist()):
        for place, item in enumerate(range(0, 90, 7)):
            sums[item] += reference.sign(worlds.public_stream(query, device), 0, place, 13) * (1 if bit else -1)
    np.testing.assert_array_equal(2 * found.scores - found.sensed, sums)


@settings(max_examples=examples(30))
@given(cuts=st.lists(st.integers(0, 150), max_size=6), vectors=st.sampled_from([1, 4]), all_heard=st.booleans())
def test_blocks_merge_to_the_whole_in_any_order(cuts: list[int], vectors: int, all_heard: bool) -> None:
    query = query_about(65, vectors)
    bits, heard = answers(query, 150)
    blocks = list(itertools.pairwise([0, *sorted(cuts), 150]))
    parts = [summed(query, release_of(query, bits[a:b], None if all_heard else heard[a:b], first=a)) for a, b in blocks]
    whole = summed(query, release_of(query, bits, None if all_heard else heard))
    for order in (parts, parts[::-1]):
        merged = worlds.scores_of(merge(aggregate(query, no_release(query)), *order))
        assert (merged.sensed.tolist(), merged.scores.tolist()) == (whole.sensed.tolist(), whole.scores.tolist())
        assert (merged.devices, merged.answered, merged.ones) == (150, whole.answered, whole.ones)


def test_devices_that_did_not_answer_do_not_count_whatever_their_bits() -> None:
    query = query_about(100, 2)
    bits, heard = answers(query, 99)
    other = np.where(heard[:, None], bits, 1 - bits).astype(np.uint8)
    assert count_agreements(query, 5, bits, heard).tolist() == count_agreements(query, 5, other, heard).tolist()
    assert not count_agreements(query, 5, bits, np.zeros(99, np.bool_)).any()
    silent = summed(query, release_of(query, bits, np.zeros(99, np.bool_)))
    assert (silent.answered, silent.ones, silent.answer_rate, int(silent.sensed.sum())) == (0, 0, 0.0, 0)


def test_no_device_at_all() -> None:
    for vectors in (1, 64):
        nobody = summed(query_about(65, vectors), no_release(query_about(65, vectors)))
        assert not nobody.scores.any()
        assert not nobody.sensed.any()
        assert (nobody.devices, nobody.answered, nobody.ones) == (0, 0, 0)


def test_a_release_of_another_query_is_refused() -> None:
    query = query_about(65, 2)
    bits, heard = answers(query, 8)
    with pytest.raises(ValueError, match="no answer"):
        aggregate(replace(query, round=1), release_of(query, bits, heard))


def test_counts_beyond_a_million_devices() -> None:
    """Equal to the sum of blocks; every level of planes is reached."""
    query = query_about(2, 1)
    bits = np.random.default_rng(1).integers(0, 2, (1_100_001, 1), np.uint8)
    heard = np.ones(len(bits), np.bool_)
    pieces = [
        count_agreements(query, first, bits[first : first + 99_999], heard[first : first + 99_999])
        for first in range(0, len(bits), 99_999)
    ]
    assert count_agreements(query, 0, bits, heard).tolist() == np.sum(pieces, axis=0).tolist()
