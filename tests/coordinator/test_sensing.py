"""Sensing sets and random partitions: their exact laws, and the samplers tied to them."""

import hashlib
import math
import re
import struct
from decimal import Decimal, localcontext
from typing import Any

import evidence
import numpy as np
import pytest
import worlds
from evidence import chi_square_fits, examples, law_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special
from worlds import in_world

from actors.device import Cohort
from coordinator.protocol.arrays import Bools, Counts, Ints
from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import below, device_streams, draw
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.moments.count_moments import NoSignal
from coordinator.protocol.public_draws import UNIT, candidate, candidates_key, gaussian_levels, random_order
from coordinator.protocol.sensing import sensing_table
from coordinator.server.aggregation import aggregate
from scenarios.config.mechanism_settings import all_settings
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario

PROBABILITIES = st.one_of(
    st.floats(0, 1, exclude_min=True), st.floats(1e-5, 0.2), st.integers(1, 5000).map(lambda w: 1 / w)
)
ITEMS = st.sampled_from([1, 2, 30, 1000, 3706])


def inclusion(query: Query, devices: int) -> Bools:
    """Who senses what, shape (devices, items), as the private side has it: users that like one item only tell."""
    senses = np.empty((devices, query.items), np.bool_)
    for item in range(query.items):
        ratings = worlds.stored_ratings([{item: True}], [0] * devices, query.items)
        release = Cohort(ratings, worlds.SECRET, 0, devices, None).answer(query, 0, devices)
        senses[:, item] = release.unpacked()[:, 0]
    return senses


def sensed_counts(query: Query, devices: int) -> Ints:
    """How many of the devices sense each item, as the server regenerates it."""
    return worlds.scores_of(aggregate(query, worlds.release_of(query, [0] * devices))).sensed


@settings(max_examples=examples(20))
@given(PROBABILITIES, ITEMS)
@example(1.0, 7)
@example(1 - 2.0**-53, 1000)
@example(0.5, 3706)
@example(1 / 30, 1000)
@example(1 / 100, 10_000)
@example(1e-9, 1)
@example(5e-324, 12)
def test_the_number_of_places_is_poisson_to_a_64_bit_coin(sensing: float, items: int) -> None:
    """Number m has ``exp(-mu) mu^m / m!`` within 2^-64, mu being ``-N ln(1 - p)`` and what refused halves cost."""
    law = law_of(worlds.number_table(sensing, items))
    assert sum(law.values()) == 1
    with localcontext(prec=100):
        unhit = Decimal(sensing) if sensing > 0.5 else 1 - Decimal(sensing)  # an item, by any place
        mean = -unhit.ln() * 2**32 / (2**32 // items)
        exact, past = (-mean).exp(), 0
        for number in range(max(law) + 1):
            weight = law.get(number, 0) * 2**64
            assert weight == int(weight)
            assert abs(int(weight) - exact * 2**64) <= 1
            past, exact = past + int(weight), exact * mean / (number + 1)
        assert past == 2**64


@pytest.mark.parametrize("sensing", [0.0, -0.1, 1.0000001, 2, math.nan, math.inf, -math.inf])
def test_impossible_probabilities_are_refused_in_one_line(sensing: float) -> None:
    with pytest.raises(InputError, match=r"\(0, 1\]") as caught:
        sensing_table(sensing, 10)
    assert str(sensing) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("sensing", [1.0, 0.5, 0.03, 1e-5])
@pytest.mark.parametrize("items", [1, 2, 255, 256, 700])
def test_both_sides_regenerate_the_oracles_sets(items: int, sensing: float) -> None:
    query = worlds.maxsense_query(items=items, sensing=sensing, round_number=4)
    sets = worlds.sensing_sets(query, range(12))
    expected = np.bincount([item for one in sets for item in one], minlength=items)
    assert sensed_counts(query, 12).tolist() == expected.tolist()
    if items <= 2:
        assert inclusion(query, 12).tolist() == [[item in one for item in range(items)] for one in sets]


STREAMS = device_streams(round_key(worlds.PUBLIC, 0), 0, 120_000)


def ordered(items: int, count: int, streams: int) -> tuple[Counts, Counts]:
    """The first ``count`` places of the random orders of so many devices, and what `order` holds at the end."""
    order, swaps = np.arange(items).astype(np.uint32), np.empty(count, np.uint32)
    chosen = np.empty((streams, count), np.uint32)
    for stream, row in zip(STREAMS[:streams], chosen, strict=True):
        random_order(stream, order, swaps, row)
    return chosen, order


@settings(max_examples=examples(60))
@given(items=st.integers(1, 70), data=st.data())
def test_orders_are_the_oracles_and_the_start_is_restored(items: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, items))
    chosen, order = ordered(items, count, 6)
    assert chosen.tolist() == [evidence.random_order(int(stream), items)[:count] for stream in STREAMS[:6]]
    assert order.tolist() == list(range(items))


@pytest.mark.few(1)
@pytest.mark.statistical
@pytest.mark.parametrize(("items", "size", "asked"), [(4, 2, 2), (5, 2, 2), (6, 1, 2), (6, 2, 1)])
def test_partitions_are_uniform(items: int, size: int, asked: int) -> None:
    """Chi-square over all ordered choices of disjoint sets, 120,000 devices; false alarm 1e-6.

    Twin: against a law in which the first set holds item 0 more often by 10 %, the same counts are refused.
    """
    chosen, _ = ordered(items, size * asked, STREAMS.size)
    sets = np.sort(chosen.reshape(-1, asked, size), axis=2).reshape(len(chosen), -1)
    codes, counts = np.unique(sets @ 7 ** np.arange(size * asked), return_counts=True)
    cells = math.prod(math.comb(items - size * k, size) for k in range(asked))
    assert codes.size == cells
    assert chi_square_fits(counts, np.ones(cells))
    holds_zero = [bool(code // 7**place % 7 == 0) for place in range(size) for code in codes]
    assert not chi_square_fits(counts, 1.1 ** np.reshape(holds_zero, (size, -1)).any(axis=0))


# A design turns its public parameters into queries, and refuses parameters outside their ranges by name.


def test_there_is_no_signal_only_where_all_items_are_sensed() -> None:
    for theta, none in ((3.0, True), (2.9, False), (1.0, False)):
        world = resolve(Scenario(items=6, rated=3, theta=theta)).world
        assert isinstance(MaxSense(theta=theta).moments(world), NoSignal) is none


def test_defaults_are_those_that_their_descriptions_tell() -> None:
    told = {name: re.search(r"\[([\d.]+)\]\.$", field.description or "") for name, field in all_settings().items()}
    found = {name: float(default[1]) for name, default in told.items() if default}
    assert found.keys() >= {"theta", "pair_items", "first_group", "second_group", "answers_per_item"}
    assert found == {name: float(all_settings()[name].default) for name in found}


IMPOSSIBLE: dict[str, tuple[Any, ...]] = {"items": (0,), "rated": (0, 11), "theta": (3.1,)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in IMPOSSIBLE.items() for value in values])
def test_impossible_parameters_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        in_world(MaxSense, **{"items": 10, "rated": 3, "theta": 1.0, name: value})
    text = str(caught.value)
    assert text.startswith(f"{name} is {value}; ")
    assert "\n" not in text
    assert any(remedy in text for remedy in ("must lie", "at least"))


# Hashes under every coin: published vectors, and the oracle for the rest.


KEY = bytes(range(16))
PUBLISHED = {8: 0x93F5F5799A932462, 16: 0x3F2ACC7F57C29BDB, 32: 0x7127512F72F27CCE}
"""SipHash-2-4 of the bytes 0, 1, ... under the key 00 to 0f, by length: the authors' test vectors."""
LEVELS = gaussian_levels()


@pytest.mark.parametrize("length", PUBLISHED)
def test_the_oracle_knows_the_published_vectors(length: int) -> None:
    assert evidence.siphash(evidence.as_key(KEY), bytes(range(length))) == PUBLISHED[length]


def test_the_public_stream_of_a_device_is_a_published_vector() -> None:
    """The device with the index 0x0706050403020100, under the authors' key."""
    device = int.from_bytes(bytes(range(8)), "little")
    assert device_streams(as_words(KEY), device, 1).tolist() == [PUBLISHED[8]]


def test_draws_are_splitmix64() -> None:
    """The first outputs for the seed 1234567, as published with the generator."""
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert [int(draw(np.uint64(1234567), np.uint64(lane))) for lane in range(4)] == published
    assert [evidence.draw(1234567, lane) for lane in range(4)] == published


@pytest.mark.parametrize("first", [0, 1, 2**31, 2**32 - 1, 2**50])
def test_public_streams_are_keyed_by_seed_round_and_device(first: int) -> None:
    for round_number in (0, 1, 10):
        key = round_key(derive(3, "public"), round_number)
        oracle = evidence.as_key(evidence.derive(evidence.derive(3, "public"), f"round {round_number}"))
        assert key.tolist() == list(oracle)
        streams = device_streams(key, first, 3)
        assert streams.tolist() == [evidence.siphash_words(oracle, first + k) for k in range(3)]


def test_no_processor_rounds_a_level_another_way() -> None:
    """Quantiles are right to some 1e-15 of themselves; none lies within a hundred million times that of an edge."""
    octaves, cells = np.divmod(np.arange(LEVELS.size), 256)
    exact = -special.ndtri(np.ldexp(1 + cells / 256, octaves - 64)) * UNIT
    assert np.abs(exact - LEVELS).max() < 0.5 - 1e-6
    assert (np.diff(LEVELS) < 0).all()
    assert LEVELS[-1] == 0
    digest = hashlib.blake2b(LEVELS.astype("<i8").tobytes(), digest_size=16).hexdigest()
    assert digest == "009a2c16e58ecc0f686a961922cf1cfc"


def sums_of(query: Query, release: Release) -> tuple[list[int], list[int], int]:
    """The oracle's sums over the devices that answered: sensed, scores, ones."""
    sensed, scores = [0] * query.items, [0] * query.items
    heard, bits = release.answered_mask().tolist(), release.unpacked().tolist()
    for k in range(release.count):
        stream = worlds.public_stream(query, release.first + k)
        sets = evidence.partition(stream, query.items, int(query.parameters["set_size"]))[: query.questions]
        for some, bit in zip(sets, bits[k], strict=True):
            for item in some if heard[k] else []:
                sensed[item] += 1
                scores[item] += bit
    return sensed, scores, sum(sum(row) for row, one in zip(bits, heard, strict=True) if one)


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 20), count=st.integers(0, 12), first=st.integers(0, 10**9))
def test_the_statistic_is_the_oracles(data: st.DataObject, items: int, count: int, first: int) -> None:
    """Whatever the bits of silent devices, sets that do not fit, every number of questions."""
    size = data.draw(st.integers(1, items))
    questions = data.draw(st.integers(1, -(-items // size)))
    table = data.draw(st.lists(st.integers(0, 1), min_size=count * questions, max_size=count * questions))
    heard = data.draw(st.none() | st.lists(st.integers(0, 1), min_size=count, max_size=count))
    query = worlds.partition_query(items, size, questions)
    release = Release(
        query_id=query.id,
        first=first,
        count=count,
        width=questions,
        bits=pack(np.array(table, np.uint8)),
        answered=None if heard is None else pack(np.array(heard, np.uint8)),
    )
    found = worlds.scores_of(aggregate(query, release))
    assert (found.sensed.tolist(), found.scores.tolist(), found.ones) == sums_of(query, release)
    answered = count if heard is None else sum(heard)
    assert (found.devices, found.answered, found.answers) == (count, answered, answered * questions)
    assert found.answer_rate == (found.ones / found.answers if found.answers else 0)


QUERY = bytes(range(16))


def gaussian(word: int) -> int:
    """The documented number behind a word, in Python's whole numbers."""
    tail = float((word >> 1) | 1)  # of 2**64; its float64 has the exponent and the bits that choose a cell
    bits: int = struct.unpack("<q", struct.pack("<d", tail))[0]
    cell, part = (bits >> 44) - (1023 << 8), bits >> 12 & 0xFFFFFFFF
    low, high = int(LEVELS[cell + 1]), int(LEVELS[cell])
    size = (high - ((high - low) * part >> 32)) | 1
    return size if word & 1 else -size


def test_a_candidate_is_the_oracles() -> None:
    key = evidence.as_key(evidence.derive(QUERY, "candidates"))
    assert candidates_key(QUERY).tolist() == list(key)
    for device, vector, dimension in ((0, 0, 1), (3, 5, 7), (2**40, 8191, 55)):
        stream = evidence.siphash_words(key, device)
        numbers = [gaussian(evidence.draw(stream, vector * dimension + a)) for a in range(dimension)]
        length = math.sqrt(sum(number**2 for number in numbers))
        told = candidate(QUERY, device, vector, dimension)
        assert told.tolist() == [number / length for number in numbers]


def test_the_tables_law_is_the_gaussians_up_to_a_millionth() -> None:
    """Moments of what is uniform between neighbouring levels, and the largest error of the inverse."""
    octaves, cells = np.divmod(np.arange(LEVELS.size - 1), 256)
    mass = np.ldexp(2.0, octaves - 64) / 256
    high, low = LEVELS[:-1] / UNIT, LEVELS[1:] / UNIT
    assert mass.sum() == pytest.approx(1, abs=1e-15)
    assert (mass * (high + low) / 2).sum() == pytest.approx(math.sqrt(2 / math.pi), abs=1e-6)
    assert (mass * (high**2 + high * low + low**2) / 3).sum() == pytest.approx(1, abs=1e-6)
    between = -special.ndtri(np.ldexp(1 + (cells + 0.5) / 256, octaves - 64))
    assert np.abs((high + low) / 2 - between).max() < 3e-6


@pytest.mark.parametrize("bound", [1, 2, 3, 10**6, 2**31 + 1, 3 * 2**30, 2**32 - 1, 2**32])
def test_numbers_below_a_bound_are_the_oracles(bound: int) -> None:
    """At 2**31 + 1 nearly half of all halves are rejected."""
    told = [below(stream, lane, bound) for stream in STREAMS[:200] for lane in (0, 5)]
    assert told == [evidence.below(int(stream), lane, bound) for stream in STREAMS[:200] for lane in (0, 5)]
    assert all(0 <= one < bound for one in told)
