"""Devices and server in threads of one process, and the transport of queries between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from actors.device import PIECE
from actors.device_half import DeviceBlock
from actors.ledger import Keeper, LedgerClient
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import aggregate, load_decoder, no_release
from coordinator.server.fleet.cohorts import Cohorts, LocalHosts, calls, require_round, spread_here
from coordinator.server.rounds.conductor import Conductor
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.places.session import BackendJob, Costs, DeviceGroup, O, Progress, R, T
from scenarios.places.shared_sets import answer, rehearse

Cast = Mapping[str, list[Any]]
"""The cohorts of each kind of devices."""


def run_in_threads(job: BackendJob[R, O, T], workers: int, progress: Progress) -> T:
    """Conduct a run in so many threads; see `scenarios.places.session.Backend.run`."""
    admit(job.plan.own)
    keeper = Keeper(job.ledger)
    cast = {name: _device_blocks(group, job.secret, keeper) for name, group in job.device_groups.items()}
    if query := job.plan.rehearsal():
        with job.naming():
            _require_room(query, job)
            holdings, secret, cohorts = _only(job, cast)
            rehearse(query, holdings, secret, cohorts[0])
            load_decoder(query)
    with ThreadPoolExecutor(workers) as threads:
        fleet = LocalFleet(job, cast, threads if workers > 1 else None)
        start = time.perf_counter()
        conductor = Conductor(job.plan.begin(fleet))
        fleet.report = lambda count: progress(conductor.progress(count))

        def keep(over: R) -> None:
            job.records.keep(over)
            fleet.report_progress(0)

        for over in job.records:
            conductor.replay(over)
        outcome = conductor.run(keep)
        seconds = time.perf_counter() - start
    return job.finish(outcome, LocalExperimenterView(keeper, cast), Costs(seconds=seconds))


def _device_blocks(group: DeviceGroup, secret: bytes, keeper: LedgerClient) -> list[DeviceBlock]:
    return [group.kind.cohort(group.holdings, secret, first, stop, keeper) for first, stop in group.bounds]


class LocalExperimenterView:
    """What only the experimenter may look at; see `scenarios.places.session.ExperimenterView`."""

    def __init__(self, keeper: LedgerClient, cast: Cast) -> None:
        self.keeper, self._cast = keeper, cast

    def inspect(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices show of a question; see `scenarios.places.session.ExperimenterView.inspect`."""
        cohorts = [cohort for cohort in self._cast[kind] if cohort.first < stop]
        return [cohort.inspect(question, cohort.first, min(cohort.stop, stop)) for cohort in cohorts]


class LocalFleet:
    """The devices and hosts that a server can call in this process; see `coordinator.server.rounds.conductor.Fleet`.

    ``told``: Called with the number of answers, devices or rounds so far.
    """

    def __init__(self, job: BackendJob[Any, Any, Any], cast: Cast, threads: ThreadPoolExecutor | None) -> None:
        self._job, self._cast, self._threads = job, cast, threads
        self._count = 0
        self.report: Callable[[int], None] = lambda _: None

    def hosts(self, kind: str) -> LocalHosts:
        """Return the devices of a kind."""
        return LocalHosts(Cohorts(bounds=self._job.device_groups[kind].bounds, hosts=self._cast[kind]), self._threads)

    def queries(self, _: CustomMechanism | None) -> Queries:
        """Return the transport that carries queries to devices."""
        return Queries(self._job, self._cast, self._threads, self.report_progress)

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> LocalHosts:
        """Return the server's own cohorts."""
        return spread_here(host, shared, bounds, self._threads, self._job.layout.workers)

    def report_progress(self, count: int) -> None:
        """Count answers, and report the sum."""
        self._count += count
        self.report(self._count)


class Queries:
    """Carries queries to devices; both sides of a block share public data, see `scenarios.places.shared_sets`."""

    def __init__(
        self,
        job: BackendJob[Any, Any, Any],
        cast: Cast,
        threads: ThreadPoolExecutor | None,
        report_progress: Callable[[int], None],
    ) -> None:
        self._ratings, self._secret, self._cohorts = _only(job, cast)
        self._job, self._layout, self._map, self._report_progress = (
            job,
            job.layout,
            map if threads is None else threads.map,
            report_progress,
        )

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every cohort block by block; see `coordinator.server.rounds.conductor.Transport`."""
        _require_room(ask.query, self._job)
        bits = ask.query.bits
        size = self._layout.block_of(bits)
        blocks = [
            (cohort, first, stop)
            for cohort in self._cohorts
            for first, stop in calls(max(cohort.first, ask.first), min(cohort.stop, ask.stop), size, bits)
        ]
        total: Statistic | None = None
        releases: list[Release | Sealed] = []
        for statistic, release in self._map(
            lambda block: answer(ask.query, self._ratings, self._secret, *block), blocks
        ):
            total = statistic if total is None else merge(total, statistic)
            releases.append(seal(release))
            self._report_progress(release.count)
        return total or aggregate(ask.query, no_release(ask.query)), releases


def _require_room(query: Query, job: BackendJob[Any, Any, Any]) -> None:
    """Refuse a query whose answers do not fit in this machine; see `require_round`."""
    layout = job.layout
    devices = min(layout.block_of(query.bits), layout.devices_per_actor, layout.devices, PIECE)
    require_round(query, devices, min(layout.workers, -(-layout.devices // devices)))


def _only(job: BackendJob[Any, Any, Any], cast: Cast) -> tuple[Any, bytes, list[Any]]:
    """Return the holdings, the secret and the cohorts of the one kind of devices that queries are about."""
    ((name, group),) = job.device_groups.items()
    return group.holdings, job.secret, cast[name]
