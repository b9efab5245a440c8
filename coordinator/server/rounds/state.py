"""The untrusted server as a state machine without input or output, and its progress in public numbers."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, is_dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon, add, as_float, within
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.mechanism import InWorld
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import PRIOR, SENSED
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.statistics.statistic import Statistic, merge


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far the server has come."""

    count: int = 0  # Answers, devices or rounds so far, those of the current round included
    restored: int = 0  # How many of these a resumed run read from its folder
    rounds: int = 0  # Finished rounds, batches or clients
    planned: int | None = None  # Their final number, if it is known in advance
    # Answers in finished rounds; None if whole experiments are counted
    answers: int | None = 0
    # Devices that refused in finished rounds, for lack of budget or keeper; None if they do not report it
    refused: int | None = 0
    # The most that any device has spent in finished rounds, by the queries it got [nats]; infinite if answers have no
    # noise, None as for ``answers``
    epsilon: float | None = 0.0
    # Items that were undecided at the latest round, if the policy asks only about these
    undecided: int | None = None


class Spending:
    """What devices have spent, exactly, computed from their queries: no device answers beyond its budget."""

    def __init__(self, budget: Epsilon) -> None:
        self._budget = budget
        # devices starts[i] to starts[i + 1] - 1 were asked alike
        self._starts, self._spent = [0], list[Epsilon]([Fraction(0)])
        self.most = 0.0

    def ask(self, first: int, stop: int, cost: Epsilon) -> None:
        """Charge devices ``first`` to ``stop - 1`` for a query; devices without enough budget refuse it."""
        start, end = self._cut(first), self._cut(stop)
        for at in range(start, end):
            after = add(self._spent[at], cost)
            if within(after, self._budget):
                self._spent[at] = after
                self.most = max(self.most, as_float(after))

    def _cut(self, device: int) -> int:
        """Make a range begin at a device, and return the range's index."""
        at = bisect_left(self._starts, device)
        if at == len(self._starts) or self._starts[at] != device:
            self._starts.insert(at, device)
            self._spent.insert(at, self._spent[at - 1])
        return at


@dataclass(frozen=True, slots=True, kw_only=True)
class Centred:
    """A round about centred ratings, with counts only for the M items of its pool, shape (M,)."""

    query: Query
    inside: ScoreStatistic

    def whole(self) -> ScoreStatistic:
        """Return the round's statistic of all items."""
        return replace(self.inside, sensed=self._spread(self.inside.sensed), scores=self._spread(self.inside.scores))

    def _spread(self, values: Ints) -> Ints:
        whole = np.zeros(self.query.items, np.int64)
        whole[self.query.pool] = values
        return whole


@dataclass(frozen=True, slots=True)
class AnchorRound:
    """A round of anchor sensing: what was asked, and the sum of the answers."""

    query: Query
    statistic: AnchorStatistic

    @property
    def turned(self) -> bool:
        """Whether it asked for turned signs, and not for signs of pairs."""
        return SENSED in self.query.arrays

    @property
    def plain(self) -> bool:
        """Whether it asked for first-order signs, which no guess can turn because there is only one class."""
        return self.turned and self.query.arrays[PRIOR].size == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """The rounds so far: some are read once, others again whenever estimates improve."""

    settled: Estimates | None = None  # Sum of the estimates of all rounds that are read once
    centred: tuple[Centred, ...] = ()  # Rounds about centred ratings, and rounds of anchor sensing, in order
    anchors: tuple[AnchorRound, ...] = ()

    def and_of(self, query: Query, statistic: Statistic, estimates: Estimates | None) -> Readings:
        """Return the readings with one more round, whose estimates were ``estimates`` when it came in."""
        if isinstance(statistic, AnchorStatistic):
            return replace(self, anchors=(*self.anchors, AnchorRound(query, statistic)))
        if estimates is None:
            return self
        if query.centres is None:
            return replace(self, settled=estimates if self.settled is None else self.settled + estimates)
        assert isinstance(statistic, ScoreStatistic)  # because only sign sensing has centres
        inside = replace(statistic, sensed=statistic.sensed[query.pool], scores=statistic.scores[query.pool])
        return replace(self, centred=(*self.centred, Centred(query=query, inside=inside)))

    def anew(self, design: InWorld, expected: Floats) -> Estimates:
        """Return the estimates of all rounds (at least one) for users who like items as ``expected``, shape (N,)."""
        total = self.settled
        for centred in self.centred:
            estimates = design.read(centred.query, centred.whole(), expected)
            total = estimates if total is None else total + estimates
        assert total is not None
        return total


NO_READINGS = Readings()  # Before the first round


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One round: a query, and the devices ``first`` to ``stop - 1`` that it goes to."""

    query: Query
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of a round: devices asked, answers, refusals, and ones among the answers' bits."""

    asked: int
    answered: int
    refused: int
    ones: int

    @classmethod
    def of(cls, statistic: Statistic) -> Counts:
        """Return the counts of a statistic."""
        return cls(statistic.devices, statistic.answered, statistic.refused, statistic.ones)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """Everything that the server knows: its queries and the sum of the answers.

    It holds one sum of all rounds' statistics, since a statistic may have a number for every pair of items.

    Attributes
    ----------
    devices : int
        Number of devices that can be asked.
    asked : tuple of Ask
        Rounds so far, in order.
    counts : tuple of Counts
        The numbers of each of them.
    merged : Statistic or None
        The sum of their statistics; None before the first.
    estimates : Estimates or None
        Estimates of every item, if the design's answers allow them.
    readings : Readings
        Rounds that will be read again when estimates improve.
    budget : Fraction or None
        What a device may spend in all [nats]; None for no limit.
    by_period : tuple of Estimates
        With periods, the estimates at the end of each period that had a round.
    """

    devices: int
    asked: tuple[Ask, ...] = ()
    counts: tuple[Counts, ...] = ()
    merged: Statistic | None = None
    estimates: Estimates | None = None
    readings: Readings = NO_READINGS
    budget: Epsilon = None
    by_period: tuple[Estimates, ...] = ()

    @property
    def round_number(self) -> int:
        """Number of the next round, from 0: as many rounds as there were."""
        return len(self.asked)

    @property
    def fresh(self) -> int:
        """Index of the first device that has not been asked yet."""
        return max((ask.stop for ask in self.asked), default=0)

    @property
    def answers_asked(self) -> int:
        """Answers that were asked for, over all rounds."""
        return sum(ask.stop - ask.first for ask in self.asked)


class Policy(Protocol):
    """Decides which query comes next, as a pure function of what the server knows.

    A policy may have two more attributes, which only serve to show progress: ``rounds``, if it knows their number, and
    a true ``asks_undecided``, if its pools are the undecided items.
    """

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None to stop."""


def absorb(state: ServerState, ask: Ask, statistic: Statistic, estimates: Estimates | None = None) -> ServerState:
    """Return the state after the answers to ``ask``, with the ``estimates`` that follow from them, if any."""
    before = state.estimates
    after = replace(
        state,
        asked=(*state.asked, ask),
        counts=(*state.counts, Counts.of(statistic)),
        merged=statistic if state.merged is None else merge(state.merged, statistic),
        readings=state.readings.and_of(ask.query, statistic, estimates),
        estimates=estimates if before is None or estimates is None else before + estimates,
    )
    sums = (after.estimates, after.readings.settled)
    # read-only, because a policy that wrote to them would change what is learned
    for value in (ask.query, after.merged, *sums, *after.readings.centred[-1:], *after.readings.anchors[-1:]):
        _close(value)
    return after


def _close(value: object) -> None:
    """Make the arrays that a value holds read-only."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif is_dataclass(value):
        for part in fields(value):
            _close(getattr(value, part.name))


def total(state: ServerState) -> Statistic:
    """Return the sum over rounds, at least one."""
    if state.merged is None:
        raise ValueError("the server has asked nothing yet; there is nothing to learn from")
    return state.merged
