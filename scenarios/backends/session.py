"""The interface of all backends: they run devices, and a server that learns from them in rounds."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator.protocol.errors import InputError
from scenarios.store.manifest import UNCLAIMED

if TYPE_CHECKING:
    from actors.device_block import DeviceKind
    from actors.keeper import LedgerClient
    from coordinator.protocol.agreement import Agreement
    from coordinator.server.fleet.cohorts import Layout
    from coordinator.server.rounds.conductor import ServerSpec
    from coordinator.server.rounds.rounds import Round
    from coordinator.server.rounds.state import RunProgress


R = TypeVar("R")  # The record of a round


class RecordStore(Protocol[R]):
    """Finished rounds, which are written and read one by one, so that they need not fit in memory together."""

    def keep(self, record: R) -> None:
        """Store a round that has just ended."""

    def __iter__(self) -> Iterator[R]:
        """Yield the stored rounds in order; a run continues after them."""

    @property
    def run(self) -> str:
        """The run's public name."""


class RoundStore(RecordStore["Round"], Protocol):
    """Finished rounds of queries."""

    @property
    def trusted(self) -> bool:
        """Whether the present code made their queries; if not, they are compared with the queries it would make."""

    def agree(self, agreement: Agreement) -> Agreement:
        """Return what the stored run was begun under; a new run is begun under this one."""


class NoStore:
    """A store of nothing: an interrupted run starts again, and its devices repeat their answers."""

    trusted = True
    run = UNCLAIMED

    def agree(self, agreement: Agreement) -> Agreement:
        """Return it, because there is nothing to go on with."""
        return agreement

    def keep(self, record: Any) -> None:
        """Drop a round."""

    def __iter__(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())


class InMemoryRounds(NoStore):
    """Rounds in memory, which the caller can inspect afterwards."""

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)

    def keep(self, record: Round) -> None:
        """Append a round."""
        self.rounds.append(record)

    def __iter__(self) -> Iterator[Round]:
        """Yield all of them."""
        return iter(self.rounds)


A = TypeVar("A")


class AbandonedError(Exception):
    """The result of this call is no longer needed."""


_of_thread = threading.local()


def stop_if_abandoned() -> None:
    """End a call of `InProcess.each` if its result is no longer needed, as after Ctrl-C; long loops call this."""
    stop: threading.Event | None = getattr(_of_thread, "stop", None)
    if stop is not None and stop.is_set():
        raise AbandonedError


def end_with(stop: threading.Event) -> None:
    """Let `stop_if_abandoned` end this thread's call once ``stop`` is set."""
    _of_thread.stop = stop


O = TypeVar("O")  # noqa: E741 (as in `coordinator.server.rounds.conductor`)
"""The result of all rounds."""
T = TypeVar("T")  # The experiment's result
Progress = Callable[["RunProgress"], None]  # Called with how far the server has come


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceGroup:
    """Devices of one kind: the private side's share of a run."""

    kind: DeviceKind  # The kind of devices, and what these agreed to
    holdings: Any = field(repr=False)  # The private data of all devices of the kind, which only devices receive
    bounds: list[tuple[int, int]]  # Their cohorts, ``[first, stop)`` each, ascending
    # The largest number of processes for them, which cohorts may share; None for as many as the backend has for devices
    hosts: int | None = None


class ExperimenterView(Protocol):
    """What only the experimenter may look at, after a run and before its devices end."""

    @property
    def keeper(self) -> LedgerClient:
        """The keeper of the devices' book."""

    def inspect(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices 0 to ``stop - 1`` of a kind show the experimenter, an entry for each cohort."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """The costs of a run."""

    # Seconds from the first query to the outcome, including the time until a dead coordinator was noticed
    seconds: float = 0.0
    actors: int = 0  # Number of Ray actors that ran devices; 0 in process
    retries: int = 0  # Blocks and rounds that were repeated because a process died
    restarts: int = 0  # Coordinators that were started because one died


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResult(Generic[O]):
    """The result of a run on a backend, from which all reports are made; families add what they alone know."""

    outcome: O = field(repr=False)  # What the server learned, or whom it served
    costs: Costs  # What it took
    backend: str  # Where it ran
    layout: Layout  # How devices were divided


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendJob(Generic[R, O, T]):
    """A run as a backend needs it: the devices, the server's plan, the layout, and where rounds are stored."""

    plan: ServerSpec[R, O]  # The server's plan
    device_groups: Mapping[str, DeviceGroup]  # Devices, by the name of their kind
    secret: bytes = field(repr=False)  # Private: the population's master secret
    layout: Layout  # It affects only speed
    # Gets the outcome, the `ExperimenterView` and the `Costs`, and returns the experiment's result
    finish: Callable[[O, ExperimenterView, Costs], T]
    records: RecordStore[R] = field(
        default_factory=NoStore
    )  # Yields the rounds of an interrupted run, and stores every new one
    ledger: Path | None = None  # Folder of the books of devices and intermediaries; None to hold them in memory only
    # A context in which the first query is tried, so that a refusal names the policy that asks it
    naming: Callable[[], AbstractContextManager[None]] = nullcontext
    # Private, of two servers by name: each gets its own alone, and the server's plan has neither
    server_secrets: dict[str, bytes] = field(default_factory=dict, repr=False)
    packages: frozenset[str] = frozenset()  # Packages of custom mechanisms, whose code is sent to workers


NAMED = "as called"  # The reason for a backend that its caller named, on the command line or in Python


class Backend(Protocol):
    """A backend that is ready to run jobs."""

    reason: str  # Why this backend was chosen, in a few words

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def workers(self) -> int:
        """Device blocks computed at the same time."""

    def choose_workers(self, plan: ServerSpec[Any, Any], answers: int) -> int:
        """Return the number of workers with which a run of this many answers ends soonest."""

    def run(self, work: BackendJob[R, O, T], progress: Progress) -> T:
        """Start the devices, run all rounds, end all processes, and return the result of `BackendJob.finish`."""

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield (index of the argument, result of the function) as calls end; ``workers`` calls run at a time."""


def silent(_: RunProgress) -> None:
    """Report no progress."""


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers below 1; None stands for one for each CPU."""
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")
