"""A run on Ray: devices, their ledger and the coordinator are actors, and a coordinator that dies is replaced."""

import itertools
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import ray

from actors.host import HostedKeeper, permit_of, start_host, start_keeper, start_openings
from actors.keeper import LedgerClient, require_there
from actors.shares import share_permit
from coordinator.aggregators.ray_shares import RayShares, start_server
from coordinator.protocol.agreement import intermediary_of
from coordinator.protocol.errors import LostError
from coordinator.protocol.messages import Query
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.fleet.calls import ENDS, LOST, in_a_line, pause, result_of, with_retries
from coordinator.server.fleet.cohorts import Cohorts, dealt
from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.fleet.querying import CPUS, alone
from coordinator.server.fleet.shuffler_actor import start_shuffler
from coordinator.server.rounds.conductor import ServerSpec
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.session import NAMED, A, BackendJob, Costs, O, Progress, R, T
from scenarios.backends.share_servers import KINDS
from scenarios.config.custom_kinds import travelling
from scenarios.config.frames import receive, sent

POLL, POLL_AGAIN = 0.2, 0.02
"""Seconds between two calls of the coordinator, and the shorter time while it waits to have a round stored."""
_LAST_WORDS = 5.0  # Seconds that hosts have to end before the keeper does
ROOM = 600.0  # Seconds in which a run's actors must have started
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
    openings: Any = None,
) -> tuple[O, Costs]:
    """Let a coordinator run the rounds; if it dies, a new one continues after the last stored round."""
    before, retries = 0.0, 0
    for restarts in itertools.count():
        middle, others = _middle(work, devices, openings)
        server = start_coordinator(work.plan, others, work.layout, measured, middle)
        begin = time.perf_counter()
        try:
            warming = [server.warm_up.remote(query)] if query else []
            if not restarts:
                devices_ready()
            await_capacity(warming, needs)
            begin = time.perf_counter()
            for record in work.records:
                result_of(server.replay.remote(record))
            before += time.perf_counter() - begin
            begin = time.perf_counter()
            look = POLL_AGAIN if work.plan.in_step else POLL
            outcome, seconds, tried = _follow(server, keeper, progress, work.records.keep, needs, look)
            return outcome, Costs(seconds=before + seconds, retries=retries + tried, restarts=restarts)
        except LOST as error:
            before, loss = before + time.perf_counter() - begin, error
        finally:
            for actor in (server, middle):
                for handle in actor if isinstance(actor, tuple) else (actor,):
                    if handle is not None:
                        ray.kill(handle)
        pause(restarts, "the coordinator was lost", loss)
    raise AssertionError  # counting does not end


def _middle(
    work: BackendJob[Any, Any, Any], devices: Mapping[str, Cohorts], book: Any
) -> tuple[Any, Mapping[str, Cohorts]]:
    """Start who stands between devices and server; return its handle, and the devices that the server may call."""
    if (agreement := intermediary_of(work.plan.agreement)) is None:
        return None, devices
    (cohorts,) = devices.values()
    if agreement.trust == TWO_SERVERS:
        route = RayShares(cohorts.bounds, cohorts.hosts)
        secrets, custom = work.server_secrets, work.plan.custom
        with suppress_stderr():
            return tuple(
                start_server(
                    kind, secrets[kind.side], share_permit(work.secret, kind.side), route, agreement, book, custom
                )
                for kind in KINDS
            ), {}
    return start_shuffler(cohorts, work.layout, agreement, work.plan.custom, book), {}


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
        for record in rounds:
            keep(record)
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


MOST_ACTORS = 64
"""Most Ray actors for devices of one kind, each a process of some 100 MB, unless there are more workers; further
cohorts share them."""
BITS_A_WORKER = 1 << 21
"""Released bits that make another worker worthwhile [bits]; a bit takes some .3 to 1 microseconds."""
BY_VALUE = 64 * 2**10
"""Largest size of holdings of which every host gets its own copy [bytes]; larger holdings are stored once."""
UNREACHABLE = "devices cannot be reached"
_CPU_SHARE = 0.5


class OnRay:
    """An instance of Ray that this process has joined."""

    name = "ray"
    reason = NAMED

    def __init__(self, workers: int, *, metrics: bool = False, most: bool = False) -> None:
        self.workers, self.metrics, self._most = workers, metrics, most
        self._frames: dict[str, Any] = {}  # References to DataFrames that units read, by name

    def choose_workers(self, plan: ServerSpec[Any, Any], answers: int) -> int:
        """Return the workers of a run; see `scenarios.backends.session.Backend.choose_workers`."""
        # A worker takes seconds to start, in which one alone computes `BITS_A_WORKER`; the time of custom mechanisms is
        # unknown.
        query = plan.rehearsal() if self._most and plan.custom is None else None
        return self.workers if query is None else max(1, min(self.workers, -(-answers * query.bits // BITS_A_WORKER)))

    @in_a_line()
    def run(self, work: BackendJob[R, O, T], progress: Progress) -> T:
        """Run a job; see `scenarios.backends.session.Backend.run`."""
        _by_value(work.packages)
        query = work.plan.rehearsal()  # before anything is started, because it may refuse
        keeper = start_keeper(work.ledger)
        with suppress_stderr():
            openings = None if intermediary_of(work.plan.agreement) is None else start_openings(keeper)
        workers = work.layout.workers
        ensemble = DeviceActors(work, keeper, workers)
        apart = (
            query is not None and intermediary_of(work.plan.agreement) is None and not alone(workers, work.plan.custom)
        )
        needs = ensemble.needs + (CPUS * workers if apart else 0.0)

        def devices_ready() -> None:
            if query:
                with work.naming():
                    with_retries(lambda: ensemble.warm_up(query, needs), UNREACHABLE)

        try:
            measured = work.records.run if self.metrics else None
            outcome, costs = run_supervised(
                work, ensemble.cohorts, keeper, progress, query, needs, devices_ready, measured, openings
            )
            return work.finish(outcome, ensemble, replace(costs, actors=ensemble.actors))
        finally:
            if openings is not None:
                ray.kill(openings)
            ensemble.end()

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield results of Ray tasks as they are completed; see `scenarios.backends.session.Backend.each`."""
        # Tasks of a caller that stops early end with the session: cancelling one that has just finished aborts Ray
        # 2.60.
        _by_value(travelling())
        frames = self._stored(sent())

        def unit(argument: A) -> R:
            receive({name: ray.get(stored) for name, stored in frames.items()})
            return function(argument)

        task: Any = ray.remote(num_cpus=1)(unit if frames else function)
        waiting = iter(enumerate(arguments))
        flying: dict[Any, int] = {}
        losses = [0] * len(arguments)
        while True:
            while len(flying) < self.workers and (numbered := next(waiting, None)):
                flying[task.remote(numbered[1])] = numbered[0]
            if not flying:
                return
            for reference in ray.wait(list(flying), num_returns=1, timeout=POLL)[0]:
                number = flying.pop(reference)
                try:
                    with in_a_line(ENDS):
                        result = result_of(reference)
                except LOST as error:  # Ray itself has repeated it in vain
                    pause(losses[number], f"part {number} of {len(arguments)} was lost", error)
                    losses[number] += 1
                    flying[task.remote(arguments[number])] = number
                else:
                    yield number, result

    def _stored(self, frames: Mapping[str, Any]) -> dict[str, Any]:
        """Store frames once in a session; return references to them, by name."""
        self._frames |= {name: ray.put(frame) for name, frame in frames.items() if name not in self._frames}
        return {name: self._frames[name] for name in frames}


class DeviceActors:
    """The actors of all devices of a run, and what only the experimenter may look at."""

    def __init__(self, work: BackendJob[Any, Any, Any], keeper: HostedKeeper, workers: int) -> None:
        self.keeper, self._permit, device_groups = keeper, permit_of(work.secret), work.device_groups
        # For restarted hosts: small holdings as they are, of large ones a reference to a copy that all hosts share
        holdings = {name: group.holdings for name, group in device_groups.items()}
        self._holdings = {
            name: value if len(pickle.dumps(value)) < BY_VALUE else ray.put(value) for name, value in holdings.items()
        }
        most = max(MOST_ACTORS, workers)
        groups = {name: dealt(group.bounds, min(group.hosts or most, most)) for name, group in device_groups.items()}
        self.actors = sum(map(len, groups.values()))
        self._cpus = int(min(1.0, _CPU_SHARE * workers / max(self.actors, 1)) * 1000) / 1000
        custom, cpus = work.plan.custom, self._cpus
        with suppress_stderr():
            self.cohorts = {
                name: Cohorts(
                    bounds=group.bounds,
                    hosts=[
                        start_host(group.kind, self._holdings[name], work.secret, bounds, keeper, custom, cpus=cpus)
                        for bounds in groups[name]
                    ],
                )
                for name, group in device_groups.items()
            }

    @property
    def needs(self) -> float:
        """CPUs that Ray reserves for all of them."""
        return self.actors * self._cpus

    def warm_up(self, query: Query, needs: float) -> None:
        """Start all devices' processes, and compile the kernels that a query needs."""
        await_capacity([host.warm_up.remote(query) for host in self._hosts()], needs)

    def inspect(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices show of a question; see `scenarios.backends.session.ExperimenterView.inspect`."""
        shared, blocks = ray.put(question), self.cohorts[kind].blocks(0, stop)

        def looked() -> list[Any]:
            seen = [block.host.inspect.remote(self._permit, shared, block.first, block.stop) for block in blocks]
            return wait_patiently(seen, self.needs) if seen else []

        return with_retries(looked, UNREACHABLE)

    def end(self) -> None:
        """End all actors."""
        hosts = self._hosts()
        for host in hosts:
            ray.kill(host)
        # A host that outlives the keeper is about to book, and says on the terminal that it will try for ever
        _await_end(hosts)
        self.keeper.end()
        self._holdings = {}

    def _hosts(self) -> list[Any]:
        return [host for cohorts in self.cohorts.values() for host in cohorts.hosts]


def _await_end(actors: Sequence[Any]) -> None:
    """Wait for actors that were killed, whose every call fails once they are gone."""
    ray.wait([actor.__ray_ready__.remote() for actor in actors], num_returns=len(actors), timeout=_LAST_WORDS)


def _by_value(packages: Iterable[str]) -> None:
    """Send the code of custom mechanisms by value, so that workers need not be able to import it."""
    for package in packages:
        if package in sys.modules:
            ray.cloudpickle.register_pickle_by_value(sys.modules[package])  # type: ignore[no-untyped-call] # no types


@contextmanager
def suppress_stderr() -> Iterator[None]:
    """Suppress Ray's warning that arguments of restartable actors must stay in the object store, which they do."""
    sys.stderr.flush()
    saved = os.dup(2)
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123 (a file descriptor is needed)
        os.dup2(nowhere.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
