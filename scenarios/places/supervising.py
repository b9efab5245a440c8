"""A coordinator on Ray, followed by the experimenter: rounds are kept as they end, one that dies is started anew."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic

import ray

from actors.keeper import Books
from coordinator.protocol.errors import LostError
from coordinator.protocol.messages import Query
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.coordinator import start_coordinator
from coordinator.server.fleet.retrying import got
from scenarios.places.session import O, Progress, R, T, Work
from scenarios.spending import require_there

POLL, POLL_AGAIN = 0.2, 0.02
"""Seconds between two looks at the coordinator; the second where it waits for that, or more rounds may be there."""
ROOM = 600.0
"""Seconds in which a run's actors must have started."""
PATIENCE = 60.0
"""Seconds without an answer after which a cluster that has lost CPUs is given up, and a user is told of the wait."""
MOST_COORDINATORS = 8
"""Coordinators that a run starts at most, one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducted(Generic[O]):
    """What coordinators bring back.

    Attributes
    ----------
    outcome : object
        Of the plan.
    seconds : float
        From the first question to the outcome, the time until a dead coordinator was missed included.
    retries : int
        Blocks and rounds that were asked again.
    restarts : int
        Coordinators that died.
    """

    outcome: O
    seconds: float
    retries: int
    restarts: int


def conducted(
    work: Work[R, O, T],
    devices: Mapping[str, Cohorts],
    keeper: Books,
    progress: Progress,
    query: Query | None,
    needs: float,
) -> Conducted[O]:
    """Let a coordinator conduct the rounds; where it dies, the next one goes on after the last round that was kept.

    Parameters
    ----------
    work : Work
    devices : dict of Cohorts
        Whom to ask, by kind.
    keeper : Books
        Of what devices have booked; the coordinator never gets it.
    progress : callable
        Told how much is in.
    query : Query or None
        The first one, for the coordinator to warm up.
    needs : float
        CPUs that the run's actors set aside.

    Raises
    ------
    LostError
        If coordinators die again and again, the cluster has no room left, or the keeper is lost.
    """
    before, retries = 0.0, 0
    for restarts in range(MOST_COORDINATORS):
        server = start_coordinator(work.plan, devices, work.layout)
        begin = time.perf_counter()
        try:
            if query:
                room_for([server.warm_up.remote(query)], needs)
            begin = time.perf_counter()
            for over in work.kept:
                got(server.repeat.remote(over))
            before += time.perf_counter() - begin
            begin = time.perf_counter()
            look = POLL_AGAIN if work.plan.in_step else POLL
            outcome, seconds, tried = _follow(server, keeper, progress, work.kept.keep, needs, look)
            return Conducted(outcome=outcome, seconds=before + seconds, retries=retries + tried, restarts=restarts)
        except ray.exceptions.RayActorError as error:
            if error.actor_id not in (None, server._actor_id.hex()):
                raise
            before += time.perf_counter() - begin
        finally:
            ray.kill(server)
    raise LostError(f"coordinators died {MOST_COORDINATORS} times; what was kept can be resumed")


def _follow(
    server: Any, keeper: Books, progress: Progress, keep: Callable[[Any], None], needs: float, look: float
) -> tuple[Any, float, int]:
    """Wait for the server's outcome; report progress and keep rounds meanwhile.

    Raises
    ------
    LostError
        If nothing happens for a while and the cluster has fewer CPUs left than the run's actors ``needs``; or if the
        keeper is lost: rounds that devices refused since are not kept.
    """
    running, kept, done, rounds = server.run.remote(), 0, False, list[Any]()
    before, since = -1, time.monotonic()
    while not done:
        done = bool(ray.wait([running], timeout=POLL_AGAIN if rounds else look)[0])
        count, rounds = ray.get([server.progress.remote(), server.new_rounds.remote(kept)])
        require_there(keeper)
        for over in rounds:
            keep(over)
        kept += len(rounds)
        progress(count)
        if count != before or rounds:
            before, since = count, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            _require(needs)
    outcome, seconds = got(running)
    return outcome, seconds, ray.get(server.retries.remote())


def patient(answers: list[Any], needs: float) -> list[Any]:
    """Return what references hold, however long it takes, while the cluster can hold the run's actors.

    Raises
    ------
    LostError
        If it has fewer CPUs left than they need: then nobody is there who will answer.
    """
    while len(ray.wait(answers, num_returns=len(answers), timeout=PATIENCE)[0]) < len(answers):
        _require(needs)
    told: list[Any] = got(answers)
    return told


def room_for(started: list[Any], needs: float) -> None:
    """Wait until actors that were started are ready; say so on standard error where it takes long.

    Raises
    ------
    LostError
        If the cluster has no room for them, or no longer has the CPUs that the run's actors need.
    """
    for seconds in (PATIENCE, ROOM - PATIENCE):
        try:
            got(started, within=seconds)
        except ray.exceptions.GetTimeoutError:
            _require(needs)
            if seconds == PATIENCE:
                sys.stderr.write(
                    f"blindrec: some of the run's actors have not started after {PATIENCE:g} s ({_free()}); waiting "
                    f"{ROOM - PATIENCE:g} s more\n"
                )
        else:
            return
    raise LostError(
        f"the cluster had no room for the run's actors for {ROOM:g} s ({_free()}); free CPUs, add a node or lower "
        "workers"
    )


def _require(needs: float) -> None:
    """Refuse to wait any longer on a cluster that has lost what the run's actors need."""
    if (left := cpus_of_cluster()) < needs:
        raise LostError(f"the cluster has {left:g} CPUs left, the run needs {needs:g}; add a node, then resume")


def _free() -> str:
    free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call] # Ray gives it no types
    return f"{free.get('CPU', 0.0):g} of {cpus_of_cluster():g} CPUs are free"


def cpus_of_cluster() -> float:
    """Return how many CPUs the cluster's nodes have that are alive."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call] # Ray gives it no types
    return resources.get("CPU", 0.0)
