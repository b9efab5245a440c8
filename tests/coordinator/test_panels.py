"""The panel of a round, driven without Ray and without a clock: whom it asks, what counts, when it gives up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction

import pytest
import worlds
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.messages import Query, Release
from coordinator.server.fleet.panel import LONGEST_PAUSE, MOST_ATTEMPTS, BlockRequest, Panel, pause_after
from coordinator.server.mechanisms import require_answer
from coordinator.server.rounds.conductor import Block

QUERY = worlds.maxsense_query(items=5, sensing=0.3, epsilon=Fraction(1))
GONE = ConnectionError("its process died")


def check(block: Block, told: object) -> None:
    require_answer(QUERY, told, block.first, block.stop)


def blocks(count: int) -> list[Block]:
    """Blocks of eight devices; whom they stand behind is no affair of the panel."""
    return [Block(None, 8 * place, 8 * place + 8) for place in range(count)]


def answer(block: Block, query: Query = QUERY) -> Release:
    release: Release = worlds.release_of(query, [1] * (block.stop - block.first), first=block.first)
    return release


def waits(panel: Panel) -> float | None:
    """Until when it waits before it asks."""
    return panel.until


def asked(panel: Panel, now: float = 0.0) -> Iterator[BlockRequest]:
    """All that the panel asks now."""
    while question := panel.question(now):
        yield question


def test_blocks_are_asked_in_their_order_and_never_more_than_the_window_at_once() -> None:
    panel = Panel(blocks(5), check, window=2)
    first, second = asked(panel)
    assert (first, second) == (BlockRequest(0, 0, Block(None, 0, 8)), BlockRequest(1, 0, Block(None, 8, 16)))
    assert panel.answered(1, 0, answer(second.block))
    assert [question.number for question in asked(panel)] == [2]


def test_releases_come_in_device_order_whatever_the_order_of_arrival() -> None:
    panel = Panel(blocks(3), check, window=3)
    for question in reversed(list(asked(panel))):
        assert not panel.done
        assert panel.answered(question.number, question.epoch, answer(question.block))
    assert panel.done
    assert [release.first for release in panel.answers()] == [0, 8, 16]


def test_a_lost_block_pauses_and_the_others_go_on() -> None:
    """Its pause doubles with each loss; nobody else waits for it."""
    panel = Panel(blocks(3), check, window=1)
    assert panel.question(0.0) == (0, 0, Block(None, 0, 8))
    assert panel.lost(0, 0, 0.0, GONE)
    assert waits(panel) == pause_after(0)
    assert panel.question(0.0) == (1, 0, Block(None, 8, 16))
    assert waits(panel) is None, "nothing can be asked before an answer is in, however long one waits"
    assert panel.answered(1, 0, answer(Block(None, 8, 16)))
    assert panel.question(pause_after(0)) == (0, 1, Block(None, 0, 8)), "what was lost comes before what is fresh"
    assert panel.lost(0, 1, 10.0, GONE)
    assert waits(panel) == 10.0 + pause_after(1) == 10.0 + 2 * pause_after(0)
    assert panel.retries == 2


def test_pauses_double_up_to_a_longest_one() -> None:
    assert [pause_after(attempt) for attempt in range(7)] == [0.5, 1, 2, 4, 8, LONGEST_PAUSE, LONGEST_PAUSE]


def test_an_answer_of_an_earlier_epoch_and_one_that_came_twice_are_dropped() -> None:
    panel = Panel(blocks(1), check, window=1)
    late = answer(Block(None, 0, 8))
    assert panel.question(0.0)
    assert panel.lost(0, 0, 0.0, GONE)
    assert not panel.answered(0, 0, late), "it was given up"
    assert panel.question(1.0) == (0, 1, Block(None, 0, 8))
    assert not panel.answered(0, 0, late)
    assert not panel.answered(0, 2, late), "nobody was asked that"
    assert not panel.lost(0, 0, 1.0, GONE), "a loss that is told late says nothing of the present call"
    assert panel.answered(0, 1, answer(Block(None, 0, 8)))
    assert not panel.answered(0, 1, late)
    assert not panel.lost(0, 1, 1.0, GONE)
    assert panel.done


def test_it_gives_up_exactly_after_the_most_attempts() -> None:
    panel, now = Panel(blocks(1), check, window=1), 0.0
    for epoch in range(MOST_ATTEMPTS - 1):
        assert panel.question(now) == (0, epoch, Block(None, 0, 8))
        assert panel.lost(0, epoch, now, GONE)
        now = panel.until or 0.0
    assert panel.question(now)
    with pytest.raises(LostError, match=r"devices 0 to 7 were lost, 8 times \(ConnectionError: .*\); add a node"):
        panel.lost(0, MOST_ATTEMPTS - 1, now, GONE)


def test_an_answer_to_something_else_is_refused() -> None:
    panel = Panel(blocks(1), check, window=1)
    assert panel.question(0.0)
    with pytest.raises(InputError, match="8 devices from 8 on answered, devices 0 to 7 were asked"):
        panel.answered(0, 0, answer(Block(None, 8, 16)))
    other = worlds.maxsense_query(items=5, sensing=0.3, epsilon=Fraction(2))
    with pytest.raises(InputError, match="is no answer to"):
        panel.answered(0, 0, answer(Block(None, 0, 8), other))


def test_deciding_needs_no_ray() -> None:
    code = "import sys, coordinator.server.fleet.panel; sys.exit('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class Driven(RuleBasedStateMachine):
    """A driver that answers, loses and repeats calls in any order, and a clock that goes on by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now, self.given_up = 0.0, False
        self.out: dict[int, BlockRequest] = {}
        self.old: list[BlockRequest] = []
        self.losses: dict[int, int] = {}
        self.inside: set[int] = set()

    @initialize(count=st.integers(0, 6), window=st.integers(1, 3), most=st.integers(1, 4))
    def begin(self, count: int, window: int, most: int) -> None:
        self.count, self.window, self.most = count, window, most
        self.panel = Panel(blocks(count), check, window=window, most=most)

    @rule(seconds=st.sampled_from([0.0, 0.3, 1.0, 20.0]))
    def ask(self, seconds: float) -> None:
        self.now += seconds
        if self.given_up:
            return
        while question := self.panel.question(self.now):
            assert question.number not in self.out
            assert question.number not in self.inside
            assert question.epoch == self.losses.get(question.number, 0)
            self.out[question.number] = question
        assert len(self.out) == self.window or self.panel.until is None or self.panel.until > self.now

    @precondition(lambda self: self.out and not self.given_up)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        question = self.out.pop(data.draw(st.sampled_from(sorted(self.out))))
        assert self.panel.answered(question.number, question.epoch, answer(question.block))
        self.inside.add(question.number)
        self.old.append(question)

    @precondition(lambda self: self.out and not self.given_up)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        question = self.out.pop(data.draw(st.sampled_from(sorted(self.out))))
        self.old.append(question)
        losses = self.losses[question.number] = self.losses.get(question.number, 0) + 1
        try:
            assert self.panel.lost(question.number, question.epoch, self.now, GONE)
            assert losses < self.most
        except LostError:
            assert losses == self.most
            self.given_up = True

    @precondition(lambda self: self.old and not self.given_up)
    @rule(data=st.data(), lost=st.booleans())
    def hear_of_an_old_call(self, data: st.DataObject, *, lost: bool) -> None:
        old = data.draw(st.sampled_from(self.old))
        if lost:
            assert not self.panel.lost(old.number, old.epoch, self.now, GONE)
        else:
            assert not self.panel.answered(old.number, old.epoch, answer(old.block))

    @invariant()
    def what_is_in_is_in(self) -> None:
        if hasattr(self, "panel"):
            assert len(self.out) <= self.window
            assert self.panel.done == (len(self.inside) == self.count)
            assert [release.first for release in self.panel.answers()] == [8 * one for one in sorted(self.inside)]

    def teardown(self) -> None:
        """Left alone with devices that answer, it asks every block and ends."""
        if not hasattr(self, "panel") or self.given_up:
            return
        while not self.panel.done:
            self.ask(0.0)
            if not self.out:
                assert self.panel.until is not None, "it neither asks nor waits"
                self.now = self.panel.until
            for question in self.out.values():
                assert self.panel.answered(question.number, question.epoch, answer(question.block))
            self.inside |= set(self.out)
            self.out.clear()
        assert len(self.inside) == self.count


TestDriven = Driven.TestCase
