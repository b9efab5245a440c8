"""What every place does: it runs devices, and a server that learns from them in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from coordinator.protocol.errors import InputError
from scenarios.places.worker_threads import A
from scenarios.store.round_store import Kept, Nowhere

if TYPE_CHECKING:
    from actors.embodied import Kind
    from actors.keeper import Books
    from coordinator.server.fleet.layout import Layout
    from coordinator.server.rounds.conductor import ServerSpec
    from coordinator.server.rounds.tally import RunProgress

R = TypeVar("R")
"""What is stored of a round."""
O = TypeVar("O")  # noqa: E741 (as in `coordinator.server.rounds.conductor`)
"""The result of all rounds."""
T = TypeVar("T")
"""The experiment's result."""
Progress = Callable[["RunProgress"], None]
"""Called with how far the server has come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Devices of one kind: the private side's share of a run."""

    kind: Kind  # The kind of devices, and what these agreed to
    holdings: Any = field(repr=False)  # The private data of all devices of the kind, which only devices receive
    bounds: list[tuple[int, int]]  # Their cohorts, ``[first, stop)`` each, ascending
    # Most processes for them, which several cohorts may share; None for as many as the place has for devices
    hosts: int | None = None


class Backstage(Protocol):
    """What only the experimenter may look at, after a run and before its devices end."""

    @property
    def keeper(self) -> Books:
        """The keeper of the devices' book."""
        ...

    def see(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices 0 to ``stop - 1`` of a kind show the experimenter, an entry for each cohort."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a run took at a place."""

    # Seconds from the first question to the outcome, including the time until a dead coordinator was noticed
    seconds: float = 0.0
    actors: int = 0  # Number of Ray actors that ran devices; 0 in process
    retries: int = 0  # Blocks and rounds that were asked again because a process died
    restarts: int = 0  # Coordinators that were started because one died


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[R, O, T]):
    """A run as a place needs it: the devices, the server's plan, the layout, and where rounds are stored."""

    plan: ServerSpec[R, O]  # The server's plan
    crews: Mapping[str, Crew]  # Devices, by the name of their kind
    secret: bytes = field(repr=False)  # Private: the population's master secret
    layout: Layout  # It affects only speed
    # Gets the outcome, the `Backstage` and the `Costs`, and returns the experiment's result
    finish: Callable[[O, Backstage, Costs], T]
    kept: Kept[R] = field(default_factory=Nowhere)  # Yields the rounds of an interrupted run, and stores every new one
    ledger: Path | None = None  # Folder of the devices' book; None to hold it in memory only
    # A context in which the first query is tried, so that a refusal names the policy that asks it
    naming: Callable[[], AbstractContextManager[None]] = nullcontext
    packages: frozenset[str] = frozenset()  # The user's own packages, whose code is sent to workers


NAMED = "as called"
"""Why a run is where it is: its caller named the backend, or called from Python, where none is chosen."""


class Session(Protocol):
    """A place that is ready to run."""

    reason: str  # Why it is this one, in a few words

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def workers(self) -> int:
        """Device blocks computed at the same time."""
        ...

    def enough(self, plan: ServerSpec[Any, Any], answers: int) -> int:
        """Return with how many of the workers a run is done soonest, in which devices give so many answers."""
        ...

    def conduct(self, work: Work[R, O, T], progress: Progress) -> T:
        """Start the devices, conduct the rounds, end all that was started, and return what `Work.finish` returned."""
        ...

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield (index of the argument, result of the function) as calls end; ``workers`` calls run at a time."""
        ...


def silent(_: RunProgress) -> None:
    """Report no progress."""


def check_workers(workers: int | None) -> None:
    """Refuse a number of workers below 1; None stands for one for each CPU."""
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")
