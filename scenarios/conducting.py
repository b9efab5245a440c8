"""A coordinator on Ray, followed by the experimenter: rounds are kept as they end, one that dies is started anew."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import ray

from coordinator.protocol.errors import LostError
from coordinator.remote import FIRST_PAUSE, LONGEST_PAUSE, LOST, MOST_ATTEMPTS, Cohorts, Limits, start_coordinator
from coordinator.rounds import Outcome, Round
from scenarios.session import Job, Progress

POLL = 0.2
MOST_COORDINATORS = 8
"""Coordinators that a run starts at most, one after the other."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted:
    """What coordinators bring back.

    Attributes
    ----------
    outcome : Outcome
    seconds : float
        From the first question to the decoded model, the time until a dead coordinator was missed included.
    retries : int
        Blocks and rounds that were asked again.
    restarts : int
        Coordinators that died.
    """

    outcome: Outcome
    seconds: float
    retries: int
    restarts: int


def conducted(job: Job, cohorts: Cohorts, progress: Progress) -> Conducted:
    """Let a coordinator conduct the rounds; where it dies, the next one goes on after the last round that was kept.

    Raises
    ------
    LostError
        If coordinators die again and again.
    """
    rounds: list[Round] = list(job.earlier)

    def keep(over: Round) -> None:
        job.keep(over)
        rounds.append(over)

    spent, retries = 0.0, 0
    for restarts in range(MOST_COORDINATORS):
        limits = Limits(budget=job.budget, most_rounds=job.most_rounds, earlier=tuple(rounds))
        server = start_coordinator(job.policy, job.learner, cohorts, job.layout, limits)
        begin = time.perf_counter()
        try:
            if query := job.first_query():
                ray.get(server.warm_up.remote(query))
            begin = time.perf_counter()
            outcome, seconds, tried = _follow(server, progress, keep)
            return Conducted(outcome=outcome, seconds=spent + seconds, retries=retries + tried, restarts=restarts)
        except ray.exceptions.RayActorError as error:
            if error.actor_id not in (None, server._actor_id.hex()):
                raise
            spent += time.perf_counter() - begin
        finally:
            ray.kill(server)
    raise LostError(f"coordinators died {MOST_COORDINATORS} times; what was kept can be resumed")


def _follow(server: Any, progress: Progress, keep: Callable[[Round], None]) -> tuple[Outcome, float, int]:
    """Wait for the server's outcome; report progress and keep rounds meanwhile."""
    running, kept, done = server.run.remote(), 0, False
    while not done:
        done = bool(ray.wait([running], timeout=POLL)[0])
        answers, rounds = ray.get([server.progress.remote(), server.new_rounds.remote(kept)])
        for over in rounds:
            keep(over)
        kept += len(rounds)
        progress(answers)
    outcome, seconds = ray.get(running)
    return outcome, seconds, ray.get(server.retries.remote())


def again(attempt: Callable[[], T]) -> T:
    """Return what an attempt brings; make it again where a process died meanwhile. It must do no harm twice.

    Raises
    ------
    LostError
        If too many fail.
    """
    for number in itertools.count(1):
        try:
            return attempt()
        except LOST as error:
            if number == MOST_ATTEMPTS:
                raise LostError(f"devices cannot be reached ({type(error).__name__}), {number} times") from None
            time.sleep(min(FIRST_PAUSE * 2**number, LONGEST_PAUSE))
    raise AssertionError  # counting does not end
