"""The untrusted server as a state machine without input or output: `next_query`, `absorb`, `learn`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from coordinator.decoders import decode
from coordinator.protocol.messages import Model, Query
from coordinator.statistics import ScoreStatistic, empty_statistic


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One round: a query, and the devices ``first`` to ``stop - 1`` that it goes to."""

    query: Query
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """All that the server knows: what it asked, and the sums of what came back.

    Attributes
    ----------
    devices : int
        Number of devices that can be asked.
    asked : tuple of Ask
        Rounds so far, in order.
    statistics : tuple of ScoreStatistic
        One for each of them.
    """

    devices: int
    asked: tuple[Ask, ...] = ()
    statistics: tuple[ScoreStatistic, ...] = ()

    @property
    def fresh(self) -> int:
        """Index of the first device that has not been asked yet."""
        return max((ask.stop for ask in self.asked), default=0)


class Policy(Protocol):
    """Which query comes next: a pure function of what the server may know."""

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None to stop."""
        ...


def absorb(state: ServerState, ask: Ask, statistic: ScoreStatistic) -> ServerState:
    """Return the state after the answers to ``ask`` came in."""
    return replace(state, asked=(*state.asked, ask), statistics=(*state.statistics, statistic))


def total(state: ServerState, items: int) -> ScoreStatistic:
    """Return the sum over rounds."""
    return sum(state.statistics, start=empty_statistic(items))


def learn(state: ServerState, *, clusters: int, decoder: str) -> Model:
    """Return the item model that all rounds together tell.

    Raises
    ------
    ValueError
        If nothing was asked.
    """
    if not state.asked:
        raise ValueError("the server has asked nothing yet; there is nothing to learn from")
    query = state.asked[-1].query
    return decode(total(state, query.items), sensing=query.parameters["sensing"], clusters=clusters, decoder=decoder)
