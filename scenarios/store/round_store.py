"""Stores of a run's rounds: none, in memory, or a `scenarios.store.journal.Journal` on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scenarios.store.manifest import UNCLAIMED

if TYPE_CHECKING:
    from coordinator.server.rounds.rounds import Round

R = TypeVar("R")  # A round of the run


class RecordStore(Protocol[R]):
    """Finished rounds, which are written and read one by one, so that they need not fit in memory together."""

    def keep(self, over: R) -> None:
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


class NoStore:
    """A store of nothing: an interrupted run starts again, and its devices repeat their answers."""

    trusted = True
    run = UNCLAIMED

    def keep(self, over: Any) -> None:
        """Drop a round."""

    def __iter__(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())


class InMemoryRounds(NoStore):
    """Rounds in memory, which the caller can inspect afterwards."""

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)

    def keep(self, over: Round) -> None:
        """Append a round."""
        self.rounds.append(over)

    def __iter__(self) -> Iterator[Round]:
        """Yield all of them."""
        return iter(self.rounds)
