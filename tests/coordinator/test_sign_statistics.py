"""Sign sensing: its statistic, and its exact moments."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom
from thoroughness import examples

from coordinator.protocol.arrays import Bits2, Bools, Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import round_key
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.sign import sign_words
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.value_channels import choice_channel
from coordinator.server.mechanisms import aggregate, no_release
from coordinator.server.moments.sign_moments import optimal_best_count, sign_contrast
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


LIKES = ((0.9, 0.2, 0.0, 0.7, 0.5), (0.1, 0.6, 1.0, 0.7, 0.3))
SHARES = (0.25, 0.75)


def rated_and_liked(items: int, rated: int) -> Iterator[tuple[float, dict[int, int]]]:
    """Everything that a device can hold, +1 a like and -1 a dislike, and its probability; two user classes."""
    subsets = list(itertools.combinations(range(items), rated))
    for share, row in zip(SHARES, LIKES, strict=True):
        for subset in subsets:
            for told in itertools.product((1, -1), repeat=rated):
                chances = (row[item] if like > 0 else 1 - row[item] for item, like in zip(subset, told, strict=True))
                yield share * math.prod(chances) / len(subsets), dict(zip(subset, told, strict=True))


def enumerated(items: int, pool: int, rated: int, vectors: int, kept: int, epsilon: Epsilon) -> list[float]:
    """``E[H_i S]`` of the pool's items, the first ones: over ratings, signs of all vectors, and what is released."""
    channel = choice_channel(epsilon, choices=2 * vectors, best_count=kept)
    found, matrices = np.zeros(pool), list(itertools.product((1, -1), repeat=vectors * pool))

    @functools.cache
    def preferred(sums: tuple[int, ...]) -> Floats:
        """By how much each vector is named with the sign + rather than -."""
        row = np.array(worlds.row_of(sums, channel), float)
        found: Floats = row[::2] - row[1::2]
        return found

    for chance, held in rated_and_liked(items, rated):
        for matrix in matrices:
            signs = [matrix[a * pool : (a + 1) * pool] for a in range(vectors)]
            sums = tuple(sum(one[item] * told for item, told in held.items() if item < pool) for one in signs)
            found += chance * (preferred(sums) @ np.array(signs))
    return [float(one) / len(matrices) for one in found]


CASES = [
    (1, 1, 1, 1),
    (3, 3, 1, 1),
    (4, 4, 3, 1),
    (5, 5, 5, 1),
    (5, 3, 2, 1),
    (5, 1, 4, 1),
    (1, 1, 1, 2),
    (3, 2, 2, 2),
    (3, 3, 3, 2),
    (4, 3, 2, 2),
    (5, 2, 3, 2),
    (2, 2, 1, 4),
    (3, 2, 2, 4),
]


@pytest.mark.parametrize("epsilon", [Fraction(1), None], ids=str)
@pytest.mark.parametrize(("items", "pool", "rated", "vectors"), CASES)
def test_the_contrast_is_that_of_full_enumeration(
    items: int, pool: int, rated: int, vectors: int, epsilon: Epsilon
) -> None:
    """Whatever users like: ``E[H_i S]`` is the contrast times ``2 b - 1``, b averaged over user classes."""
    liked = np.array(SHARES) @ np.array(LIKES)
    for kept in range(1, vectors + 1):
        contrast = sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        expected = enumerated(items, pool, rated, vectors, kept, epsilon)
        np.testing.assert_allclose(contrast * (2 * liked[:pool] - 1), expected, rtol=1e-10, atol=1e-13)
        assert contrast > 0


def tie(rated: int) -> Fraction:
    """The formula's g: ``C(k - 1, floor((k - 1) / 2)) / 2^(k - 1)``."""
    return Fraction(math.comb(rated - 1, (rated - 1) // 2), 2 ** (rated - 1))


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 400), epsilon=st.none() | st.sampled_from([Fraction(1), Fraction(1, 100)]))
def test_one_vector_about_all_items_is_the_formula(data: st.DataObject, items: int, epsilon: Epsilon) -> None:
    rated = data.draw(st.integers(1, items))
    contrast = sign_contrast(items, items=items, rated=rated, vectors=1, best_count=1, epsilon=epsilon)
    truth = 1.0 if epsilon is None else math.tanh(float(epsilon) / 2)
    assert contrast == pytest.approx(truth * rated / items * float(tie(rated)), rel=1e-11)


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 300))
def test_one_vector_about_a_pool_averages_over_how_many_of_it_were_rated(data: st.DataObject, items: int) -> None:
    """Exact: a rated item shares the pool with a hypergeometric number of others."""
    rated, pool = data.draw(st.integers(1, items)), data.draw(st.integers(1, items))
    subsets = math.comb(items - 1, rated - 1)
    mean = sum(
        Fraction(math.comb(pool - 1, others) * math.comb(items - pool, rated - 1 - others), subsets) * tie(others + 1)
        for others in range(min(pool, rated))
    )
    contrast = sign_contrast(pool, items=items, rated=rated, vectors=1, best_count=1, epsilon=Fraction(1))
    assert contrast == pytest.approx(math.tanh(0.5) * rated / items * float(mean), rel=1e-10)


def test_recorded_contrast_of_the_standard_setting() -> None:
    """N = 1000, w = 30: t (w/N) sqrt(2 / (pi w)), to a hundredth; a pool of 100 items tells more of each."""
    whole, part = (
        sign_contrast(pool, items=1000, rated=30, vectors=1, best_count=1, epsilon=Fraction(1)) for pool in (1000, 100)
    )
    assert whole == pytest.approx(math.tanh(0.5) * 0.03 * math.sqrt(2 / (math.pi * 30)), rel=0.01)
    others = np.arange(30)
    averaged = hypergeom.pmf(others, 999, 99, 29) @ np.array([float(tie(k + 1)) for k in range(30)])
    assert part == pytest.approx(math.tanh(0.5) * 0.03 * averaged, rel=1e-12)
    assert part > 2 * whole


@pytest.mark.parametrize("pool", [1, 100, 10_000])
def test_large_catalogues_are_computed_too(pool: int) -> None:
    for rated in (1, 30, 5000, 10_000):
        for vectors in (1, 64):
            contrast = sign_contrast(
                pool, items=10_000, rated=rated, vectors=vectors, best_count=vectors, epsilon=Fraction(1)
            )
            assert 0 < contrast <= math.tanh(0.5) * rated / 10_000


@settings(max_examples=examples(60))
@given(data=st.data(), items=st.integers(1, 60), power=st.integers(0, 6))
def test_the_best_number_to_keep_has_the_largest_contrast(data: st.DataObject, items: int, power: int) -> None:
    rated, pool = data.draw(st.integers(1, items)), data.draw(st.integers(1, items))
    epsilon = data.draw(st.none() | st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(3), Fraction(20)]))
    vectors = 1 << power
    best = optimal_best_count(pool, items=items, rated=rated, vectors=vectors, epsilon=epsilon)
    contrasts = [
        sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        for kept in range(1, vectors + 1)
    ]
    assert 1 <= best <= vectors
    assert contrasts[best - 1] >= max(contrasts) * (1 - 1e-12)


def test_more_is_kept_where_there_is_more_noise() -> None:
    kept = [
        optimal_best_count(500, items=1000, rated=30, vectors=16, epsilon=epsilon)
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(3), Fraction(10), None)
    ]
    assert kept == sorted(kept, reverse=True)
    assert kept[0] > 1
    assert kept[-1] == 1


@pytest.mark.parametrize("rated", [1, 2, 7, 30])
def test_more_vectors_tell_more(rated: int) -> None:
    """At the same epsilon, each with the best number kept."""
    contrasts = []
    for vectors in (1, 2, 4, 8, 16, 32, 64):
        kept = optimal_best_count(90, items=100, rated=rated, vectors=vectors, epsilon=Fraction(1))
        contrasts.append(
            sign_contrast(90, items=100, rated=rated, vectors=vectors, best_count=kept, epsilon=Fraction(1))
        )
    assert contrasts == sorted(contrasts)
