"""Devices and server in threads of one process, and how queries go from one to the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from actors.device import PIECE
from actors.embodied import Embodied
from actors.keeper import Books, Keeper
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import aggregate, load_decoder, no_release
from coordinator.server.fleet.cohorts import Cohorts, LocalHosts, spread_here
from coordinator.server.fleet.layout import calls, require_round
from coordinator.server.rounds.conductor import Conductor
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.places.session import Costs, Crew, O, Progress, R, T, Work
from scenarios.places.shared_sets import answer, rehearse

Cast = Mapping[str, list[Any]]
"""The cohorts of each kind of devices."""


def conducted(job: Work[R, O, T], workers: int, progress: Progress) -> T:
    """Conduct a run in so many threads; see `scenarios.places.session.Session.conduct`."""
    admit(job.plan.own)
    keeper = Keeper(job.ledger)
    cast = {name: _embodied(crew, job.secret, keeper) for name, crew in job.crews.items()}
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
        fleet.told = lambda count: progress(conductor.progress(count))

        def keep(over: R) -> None:
            job.kept.keep(over)
            fleet.report_progress(0)

        for over in job.kept:
            conductor.replay(over)
        outcome = conductor.run(keep)
        seconds = time.perf_counter() - start
    return job.finish(outcome, LocalBackstage(keeper, cast), Costs(seconds=seconds))


def _embodied(crew: Crew, secret: bytes, keeper: Books) -> list[Embodied]:
    return [crew.kind.cohort(crew.holdings, secret, first, stop, keeper) for first, stop in crew.bounds]


class LocalBackstage:
    """What only the experimenter may look at; see `scenarios.places.session.Backstage`."""

    def __init__(self, keeper: Books, cast: Cast) -> None:
        self.keeper, self._cast = keeper, cast

    def see(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices show of a question; see `scenarios.places.session.Backstage.see`."""
        cohorts = [cohort for cohort in self._cast[kind] if cohort.first < stop]
        return [cohort.see(question, cohort.first, min(cohort.stop, stop)) for cohort in cohorts]


class LocalFleet:
    """The devices and hosts that a server can call in this process; see `coordinator.server.rounds.conductor.Fleet`.

    ``told``: Called with the number of answers, devices or rounds so far.
    """

    def __init__(self, job: Work[Any, Any, Any], cast: Cast, threads: ThreadPoolExecutor | None) -> None:
        self._job, self._cast, self._threads = job, cast, threads
        self._count = 0
        self.told: Callable[[int], None] = lambda _: None

    def hosts(self, kind: str) -> LocalHosts:
        """Return the devices of a kind."""
        return LocalHosts(Cohorts(bounds=self._job.crews[kind].bounds, hosts=self._cast[kind]), self._threads)

    def queries(self, _: CustomMechanism | None) -> Queries:
        """Return the transport that carries queries to devices."""
        return Queries(self._job, self._cast, self._threads, self.report_progress)

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> LocalHosts:
        """Return the server's own cohorts."""
        return spread_here(host, shared, bounds, self._threads, self._job.layout.workers)

    def report_progress(self, count: int) -> None:
        """Count answers, and report the sum."""
        self._count += count
        self.told(self._count)


class Queries:
    """Carries queries to devices; both sides of a block share public data, see `scenarios.places.shared_sets`."""

    def __init__(
        self,
        job: Work[Any, Any, Any],
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


def _require_room(query: Query, job: Work[Any, Any, Any]) -> None:
    """Refuse a query whose answers do not fit in this machine; see `require_round`."""
    layout = job.layout
    devices = min(layout.block_of(query.bits), layout.devices_per_actor, layout.devices, PIECE)
    require_round(query, devices, min(layout.workers, -(-layout.devices // devices)))


def _only(job: Work[Any, Any, Any], cast: Cast) -> tuple[Any, bytes, list[Any]]:
    """Return the holdings, the secret and the cohorts of the one kind of devices that queries are about."""
    ((name, crew),) = job.crews.items()
    return crew.holdings, job.secret, cast[name]
