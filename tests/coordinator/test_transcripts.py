"""One digest for one run, whatever the blocks that carried it."""

from __future__ import annotations

import hashlib
import itertools

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.messages import Query, Release, pack
from coordinator.server.rounds.transcript import Sealed, chain, seal, size_of
from coordinator.server.rounds.transcript import digest as digest_of

QUERY = worlds.maxsense_query(items=4, sensing=0.5)
NEXT = worlds.maxsense_query(items=4, sensing=0.5, round_number=1)
BITS = st.lists(st.integers(0, 1), min_size=1, max_size=60)


def digest(*rounds: list[Release]) -> str:
    return chain([digest_of(releases) for releases in rounds])


def expected(*rounds: tuple[list[int], set[int]]) -> str:
    """For each round the mask of who answered, then the bits, packed over all devices and padded once."""
    digests = []
    for bits, silent in rounds:
        heard = [int(k not in silent) for k in range(len(bits))]
        answers = [bit * one for bit, one in zip(bits, heard, strict=True)]
        told = b"".join(np.packbits(np.array(part, np.uint8)).tobytes() for part in (heard, answers))
        digests.append(hashlib.sha256(told).digest())
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


def pieces(query: Query, bits: list[int], silent: set[int], cuts: list[int], first: int = 0) -> list[Release]:
    marks = [0, *sorted({cut for cut in cuts if 0 < cut < len(bits)}), len(bits)]
    return [
        worlds.release_of(query, bits[a:b], first=first + a, silent=sorted(k - a for k in silent if a <= k < b))
        for a, b in itertools.pairwise(marks)
    ]


@settings(max_examples=examples(80))
@given(data=st.data(), bits=BITS, silent=st.sets(st.integers(0, 59)), first=st.sampled_from([0, 8, 13]))
def test_any_cut_in_any_order_gives_the_digest(
    data: st.DataObject, bits: list[int], silent: set[int], first: int
) -> None:
    silent = {k for k in silent if k < len(bits)}
    cuts = data.draw(st.lists(st.integers(1, 60), max_size=6))
    blocks = data.draw(st.permutations(pieces(QUERY, bits, silent, cuts, first)))
    assert digest(list(blocks)) == expected((bits, silent))


@settings(max_examples=examples(50))
@given(one=BITS, two=BITS, cuts=st.lists(st.integers(1, 60), max_size=4))
def test_rounds_follow_each_other(one: list[int], two: list[int], cuts: list[int]) -> None:
    rounds = [pieces(QUERY, one, set(), cuts), pieces(NEXT, two, {0}, cuts)]
    assert digest(*rounds) == expected((one, set()), (two, {0}))


@given(data=st.data(), table=st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=2, max_size=12))
def test_several_questions_a_device(data: st.DataObject, table: list[list[int]]) -> None:
    cut = data.draw(st.integers(1, len(table) - 1))
    bits = np.array(table, np.uint8)
    blocks = [
        Release(query_id=QUERY.id, first=a, count=b - a, width=3, bits=pack(bits[a:b]))
        for a, b in ((0, cut), (cut, len(table)))
    ]
    told = np.packbits(np.ones(len(table), np.uint8)).tobytes() + np.packbits(bits.ravel()).tobytes()
    assert digest(blocks) == hashlib.sha256(told).hexdigest()


def test_a_mask_of_ones_is_no_mask() -> None:
    bits = [1, 0, 1, 1, 0, 0, 1, 0, 1, 1]
    full = Release(
        query_id=QUERY.id, first=0, count=10, width=1, bits=pack(np.array(bits, np.uint8)), answered=b"\xff\xc0"
    )
    assert digest([full]) == digest(pieces(QUERY, bits, set(), [])) == expected((bits, set()))


@given(bits=BITS, place=st.integers(0, 59))
def test_any_bit_and_any_silence_changes_the_digest(bits: list[int], place: int) -> None:
    place %= len(bits)
    flipped = [bit ^ (k == place) for k, bit in enumerate(bits)]
    told = [
        digest(pieces(QUERY, bits, set(), [])),
        digest(pieces(QUERY, flipped, set(), [])),
        digest(pieces(QUERY, bits, {place}, [])),
        digest(pieces(QUERY, [*bits, 0], set(), [])),
    ]
    assert len(set(told)) == 4


@pytest.mark.parametrize(
    "bounds", [[(0, 8), (9, 16)], [(0, 8), (7, 16)], [(0, 8), (0, 8)], [(0, 16), (4, 8)], [(0, 8), (8, 16), (24, 32)]]
)
def test_gaps_and_overlaps_are_refused(bounds: list[tuple[int, int]]) -> None:
    releases = [worlds.release_of(QUERY, [1] * (stop - first), first=first) for first, stop in bounds]
    with pytest.raises(ValueError, match="does not follow"):
        digest(releases)


def test_answers_to_different_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        digest([worlds.release_of(QUERY, [1] * 8), worlds.release_of(NEXT, [1] * 8, first=8)])


def test_nothing_asked_is_the_digest_of_nothing() -> None:
    assert digest() == digest([]) == hashlib.sha256(b"").hexdigest()


def test_devices_are_digested_by_leaves_whoever_carries_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of sixteen devices. Whole ones are sealed, and the digest is that of all releases, cut in any way."""
    monkeypatch.setattr("coordinator.server.rounds.transcript.LEAF", 16)
    bits, silent = [int(k % 3 == 0) for k in range(100)], {5, 17, 64}
    leaves = [pieces(QUERY, bits, silent, [13, 29, 45, 61, 77, 93], first=3)[k] for k in range(7)]
    expected_leaves = b"".join(
        hashlib.sha256(
            np.packbits([int(k not in silent) for k in stretch]).tobytes()
            + np.packbits([bits[k] * (k not in silent) for k in stretch]).tobytes()
        ).digest()
        for stretch in (range(13), *(range(first, first + 16) for first in range(13, 93, 16)), range(93, 100))
    )
    told = hashlib.sha256(expected_leaves).hexdigest()
    assert digest(leaves) == told
    assert digest(pieces(QUERY, bits, silent, [4, 13, 20, 29, 45, 50, 61, 77, 90, 93], first=3)) == told
    (wide,) = (one for one in pieces(QUERY, bits, silent, [13, 93], first=3) if one.first == 16)
    sealed = seal(wide)
    assert isinstance(sealed, Sealed)
    assert len(sealed.leaves) == 5 * 32
    assert chain([digest_of([leaves[0], sealed, leaves[-1]])]) == told
    assert size_of([leaves[0], sealed]) == size_of([leaves[0], wide])
    assert seal(leaves[0]) is leaves[0]


def test_a_block_that_reaches_into_another_leaf_cannot_be_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.server.rounds.transcript.LEAF", 16)
    with pytest.raises(ValueError, match="20 devices from 8 on are no whole leaves of 16"):
        digest(pieces(QUERY, [1] * 20, set(), [], first=8))
