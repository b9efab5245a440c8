"""The untrusted server as a state machine without input or output: `next_query`, `absorb`, `learn`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from coordinator.aggregation import Statistic, merge
from coordinator.decoders import decode
from coordinator.estimates import Estimates
from coordinator.pair_statistics import PairStatistic
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Model, Query
from coordinator.rating_decoders import Curator, decode_item_totals, decode_pair_totals, decode_shares
from coordinator.readings import NO_READINGS, Readings
from coordinator.spectral import decode_pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One round: a query, and the devices ``first`` to ``stop - 1`` that it goes to."""

    query: Query
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Counts:
    """What came back in a round, in numbers: devices asked, answers, refusals, and ones among the answers' bits."""

    asked: int
    answered: int
    refused: int
    ones: int

    @classmethod
    def of(cls, statistic: Statistic) -> Counts:
        """Return the counts of a statistic."""
        return cls(statistic.asked, statistic.answered, statistic.refused, statistic.ones)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """All that the server knows: what it asked, and the sum of what came back.

    Its size does not grow with a round's statistic, which may hold a number for every pair of items.

    Attributes
    ----------
    devices : int
        Number of devices that can be asked.
    asked : tuple of Ask
        Rounds so far, in order.
    counts : tuple of Counts
        What came back, one for each of them.
    merged : Statistic or None
        The sum of their statistics; None before the first.
    estimates : Estimates or None
        What they tell of every item, where the design's answers can be read so.
    readings : Readings
        What they will tell once more is known.
    budget : Fraction or None
        What a device may spend in all [nats]; None for no limit.
    """

    devices: int
    asked: tuple[Ask, ...] = ()
    counts: tuple[Counts, ...] = ()
    merged: Statistic | None = None
    estimates: Estimates | None = None
    readings: Readings = NO_READINGS
    budget: Epsilon = None

    @property
    def fresh(self) -> int:
        """Index of the first device that has not been asked yet."""
        return max((ask.stop for ask in self.asked), default=0)

    @property
    def answers_asked(self) -> int:
        """Answers that were asked for, over all rounds."""
        return sum(ask.stop - ask.first for ask in self.asked)


class Policy(Protocol):
    """Which query comes next: a pure function of what the server may know."""

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None to stop."""
        ...


def absorb(state: ServerState, ask: Ask, statistic: Statistic, told: Estimates | None = None) -> ServerState:
    """Return the state after the answers to ``ask`` came in, and what they ``told``, where they can be read so."""
    return replace(
        state,
        asked=(*state.asked, ask),
        counts=(*state.counts, Counts.of(statistic)),
        merged=statistic if state.merged is None else merge(state.merged, statistic),
        readings=state.readings.and_of(ask.query, statistic, told),
        estimates=told if state.estimates is None or told is None else state.estimates + told,
    )


def total(state: ServerState) -> Statistic:
    """Return the sum over rounds, at least one."""
    if state.merged is None:
        raise ValueError("the server has asked nothing yet; there is nothing to learn from")
    return state.merged


def learn(state: ServerState, *, clusters: int, decoder: str, curator: Curator | None = None) -> Model:
    """Return the item model that all rounds together tell.

    Parameters
    ----------
    state : ServerState
        At least one round.
    clusters : int
        Number of item clusters L.
    decoder : str
        Name of the decoder; "centred" or "paper" where a design has both.
    curator : Curator, optional
        Where the server is a trusted curator: the noise that it publishes under.

    Raises
    ------
    ValueError
        If nothing was asked, or rounds asked in ways whose scores cannot be added up.
    """
    statistic, query = total(state), state.asked[0].query
    if isinstance(statistic, PairStatistic):
        if curator:
            return decode_pair_totals(statistic, curator, clusters=clusters)
        return decode_pairs(statistic, clusters=clusters, decoder=decoder)
    if any(ask.query.parameters != query.parameters for ask in state.asked):
        ways = [ask.query.parameters for ask in state.asked]
        raise ValueError(f"rounds asked in different ways, {ways}; their scores cannot be added up")
    if curator:
        return decode_item_totals(statistic, curator, clusters=clusters)
    if query.design not in SENSING:
        return decode_shares(statistic, clusters=clusters)
    return decode(statistic, sensing=SENSING[query.design](query), clusters=clusters, decoder=decoder)


SENSING: dict[str, Callable[[Query], float]] = {
    "maxsense": lambda query: query.parameters["sensing"],
    "multi-maxsense": lambda query: query.parameters["set_size"] / query.items,
}
"""Probability that a set holds an item, of designs that ask about sets."""
