"""The untrusted server as a state machine without input or output: `next_query`, `absorb`, `learn`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from coordinator.aggregation import Statistic, merge
from coordinator.decoders import decode
from coordinator.pair_statistics import PairStatistic
from coordinator.protocol.messages import Model, Query
from coordinator.spectral import decode_pairs


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
    statistics : tuple of Statistic
        One for each of them.
    """

    devices: int
    asked: tuple[Ask, ...] = ()
    statistics: tuple[Statistic, ...] = ()

    @property
    def fresh(self) -> int:
        """Index of the first device that has not been asked yet."""
        return max((ask.stop for ask in self.asked), default=0)


class Policy(Protocol):
    """Which query comes next: a pure function of what the server may know."""

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None to stop."""
        ...


def absorb(state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
    """Return the state after the answers to ``ask`` came in."""
    return replace(state, asked=(*state.asked, ask), statistics=(*state.statistics, statistic))


def total(state: ServerState) -> Statistic:
    """Return the sum over rounds, at least one."""
    return merge(*state.statistics)


def learn(state: ServerState, *, clusters: int, decoder: str) -> Model:
    """Return the item model that all rounds together tell.

    Raises
    ------
    ValueError
        If nothing was asked, or rounds sensed at different rates.
    """
    if not state.asked:
        raise ValueError("the server has asked nothing yet; there is nothing to learn from")
    statistic = total(state)
    if isinstance(statistic, PairStatistic):
        return decode_pairs(statistic, clusters=clusters, decoder=decoder)
    rates = {ask.query.parameters["sensing"] for ask in state.asked}
    if len(rates) > 1:
        raise ValueError(f"rounds sensed at different rates, {sorted(rates)}; their scores cannot be added up")
    return decode(statistic, sensing=rates.pop(), clusters=clusters, decoder=decoder)
