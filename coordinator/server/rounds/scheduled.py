"""Rounds of a schedule: who is asked in which period, and estimates that age between periods."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from coordinator.protocol.agreement import PlannedRound
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.posterior import Posterior
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import InWorld
from coordinator.protocol.messages import Model
from coordinator.protocol.schedule import Horizon, Schedule, panels_of
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, ServerState, absorb

TENTH = 10  # The place, by size, of the estimate that drift is relative to


class Asking(NamedTuple):
    """The rounds of a schedule, as far as they do not depend on epsilon."""

    rounds: tuple[PlannedRound, ...]  # Each without an epsilon: an equal part of a device's budget
    answers: int  # Of a device, at most

    @property
    def smallest(self) -> int:
        """Devices of the smallest round."""
        return min(part.stop - part.first for part in self.rounds)


def asking(schedule: Schedule, horizon: Horizon, devices: int) -> Asking:
    """Return the rounds of a schedule in which so many devices are there from the first period on.

    Devices of a panel are neighbours: who they are says nothing, since addresses are drawn.
    """
    panels = panels_of(schedule, 1, horizon)
    shares = {share for panel in panels for share in panel.shares if share}
    if len(shares) != 1 or max(shares).numerator != 1:
        parts = ", ".join(map(str, sorted(shares))) or "nothing"
        raise InputError(
            f"schedule {schedule.name or type(schedule).__name__} has shares {parts} of a device's budget; devices "
            "answer under equal ones here, parts of one; see blindrec years for others"
        )
    ends = [math.floor(weight * devices) for weight in accumulate(panel.weight for panel in panels)]
    stretches = list(zip(pairwise([0, *ends]), panels, strict=True))
    rounds = [
        PlannedRound(period, first, stop, None)
        for period in range(1, horizon.periods + 1)
        for first, stop in _joined((ends for ends, panel in stretches if panel.shares[period - 1]))
    ]
    if any(first == stop for (first, stop), panel in stretches if any(panel.shares)):
        raise InputError(f"some panel holds none of {devices:,} devices; give more users or fewer periods")
    return Asking(tuple(rounds), shares.pop().denominator)


def _joined(stretches: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield stretches, neighbours as one."""
    begin, end = next(stretches, (0, 0))
    for first, stop in stretches:
        if first != end:
            yield begin, end
            begin = first
        end = stop
    if begin < end:
        yield begin, end


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """Asks the rounds of a plan, one after the other; each is about the ratings of its period."""

    setting: Setting  # Design, privacy and number of answers of a device
    plan: tuple[PlannedRound, ...]

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len(self.plan)

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None after the last."""
        if state.round_number == len(self.plan):
            return None
        part = self.plan[state.round_number]
        query = self.setting.design.query(**self.setting.header(state))
        query = replace(query, period=part.period, own_questions=self.setting.own_questions)
        return Ask(query=query, first=part.first, stop=part.stop)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgeingLearner(Learner):
    """Reads every round's estimates; those of earlier periods lose information, as shares drift.

    Between periods an estimate's variance grows by ``(s f)^2``, with f the tenth largest estimate: a Kalman filter of a
    random walk, begun without a prior. With s 0 it pools all periods, with an infinite s the latest one is read alone.
    """

    design: InWorld
    clusters: int
    ageing: float  # s, of a period

    @property
    def asks(self) -> tuple[str, ...]:
        """The design's name."""
        return (self.design.name,)

    def absorb(self, state: ServerState, ask: Ask, statistic: Statistic) -> ServerState:
        """Return the state after a round, with estimates as old as they are then."""
        periods = ask.query.period - state.asked[-1].query.period if state.asked else 1
        if periods and state.estimates is not None:
            state = replace(state, estimates=self.aged(state.estimates, periods))
        after = absorb(state, ask, statistic, self.design.read(ask.query, statistic))
        assert after.estimates is not None  # of the round that came in
        earlier = state.by_period if periods else state.by_period[:-1]
        return replace(after, by_period=(*earlier, after.estimates))

    def aged(self, estimates: Estimates, periods: int) -> Estimates:
        """Return estimates as many periods later."""
        values, tenth = estimates.value, min(TENTH, estimates.value.size)
        level = max(float(-np.partition(-values, tenth - 1)[tenth - 1]), 0.0)
        added = periods * (min(self.ageing, 1e6) * level) ** 2
        information = estimates.information / (1 + added * estimates.information)
        return Estimates(weighted=values * information, information=information)

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the item model as of the last period; see `Learner.learn`."""
        estimates = state.estimates
        if estimates is None:
            raise InputError("there is nothing to learn from yet: no round was answered")
        value, error = estimates.value, estimates.error
        cluster = kmeans_on_line(value, self.clusters)
        return Model(cluster=cluster, score=value, error=error, clusters=self.clusters), None


def renewal_share(ageing: float, noise: float = 0.234) -> Fraction:
    """Return the share K of what is known that a period wears off: ``s^2 / (s^2 + r^2)``.

    r is the relative noise at which a list of ten just keeps 95 % of popularity's worth, measured in a made world of
    2,000 items.
    """
    worn = 1.0 if math.isinf(ageing) else ageing**2 / (ageing**2 + noise**2)
    return Fraction(worn).limit_denominator(1000)
