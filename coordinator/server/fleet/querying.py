"""Rounds of queries on Ray: an aggregator adds up every block's release on the node where it is stored.

With one worker the coordinator's own process does it, while the worker is at the next block.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from coordinator.protocol.admitted import Own
from coordinator.protocol.messages import Query, Release
from coordinator.server.fleet.aggregator import Aggregator, alone, start_aggregators
from coordinator.server.fleet.carrying import Flight, carry
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.layout import Layout, calls, require_round
from coordinator.server.fleet.panel import Panel, Question
from coordinator.server.fleet.retrying import LOST, got, pause
from coordinator.server.rounds.conductor import Block
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed
from coordinator.server.statistics.statistic import Statistic

WINDOW = 3
"""Blocks in flight for each worker: enough to keep both sides busy, few enough to keep memory flat."""
FAN_IN = 8
"""Statistics that one merge adds up."""
Count = Callable[[int], None]


class Querying:
    """Carries queries to devices behind actors; see `coordinator.server.rounds.conductor.Transport`.

    Parameters
    ----------
    cohorts : Cohorts
        Which host has which addresses.
    layout : Layout
        Number of workers, and of devices in a call.
    own : Own or None
        The experimenter's own mechanism.
    more, retried : callable
        Called with the number of new answers, and of repeated calls.
    """

    def __init__(self, cohorts: Cohorts, layout: Layout, own: Own | None, *, more: Count, retried: Count) -> None:
        self._cohorts, self._layout, self._more, self._retried = cohorts, layout, more, retried
        self._here = Aggregator() if alone(layout.workers, own) else None
        self._pool = [] if self._here else start_aggregators(layout.workers, own)
        self._free: deque[Any] = deque()
        self._answers = 0

    def warm_up(self, query: Query) -> list[Any]:
        """Start the aggregators, and let them compile what ``query`` will need; return what to wait for."""
        if self._here:
            self._here.warm_up(query)
        return [aggregator.warm_up.remote(query) for aggregator in self._pool]

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every device of ``ask``; see `coordinator.server.rounds.conductor.Transport`."""
        require_round(ask.query, 0)  # devices' hosts look after themselves
        for attempt in itertools.count():
            self._answers = 0
            try:
                return self._fan_out(ask)
            except LOST as error:  # a statistic was lost, so the whole round is asked again
                pause(attempt, f"round {ask.query.round} was lost", error)
                self._retried(1)
                self._more(-self._answers)
        raise AssertionError  # counting does not end

    def _fan_out(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask all blocks of one round as its panel decides."""
        query = ray.put(ask.query)
        panel = Panel(self._blocks(ask), lambda *_: None, window=WINDOW * self._layout.workers)
        self._free = deque(itertools.islice(itertools.cycle(self._pool), WINDOW * self._layout.workers))
        sent: dict[Any, tuple[Any, Any]] = {}
        partial: deque[Any] = deque()

        def send(question: Question) -> Flight:
            block = question.block
            if self._here:
                answer = block.host.ask.remote(query, block.first, block.stop)
                return Flight(question, answer, answer)
            aggregator = self._free.popleft()
            answer = block.host.ask.remote(query, block.first, block.stop)
            adding_up = aggregator.aggregate.options(num_returns=2)
            statistic, sealed = adding_up.remote(query, answer, block.first, block.stop)
            sent[sealed] = aggregator, statistic
            return Flight(question, answer, sealed)

        def made(flight: Flight, answer: Any) -> Any:
            if self._here is None:
                return answer
            _, first, stop, _ = flight.question.block
            statistic, sealed = self._here.aggregate(ask.query, answer, first, stop)
            sent[flight.over] = None, statistic
            return sealed

        def landed(flight: Flight, counts: bool) -> None:
            aggregator, statistic = sent.pop(flight.over, (None, None))  # a lost answer was not added up here
            if aggregator is not None:
                self._free.append(aggregator)
            if counts:
                block = flight.question.block
                self._answers += block.stop - block.first
                self._more(block.stop - block.first)
                partial.append(statistic)
                self._reduce(partial, to=FAN_IN)

        carry(panel, send, landed, self._retried, made)
        return self._reduce(partial, to=1), sorted(panel.answers(), key=lambda release: release.first)

    def _blocks(self, ask: Ask) -> Iterator[Block]:
        """Yield every block, taking cohorts in turn, so that all hosts have work from the start."""
        bits = ask.query.bits
        size = self._layout.block_of(bits)
        waiting = [
            deque(Block(one.host, *ends) for ends in calls(one.first, one.stop, size, bits))
            for one in self._cohorts.blocks(ask.first, ask.stop)
        ]
        while waiting := [queue for queue in waiting if queue]:
            for queue in waiting:
                yield queue.popleft()

    def _reduce(self, partial: deque[Any], *, to: int) -> Any:
        """Merge statistics, `FAN_IN` at a time, until at most ``to`` are left; return the last one where that is 1."""
        while len(partial) > to:
            few = [partial.popleft() for _ in range(min(FAN_IN, len(partial)))]
            partial.append(self._here.merge(*few) if self._here else self._free[0].merge.remote(*few))
        if to > 1:
            return None
        return partial[0] if self._here else got(partial[0])
