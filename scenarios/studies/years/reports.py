"""What is reported in every period of a schedule on each rung: groups of people, their answers' law, and its noise."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.composition import gaussian_distance
from coordinator.protocol.moments.count_moments import best_subset
from coordinator.protocol.schedule import Horizon, Panel, Schedule, panels_of
from coordinator.protocol.shuffled_plan import SharedRound, honest_counts, shuffled_plan
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.protocol.value_channels import subset_channel
from coordinator.server.ageing import Measurement

SERVERS = 2  # Each adds a full dose, since each knows its own
SHARE = 0.1  # Share of people who like the item by whose estimate the size of a report is chosen
Cohorts = tuple[tuple[int, Fraction], ...]
"""Periods of arrival, each with the share of those who arrived then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonGuarantee:
    """What all answers of a person keep together, and public constants."""

    trust_model: str
    epsilon: Fraction  # Of a person's history over all periods [nats]
    delta: float
    items: int
    likes: int  # w that sets are padded or cut to


@dataclass(frozen=True, slots=True)
class PeriodGroup:
    """People who answer in one period under one share of their budget."""

    share: Fraction
    cohorts: Cohorts
    devices: int  # How many they are
    honest: int  # And for how many a shuffler's plan is certified, at most as many

    @property
    def round(self) -> SharedRound:
        """Their round, as a plan of a shuffler has it."""
        return SharedRound(self.honest, self.share)


Groups = tuple[tuple[PeriodGroup, ...], ...]
"""Groups by period, the first one first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskingPlan:
    """A schedule among so many people."""

    groups: Groups
    histories: frozenset[tuple[SharedRound, ...]]  # Rounds in which one person answers


def asking_plan(schedule: Schedule, horizon: Horizon, present: Floats, people: int) -> AskingPlan:
    """Return the groups of a schedule among so many people.

    ``present``, shape (T, T), is the share of all people who arrived in one period and are there in another.
    """
    panels = {arrival: panels_of(schedule, arrival, horizon) for arrival in range(1, horizon.periods + 1)}
    panels = {arrival: every for arrival, every in panels.items() if present[arrival - 1].any()}
    groups = _rounded(tuple(_groups_at(at, panels, present, people) for at in range(1, horizon.periods + 1)))
    rounds = [{group.share: group.round for group in of_period} for of_period in groups]
    histories = set[tuple[SharedRound, ...]]()
    for every in panels.values():
        for panel in every:
            answers = [
                of_period[share] for share, of_period in zip(panel.shares, rounds, strict=True) if share in of_period
            ]
            if answers:
                histories.add(tuple(sorted(answers)))
    return AskingPlan(groups=groups, histories=frozenset(histories))


def _groups_at(
    period: int, panels: dict[int, tuple[Panel, ...]], present: Floats, people: int
) -> tuple[PeriodGroup, ...]:
    cohorts: dict[Fraction, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for arrival, every in panels.items():
        for panel in every:
            if panel.shares[period - 1] and present[arrival - 1, period - 1]:
                cohorts[panel.shares[period - 1]][arrival] += panel.weight
    made = []
    for share, weights in sorted(cohorts.items()):
        there = sum(float(weight) * present[arrival - 1, period - 1] for arrival, weight in weights.items())
        if devices := round(people * there):
            made.append(PeriodGroup(share, tuple(sorted(weights.items())), devices, devices))
    return tuple(made)


def alone_plan(present: Floats, people: int) -> AskingPlan:
    """Return the plan of asking everybody once, under the whole budget, in each period as if it were the only one."""
    groups = []
    for period, there in enumerate(present.T, 1):
        cohorts = tuple((arrival, Fraction(1)) for arrival in range(1, period + 1) if there[arrival - 1])
        devices = round(people * float(there.sum()))
        groups.append((PeriodGroup(Fraction(1), cohorts, devices, devices),) if devices else ())
    rounded = _rounded(tuple(groups))
    return AskingPlan(
        groups=rounded, histories=frozenset((group.round,) for of_period in rounded for group in of_period)
    )


def _rounded(groups: Groups) -> Groups:
    """Return groups of whom few kinds are to be certified; see `honest_counts`."""
    honest = honest_counts([(group.devices, group.share) for of_period in groups for group in of_period])
    return tuple(
        tuple(replace(group, honest=honest[group.devices, group.share]) for group in of_period) for of_period in groups
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReports:
    """The law of a group's sum, item by item: a binomial count, and noise that servers or a curator add."""

    group: PeriodGroup
    speaks: float = 1.0  # Chance that a report counts for an item of a person's set, and for another one
    for_others: float = 0.0
    deviation: float = 0.0  # Of the noise that is added to a count
    local_epsilon: float | None = None  # Of one report [nats]

    def measured(self, shares: Floats, worlds: int, coins: np.random.Generator) -> Measurement:
        """Draw the estimates of so many worlds from the shares of the group's people, shape (worlds or 1, N)."""
        contrast, devices = self.speaks - self.for_others, self.group.devices
        chances = np.clip(self.for_others + contrast * shares, 0.0, 1.0)
        counts = coins.binomial(devices, np.broadcast_to(chances, (worlds, shares.shape[-1]))).astype(np.float64)
        if self.deviation:
            counts += np.rint(coins.normal(0.0, self.deviation, counts.shape))
        return Measurement((counts / devices - self.for_others) / contrast, self.variance)

    def variance(self, shares: Floats) -> Floats:
        """Return the variance of estimates where shares are those."""
        contrast, devices = self.speaks - self.for_others, self.group.devices
        chances = self.for_others + contrast * shares
        return np.asarray(
            (chances * (1 - chances) / devices + (self.deviation / devices) ** 2) / contrast**2, np.float64
        )


def reports_of(plan: AskingPlan, guarantee: HorizonGuarantee | None) -> tuple[tuple[GroupReports, ...], ...]:
    """Return the law of every group's sum by period; without a promise sets are reported as they are."""
    if guarantee is None:
        return tuple(tuple(GroupReports(group=group) for group in of_period) for of_period in plan.groups)
    law = {LOCAL: _local, SHUFFLED: _shuffled, TWO_SERVERS: _summed, CURATOR: _summed}[guarantee.trust_model]
    return tuple(law(of_period, plan, guarantee) for of_period in plan.groups)


def _local(groups: Sequence[PeriodGroup], _: AskingPlan, guarantee: HorizonGuarantee) -> tuple[GroupReports, ...]:
    values = guarantee.items + guarantee.likes
    made = []
    for group in groups:
        epsilon = guarantee.epsilon * group.share
        size = best_subset(values, set_size=guarantee.likes, epsilon=epsilon, share=SHARE)
        made.append(_of_sets(group, guarantee, size, epsilon))
    return tuple(made)


def _shuffled(groups: Sequence[PeriodGroup], plan: AskingPlan, guarantee: HorizonGuarantee) -> tuple[GroupReports, ...]:
    designs = shuffled_plan(
        plan.histories,
        items=guarantee.items,
        padded=guarantee.likes,
        epsilon=guarantee.epsilon,
        delta=guarantee.delta,
    )
    made = []
    for group in groups:
        design = designs[group.round]
        made.append(_of_sets(group, guarantee, design.subset_size, design.local_epsilon))
    return tuple(made)


def _of_sets(group: PeriodGroup, guarantee: HorizonGuarantee, subset_size: int, epsilon: Fraction) -> GroupReports:
    channel = subset_channel(
        epsilon, values=guarantee.items + guarantee.likes, padded=guarantee.likes, subset_size=subset_size
    )
    rate, other = channel.rates
    return GroupReports(group=group, speaks=float(rate), for_others=float(other), local_epsilon=float(epsilon))


def _summed(groups: Sequence[PeriodGroup], _: AskingPlan, guarantee: HorizonGuarantee) -> tuple[GroupReports, ...]:
    servers = SERVERS if guarantee.trust_model == TWO_SERVERS else 1
    distance = gaussian_distance(guarantee.epsilon, guarantee.delta)
    made = []
    for group in groups:
        # One of w likes gives way to another one: so many totals change by one
        deviation = math.sqrt(servers * 2 * guarantee.likes / float(group.share)) / distance
        made.append(GroupReports(group=group, deviation=deviation))
    return tuple(made)


def answers_left(schedule: Schedule, horizon: Horizon, reports: Sequence[Sequence[GroupReports]]) -> float:
    """Return the largest sum of local epsilons of one person [nats]: what is left if a shuffler lies."""
    by_share = [{report.group.share: report.local_epsilon or 0.0 for report in of_period} for of_period in reports]
    panels = [panel for arrival in range(1, horizon.periods + 1) for panel in panels_of(schedule, arrival, horizon)]
    return max(
        sum(of_period.get(share, 0.0) for share, of_period in zip(panel.shares, by_share, strict=True))
        for panel in panels
    )
