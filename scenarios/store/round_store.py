"""Where rounds are kept while a run goes on: nowhere, in memory, or in a `scenarios.store.journal.Journal` on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from coordinator.server.rounds.query_rounds import Round

R = TypeVar("R")
"""A round, whatever that is in the run."""


class Kept(Protocol[R]):
    """Rounds that are over, told one by one and read one by one: nobody holds them all."""

    def keep(self, over: R) -> None:
        """Keep a round that is just over."""
        ...

    def __iter__(self) -> Iterator[R]:
        """Yield the rounds that are kept, in order; a run goes on after them."""
        ...


class KeptRounds(Kept[Round], Protocol):
    """Rounds of queries that are over."""

    @property
    def trusted(self) -> bool:
        """Whether the code that goes on is the one that asked them; else they are held against what it would ask."""
        ...


class Nowhere:
    """Nothing is kept: a run that is interrupted begins anew, and its devices repeat their answers."""

    trusted = True

    def keep(self, over: Any) -> None:
        """Forget a round."""

    def __iter__(self) -> Iterator[Any]:
        """Yield nothing."""
        return iter(())


class Held:
    """Rounds in memory, for whoever looks at them afterwards.

    Parameters
    ----------
    *rounds : Round
        Of an interrupted run.
    """

    trusted = True

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)

    def keep(self, over: Round) -> None:
        """Hold a round."""
        self.rounds.append(over)

    def __iter__(self) -> Iterator[Round]:
        """Yield all of them."""
        return iter(self.rounds)
