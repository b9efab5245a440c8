"""The server in a history, whose calls the scheduler carries out instead of Ray, and the driver that stores rounds."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actors.host import DeviceHost
from actors.shares import share_permit
from benchmarks.faults.processes import GONE, KeepersProcess, Site
from benchmarks.faults.scheduler import LONG, CoordinatorDiedError, Fault, Scheduler, Violation
from benchmarks.faults.witness import Witness
from benchmarks.faults.world import SERVER_SECRETS, World
from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.agreement import intermediary_of
from coordinator.protocol.custom import CustomMechanism
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.protocol.trust import OPENER, OpeningBook
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.aggregation import aggregate, require_answer
from coordinator.server.fleet.cohorts import Cohorts, Layout, cut, side_by_side
from coordinator.server.fleet.intermediaries import SumQuerying, read_shuffled
from coordinator.server.fleet.panel import BlockRequest, Panel
from coordinator.server.rounds.conductor import Block, Check, Transport
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed
from coordinator.shuffler import Shuffler
from scenarios.backends.share_servers import KINDS
from scenarios.store.record_log import RecordLog

LAYOUT = Layout(devices=1, workers=1, devices_per_actor=1)  # Of small rounds, which are read as one block
OnAnswer = Callable[[Any], None]  # Called with every answer that counts


class DriverFailed(Fault):
    """The driver ends the run with an error."""

    def __init__(self, error: BlindrecError) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """Stores the coordinator's rounds in order, as `scenarios.backends.on_ray` does."""

    def __init__(
        self, chain: RecordLog[Any], keeper: KeepersProcess, scheduler: Scheduler, witness: Witness, *, in_step: bool
    ) -> None:
        self._keeper, self._in_step = keeper, in_step
        self._chain, self._scheduler, self._witness = chain, scheduler, witness
        self._told: deque[Any] = deque()
        self._failed: BlindrecError | None = None

    def hear(self, record: Any) -> None:
        """Take a round, which is fetched and stored a little later; wait for that if the plan goes on in step."""
        self._told.append(record)
        slow = LONG if self._scheduler.happens("driver lags") else 1.0
        self._scheduler.at(slow * self._scheduler.delay(), self._keep)
        if self._in_step:
            self.wait()

    def coordinator_died(self) -> None:
        """Forget the rounds that a dead coordinator had not handed out."""
        self._told.clear()

    def _keep(self) -> None:
        if not self._told or self._failed:
            return
        record = self._told.popleft()
        try:
            self._keeper.require_there()
            self._witness.keeps(record)
            self._chain.keep(record)
        except BlindrecError as error:
            self._failed = error
            return
        self._scheduler.say("one more round is kept")

    def require_well(self) -> None:
        """End the run if a round cannot be stored or the keeper is gone."""
        try:
            self._keeper.require_there()
        except BlindrecError as error:
            self._failed = error
        if self._failed:
            raise DriverFailed(self._failed)

    def wait(self) -> None:
        """Wait until all rounds are stored."""
        while self._told:
            self._scheduler.step()
            self.require_well()


class Edge:
    """The part of a coordinator's process that waits for answers."""

    def __init__(self, driver: Driver, scheduler: Scheduler, witness: Witness) -> None:
        self.scheduler, self.witness = scheduler, witness
        self._driver = driver
        self._inbox: deque[tuple[Panel, BlockRequest, OnAnswer, Any]] = deque()

    def carry(self, panel: Panel, question: Any, *shared: Any, landed: OnAnswer = lambda _: None) -> None:
        """Carry out a panel's decisions until it has all answers, as `coordinator.server.fleet.calls.carry` does."""
        while not panel.done:
            self._may_die()
            while item := panel.question(self.scheduler.now):
                self._send(panel, item, question, shared, landed)
            if self._inbox:
                self._take(panel, *self._inbox.popleft())
            elif not self.scheduler.step(panel.until):
                raise Violation(f"the server waits for answers to {question}, and nobody is left to give them")

    def wait(self) -> None:
        """Let others go on for about the time of a message."""
        self._may_die()
        self.scheduler.meanwhile()

    def _may_die(self) -> None:
        self._driver.require_well()
        if self.scheduler.happens("coordinator dies"):
            raise CoordinatorDiedError

    def _send(self, panel: Panel, item: BlockRequest, question: Any, shared: tuple[Any, ...], landed: OnAnswer) -> None:
        host, first, stop, public = item.block
        deliver: OnAnswer = lambda answer: self._inbox.append((panel, item, landed, answer))  # noqa: E731 (one line)
        host.ask(question, first, stop, (*public, *shared), deliver)

    def _take(self, now: Panel, panel: Panel, item: BlockRequest, landed: OnAnswer, answer: Any) -> None:
        """Report an answer to its panel; a device's error ends the run if the panel still waits for it."""
        if answer is GONE:
            panel.lost(item.number, item.epoch, self.scheduler.now, GONE)
        elif isinstance(answer, Exception):
            if panel is now:
                raise answer
        elif panel.answered(item.number, item.epoch, answer):
            landed(answer)


class ServerDiedError(Fault):
    """The process of one of two servers has died."""


class ServerLostError(Exception):
    """A server died, and nobody repeated its call; the coordinator asks both anew."""


class SharingHost(DeviceHost):
    """Devices whose shares a server asks for, with its permit beside the question."""

    def ask(self, question: Any, first: int, stop: int, *public: Any) -> Any:
        """Give the holder of a permit its shares; see `actors.host.DeviceHost.share`."""
        return self.share(public[0], question, first, stop)


class ServersProcess:
    """The process of one of two servers. If it dies the next one is started, and its call repeated, as Ray does.

    It is the way to devices, too, in the place of `coordinator.aggregators.ray_shares.RayShares`.
    """

    def __init__(
        self, kind: type[ShareServer[Any]], edge: Edge, cohorts: Cohorts, world: World, book: OpeningBook | None
    ) -> None:
        self._kind, self._edge, self._cohorts, self._world, self._book = kind, edge, cohorts, world, book
        self._server = self._started()

    def _started(self) -> ShareServer[Any]:
        permit, agreement = share_permit(self._world.secret, self._kind.side), self._world.plan.agreement
        return self._kind(SERVER_SECRETS[self._kind.side], permit, self, agreement, self._book)

    def call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """Call a method; raise `ServerLostError` if the process died and the call was not repeated."""
        while True:
            try:
                self._may_die(f"before {method}")
                result = getattr(self._server, method)(*arguments)
                if method == "publish":  # whoever is listening has it, whatever becomes of the process
                    self._edge.witness.publishes(arguments[0], result)
                self._may_die(f"after {method}")
            except ServerDiedError:
                self._server = self._started()
                if not self._edge.scheduler.below(3):
                    raise ServerLostError from None
            else:
                return result

    def shares(self, permit: bytes, query: Query, first: int, stop: int) -> Iterator[Any]:
        """Yield shares; see `coordinator.aggregators.gathering.ShareRoute.shares`."""
        blocks = blocks_of(self._cohorts, first, stop, self._world.block, permit)
        panel = Panel(blocks, lambda *_: None, window=self._world.window)  # the server itself looks at what arrives
        self._edge.carry(panel, query)
        for share in panel.answers():
            yield share
            self._may_die("while it adds shares up")

    def _may_die(self, when: str) -> None:
        if self._edge.scheduler.happens(f"server of {self._kind.side} dies", when):
            raise ServerDiedError


class SimulatedServers:
    """Asks two servers through the scheduler, as `coordinator.server.fleet.coordinator_actor.ServersQuerying` does."""

    def __init__(self, edge: Edge, cohorts: Cohorts, world: World, book: OpeningBook | None) -> None:
        self._edge = edge
        self._servers = [ServersProcess(kind, edge, cohorts, world, book) for kind in KINDS]
        self._querying = SumQuerying(self._both, report_progress=lambda _: None)
        self._results: list[Any] = []

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask both servers; where one was lost both are asked again."""
        while True:
            try:
                statistic, sealed = self._querying.ask(ask)
            except ServerLostError:
                continue
            self._edge.witness.round_over(ask.query, self._results[0].roll.mask(), sealed)
            return statistic, sealed

    def _both(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call both servers, one after the other; what the first one says does not keep the second one from it."""
        places, errors = [0, 1][:: 1 - 2 * self._edge.scheduler.below(2)], list[Exception]()
        self._results = [None, None]
        for server in places:
            try:
                self._results[server] = self._servers[server].call(method, arguments[server])
            except (BlindrecError, ServerLostError) as error:
                errors.append(error)
            self._edge.wait()
        if errors:
            raise errors[0]
        return self._results


class SimulatedHosts:
    """Hosts that the scheduler calls; see `coordinator.server.rounds.conductor.Hosts`."""

    def __init__(self, edge: Edge, cohorts: Cohorts, window: int) -> None:
        self._edge, self._window, self.blocks = edge, window, cohorts.blocks

    def ask(self, question: Any, blocks: Sequence[Block], check: Check, *shared: Any) -> list[Any]:
        """Ask blocks; see `coordinator.server.rounds.conductor.Hosts.ask`."""
        panel = Panel(blocks, check, window=self._window)
        self._edge.carry(panel, question, *shared)
        return panel.answers()


class SimulatedQueries:
    """Carries queries through the scheduler; see `coordinator.server.rounds.conductor.Transport`.

    Where a shuffler hears the devices, its process may die before it hands anything on, or when it has noted what it
    hands on; the next one asks them again, and knows of the one before only what its book says.
    """

    def __init__(self, edge: Edge, cohorts: Cohorts, world: World, book: OpeningBook | None) -> None:
        self._edge, self._cohorts, self._world, self._book = edge, cohorts, world, book

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask every device of a round; see `coordinator.server.rounds.conductor.Transport`."""
        statistic, releases = self._asked(ask)
        if (agreement := intermediary_of(self._world.plan.agreement)) is None:
            answered = np.concatenate([release.answered_mask() for release in releases])
            self._edge.witness.round_over(ask.query, answered, releases)
            return statistic, releases
        while self._edge.scheduler.happens("shuffler dies", f"in round {ask.query.round}"):
            _, releases = self._asked(ask)
        openings = agreement.openings(OPENER, self._book)
        shuffler = Shuffler(ask.query, agreement, openings)
        for release in releases:
            shuffler.take(release)
        shuffled = shuffler.close()
        mask = openings.mask(ask.query, ask.first, ask.stop - ask.first)
        mask = np.zeros(ask.stop - ask.first, np.bool_) if mask is None else mask
        self._edge.witness.opens(OPENER, ask.query, mask)
        if self._edge.scheduler.happens("shuffler dies", f"after round {ask.query.round} was handed on"):
            return self.ask(ask)
        statistic, handed = read_shuffled(ask, shuffled, agreement, LAYOUT)
        self._edge.witness.round_over(ask.query, mask, handed)
        return statistic, handed

    def _asked(self, ask: Ask) -> tuple[Statistic, list[Release]]:
        blocks = blocks_of(self._cohorts, ask.first, ask.stop, self._world.block)
        panel = Panel(
            blocks,
            lambda block, answer: require_answer(ask.query, answer, block.first, block.stop),
            window=self._world.window,
        )
        statistics: list[Statistic] = []
        self._edge.carry(panel, ask.query, landed=lambda answer: statistics.append(aggregate(ask.query, answer)))
        return merge(*statistics), sorted(panel.answers(), key=lambda release: release.first)


def blocks_of(cohorts: Cohorts, first: int, stop: int, size: int, *public: Any) -> list[Block]:
    """Return blocks of devices, one for each call."""
    return [
        Block(cohort.host, *ends, public) for cohort in cohorts.blocks(first, stop) for ends in cut(*cohort[1:3], size)
    ]


class SimulatedFleet:
    """The devices and processes that a coordinator can call; see `coordinator.server.rounds.conductor.Fleet`."""

    def __init__(
        self,
        world: World,
        devices: Mapping[str, Cohorts],
        edge: Edge,
        keeper: KeepersProcess,
    ) -> None:
        self._world, self._devices, self._edge, self._keeper = world, devices, edge, keeper

    def hosts(self, kind: str) -> SimulatedHosts:
        """Return the devices of a kind."""
        return SimulatedHosts(self._edge, self._devices[kind], self._world.window)

    def queries(self, _: CustomMechanism | None) -> Transport:
        """Return the transport that carries queries to devices."""
        (cohorts,) = self._devices.values()
        agreement = intermediary_of(self._world.plan.agreement)
        if agreement and agreement.trust == TWO_SERVERS:
            return SimulatedServers(self._edge, cohorts, self._world, self._keeper)
        return SimulatedQueries(self._edge, cohorts, self._world, self._keeper)

    def spread(
        self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]
    ) -> SimulatedHosts:
        """Start the server's own processes; the next coordinator will start others."""
        edge, cohorts, sites = self._edge, list[tuple[int, int]](), list[Site]()
        for part in side_by_side(bounds, self._world.workers):
            cohorts.append((part[0][0], part[-1][1]))
            name, start = f"the server's cohort {part[0][0]}", _starting(host, shared, part)
            sites.append(Site(name, start, edge.scheduler, self._keeper, edge.witness, watched=False))
        return SimulatedHosts(edge, Cohorts(bounds=cohorts, hosts=sites), len(sites))

    def report_progress(self, count: int) -> None:
        """Do nothing, because no progress is shown."""


def _starting(host: Callable[..., Any], shared: Sequence[Any], part: list[tuple[int, int]]) -> Callable[[Any], Any]:
    return lambda _: host(*shared, part)
