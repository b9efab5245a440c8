"""Statistics add up what devices release: item scores, columns, subsets and signs, whatever the order of merging."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import evidence
import numpy as np
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import in_world

from coordinator.protocol.arrays import Bits2, Bools, Ints, Ints2
from coordinator.protocol.coins import round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanisms.oracles import Subset
from coordinator.protocol.mechanisms.sign import count_agreements, sign_words
from coordinator.protocol.messages import Query
from coordinator.protocol.statistics.scores import aggregate_scores
from coordinator.protocol.statistics.slices import column_counts, subset_counts
from coordinator.server.aggregation import aggregate, no_release


@settings(max_examples=examples(30))
@given(
    bits=st.lists(st.integers(0, 1), min_size=1, max_size=40),
    silent=st.sets(st.integers(0, 39)),
    first=st.sampled_from([0, 3, 10**6]),
    sensing=st.sampled_from([0.05, 0.5, 1.0]),
    pool=st.none() | st.sets(st.integers(0, 12), min_size=1).map(sorted),
)
def test_a_block_is_its_messages_one_by_one(
    bits: list[int], silent: set[int], first: int, sensing: float, pool: list[int] | None
) -> None:
    """Every answering device adds its bit to every item that it sensed."""
    query = worlds.maxsense_query(items=13, sensing=sensing, epsilon=Fraction(1), pool=pool)
    silent, sensed, scores = {k for k in silent if k < len(bits)}, [0] * 13, [0] * 13
    for k, members in enumerate(worlds.sensing_sets(query, range(first, first + len(bits)))):
        for item in members if k not in silent else []:
            sensed[item] += 1
            scores[item] += bits[k]
    heard = [bit for k, bit in enumerate(bits) if k not in silent]
    counts = {"devices": len(bits), "answered": len(heard), "refused": len(silent), "ones": sum(heard)}
    release = worlds.release_of(query, bits, first=first, silent=sorted(silent))
    numbers = worlds.as_numbers(aggregate_scores(query, release))
    assert numbers == {"sensed": sensed, "scores": scores, **counts}


def test_large_blocks_equal_their_pieces() -> None:
    query = worlds.maxsense_query(items=5, sensing=0.9)
    bits = np.random.default_rng(0).integers(0, 2, 150_000).tolist()
    whole = aggregate_scores(query, worlds.release_of(query, bits))
    pieces = [
        aggregate_scores(query, worlds.release_of(query, bits[first : first + 9_001], first=first))
        for first in range(0, 150_000, 9_001)
    ]
    assert worlds.as_numbers(sum(pieces, start=worlds.empty_statistic(5))) == worlds.as_numbers(whole)
    assert int(whole.sensed.max()) > 2 * 65_535


ASKED = worlds.maxsense_query(items=4, sensing=0.5)


def who_is_silent(devices: int, *, some: bool) -> list[int]:
    """Nobody, or one of five."""
    return np.flatnonzero(np.random.default_rng(devices).random(devices) > 0.8).tolist() if some else []


@pytest.mark.parametrize("devices", [0, 1, 2, 3, 63, 64, 257])
def test_columns_add_up(devices: int) -> None:
    for width, silent in product((1, 5, 64, 65, 130), (False, True)):
        bits = np.random.default_rng([devices, width]).integers(0, 2, (devices, width), np.uint8)
        release = worlds.release_of(ASKED, bits, silent=who_is_silent(devices, some=silent))
        assert column_counts(release).tolist() == release.unpacked().sum(axis=0).tolist(), (width, silent)


def test_bits_of_silent_devices_do_not_count() -> None:
    """Whoever sends them in spite of it."""
    release = replace(worlds.release_of(ASKED, np.ones((9, 70))), answered=bytes([0b10100000, 0]))
    assert set(column_counts(release).tolist()) == {2}


def query_of(values: int, chosen: int) -> Query:
    """Subset selection among so many values, "none" among them."""
    design = in_world(Subset, items=values - 1, rated=1, chosen=chosen)
    return design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(1))


def written(query: Query, named: Ints2) -> Bits2:
    """Subsets as bits, one row a device."""
    if query.answer_bits == 1:
        bits = np.zeros((len(named), query.bits), np.uint8)
        bits[np.arange(len(named))[:, None], named] = 1
        return bits
    return ((named[:, :, None] >> np.arange(query.answer_bits)[::-1]) & 1).astype(np.uint8).reshape(len(named), -1)


@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize(("values", "chosen"), [(300, 7), (300, 90), (41, 6), (41, 7)])
def test_subsets_are_counted_in_either_form(values: int, chosen: int, silent: bool) -> None:
    query = query_of(values, chosen)
    named = np.sort(np.random.default_rng(chosen).random((201, values)).argsort(axis=1)[:, :chosen], axis=1)
    release = worlds.release_of(query, written(query, named), silent=who_is_silent(201, some=silent))
    expected = np.bincount(named[release.answered_mask()].ravel(), minlength=values)
    assert subset_counts(query, release, values=values, subset_size=chosen).tolist() == expected.tolist()
    statistic = aggregate(query, release)
    assert statistic.ones == int(release.unpacked().sum())
    assert aggregate(query, no_release(query)).answered == 0


@pytest.mark.parametrize(
    ("chosen", "wrong"),
    [(4, [1, 2, 3, 3]), (4, [2, 1, 3, 4]), (4, [1, 2, 3, 40]), (4, [0, 0, 0, 0]), (20, [*range(19), 18])],
)
def test_what_is_no_subset_is_refused(chosen: int, wrong: list[int]) -> None:
    """A value twice, out of order, out of range, zeros; and a bit too few. From silent devices all of it is ignored."""
    query = query_of(40, chosen)
    named = np.array([list(range(chosen)), wrong])
    release = worlds.release_of(query, written(query, named), first=3)
    words = rf"^the release of devices 3 to 4 is no answer to .*: it holds what is no subset of {chosen} of 40 values"
    with pytest.raises(InputError, match=words):
        aggregate(query, release)
    heard = replace(release, answered=bytes([0b10000000]))
    assert aggregate(query, heard).answered == 1


def query_about(pool: int, vectors: int, *, items: int = 300) -> Query:
    return worlds.sign_query(range(3, 3 + pool), items=items, vectors=vectors)


def answers(query: Query, devices: int, seed: int = 0) -> tuple[Bits2, Bools]:
    """Uniform answers, a tenth of them missing."""
    world = np.random.default_rng([seed, devices])
    return world.integers(0, 2, (devices, query.bits), np.uint8), world.random(devices) < 0.9


def agreements_of(query: Query, first: int, bits: Bits2, heard: Bools) -> Ints:
    """Counts of devices whose signs follow from their addresses."""
    return count_agreements(query, device_streams(query.key, first, len(bits)), bits, heard)


def naive(query: Query, first: int, bits: Bits2, heard: Bools) -> Ints:
    """Sign by sign; the project's streams are the oracle's, which other tests hold."""
    assert query.pool is not None
    pool = query.pool.size
    words = sign_words(pool)
    counts = np.zeros(pool, np.int64)
    streams = device_streams(round_key(query.public_seed, query.round), first, max(len(bits), 1))
    for stream, row, told in zip(streams.tolist(), bits.tolist(), heard.tolist(), strict=False):
        vector = sum(bit << place for place, bit in enumerate(reversed(row[1:])))
        drawn = b"".join(evidence.draw(stream, vector * words + w).to_bytes(8, "little") for w in range(words))
        signs = np.unpackbits(np.frombuffer(drawn, np.uint8), bitorder="little")[:pool]
        counts += told * (signs == row[0])
    return counts


@pytest.mark.parametrize("devices", [0, 1, 2, 3, 4, 5, 17, 64, 65, 1000])
@pytest.mark.parametrize("pool", [1, 63, 64, 65, 200])
def test_counts_are_those_of_a_naive_sum(devices: int, pool: int) -> None:
    for vectors, first in ((1, 0), (4, 12_345)):
        query = query_about(pool, vectors)
        bits, heard = answers(query, devices, pool)
        expected = naive(query, first, bits, heard)
        found = agreements_of(query, first, bits, heard)
        assert found.tolist() == expected.tolist()
        assert found.dtype == np.int64


@pytest.mark.parametrize("devices", [2**k + more for k in (1, 2, 3, 4, 9, 12) for more in (-1, 0, 1)])
def test_no_carry_is_lost_where_everybody_agrees(devices: int) -> None:
    """All planes fill up: each device names the sign that item 0 has, so that its count is the number of devices."""
    query = query_about(1, 1)
    bits = np.array([[evidence.sign(worlds.public_stream(query, k), 0, 0, 1) > 0] for k in range(devices)], np.uint8)
    heard = np.ones(devices, np.bool_)
    assert agreements_of(query, 0, bits, heard).tolist() == [devices]
    assert agreements_of(query, 0, 1 - bits, heard).tolist() == [0]


def test_the_statistic_tells_of_the_pool_and_counts_who_answered() -> None:
    query = worlds.sign_query([2, 3, 70], items=80, vectors=2)
    bits, heard = answers(query, 501)
    release = worlds.release_of(query, bits, first=77, silent=np.flatnonzero(~heard).tolist())
    statistic = worlds.scores_of(aggregate(query, replace(release, refused=7)))
    expected = np.zeros(80, np.int64)
    expected[[2, 3, 70]] = naive(query, 77, bits, heard)
    assert statistic.scores.tolist() == expected.tolist()
    assert statistic.sensed.tolist() == [int(heard.sum()) * (item in (2, 3, 70)) for item in range(80)]
    assert (statistic.devices, statistic.answered, statistic.questions) == (501, int(heard.sum()), 1)
    assert statistic.refused + statistic.missing == int((~heard).sum())
    assert statistic.ones == int(bits[heard, 0].sum())
    assert statistic.answer_rate == pytest.approx(bits[heard, 0].mean())
