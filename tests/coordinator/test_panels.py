"""The fleet: panels of a question, layouts of devices, and devices that rounds reach again in turn."""

import itertools
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
import worlds
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from worlds import answers, setting_of

from actors.ledger import Ledger
from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import require_answer
from coordinator.server.fleet.cohorts import MOST_BITS, MOST_BLOCKS, SMALLEST_BLOCK, Layout, calls, cut, plan_layout
from coordinator.server.fleet.panel import BlockRequest, Panel, pause_after
from coordinator.server.rounds.conductor import Block
from coordinator.server.rounds.policies import Fixed
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState, absorb
from coordinator.server.rounds.transcript import leaf_of

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


def test_an_answer_to_something_else_is_refused() -> None:
    panel = Panel(blocks(1), check, window=1)
    assert panel.question(0.0)
    with pytest.raises(InputError, match="8 devices from 8 on answered, devices 0 to 7 were asked"):
        panel.answered(0, 0, answer(Block(None, 8, 16)))
    other = worlds.maxsense_query(items=5, sensing=0.3, epsilon=Fraction(2))
    with pytest.raises(InputError, match="is no answer to"):
        panel.answered(0, 0, answer(Block(None, 0, 8), other))


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


def walk(setting: Setting, users: int, sizes: Iterator[int]) -> list[Ask]:
    """All rounds that a setting gives, each for as many devices as the next size says."""
    state, asks = ServerState(devices=users), list[Ask]()
    while (ask := setting.ask(state, users=next(sizes))) is not None:
        asks.append(ask)
        state = absorb(state, ask, worlds.empty_statistic(setting.design.items))
    return asks


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(1, 3), None])
@pytest.mark.parametrize("times", [1, 2, 3, 7])
def test_the_ring_asks_everybody_as_often_as_it_may_and_the_ledger_never_refuses(
    times: int, epsilon: Fraction | None
) -> None:
    setting = setting_of(epsilon=epsilon, answers_per_device=times)
    sizes = (int(size) for size in np.random.default_rng(times).integers(1, 40, 1000))
    asks = walk(setting, 23, sizes)
    assert answers(asks) == dict.fromkeys(range(23), times)
    assert [ask.query.round for ask in asks] == list(range(len(asks)))
    assert {ask.query.epsilon for ask in asks} == {None if epsilon is None else epsilon / times}
    ledger = Ledger(0, 23, epsilon)
    for ask in asks:
        assert 0 <= ask.first < ask.stop <= 23
        assert ledger.charge(ask.query, ask.first, ask.stop) == []
    assert {ledger.spent(device) for device in range(23)} == {epsilon}


def test_one_answer_more_or_a_budget_a_little_smaller_is_refused() -> None:
    """The twin: the ledger that never refused is exact to the last share."""
    setting = setting_of(answers_per_device=3)
    asks = walk(setting, 23, iter([10] * 100))
    full, short = Ledger(0, 23, Fraction(1)), Ledger(0, 23, Fraction(1) - Fraction(1, 10**30))
    for ask in asks:
        full.charge(ask.query, ask.first, ask.stop)
        last = short.charge(ask.query, ask.first, ask.stop)
    assert last == [(asks[-1].first, asks[-1].stop)]
    more = setting.design.query(round_number=99, public_seed=worlds.PUBLIC, epsilon=Fraction(1, 10**30))
    assert sum(stop - first for first, stop in full.charge(more, 0, 23)) == 23


@pytest.mark.parametrize(
    ("users", "rounds", "times"), [(100, 1, 1), (100, 4, 1), (10, 3, 1), (10, 6, 1), (11, 6, 3), (101, 10, 5)]
)
def test_fixed_rounds_are_as_many_as_asked_for_and_alike(users: int, rounds: int, times: int) -> None:
    setting = setting_of(answers_per_device=times)
    policy, state, asks = Fixed(setting=setting, rounds=rounds), ServerState(devices=users), list[Ask]()
    while (ask := policy.next_query(state)) is not None:
        asks.append(ask)
        state = absorb(state, ask, worlds.empty_statistic(20))
    sizes = [ask.stop - ask.first for ask in asks]
    assert len(asks) == rounds
    assert max(sizes) - min(sizes) <= -(-times * users // rounds) - 1
    assert answers(asks) == dict.fromkeys(range(users), times)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 90))
def test_a_cut_covers_everything_once(first: int, length: int, size: int) -> None:
    pieces = cut(first, first + length, size)
    assert [device for a, b in pieces for device in range(a, b)] == list(range(first, first + length))
    assert all(b - a == size for a, b in pieces[:-1])
    assert all(0 < b - a <= size for a, b in pieces)


@given(st.integers(1, 10**13), st.integers(1, 5000), st.integers(1, 2 * 10**8))
def test_blocks_are_whole_bytes_and_bring_back_few_bits(devices: int, workers: int, bits: int) -> None:
    layout = Layout(devices=devices, workers=workers, devices_per_actor=devices)
    block, leaf = layout.block_of(bits), leaf_of(bits)
    assert block % 8 == leaf % 8 == 0
    assert block * bits <= MOST_BITS or block == 8
    assert layout.block_of(1) >= SMALLEST_BLOCK
    assert layout.block_of(bits + 1) <= block
    assert block <= leaf or (block % leaf == 0 and devices > MOST_BLOCKS * leaf)


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**5), st.sampled_from([1, 100, 30_000]))
def test_calls_lie_in_a_leaf_or_are_whole_leaves(first: int, length: int, size: int, bits: int) -> None:
    leaf = leaf_of(bits)
    size = max(size, leaf // 50)
    pieces = calls(first, first + length, size, bits)
    assert pieces == sorted(pieces)
    assert sum(stop - start for start, stop in pieces) == length
    assert all(left[1] == right[0] for left, right in itertools.pairwise(pieces))
    for start, stop in pieces:
        assert 0 < stop - start <= size
        assert start // leaf == (stop - 1) // leaf or start % leaf == stop % leaf == 0


@pytest.mark.parametrize("name", ["devices", "workers", "devices_per_actor"])
def test_impossible_layouts_are_refused_by_name(name: str) -> None:
    with pytest.raises(InputError, match=rf"^{name} is 0; it must be at least 1$"):
        plan_layout(**{"devices": 10, "workers": 1, "devices_per_actor": 8, name: 0})
