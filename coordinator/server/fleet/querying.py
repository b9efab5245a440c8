"""Rounds of queries on Ray: an aggregator adds up every block's release on the node where it is stored."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from coordinator.protocol.admitted import Own
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import no_release
from coordinator.server.fleet.aggregator import start_aggregators
from coordinator.server.fleet.carrying import Flight, carry
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.layout import Layout, cut
from coordinator.server.fleet.panel import Panel, Question
from coordinator.server.fleet.retrying import LOST, got, pause
from coordinator.server.rounds.conductor import Block, Check
from coordinator.server.rounds.state import Ask
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
        self._pool = start_aggregators(layout.workers, own)
        self._load = dict.fromkeys(range(layout.workers), 0)
        self._answers = 0

    def warm_up(self, query: Query) -> list[Any]:
        """Start the aggregators, and let them compile what ``query`` will need; return what to wait for."""
        return [aggregator.aggregate.remote(query, no_release(query)) for aggregator in self._pool]

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of ``ask``; see `coordinator.server.rounds.conductor.Transport`."""
        for attempt in itertools.count():
            self._answers = 0
            try:
                return self._fan_out(ask)
            except LOST as error:  # a statistic was lost, so the whole round is asked again
                pause(attempt, f"round {ask.query.round} was lost", error)
                self._retried(1)
                self._more(-self._answers)
                self._load = dict.fromkeys(self._load, 0)
        raise AssertionError  # counting does not end

    def _fan_out(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask all blocks of one round as its panel decides."""
        query = ray.put(ask.query)
        panel = Panel(self._blocks(ask), answers_to(ask.query), window=WINDOW * self._layout.workers)
        partial: deque[Any] = deque()

        def send(question: Question) -> Flight:
            return self._send(query, question)

        def landed(flight: Flight, counts: bool) -> None:
            self._load[self._worker.pop(flight.over)] -= 1
            if counts:
                block = flight.question.block
                self._answers += block.stop - block.first
                self._more(block.stop - block.first)
                partial.append(flight.over)
                self._reduce(partial, to=FAN_IN)

        self._worker: dict[Any, int] = {}
        carry(panel, send, landed, self._retried)
        return self._reduce(partial, to=1), sorted(panel.answers(), key=lambda release: release.first)

    def _send(self, query: Any, question: Question) -> Flight:
        """Ask a block, and let the least busy aggregator add up its answer."""
        block = question.block
        answer = block.host.ask.remote(query, block.first, block.stop)
        worker = min(self._load, key=self._load.__getitem__)
        statistic = self._pool[worker].aggregate.remote(query, answer)
        self._load[worker] += 1
        self._worker[statistic] = worker
        return Flight(question, answer, statistic)

    def _blocks(self, ask: Ask) -> Iterator[Block]:
        """Yield every block, taking cohorts in turn, so that all hosts have work from the start."""
        size = self._layout.block_of(ask.query.bits)
        calls = [
            deque(Block(one.host, *ends) for ends in cut(one.first, one.stop, size))
            for one in self._cohorts.blocks(ask.first, ask.stop)
        ]
        while calls := [queue for queue in calls if queue]:
            for queue in calls:
                yield queue.popleft()

    def _reduce(self, partial: deque[Any], *, to: int) -> Any:
        """Merge statistics, `FAN_IN` at a time, until at most ``to`` are left; return the last one where that is 1."""
        while len(partial) > to:
            few = [partial.popleft() for _ in range(min(FAN_IN, len(partial)))]
            partial.append(self._pool[0].merge.remote(*few))
        return got(partial[0]) if to == 1 else None


def answers_to(query: Query) -> Check:
    """Return a check that refuses everything but a block's own release to a query."""

    def check(block: Block, release: Any) -> None:
        Release.arrived(release).require(query)
        if (release.first, release.count) != (block.first, block.stop - block.first):
            raise InputError(
                f"{release.count} devices from {release.first} on answered, {block.name} were asked; let each block "
                "answer for itself"
            )

    return check
