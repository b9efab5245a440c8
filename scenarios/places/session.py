"""What happens at a place, whichever it is: devices are embodied there, a server learns from them in rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from actors.embodied import Kind
from actors.keeper import Books
from coordinator.protocol.errors import InputError
from coordinator.server.fleet.layout import Layout
from coordinator.server.rounds.conductor import Plan
from scenarios.places.worker_threads import A
from scenarios.store.round_store import Kept, Nowhere

R = TypeVar("R")
"""What is kept of a round."""
O = TypeVar("O")  # noqa: E741 (as in `coordinator.server.rounds.conductor`)
"""What all rounds end with."""
T = TypeVar("T")
"""What the experimenter takes home beside that."""
Progress = Callable[[int], None]
"""Told how many answers, devices or rounds are in so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Devices of one kind: the private side's share of a run.

    Attributes
    ----------
    kind : Kind
        What they are, and agreed to.
    holdings : object
        Private: what they hold; goes to devices only.
    bounds : list of (int, int)
        Their cohorts, ``[first, stop)`` each, ascending.
    hosts : int or None
        Processes that embody them at most; several cohorts share one then. None: as many as a place has for devices.
    """

    kind: Kind
    holdings: Any = field(repr=False)
    bounds: list[tuple[int, int]]
    hosts: int | None = None


class Backstage(Protocol):
    """What the experimenter alone may look at when a run is over, before its devices go."""

    @property
    def keeper(self) -> Books:
        """The devices' keeper of what they have booked."""
        ...

    def see(self, kind: str, question: Any, stop: int) -> list[Any]:
        """Return what devices 0 to ``stop - 1`` of a kind show of a question, a cohort each."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Work(Generic[R, O, T]):
    """A run as a place needs it: the private side's share, the server's share, the layout, and what is kept.

    Attributes
    ----------
    plan : Plan
        The server's.
    crews : dict of Crew
        Devices, by the name of their kind.
    secret : bytes
        Private: the population's master secret.
    layout : Layout
        Speed only.
    finish : callable
        Given the outcome and the `Backstage`, returns what else the experimenter takes home.
    kept : Kept
        Rounds that an interrupted run went through; told every new one.
    ledger : Path or None
        Folder in which the devices' keeper keeps what they have booked; None: in memory only.
    naming : callable
        A context in which devices may refuse the first query, to name who asks.
    packages : frozenset of str
        The user's own, whose code travels to wherever it is used.
    """

    plan: Plan[R, O]
    crews: Mapping[str, Crew]
    secret: bytes = field(repr=False)
    layout: Layout
    finish: Callable[[O, Backstage], T]
    kept: Kept[R] = field(default_factory=Nowhere)
    ledger: Path | None = None
    naming: Callable[[], AbstractContextManager[None]] = nullcontext
    packages: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Generic[O, T]):
    """What a place brings back.

    Attributes
    ----------
    outcome : object
        The server's.
    told : object
        What `Work.finish` returned.
    seconds : float
        From the first question to the outcome, the time until a dead coordinator was missed included.
    actors : int
        Ray actors that embodied devices; 0 in process.
    retries : int
        Blocks and rounds that were asked again since a process died.
    restarts : int
        Coordinators that were started since one died.
    """

    outcome: O
    told: T
    seconds: float = 0.0
    actors: int = 0
    retries: int = 0
    restarts: int = 0


class Session(Protocol):
    """A place that is ready."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    @property
    def workers(self) -> int:
        """Device blocks computed at the same time."""
        ...

    def conduct(self, work: Work[R, O, T], progress: Progress) -> Done[O, T]:
        """Embody the devices, conduct the server's rounds, and end what was started for them."""
        ...

    def each(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Yield (place, function of the argument there) as they are completed, ``workers`` at the same time."""
        ...


def silent(answers: int) -> None:
    """Tell nobody about progress."""


def check_workers(workers: int | None) -> None:
    """Refuse a backend without a worker; None stands for one a CPU."""
    if workers is not None and workers < 1:
        raise InputError(f"workers is {workers}; it must be at least 1")
