"""What a history needs to know about a small world of any family, and how it ends without faults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from actors.host import DeviceHost
from actors.keeper import LedgerClient
from benchmarks.faults.disk import Disk
from benchmarks.faults.witness import Witness
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.rounds.conductor import ServerSpec
from scenarios.backends.in_process import run_in_threads
from scenarios.backends.session import BackendJob, DeviceGroup, NoStore, silent
from scenarios.store.record_log import RecordLog

SERVER_SECRETS = {side: secret_of(0, side) for side in SIDES}


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


class _Stored(NoStore):
    """Rounds that an interrupted run has stored."""

    def __init__(self, rounds: Sequence[Any]) -> None:
        self._rounds = rounds

    def __iter__(self) -> Iterator[Any]:
        """Yield them."""
        return iter(self._rounds)


def continued(world: World, rounds: Sequence[Any] = ()) -> Any:
    """Return how a run ends without faults after its stored rounds, by the backend of this process."""
    job: BackendJob[Any, Any, Any] = BackendJob(
        plan=world.plan,
        device_groups=world.crews,
        secret=world.secret,
        layout=Layout(devices=world.block, workers=1, devices_per_actor=world.block),
        finish=lambda outcome, *_: outcome,
        records=_Stored(rounds),
        server_secrets=SERVER_SECRETS,
    )
    return run_in_threads(job, 1, silent)


undisturbed = cache(continued)
"""How a run ends without faults."""
