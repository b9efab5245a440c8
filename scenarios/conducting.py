"""A coordinator on Ray, followed by the experimenter: rounds are kept as they end, one that dies is started anew."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ray

from coordinator.aggregator import CPUS
from coordinator.protocol.errors import BlindrecError, LostError
from coordinator.remote import Cohorts, Limits, start_coordinator
from coordinator.rounds import Outcome, Round
from scenarios.session import Job, Progress

POLL = 0.2
ROOM = 600.0
"""Seconds in which a run's actors must have started."""
PATIENCE = 60.0
"""Seconds without an answer after which a cluster without room is given up."""
MOST_COORDINATORS = 8
"""Coordinators that a run starts at most, one after the other."""


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


def conducted(job: Job, cohorts: Cohorts, progress: Progress, device_cpus: float) -> Conducted:
    """Let a coordinator conduct the rounds; where it dies, the next one goes on after the last round that was kept.

    Parameters
    ----------
    job : Job
    cohorts : Cohorts
        Whom to ask.
    progress : callable
        Told how many answers are in.
    device_cpus : float
        CPUs that the devices' actors set aside.

    Raises
    ------
    LostError
        If coordinators die again and again, or the cluster has no room left.
    """
    needs = device_cpus + CPUS * job.layout.workers
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
                room_for([server.warm_up.remote(query)])
            begin = time.perf_counter()
            outcome, seconds, tried = _follow(server, progress, keep, needs)
            return Conducted(outcome=outcome, seconds=spent + seconds, retries=retries + tried, restarts=restarts)
        except ray.exceptions.RayActorError as error:
            if error.actor_id not in (None, server._actor_id.hex()):
                raise
            spent += time.perf_counter() - begin
        finally:
            ray.kill(server)
    raise LostError(f"coordinators died {MOST_COORDINATORS} times; what was kept can be resumed")


def _follow(server: Any, progress: Progress, keep: Callable[[Round], None], needs: float) -> tuple[Outcome, float, int]:
    """Wait for the server's outcome; report progress and keep rounds meanwhile.

    Raises
    ------
    LostError
        If nothing happens for a while and the cluster has fewer CPUs left than the run's actors ``needs``.
    """
    running, kept, done = server.run.remote(), 0, False
    before, since = -1, time.monotonic()
    while not done:
        done = bool(ray.wait([running], timeout=POLL)[0])
        answers, rounds = ray.get([server.progress.remote(), server.new_rounds.remote(kept)])
        for over in rounds:
            keep(over)
        kept += len(rounds)
        progress(answers)
        if answers != before or rounds:
            before, since = answers, time.monotonic()
        elif time.monotonic() - since > PATIENCE and (left := cpus_of_cluster()) < needs:
            raise LostError(f"the cluster has {left:g} CPUs left, the run needs {needs:g}; add a node, then resume")
    try:
        outcome, seconds = ray.get(running)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, BlindrecError):
            raise error.cause from None  # without what Ray says around it
        raise
    return outcome, seconds, ray.get(server.retries.remote())


def room_for(started: list[Any]) -> None:
    """Wait until actors that were started are ready.

    Raises
    ------
    LostError
        If the cluster has no room for them.
    """
    try:
        ray.get(started, timeout=ROOM)
    except ray.exceptions.GetTimeoutError:
        raise LostError(
            f"the cluster had no room for the run's actors for {ROOM:g} s; free CPUs, add a node or lower workers"
        ) from None


def cpus_of_cluster() -> float:
    """Return how many CPUs the cluster's nodes have that are alive."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call] # Ray gives it no types
    return resources.get("CPU", 0.0)
