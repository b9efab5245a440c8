"""A run without Ray: devices charge and answer, and the server adds up, as elsewhere, in threads of this process."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

from actors.device import PIECE, Cohort
from actors.keeper import Keeper, LedgerClient
from coordinator.protocol.agreement import Agreement, intermediary_of
from coordinator.protocol.custom import CustomMechanism, admit
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.protocol.trust import OPENER, Openings
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.aggregation import aggregate, load_decoder, no_release
from coordinator.server.fleet.cohorts import Cohorts, Layout, LocalHosts, calls, require_round, spread_here
from coordinator.server.fleet.intermediaries import read_shuffled
from coordinator.server.rounds.conductor import Transport, run_rounds
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.shuffler import Shuffler
from scenarios.backends.session import A, BackendJob, Costs, O, Progress, R, T


def answer(query: Query, cohort: Cohort, first: int, stop: int) -> tuple[Statistic, Release]:
    """Return the release of devices ``first`` to ``stop - 1`` of a cohort, and the server's statistic of it."""
    release = cohort.answer(query, first, stop)
    return aggregate(query, release), release


def rehearse(query: Query, cohort: Cohort) -> None:
    """Compile the kernels that `answer` needs; nothing is charged and nothing is answered."""
    cohort.rehearse(query)
    if not mechanism_of(query.design).shares:
        aggregate(query, no_release(query))


DeviceBlocks = Mapping[str, list[Any]]  # The cohorts of each kind of devices


def run_in_threads(job: BackendJob[R, O, T], workers: int, progress: Progress) -> T:
    """Conduct a run in so many threads; see `scenarios.backends.session.Backend.run`."""
    admit(job.plan.custom)
    with closing(Keeper(job.ledger)) as keeper:
        return _run_with(keeper, job, workers, progress)


def _run_with(keeper: Keeper, job: BackendJob[R, O, T], workers: int, progress: Progress) -> T:
    device_blocks: DeviceBlocks = {
        name: [group.kind(group.holdings, job.secret, first, stop, keeper=keeper) for first, stop in group.bounds]
        for name, group in job.device_groups.items()
    }
    if query := job.plan.rehearsal():
        with job.naming():
            _require_room(query, job)
            rehearse(query, _only(job, device_blocks)[2][0])
            load_decoder(query)
    with ThreadPoolExecutor(workers) as threads:
        fleet = LocalFleet(job, device_blocks, threads if workers > 1 else None, keeper)
        start = time.perf_counter()
        process = job.plan.begin(fleet)
        restored = 0

        def report(count: int) -> None:
            progress(replace(process.progress(), count=count, restored=restored))

        fleet.report = report

        def keep(record: R) -> None:
            job.records.keep(record)
            fleet.report_progress(0)

        for stored in job.records:
            process.replay(stored)
            restored = fleet.count
        if restored:
            report(restored)
        outcome = run_rounds(process, keep)
        seconds = time.perf_counter() - start
    return job.finish(outcome, LocalExperimenterView(keeper, device_blocks), Costs(seconds=seconds))


class LocalExperimenterView(NamedTuple):
    """What only the experimenter may look at; see `scenarios.backends.session.ExperimenterView`."""

    keeper: LedgerClient
    device_blocks: DeviceBlocks

    def inspect(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices show of a question; see `scenarios.backends.session.ExperimenterView.inspect`."""
        cohorts = [cohort for cohort in self.device_blocks[kind] if cohort.first < stop]
        return [cohort.inspect(question, cohort.first, min(cohort.stop, stop)) for cohort in cohorts]


class LocalFleet:
    """The devices and hosts that a server can call in this process; see `coordinator.server.rounds.conductor.Fleet`."""

    def __init__(
        self,
        job: BackendJob[Any, Any, Any],
        device_blocks: DeviceBlocks,
        threads: ThreadPoolExecutor | None,
        keeper: Keeper,
    ) -> None:
        self._job, self._device_blocks, self._threads, self._keeper, self.count = job, device_blocks, threads, keeper, 0
        self.report: Callable[[int], None] = lambda _: None  # Called with the number of answers or rounds so far

    def hosts(self, kind: str) -> LocalHosts:
        """Return the devices of a kind."""
        return LocalHosts(
            Cohorts(bounds=self._job.device_groups[kind].bounds, hosts=self._device_blocks[kind]), self._threads
        )

    def queries(self, _: CustomMechanism | None) -> Transport:
        """Return the transport that carries queries to devices: the fleet itself, or a shuffler in front of it."""
        if (agreement := intermediary_of(self._job.plan.agreement)) is None:
            return self
        if agreement.trust == TWO_SERVERS:
            from scenarios.backends.share_servers import servers_here  # noqa: PLC0415 (others need none of it)

            _, secret, cohorts = _only(self._job, self._device_blocks)
            secrets = self._job.server_secrets
            return servers_here(cohorts, secret, secrets, agreement, self.report_progress, self._threads, self._keeper)
        return ShuffledHere(self, agreement, self._job.layout, agreement.openings(OPENER, self._keeper))

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every cohort block by block; see `answer`, and `coordinator.server.rounds.conductor.Transport`."""
        total: Statistic | None = None
        releases: list[Release | Sealed] = []
        for statistic, release in self.each_block(ask, lambda block: answer(ask.query, *block)):
            total = statistic if total is None else merge(total, statistic)
            releases.append(seal(release))
            self.report_progress(release.count)
        return total or aggregate(ask.query, no_release(ask.query)), releases

    def each_block(self, ask: Ask, answers: Callable[[tuple[Cohort, int, int]], A]) -> Iterable[A]:
        """Return what a function makes of each block ``(cohort, first, stop)`` of the devices that a round asks."""
        _require_room(ask.query, self._job)
        _, _, cohorts = _only(self._job, self._device_blocks)
        bits = ask.query.bits
        size = self._job.layout.block_of(bits)
        blocks = [
            (cohort, first, stop)
            for cohort in cohorts
            for first, stop in calls(max(cohort.first, ask.first), min(cohort.stop, ask.stop), size, bits)
        ]
        parallel = map if self._threads is None else self._threads.map
        return parallel(answers, blocks)

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> LocalHosts:
        """Return the server's own cohorts."""
        return spread_here(host, shared, bounds, self._threads, self._job.layout.workers)

    def report_progress(self, count: int) -> None:
        """Count answers, and report the sum."""
        self.count += count
        self.report(self.count)


class ShuffledHere(NamedTuple):
    """Carries queries to devices behind a shuffler; see `coordinator.server.rounds.conductor.Transport`."""

    fleet: LocalFleet
    agreement: Agreement
    layout: Layout
    openings: Openings

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every cohort block by block, and read what the shuffler hands on."""
        self.agreement.require_amplified(ask.query, ask.stop - ask.first)  # before anybody is asked
        shuffler = Shuffler(ask.query, self.agreement, self.openings)

        def release(block: tuple[Cohort, int, int]) -> Release:
            cohort, first, stop = block
            return cohort.answer(ask.query, first, stop)

        for block_release in self.fleet.each_block(ask, release):
            shuffler.take(block_release)
            self.fleet.report_progress(block_release.count)
        return read_shuffled(ask, shuffler.close(), self.agreement, self.layout)


def _require_room(query: Query, job: BackendJob[Any, Any, Any]) -> None:
    """Refuse a query whose answers do not fit in this machine; see `require_round`."""
    layout = job.layout
    devices = min(layout.block_of(query.bits), layout.devices_per_actor, layout.devices, PIECE)
    require_round(query, devices, min(layout.workers, -(-layout.devices // devices)))


def _only(job: BackendJob[Any, Any, Any], device_blocks: DeviceBlocks) -> tuple[Any, bytes, list[Any]]:
    """Return the holdings, the secret and the cohorts of the one kind of devices that queries are about."""
    ((name, group),) = job.device_groups.items()
    return group.holdings, job.secret, device_blocks[name]
