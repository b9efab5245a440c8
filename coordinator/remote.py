"""The Ray edge of the server: the coordinator actor, its fan-out to devices, and aggregation where releases lie."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import ray

from coordinator.aggregation import Statistic, no_release
from coordinator.aggregator import start_aggregators
from coordinator.decoders import kmeans_on_line
from coordinator.layout import Layout, cut
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.messages import Query, Release
from coordinator.retrying import LOST, pause
from coordinator.rounds import MOST_ROUNDS, Learner, Outcome, Round, conduct
from coordinator.server import Ask, Policy

WINDOW = 3
"""Blocks in flight for each worker: enough to keep both sides busy, few enough to keep memory flat."""
FAN_IN = 8
"""Statistics that one merge adds up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohorts:
    """Addresses of the devices: which actor to call for which stretch.

    Attributes
    ----------
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending.
    hosts : list of ray.actor.ActorHandle
        One a cohort; a host may stand behind several.
    """

    bounds: list[tuple[int, int]]
    hosts: list[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a policy may ask for, and where it starts.

    Attributes
    ----------
    budget : Fraction or None
        What a device may spend in all [nats]; public.
    most_rounds : int
        A policy that goes on after so many rounds is stopped.
    earlier : sequence of Round
        Rounds that an interrupted run went through.
    """

    budget: Epsilon
    most_rounds: int = MOST_ROUNDS
    earlier: Sequence[Round] = ()


class Block(NamedTuple):
    """Devices ``first`` to ``stop - 1`` behind one host; ``epoch`` counts how often they were asked in vain."""

    host: Any
    first: int
    stop: int
    epoch: int = 0


class Call(NamedTuple):
    """A block in flight: its answer and its statistic are references."""

    block: Block
    worker: int
    answer: Any
    statistic: Any


class Coordinator:
    """The untrusted server as an actor: it conducts the rounds, and tells how far they are.

    Parameters
    ----------
    policy : Policy
        Which query comes next.
    learner : Learner
        How statistics become a model.
    cohorts : Cohorts
        Whom to ask.
    layout : Layout
        Number of devices, workers, and devices a call.
    limits : Limits
        What the policy may ask for, and what an interrupted run asked already.
    """

    def __init__(self, policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout, limits: Limits) -> None:
        self._policy, self._learner, self._cohorts, self._layout = policy, learner, cohorts, layout
        self._limits, self._rounds = limits, list[Round]()
        self._pool = start_aggregators(layout.workers)
        self._load = dict.fromkeys(range(layout.workers), 0)
        self._answers = 0
        self._retries = 0

    def warm_up(self, query: Query) -> None:
        """Start the server's processes and compile what ``query`` will need, before the clock runs."""
        ray.get([aggregator.aggregate.remote(query, no_release(query)) for aggregator in self._pool])
        kmeans_on_line(np.arange(4.0), 2)

    def progress(self) -> int:
        """Return how many answers have been aggregated so far, over all rounds."""
        return self._answers

    def retries(self) -> int:
        """Return how many blocks were asked again, or rounds begun anew, since a process or a node died."""
        return self._retries

    def run(self) -> tuple[Outcome, float]:
        """Conduct the rounds; return the outcome and its seconds, from the first question to the decoded model."""
        start = time.perf_counter()
        outcome = conduct(
            self._policy,
            self._learner,
            self,
            devices=self._layout.devices,
            budget=self._limits.budget,
            most_rounds=self._limits.most_rounds,
            earlier=self._limits.earlier,
            keep=self._rounds.append,
        )
        return outcome, time.perf_counter() - start

    def new_rounds(self, since: int) -> list[Round]:
        """Return the rounds that are over since so many were, for whoever keeps them."""
        return self._rounds[since:]

    def recall(self, ask: Ask) -> None:
        """Let devices book an earlier question; see `coordinator.rounds.Transport`."""
        for attempt in itertools.count():
            try:
                ray.get([host.recall.remote(ask.query, first, stop) for host, first, stop, _ in self._blocks(ask)])
                break
            except LOST as error:
                self._again(attempt, f"devices {ask.first} to {ask.stop - 1} could not book {ask.query}", error)
        self._answers += ask.stop - ask.first

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of ``ask``; see `coordinator.rounds.Transport`."""
        before = self._answers
        for attempt in itertools.count():
            try:
                return self._fan_out(ask)
            except LOST as error:  # a statistic was lost: the round is asked again from its start
                self._again(attempt, f"round {ask.query.round} was lost", error)
                self._answers = before
                self._load = dict.fromkeys(self._load, 0)
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, BlindrecError):
                    raise error.cause from None  # without what Ray says around it
                raise
        raise AssertionError  # counting does not end

    def _again(self, attempt: int, what: str, error: Exception) -> None:
        """Count a retry, and wait before it; see `coordinator.retrying.pause`."""
        pause(attempt, what, error)
        self._retries += 1

    def _fan_out(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        query = ray.put(ask.query)
        waiting = self._blocks(ask)
        again: deque[Block] = deque()
        releases: list[Release] = []
        partial: deque[Any] = deque()
        flying: dict[Any, Call] = {}
        while True:
            while len(flying) < WINDOW * self._layout.workers:
                block = again.popleft() if again else next(waiting, None)
                if block is None:
                    break
                call = self._call(query, block)
                flying[call.statistic] = call
            if not flying:
                return self._reduce(partial, to=1), releases
            (done, *_), _ = ray.wait(list(flying), num_returns=1)
            call = flying.pop(done)
            self._load[call.worker] -= 1
            try:
                releases.append(self._received(ask.query, call))
            except LOST as error:
                self._again(call.block.epoch, f"devices {call.block.first} to {call.block.stop - 1} were lost", error)
                again.append(call.block._replace(epoch=call.block.epoch + 1))
                continue
            self._answers += releases[-1].count
            partial.append(done)
            self._reduce(partial, to=FAN_IN)

    def _call(self, query: Any, block: Block) -> Call:
        """Ask a block, and let the least busy aggregator wait for its answer."""
        answer = block.host.answer.remote(query, block.first, block.stop)
        worker = min(self._load, key=self._load.__getitem__)
        self._load[worker] += 1
        return Call(block, worker, answer, self._pool[worker].aggregate.remote(query, answer))

    def _received(self, query: Query, call: Call) -> Release:
        """Return a block's release.

        Only the call of a block's last epoch is waited for: what an earlier one, or a process taken for dead, still
        brings in is dropped with its reference.
        """
        release: Release = ray.get(call.answer)
        release.require(query)
        if (release.first, release.count) != (call.block.first, call.block.stop - call.block.first):
            raise ValueError(f"release of devices from {release.first} on is no answer of block {call.block.first}")
        return release

    def _blocks(self, ask: Ask) -> Iterator[Block]:
        """Yield every block, cohorts in turn, so that all hosts work from the start."""
        block = self._layout.block_of(ask.query.bits)
        calls = [
            deque(Block(host, a, b) for a, b in cut(max(first, ask.first), min(stop, ask.stop), block))
            for (first, stop), host in zip(self._cohorts.bounds, self._cohorts.hosts, strict=True)
        ]
        while calls := [queue for queue in calls if queue]:
            for queue in calls:
                yield queue.popleft()

    def _reduce(self, partial: deque[Any], *, to: int) -> Any:
        """Merge statistics, `FAN_IN` at a time, until at most ``to`` are left; return the last one where that is 1."""
        while len(partial) > to:
            few = [partial.popleft() for _ in range(min(FAN_IN, len(partial)))]
            partial.append(self._pool[0].merge.remote(*few))
        return ray.get(partial[0]) if to == 1 else None


def start_coordinator(policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout, limits: Limits) -> Any:
    """Start a `Coordinator` as a Ray actor; its second thread answers `Coordinator.progress` while rounds run.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(Coordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(policy, learner, cohorts, layout, limits)
