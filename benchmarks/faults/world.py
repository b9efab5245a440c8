"""What a history needs to know about a small world of any family, and a fleet without faults."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from actors.host import DeviceHost
from actors.keeper import Keeper, LedgerClient
from benchmarks.faults.disk import Disk
from benchmarks.faults.witness import Witness
from coordinator.protocol.custom import CustomMechanism
from coordinator.server.fleet.cohorts import Cohorts, LocalHosts, spread_here
from coordinator.server.rounds.conductor import ServerSpec, Transport, run_rounds
from scenarios.backends.session import DeviceGroup
from scenarios.store.record_log import RecordLog


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """A run that is disturbed in histories."""

    plan: ServerSpec[Any, Any]  # The server's plan
    crews: Mapping[str, DeviceGroup]  # Its devices, by the name of their kind
    secret: bytes  # The devices' master secret
    host_kind: type[DeviceHost] = DeviceHost  # The class of their hosts
    window: int = 2  # Most calls in flight
    block: int = 8  # Devices in one call
    workers: int = 2  # The server's own processes

    def host(self, crew: DeviceGroup, bounds: tuple[int, int], books: LedgerClient) -> DeviceHost:
        """Return the cohort of a process of devices."""
        return self.host_kind(crew.kind, crew.holdings, self.secret, [bounds], books)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Runs of one kind."""

    name: str  # Its name on the command line and in the mark of a folder
    worlds: Sequence[World]
    stored_rounds: Callable[[Path], RecordLog[Any]]  # The store of a run in a folder
    witness: Callable[[World, Disk], Witness]


class Straight:
    """Devices without faults; see `coordinator.server.rounds.conductor.Fleet`."""

    def __init__(self, world: World, queries: Callable[[Cohorts], Transport] | None = None) -> None:
        keeper, self._queries = Keeper(), queries
        self.devices = {
            name: Cohorts(bounds=crew.bounds, hosts=[world.host(crew, bounds, keeper) for bounds in crew.bounds])
            for name, crew in world.crews.items()
        }

    def hosts(self, kind: str) -> LocalHosts:
        """Return the devices of a kind."""
        return LocalHosts(self.devices[kind])

    def queries(self, _: CustomMechanism | None) -> Transport:
        """Return the transport that carries queries to devices."""
        assert self._queries is not None
        (cohorts,) = self.devices.values()
        return self._queries(cohorts)

    def spread(self, host: Callable[..., Any], shared: Sequence[Any], bounds: Sequence[tuple[int, int]]) -> LocalHosts:
        """Return the server's own cohorts, all in one part."""
        return spread_here(host, shared, bounds)

    def report_progress(self, count: int) -> None:
        """Do nothing, because no progress is shown."""


def straight(world: World, fleet: Straight, rounds: Sequence[Any] = ()) -> Any:
    """Return how a run ends without faults after its stored rounds."""
    return run_rounds(world.plan.begin(fleet), lambda _: None, rounds)


@cache
def undisturbed(world: World) -> Any:
    """Return how a run whose devices are asked no queries ends without faults."""
    return straight(world, Straight(world))
