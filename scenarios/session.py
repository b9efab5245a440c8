"""Where a run happens: in this process, or on Ray. The same devices and the same server behind both."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from actors.absence import PRESENT, Absence
from actors.device import Cohort
from actors.keeper import Keeper
from actors.ratings import Ratings
from coordinator.protocol.admitted import admit
from coordinator.protocol.arrays import Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.fleet.layout import Layout, cut
from coordinator.server.rounds.asking import next_ask, whose
from coordinator.server.rounds.conductor import Learner, Outcome, Round, conduct
from coordinator.server.rounds.state import Ask, Policy, ServerState
from coordinator.server.server_half import MOST_ROUNDS
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.shared_sets import answer, rehearse
from scenarios.store.round_store import Kept, Nowhere
from scenarios.worker_threads import A, R, work

Progress = Callable[[int], None]
"""Told how many answers are in so far."""
Spent = tuple[int, int, Epsilon]
"""First device, the one after the last, and what each of them has spent [nats]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run as a backend needs it: the private side's share, the server's share, and the layout.

    Attributes
    ----------
    ratings : Ratings
        Private: goes to devices only.
    secret : bytes
        Private: the population's master secret.
    budget : Fraction or None
        Each device's budget [nats].
    policy, learner
        The server's.
    layout : Layout
        Speed only.
    most_rounds : int
        A policy that goes on after so many rounds is stopped.
    rounds : Kept
        Those that an interrupted run went through; told every new one.
    ledger : Path or None
        Folder in which the devices' keeper keeps what they have spent; None: in memory only.
    absence : Absence
        Which devices drop out, or answer too late.
    """

    ratings: Ratings
    secret: bytes
    budget: Epsilon
    policy: Policy
    learner: Learner
    layout: Layout
    most_rounds: int = MOST_ROUNDS
    rounds: Kept = field(default_factory=Nowhere)
    ledger: Path | None = None
    absence: Absence = PRESENT

    def first_query(self) -> Query | None:
        """Return the query that the policy starts with, to compile what it needs; policies are pure."""
        start = ServerState(devices=self.layout.devices, budget=self.budget)
        ask = next_ask(self.policy, start, most_rounds=self.most_rounds)
        return ask.query if ask else None

    @contextmanager
    def naming_policy(self) -> Iterator[None]:
        """Name the policy where devices refuse its first query.

        Raises
        ------
        PolicyError
            Their complaint.
        """
        try:
            yield
        except InputError as error:
            start = ServerState(devices=self.layout.devices)
            raise PolicyError(f"{whose(self.policy, start)}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a backend brings back.

    Attributes
    ----------
    outcome : Outcome
        The server's.
    seconds : float
        From the first question to the decoded model.
    advice : ndarray of int32, shape (advised devices, k)
        Each advised device's own top k.
    actors : int
        Ray actors that embodied devices; 0 in process.
    spent : sequence of (int, int, Fraction or None)
        What devices have spent, by stretches ``(first, stop, spent)`` [nats].
    retries : int
        Blocks and rounds that were asked again since a process died.
    restarts : int
        Coordinators that were started since one died.
    """

    outcome: Outcome
    seconds: float
    advice: Indices2
    actors: int
    spent: Sequence[Spent] = ()
    retries: int = 0
    restarts: int = 0


def check_workers(workers: int | None) -> None:
    """Refuse a backend without a worker; None stands for one a CPU."""
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")


class Session(Protocol):
    """A backend that is ready to run jobs."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def workers(self) -> int:
        """Device blocks computed at the same time."""
        ...

    def run(self, job: Job, *, advised: int, top: int, progress: Progress) -> Ran:
        """Run a job; let the first ``advised`` devices draw their own ``top`` recommendations from the model."""
        ...

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield (place, function of the argument there) as they are completed, ``workers`` at the same time."""
        ...


class InProcess:
    """No Ray: cohorts in this process, ``workers`` threads. For tests, debugging and small runs.

    Parameters
    ----------
    workers : int, optional
        Threads; default: one a CPU.

    Raises
    ------
    InputError
        If there is no worker.
    """

    name = "inprocess"

    def __init__(self, workers: int | None = None) -> None:
        check_workers(workers)
        self.workers = workers or os.cpu_count() or 1

    def __repr__(self) -> str:
        return f"InProcess(workers={self.workers})"

    def run(self, job: Job, *, advised: int, top: int, progress: Progress) -> Ran:
        """Run a job; see `Session.run`."""
        admit(job.learner.own)
        keeper = Keeper(job.ledger)
        cohorts = [
            Cohort(job.ratings, job.secret, first, stop, job.budget, keeper=keeper, absence=job.absence)
            for first, stop in job.layout.cohorts
        ]
        if query := job.first_query():
            with job.naming_policy():
                rehearse(query, job.ratings, job.secret, cohorts[0])
        with ThreadPoolExecutor(self.workers) as threads:
            transport = _Threads(job, cohorts, threads, progress)
            start = time.perf_counter()
            outcome = conduct(
                job.policy,
                job.learner,
                transport,
                devices=job.layout.devices,
                budget=job.budget,
                most_rounds=job.most_rounds,
                earlier=transport.over(job.rounds),
                keep=job.rounds.keep,
            )
            seconds = time.perf_counter() - start
        return Ran(
            outcome=outcome,
            seconds=seconds,
            advice=_advise(cohorts, outcome.model, advised, top),
            actors=0,
            spent=[stretch for cohort in cohorts for stretch in cohort.ledger.stretches()],
        )

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Generator[tuple[int, R], None, None]:
        """Yield results as they are completed; see `Session.each`, and `stop_if_abandoned` for long functions."""
        if self.workers == 1:
            for place, argument in enumerate(arguments):
                yield place, function(argument)
            return
        todo: queue.SimpleQueue[tuple[int, A]] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[int, R | None, BaseException | None]] = queue.SimpleQueue()
        stop = threading.Event()
        for numbered in enumerate(arguments):
            todo.put(numbered)
        count = min(self.workers, len(arguments))
        threads = [threading.Thread(target=work, args=(function, todo, done, stop), daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        try:
            for _ in arguments:
                place, result, error = done.get()
                if error is not None:
                    raise error
                yield place, result  # type: ignore[misc] # a result where there is no error
        finally:
            stop.set()
            for thread in threads:
                thread.join()


class _Threads:
    def __init__(self, job: Job, cohorts: list[Cohort], threads: ThreadPoolExecutor, progress: Progress) -> None:
        self._job, self._cohorts, self._threads, self._progress = job, cohorts, threads, progress
        self._answers = 0

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Ask every cohort block by block; see `coordinator.server.rounds.conductor.Transport`."""
        block = self._job.layout.block_of(ask.query.bits)
        blocks = [
            (cohort, first, stop)
            for cohort in self._cohorts
            for first, stop in cut(max(cohort.first, ask.first), min(cohort.stop, ask.stop), block)
        ]
        total: Statistic | None = None
        releases: list[Release] = []
        ratings, secret = self._job.ratings, self._job.secret
        for statistic, release in self._threads.map(lambda block: answer(ask.query, ratings, secret, *block), blocks):
            total = statistic if total is None else merge(total, statistic)
            releases.append(release)
            self._answers += release.count
            self._progress(self._answers)
        return total or aggregate(ask.query, no_release(ask.query)), releases

    def over(self, rounds: Iterable[Round]) -> Iterator[Round]:
        """Yield rounds that are over, and report them as progress."""
        for one in rounds:
            yield one
            self._answers += one.ask.stop - one.ask.first
            self._progress(self._answers)


def _advise(cohorts: list[Cohort], model: Model, advised: int, top: int) -> Indices2:
    parts = [
        cohort.recommend(model, cohort.first, min(cohort.stop, advised), top)
        for cohort in cohorts
        if cohort.first < advised
    ]
    return np.concatenate(parts) if parts else np.empty((0, top), np.int32)
