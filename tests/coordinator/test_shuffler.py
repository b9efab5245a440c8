"""The shuffler: what it hands on says nothing of who sent it, counts as answers do, and stays back if it is short."""

import itertools
import pickle
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import complains

import coordinator.shuffler as room
from actors.keeper import Keeper
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits2, Bools
from coordinator.protocol.errors import WithheldError
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.trust import OPENER, OpeningError, Openings, ShuffledRound
from coordinator.protocol.trust_models import SHUFFLED
from coordinator.server.fleet.cohorts import Layout, plan_layout
from coordinator.server.fleet.intermediaries import read_shuffled
from coordinator.server.rounds.state import Ask
from coordinator.shuffler import Shuffler

EVERY = Agreement(trust=SHUFFLED, counted=0.0)


def query(bits: int) -> Query:
    return Query(
        design="grr",
        items=100,
        round=0,
        public_seed=bytes(16),
        epsilon=None,
        questions=bits,
        parameters={"values": 1.0},
    )


def released(asked: Query, bits: Bits2, mask: Bools, cuts: Sequence[int], refused: int = 0) -> list[Release]:
    """The releases of blocks that end at ``cuts``; those that do not answer are zeros."""
    edges = [0, *cuts, len(bits)]
    return [
        Release(
            query_id=asked.id,
            first=first,
            count=stop - first,
            width=bits.shape[1],
            bits=np.packbits(bits[first:stop] * mask[first:stop, None]).tobytes(),
            answered=pack(mask[first:stop].astype(np.uint8)),
            refused=min(refused, int((~mask[first:stop]).sum())),
        )
        for first, stop in itertools.pairwise(edges)
    ]


def shuffled(asked: Query, releases: Sequence[Release], agreement: Agreement = EVERY) -> ShuffledRound:
    shuffler = Shuffler(agreement.stamped(asked), agreement)
    for release in releases:
        shuffler.take(release)
    return shuffler.close()


@st.composite
def rounds(draw: Any) -> tuple[Bits2, Bools, list[int], list[int]]:
    """Bits of some devices, who answers, two ways to cut them into blocks, and another order of the devices."""
    devices, width = draw(st.integers(1, 60)), draw(st.integers(1, 80))
    coins = np.random.default_rng(draw(st.integers(0, 2**32)))
    bits = coins.integers(2, size=(devices, width)).astype(np.uint8)
    bits[devices // 2 :] = bits[: devices - devices // 2]  # some reports are equal
    cuts = draw(st.lists(st.integers(0, devices), max_size=4).map(sorted))
    return bits, coins.random(devices) < 0.8, cuts, coins.permutation(devices).tolist()


@given(rounds())
def test_whoever_sent_which_report_the_bytes_are_the_same(case: tuple[Bits2, Bools, list[int], list[int]]) -> None:
    bits, mask, cuts, order = case
    asked = query(bits.shape[1])
    one = shuffled(asked, released(asked, bits, mask, cuts))
    other = shuffled(asked, released(asked, bits[order], mask[order], [])[::-1])
    assert pickle.dumps(one) == pickle.dumps(other)


def test_without_the_order_the_bytes_would_say_who_sent_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a shuffler that hands reports on as they come."""
    monkeypatch.setattr(room, "ascending", lambda rows: rows)
    bits, mask = np.array([[0, 1], [1, 0], [1, 1]], np.uint8), np.ones(3, np.bool_)
    asked = query(2)
    one, other = (shuffled(asked, released(asked, bits[order], mask, [])) for order in ([0, 1, 2], [1, 0, 2]))
    assert pickle.dumps(one) != pickle.dumps(other)


@given(rounds())
def test_all_reports_of_who_answered_are_handed_on(case: tuple[Bits2, Bools, list[int], list[int]]) -> None:
    bits, mask, cuts, _ = case
    asked = query(bits.shape[1])
    done = shuffled(asked, released(asked, bits, mask, cuts), replace(EVERY, withhold=False))
    assert done.release is not None
    rows = [row.tobytes() for row in done.release.unpacked()]
    assert Counter(rows) == Counter(row.tobytes() for row in bits[mask])
    assert rows == sorted(rows)
    assert (done.devices, done.answered) == (len(bits), int(mask.sum()))


def test_large_rounds_are_packed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    coins = np.random.default_rng(5)
    bits, mask, asked = coins.integers(2, size=(100, 3)).astype(np.uint8), coins.random(100) < 0.7, query(3)
    releases = released(asked, bits, mask, [33])
    whole = shuffled(asked, releases)
    monkeypatch.setattr(room, "PIECE", 16)
    assert shuffled(asked, releases) == whole


def test_devices_that_stay_away_hide_nobody() -> None:
    bits, asked = np.ones((10, 1), np.uint8), query(1)
    mask = np.arange(10) < 6
    releases = released(asked, bits, mask, [8], refused=1)
    short = shuffled(asked, releases, replace(EVERY, counted=0.7))
    assert (short.release, short.answered, short.devices, short.refused) == (None, 6, 10, 2)
    enough = shuffled(asked, releases, replace(EVERY, counted=0.6))
    assert enough.release is not None
    told = shuffled(asked, releases, replace(EVERY, counted=0.7, withhold=False))
    assert told == enough


def test_two_rounds_of_a_query_that_differ_by_a_device_are_not_both_handed_on() -> None:
    """Their difference would be that device's report, as its own local epsilon alone protects it."""
    bits, asked, book = np.eye(6, 6, dtype=np.uint8), query(6), Keeper()

    def closed(mask: Bools, first: int = 0, stop: int = 6) -> ShuffledRound:
        """What a shuffler that was started anew hands on, which knows of the one before what the book says."""
        shuffler = Shuffler(EVERY.stamped(asked), EVERY, EVERY.openings(OPENER, book))
        for release in released(asked, bits[:stop], mask[:stop], [4]):
            shuffler.take(replace(release, first=first + release.first))
        return shuffler.close()

    every = np.ones(6, np.bool_)
    most = closed(np.arange(6) != 3)
    assert closed(every) == most  # asked again after a crash; the sixth device is late
    with pytest.raises(OpeningError, match=r"1 of 5 devices .* opened before are out of reach"):
        closed(np.arange(6) > 0)
    with complains("opened with other devices", "ask a new query"):
        closed(every, stop=4)
    for first in (6, 40):  # other devices that say the same
        assert closed(np.arange(6) != 3, first=first).release == most.release
    twin = shuffled(asked, released(asked, bits, np.arange(6) != 3, []))  # a shuffler that forgets
    assert twin.release is not None


def test_a_withheld_round_may_be_asked_of_others_again() -> None:
    asked, openings, every = query(1), Openings(OPENER), replace(EVERY, counted=1.0)
    for count in (3, 8):
        shuffler = Shuffler(every.stamped(asked), every, openings)
        for release in released(asked, np.ones((8, 1), np.uint8), np.arange(8) < count, []):
            shuffler.take(release)
        assert (shuffler.close().release is None) == (count == 3)


LAYOUT: Layout = plan_layout(devices=10, workers=1, devices_per_actor=None)


def test_a_withheld_round_is_an_error_that_says_what_to_do() -> None:
    asked = query(1)
    ask = Ask(query=asked, first=0, stop=10)
    short = ShuffledRound(query_id=asked.id, devices=10, refused=0, answered=6, release=None)
    with pytest.raises(WithheldError) as raised:
        read_shuffled(ask, short, replace(EVERY, counted=0.7), LAYOUT)
    assert "6 of 10 devices answered" in str(raised.value)
    assert "needs 7" in str(raised.value)
    assert "expected_answers" in str(raised.value)


def test_public_pairs_name_devices() -> None:
    asked = query(1)
    release = Release(query_id=asked.id, first=0, count=1, width=1, bits=b"\x80", pairs=bytes(8))
    with complains("public pairs", "without a shuffler"):
        shuffled(asked, [release])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"first": 4}, "hand on all of them"),
        ({"query_id": bytes(16)}, "hand on all of them"),
        ({"query_id": b"\xff" * 16}, "hand on all of them"),
        ({"answered": b"\x80"}, "take that off"),
        ({"pairs": bytes(8)}, "take that off"),
        ({"refused": 1}, "take that off"),
    ],
)
def test_a_round_that_says_more_is_refused_where_it_arrives(changes: dict[str, Any], words: str) -> None:
    asked = query(1)
    fields = {"query_id": asked.id, "first": 0, "count": 1, "width": 1, "bits": b"\x80", **changes}
    with complains(words):
        ShuffledRound(query_id=asked.id, devices=1, refused=0, answered=1, release=Release(**fields))


def test_a_round_of_another_query_is_refused() -> None:
    other = shuffled(query(2), released(query(2), np.ones((3, 2), np.uint8), np.ones(3, np.bool_), []))
    with complains("got query 0"):
        read_shuffled(Ask(query=query(1), first=0, stop=3), other, EVERY, LAYOUT)
