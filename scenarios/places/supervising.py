"""Supervision of a coordinator on Ray: rounds are stored as they end, and a coordinator that dies is replaced."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import ray

from actors.ledger import LedgerClient
from coordinator.protocol.errors import LostError
from coordinator.protocol.messages import Query
from coordinator.server.fleet.calls import LOST, pause, result_of
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.fleet.coordinator import start_coordinator
from coordinator.server.rounds.state import RunProgress
from scenarios.places.session import BackendJob, Costs, O, Progress, R, T
from scenarios.places.spending import require_there

POLL, POLL_AGAIN = 0.2, 0.02
"""Seconds between two calls of the coordinator, and the shorter time while it waits to have a round stored."""
ROOM = 600.0
"""Seconds in which a run's actors must have started."""
PATIENCE = 60.0
"""Seconds without an answer after which the user is informed, and a cluster with too few CPUs is given up."""


def run_supervised(
    work: BackendJob[R, O, T],
    devices: Mapping[str, Cohorts],
    keeper: LedgerClient,
    progress: Progress,
    query: Query | None,
    needs: float,
    devices_ready: Callable[[], None],
    measured: str | None = None,
) -> tuple[O, Costs]:
    """Let a coordinator run the rounds; if it dies, a new one continues after the last stored round."""
    before, retries = 0.0, 0
    for restarts in itertools.count():
        server = start_coordinator(work.plan, devices, work.layout, measured)
        begin = time.perf_counter()
        try:
            warming = [server.warm_up.remote(query)] if query else []
            if not restarts:
                devices_ready()
            await_capacity(warming, needs)
            begin = time.perf_counter()
            for over in work.records:
                result_of(server.replay.remote(over))
            before += time.perf_counter() - begin
            begin = time.perf_counter()
            look = POLL_AGAIN if work.plan.in_step else POLL
            outcome, seconds, tried = _follow(server, keeper, progress, work.records.keep, needs, look)
            return outcome, Costs(seconds=before + seconds, retries=retries + tried, restarts=restarts)
        except LOST as error:
            before, loss = before + time.perf_counter() - begin, error
        finally:
            ray.kill(server)
        pause(restarts, "the coordinator was lost", loss)
    raise AssertionError  # counting does not end


def _follow(
    server: Any, keeper: LedgerClient, progress: Progress, keep: Callable[[Any], None], needs: float, look: float
) -> tuple[Any, float, int]:
    """Wait for the server's outcome; meanwhile report progress and store rounds."""
    running, stored, done, rounds = server.run.remote(), 0, False, list[Any]()
    before, since = RunProgress(), time.monotonic()
    while not done:
        done = bool(ray.wait([running], timeout=POLL_AGAIN if rounds else look)[0])
        tally, rounds = ray.get([server.progress.remote(), server.new_rounds.remote(stored)])
        require_there(keeper)
        for over in rounds:
            keep(over)
        stored += len(rounds)
        progress(tally)
        if tally != before or rounds:
            before, since = tally, time.monotonic()
        elif time.monotonic() - since > PATIENCE:
            _require(needs)
    outcome, seconds = result_of(running)
    return outcome, seconds, ray.get(server.retries.remote())


def wait_patiently(answers: list[Any], needs: float) -> list[Any]:
    """Return the objects behind references; wait as long as the cluster has CPUs for the run's actors."""
    while len(ray.wait(answers, num_returns=len(answers), timeout=PATIENCE)[0]) < len(answers):
        _require(needs)
    results: list[Any] = result_of(answers)
    return results


def await_capacity(started: list[Any], needs: float) -> None:
    """Wait until the started actors are ready; write a line to standard error if this takes long."""
    for seconds in (PATIENCE, ROOM - PATIENCE):
        try:
            result_of(started, within=seconds)
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
    """Raise an error if the cluster has lost CPUs that the run's actors need."""
    if (left := cpus_of_cluster()) < needs:
        raise LostError(f"the cluster has {left:g} CPUs left, the run needs {needs:g}; add a node, then resume")


def _free() -> str:
    free: dict[str, float] = ray.available_resources()  # type: ignore[no-untyped-call] # Ray gives it no types
    return f"{free.get('CPU', 0.0):g} of {cpus_of_cluster():g} CPUs are free"


def cpus_of_cluster() -> float:
    """Return the number of CPUs of the cluster's living nodes."""
    resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call] # Ray gives it no types
    return resources.get("CPU", 0.0)
