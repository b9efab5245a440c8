"""Two servers in a history: each adds shares up in a process of its own, which may die at any time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from actors.host import DeviceHost
from actors.shares import share_permit
from benchmarks.faults.scheduler import Fault
from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.openings import OpeningBook
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.protocol.trust import TwoServers
from coordinator.server.fleet.cohorts import Cohorts, cut
from coordinator.server.fleet.panel import Panel
from coordinator.server.fleet.published_sums import SumQuerying
from coordinator.server.rounds.conductor import Block
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import Sealed
from coordinator.server.statistics.statistic import Statistic
from scenarios.backends.share_servers import KINDS

if TYPE_CHECKING:
    from benchmarks.faults.server import Edge
    from benchmarks.faults.world import World

SERVER_SECRETS = {side: secret_of(0, side) for side in SIDES}


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
        permit, terms = share_permit(self._world.secret, self._kind.side), self._world.plan.trust
        assert isinstance(terms, TwoServers)  # else nobody starts any
        return self._kind(SERVER_SECRETS[self._kind.side], permit, self, terms.delta, self._book)

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
        cohorts = self._cohorts.blocks(first, stop)
        blocks = [Block(one.host, *ends, (permit,)) for one in cohorts for ends in cut(*one[1:3], self._world.block)]
        panel = Panel(blocks, lambda *_: None, window=self._world.window)  # the server itself looks at what arrives
        self._edge.carry(panel, query)
        for share in panel.answers():
            yield share
            self._may_die("while it adds shares up")

    def _may_die(self, when: str) -> None:
        if self._edge.scheduler.happens(f"server of {self._kind.side} dies", when):
            raise ServerDiedError


class SimulatedServers:
    """Asks two servers through the scheduler, as `coordinator.server.fleet.servers_querying.ServersQuerying` does."""

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
        for place in places:
            try:
                self._results[place] = self._servers[place].call(method, arguments[place])
            except (BlindrecError, ServerLostError) as error:
                errors.append(error)
            self._edge.wait()
        if errors:
            raise errors[0]
        return self._results
