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

from coordinator.protocol.admitted import admit
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import no_release
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.fleet.aggregator import start_aggregators
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.layout import Layout, cut
from coordinator.server.fleet.panel import Block, Panel, Question
from coordinator.server.fleet.retrying import LOST, got, pause
from coordinator.server.rounds.conductor import Conductor, Learner, Outcome, Round
from coordinator.server.rounds.state import Ask, Policy
from coordinator.server.server_half import MOST_ROUNDS
from coordinator.server.statistics.statistic import Statistic

WINDOW = 3
"""Blocks in flight for each worker: enough to keep both sides busy, few enough to keep memory flat."""
MOST_HELD, HELD_PAUSE = 16, 0.005
"""Rounds that wait to be fetched at most, and the seconds after which the coordinator looks again."""
FAN_IN = 8
"""Statistics that one merge adds up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a policy may ask for.

    Attributes
    ----------
    budget : Fraction or None
        What a device may spend in all [nats]; public.
    most_rounds : int
        A policy that goes on after so many rounds is stopped.
    """

    budget: Epsilon
    most_rounds: int = MOST_ROUNDS


class Call(NamedTuple):
    """A question in flight: its answer and its statistic are references."""

    question: Question
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
        What the policy may ask for.
    """

    def __init__(self, policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout, limits: Limits) -> None:
        admit(learner.own)
        self._cohorts, self._layout = cohorts, layout
        self._conductor = Conductor(
            policy, learner, self, devices=layout.devices, budget=limits.budget, most_rounds=limits.most_rounds
        )
        self._rounds: deque[Round] = deque()
        self._fetched = 0
        self._pool = start_aggregators(layout.workers, learner.own)
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
        outcome = self._conductor.run(self._keep)
        return outcome, time.perf_counter() - start

    def repeat(self, over: Round) -> None:
        """Go over a round that an earlier coordinator conducted; before `run`, in order."""
        self._conductor.repeat(over)
        self._answers += over.ask.stop - over.ask.first

    def _keep(self, over: Round) -> None:
        """Hold a round until it is fetched; wait where whoever fetches them lags behind."""
        self._rounds.append(over)
        while len(self._rounds) > MOST_HELD:
            time.sleep(HELD_PAUSE)

    def new_rounds(self, since: int) -> list[Round]:
        """Return the rounds that are over since so many were, for whoever keeps them; those before are dropped."""
        while self._fetched < since:
            self._rounds.popleft()
            self._fetched += 1
        return list(self._rounds)

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every device of ``ask``; see `coordinator.server.rounds.conductor.Transport`."""
        before = self._answers
        for attempt in itertools.count():
            try:
                return self._fan_out(ask)
            except LOST as error:  # a statistic was lost: the round is asked again from its start
                self._again(attempt, f"round {ask.query.round} was lost", error)
                self._answers = before
                self._load = dict.fromkeys(self._load, 0)
        raise AssertionError  # counting does not end

    def _again(self, attempt: int, what: str, error: Exception) -> None:
        """Count a retry, and wait before it; see `coordinator.server.fleet.retrying.pause`."""
        pause(attempt, what, error)
        self._retries += 1

    def _fan_out(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Carry out what the round's panel decides."""
        query = ray.put(ask.query)
        panel = Panel(ask.query, self._blocks(ask), window=WINDOW * self._layout.workers)
        partial: deque[Any] = deque()
        flying: dict[Any, Call] = {}
        while not panel.done:
            while question := panel.question(time.monotonic()):
                call = self._call(query, question)
                flying[call.statistic] = call
            if (done := _first(flying, panel.until)) is None:
                continue
            call = flying.pop(done)
            self._load[call.worker] -= 1
            if self._counts(panel, call):
                partial.append(done)
                self._reduce(partial, to=FAN_IN)
        return self._reduce(partial, to=1), panel.releases()

    def _call(self, query: Any, question: Question) -> Call:
        """Ask a block, and let the least busy aggregator wait for its answer."""
        block = question.block
        answer = block.host.answer.remote(query, block.first, block.stop)
        worker = min(self._load, key=self._load.__getitem__)
        self._load[worker] += 1
        return Call(question, worker, answer, self._pool[worker].aggregate.remote(query, answer))

    def _counts(self, panel: Panel, call: Call) -> bool:
        """Tell the panel what came of a call; return whether it was an answer that counts."""
        number, epoch, block = call.question
        try:
            release: Release = got(call.answer)
        except LOST as error:
            self._retries += panel.lost(number, epoch, time.monotonic(), error)
            return False
        counts = panel.answered(number, epoch, release)
        self._answers += counts * (block.stop - block.first)
        return counts

    def _blocks(self, ask: Ask) -> Iterator[Block]:
        """Yield every block, cohorts in turn, so that all hosts work from the start."""
        block = self._layout.block_of(ask.query.bits)
        calls = [
            deque(Block(host, a, b) for a, b in cut(first, stop, block))
            for host, first, stop in self._cohorts.parts(ask)
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


def _first(flying: dict[Any, Call], until: float | None) -> Any:
    """Wait for one of the calls in flight, or until some moment; return its statistic's reference, or None."""
    left = None if until is None else max(0.0, until - time.monotonic())
    if not flying:
        time.sleep(left or 0.0)
        return None
    done, _ = ray.wait(list(flying), num_returns=1, timeout=left)
    return done[0] if done else None


def start_coordinator(policy: Policy, learner: Learner, cohorts: Cohorts, layout: Layout, limits: Limits) -> Any:
    """Start a `Coordinator` as a Ray actor; its second thread answers `Coordinator.progress` while rounds run.

    Returns
    -------
    ray.actor.ActorHandle
    """
    actor: Any = ray.remote(Coordinator)
    return actor.options(num_cpus=0, max_concurrency=2).remote(policy, learner, cohorts, layout, limits)
