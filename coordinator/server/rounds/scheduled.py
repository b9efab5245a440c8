"""Rounds of a schedule: who is asked in which period, and estimates that age between periods."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple, cast

import numpy as np

from coordinator.protocol.agreement import PlannedRound
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.counters import standings_variance
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.posterior import Posterior
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.mechanism import InWorld, QueryHeader
from coordinator.protocol.mechanisms.sets import ranked_first
from coordinator.protocol.mechanisms.totals import LikedPairTotals
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.schedule import Horizon, Schedule, panels_of, staying
from coordinator.protocol.shared_vector import DELTA, DEVIATION, HONEST, LEAST_ANSWERS, SERVERS
from coordinator.protocol.statistics.counts import RANKED, CountStatistic, GroupStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.ageing import renewal
from coordinator.server.design import Design
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState, absorb, total

TENTH = 10  # The place, by size, of the estimate that drift is relative to


class AskedRound(NamedTuple):
    """The part of a scheduled round that does not depend on epsilon."""

    period: int
    first: int  # The devices that are asked: from the first one up to, but without, the stop
    stop: int
    share: Fraction  # Share of a device's budget
    devices: int  # Devices that have not left yet


class ArrivalGroup(NamedTuple):
    """Devices with adjacent addresses that arrive in one period and answer in the same periods."""

    arrival: int
    first: int
    stop: int
    shares: tuple[Fraction, ...]  # Of the budget, by period


class Asking(NamedTuple):
    """The rounds of a schedule, and the groups of devices that answer them."""

    rounds: tuple[AskedRound, ...]
    answers: int  # Most answers of a device
    groups: tuple[ArrivalGroup, ...]

    @property
    def smallest(self) -> int:
        """Number of devices in the smallest round."""
        return min(part.devices for part in self.rounds)

    @property
    def equal(self) -> bool:
        """Whether all answers have the same share of the budget."""
        return len({part.share for part in self.rounds}) == 1

    def histories(self) -> set[tuple[AskedRound, ...]]:
        """Return the rounds in which a device answers, for each kind of device."""
        every = {
            tuple(part for part in self.rounds if part.first <= group.first and group.stop <= part.stop)
            for group in self.groups
            if group.first < group.stop
        }
        return every - {()}


def asking(schedule: Schedule, horizon: Horizon, arrivals: Sequence[int], churn: float = 0.0) -> Asking:
    """Return the rounds of a schedule; ``arrivals`` counts the devices that arrive in each period.

    A panel has adjacent addresses, and its last devices leave first; addresses are random, so this reveals nothing. A
    round also asks the devices that have left, which do not answer.
    """
    groups = _groups(schedule, horizon, arrivals)
    periods = range(1, horizon.periods + 1)
    rounds = [AskedRound(period, *part) for period in periods for part in _joined(groups, period, churn)]
    answering = {part.period for part in rounds}
    for period in periods:
        if period not in answering and any(group.shares[period - 1] for group in groups):
            raise InputError(
                f"schedule {_name_of(schedule)} asks none of {sum(arrivals):,} devices in period {period}; give more "
                "users or fewer periods"
            )
    if not rounds:
        raise InputError(f"schedule {_name_of(schedule)} asks nobody anything; give somebody a share")
    shares = {part.share for part in rounds}
    most = max(sum(share > 0 for share in group.shares) for group in groups if group.first < group.stop)
    equal = len(shares) == 1 and max(shares).numerator == 1
    return Asking(tuple(rounds), shares.pop().denominator if equal else most, groups)


def _name_of(schedule: Schedule) -> str:
    return schedule.name or type(schedule).__name__


def _groups(schedule: Schedule, horizon: Horizon, arrivals: Sequence[int]) -> tuple[ArrivalGroup, ...]:
    """Return the groups, first answerers at the lowest addresses, so that a round has few ranges of addresses."""
    sizes = list[tuple[int, int, tuple[Fraction, ...]]]()
    for arrival, devices in enumerate(arrivals, 1):
        if not devices:
            continue
        panels = panels_of(schedule, arrival, horizon)
        ends = [math.floor(weight * devices) for weight in accumulate(panel.weight for panel in panels)]
        sizes += [
            (arrival, stop - first, panel.shares)
            for (first, stop), panel in zip(pairwise([0, *ends]), panels, strict=True)
        ]
        sizes.append((arrival, devices - max(ends, default=0), (Fraction(0),) * horizon.periods))
    sizes.sort(key=lambda group: next((at for at, share in enumerate(group[2]) if share), horizon.periods))
    ends = [0, *accumulate(size for _, size, _ in sizes)]
    return tuple(
        ArrivalGroup(arrival, first, stop, shares)
        for (arrival, _, shares), (first, stop) in zip(sizes, pairwise(ends), strict=True)
    )


def _joined(groups: Sequence[ArrivalGroup], period: int, churn: float) -> Iterator[tuple[int, int, Fraction, int]]:
    """Yield a period's ranges of addresses, shares and numbers of devices; adjacent ranges of one share are joined."""
    answering = [group for group in groups if group.shares[period - 1] and group.first < group.stop]
    begin, end, share, devices = 0, 0, Fraction(0), 0
    for group in answering:
        if (group.first, group.shares[period - 1]) != (end, share):
            if devices:
                yield begin, end, share, devices
            begin, share, devices = group.first, group.shares[period - 1], 0
        end = group.stop
        devices += staying(group.stop - group.first, churn, period - group.arrival)
    if devices:
        yield begin, end, share, devices


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Asks the rounds of a plan in order; each is about the ratings of its period."""

    setting: Setting  # Design, privacy and public coins
    plan: tuple[PlannedRound, ...]
    designs: tuple[Design, ...]  # One for each round
    delta: float = 0.0  # Delta of the whole plan, if two servers open sums

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.plan)

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round; None after the last, or if a withheld round leaves no items to ask about."""
        if state.round_number == len(self.plan):
            return None
        part = self.plan[state.round_number]
        header = self.setting.header(state)
        header["epsilon"] = part.epsilon
        if (query := self._query(state, header)) is None:
            return None
        query = replace(query, period=part.period, own_questions=self.setting.own_questions)
        if part.noise is not None:
            of_plan = {DEVIATION: part.noise.deviation, HONEST: part.honest, LEAST_ANSWERS: part.noise.least_answers}
            of_plan[DELTA] = self.delta if part.noise.deviation else 0.0
            query = replace(query, parameters={**query.parameters, **{name: float(of_plan[name]) for name in of_plan}})
        return Ask(query=query, first=part.first, stop=part.stop)

    def _query(self, state: ServerState, header: QueryHeader) -> Query | None:
        """Return the round's query.

        For pairs, the first period ranks all items, and each later one asks about pairs of the top items; None if the
        first one was withheld.
        """
        design = self.designs[state.round_number]
        if not isinstance(design, LikedPairTotals):
            return design.query(**header)
        if self.plan[state.round_number].period == self.plan[0].period:
            return design.of_items(**header)
        counts = cast("GroupStatistic", total(state)).of(RANKED)
        if not counts.answered:
            return None
        return design.query(pool=ranked_first(counts.sums, design.pair_items), **header)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeingLearner(Learner):
    """Reads every round's estimates; earlier ones lose information, because shares of likes drift.

    Between periods an estimate's variance grows by ``(s f)^2``, with f the tenth largest estimate: a Kalman filter of a
    random walk without a prior. With s 0 it pools all periods, with an infinite s it uses only the latest.
    """

    design: InWorld
    clusters: int
    ageing: float  # s, of a period
    # New items of the second period and each later one; a public event, after which nothing is known about them
    new_items: tuple[Indices, ...] = ()
    memoized: bool = False  # Whether devices repeat answers, with the same noise

    @property
    def asks(self) -> tuple[str, ...]:
        """The design's name."""
        return (self.design.name,)

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a round, with earlier estimates aged up to its period."""
        period, before = ask.query.period, max((earlier.query.period for earlier in _asks(state)), default=0)
        periods = period - before
        if periods and state.estimates is not None:
            state = replace(state, estimates=self._later(state.estimates, before, period))
        after = absorb(state, ask, statistic, self.design.read(ask.query, statistic))
        assert after.estimates is not None  # of the round that came in
        earlier = state.by_period if periods else state.by_period[:-1]
        return replace(after, by_period=(*earlier, after.estimates))

    def _later(self, estimates: Estimates, before: int, period: int) -> Estimates:
        """Return estimates aged from one period to a later one; new items have no information."""
        aged = self.aged(estimates, period - before)
        for items in self.new_items[before - 1 : period - 1]:
            aged.weighted[items] = aged.information[items] = 0.0
        return aged

    def errors(self, state: ServerState) -> Floats:
        """Return the standard errors of the estimates, shape (N,), also if the same people answer in several periods.

        The filter assumes independent errors, but people who answer again are the same sample: if tastes stay, their
        sampling variance ``f (1 - f) / n`` is no smaller after three periods, whatever the noise of their answers is.
        """
        asks, estimates = _asks(state), state.by_period[-1]
        periods = sorted({ask.query.period for ask in asks})
        repeated = self.design.mechanism.repeated_variance(asks[0].query, self.design.world, estimates.value)
        if self.memoized:  # an upper bound: the whole variance of one period
            repeated = state.counts[0].answered / state.by_period[0].information
        weights, before = np.zeros((len(periods), estimates.value.size)), 0.0 * estimates.information
        for number, (period, after) in enumerate(zip(periods, state.by_period, strict=True)):
            left = np.divide(before, after.information, out=np.zeros_like(before), where=after.information > 0)
            weights[:number] *= left
            weights[number] = 1 - left
            if period != periods[-1]:
                before = self._later(after, period, periods[number + 1]).information
        both = _both(asks, periods)
        variance: Floats = estimates.error**2 + repeated * (weights * (both @ weights)).sum(axis=0)
        return np.sqrt(variance)

    def aged(self, estimates: Estimates, periods: int) -> Estimates:
        """Return estimates aged by this many periods."""
        values, tenth = estimates.value, min(TENTH, estimates.value.size)
        level = max(float(-np.partition(-values, tenth - 1)[tenth - 1]), 0.0)
        added = periods * (min(self.ageing, 1e6) * level) ** 2
        information = estimates.information / (1 + added * estimates.information)
        if math.isinf(self.ageing):  # exactly 0, since any remainder would order items with equal counts
            information = np.zeros_like(information)
        return Estimates(weighted=values * information, information=information)

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the item model as of the last period; see `Learner.learn`."""
        estimates = state.estimates
        if estimates is None or not estimates.information.any():
            raise WithheldError(
                "there is nothing to learn from: no period had answers that were handed on or opened, and their shares "
                "of the budget are spent; expect fewer answers (expected_answers)"
            )
        value, error = estimates.value, self.errors(state)
        cluster = kmeans_on_line(value, self.clusters)
        return Model(cluster=cluster, score=value, error=error, clusters=self.clusters), None


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterLearner(AgeingLearner):
    """Reads standings: the likes of all periods so far, of whom arrived so far; who left is not subtracted."""

    deviation: float  # Of the noise z that each server draws for a period
    ageing: float = 0.0

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a period, with estimates of all periods so far."""
        after = absorb(state, ask, statistic)
        # Those who drop out miss a period's likes for good, so that shares are too small by what they would have said
        people, opened = max(part.stop for part in _asks(after)), sum(count.answered > 0 for count in after.counts)
        standings = cast("CountStatistic", after.merged).sums
        nothing = np.zeros(ask.query.items)
        estimates = Estimates(weighted=nothing, information=nothing)
        if opened:
            share = standings / people
            noise = SERVERS * standings_variance(opened, self.deviation) if self.deviation else 0.0
            information = 1 / (np.clip(share * (1 - share), 1 / people, 1) / people + noise / people**2)
            estimates = Estimates(weighted=information * share, information=information)
        return replace(after, estimates=estimates, by_period=(*state.by_period, estimates))

    def errors(self, state: ServerState) -> Floats:
        """Return the standard errors of the latest standings, shape (N,)."""
        return state.by_period[-1].error


def _asks(state: ServerState) -> tuple[Ask, ...]:
    return state.asked


def _both(asks: Sequence[Ask], periods: Sequence[int]) -> Floats:
    """Return how many people answer in both of two periods, divided by the product of both numbers, shape (T, T).

    The diagonal is 0. Devices drop out by their own coins, so the devices asked represent those that answer.
    """
    ends = sorted({end for ask in asks for end in (ask.first, ask.stop)})
    there = np.zeros((len(periods), max(len(ends) - 1, 1)))
    for ask in asks:
        there[periods.index(ask.query.period), ends.index(ask.first) : ends.index(ask.stop)] = 1
    devices = there * np.diff(ends)
    both = devices @ there.T / np.outer(devices.sum(axis=1), devices.sum(axis=1))
    np.fill_diagonal(both, 0.0)
    return both


def renewal_share(ageing: float, item_arrivals: float = 0.0, noise: float = 0.234) -> Fraction:
    """Return the share of knowledge that ages in a period; see `renewal`.

    The default noise is the relative noise at which a list of ten just keeps 95 % of popularity's worth, measured in a
    made world of 2,000 items.
    """
    return Fraction(renewal(ageing, item_arrivals, noise)).limit_denominator(1000)
