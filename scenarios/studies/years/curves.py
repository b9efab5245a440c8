"""Curves of worth by people, of each schedule on each rung: which numbers of people are measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import derive
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.studies.years.measuring import ALONE, NONE, YearsKey, YearsMeasurement
from scenarios.studies.years.years_settings import Years

SAMPLES = 100  # Samples of seeds, from which intervals follow; of a file fewer samples of people are taken again
FEWEST, MOST = 64, 3_000_000_000  # People among whom the target is sought
# A shuffler's 5,300 is a prototype's. By the law that noise of .234 of the tenth item's share just keeps 95 %, it is
# 4,970 with the best reports, of two values, and 5,220 with four; measured are 4,900, and were 4,700 while a trace of
# earlier periods ordered items whose counts were equal, as those of few values often are.
_FIRST = {CURATOR: 1_000, TWO_SERVERS: 1_500, SHUFFLED: 5_300, LOCAL: 133_000}  # About, at epsilon 1, asked once
_POWERS = {CURATOR: 1.0, TWO_SERVERS: 1.0, SHUFFLED: 0.5, LOCAL: 2.0}  # Of 1 / epsilon, by which that grows
_NEAR = 0.005  # A schedule whose lists without noise miss the target by more is never enough
Done = Mapping[YearsKey, YearsMeasurement]


@dataclass(frozen=True, eq=False)
class MeasuredYears:
    """What all blocks of seeds measured of a schedule with one number of people."""

    units: Sequence[YearsMeasurement]
    alone: bool  # Whether periods differ by chance alone, so that their mean counts, and not the worst one

    @cached_property
    def ndcg(self) -> Floats:
        """NDCG by seed and period."""
        return np.array([row for unit in self.units for row in unit.ndcg])

    @cached_property
    def popularity(self) -> Floats:
        """The same of popularity."""
        return np.array([row for unit in self.units for row in unit.popularity])

    @cached_property
    def shares(self) -> Floats:
        """Share of popularity's worth among all, and in samples of seeds and people, shape (1 + samples,).

        Of made worlds it is that of the worst period, of means over seeds; of files that of all lists together, since
        many a period has few people whose lists can be scored.
        """
        seeds = len(self.ndcg)
        coins = np.random.default_rng(int.from_bytes(derive(0, f"samples of {seeds} seeds")))
        picks = np.vstack([np.arange(seeds), coins.integers(0, seeds, (SAMPLES, seeds))])
        if self.units[0].pooled:
            pooled = np.array([row for unit in self.units for row in unit.pooled])
            plain, samples = np.array(self.units[0].pooled_popularity), pooled.shape[1] - 1
            places = np.append(0, 1 + np.arange(SAMPLES) % samples)
            return np.asarray(pooled[picks, places[:, None]].mean(axis=1) / plain[places])
        ratios: Floats = self.ndcg[picks].mean(axis=1) / self.popularity[picks].mean(axis=1)
        shares: Floats = ratios.mean(axis=1) if self.alone else ratios.min(axis=1)
        return shares

    @property
    def share(self) -> float:
        """Share of popularity's worth."""
        return float(self.shares[0])

    @property
    def by_period(self) -> list[float]:
        """NDCG of every period, a mean over seeds."""
        return [round(value, 6) for value in self.ndcg.mean(axis=0).tolist()]

    @property
    def popularity_by_period(self) -> list[float]:
        """The same of popularity."""
        return [round(value, 6) for value in self.popularity.mean(axis=0).tolist()]

    @property
    def epsilon_local(self) -> float | None:
        """What is left of one person if the shuffler lies [nats]."""
        return self.units[0].epsilon_local


def users_at(step: int) -> int:
    """Return the number of people at a place of the grid, on which each is the root of two times the one before."""
    return round(1000 * 2 ** (step / 2))


@dataclass(frozen=True)
class ScheduleCurve:
    """A schedule on a rung."""

    settings: Years
    trust_model: str
    schedule: str
    people: int  # Those that there are
    periods: int

    def key(self, users: int, first: int, count: int) -> YearsKey:
        """Return the name of a unit."""
        epsilon = "" if self.trust_model == NONE else str(self.settings.epsilon)
        return YearsKey(self.trust_model, self.schedule, epsilon, users, count, first)

    def keys(self, users: int) -> list[YearsKey]:
        """Return the names of the units of one number of people."""
        return [self.key(users, first, count) for first, count in self.settings.blocks]

    def measured(self, done: Done, users: int) -> MeasuredYears | None:
        """Return what was measured with so many people; None until all seeds are."""
        units = [done.get(key) for key in self.keys(users)]
        every = [unit for unit in units if unit is not None]
        return MeasuredYears(every, self.schedule == ALONE) if len(every) == len(units) else None

    def every(self, done: Done) -> dict[int, MeasuredYears]:
        """Return all that was measured, by people."""
        names = (self.trust_model, self.schedule, self.key(0, 0, 0).epsilon)
        users = sorted({key.users for key in done if key[:3] == names})
        return {
            number: measured_shares for number in users if (measured_shares := self.measured(done, number)) is not None
        }

    def numbers(self, done: Done) -> Iterator[int]:
        """Yield the numbers of people that are measured: those there are, and as many as bracket the target."""
        if self.schedule != ALONE:
            yield self.people
        noiseless = ScheduleCurve(self.settings, NONE, self.schedule, self.people, self.periods).measured(done, 0)
        if noiseless is None or noiseless.share < self.settings.worth - _NEAR:
            return
        reaches: dict[int, bool] = {}
        step: int | None = self._first()
        while step is not None:
            yield users_at(step)
            measured = self.measured(done, users_at(step))
            if measured is None:
                return
            reaches[step] = measured.share >= self.settings.worth
            step = next_place(reaches)
            if step is not None and not FEWEST <= users_at(step) <= MOST:
                return

    def _first(self) -> int:
        """Return the place of the grid where the search begins."""
        rung, periods = self.trust_model, self.periods
        users = _FIRST[rung] / float(self.settings.epsilon) ** _POWERS[rung]
        split = {LOCAL: 1.3 * periods**2, SHUFFLED: 1.7}.get(rung, periods**0.5)
        users *= {"split": split, "rotate": periods, "front": {LOCAL: 4.0, SHUFFLED: 1.2}.get(rung, 1.8)}.get(
            self.schedule, 1.0
        )
        return max(round(2 * float(np.log2(users / 1000))), -7)


def next_place(reaches: Mapping[int, bool]) -> int | None:
    """Return the next place of the grid: until two beside each other bracket the target, and one lies on either side.

    >>> next_place({0: False}), next_place({0: False, 2: True}), next_place({0: False, 1: True})
    (2, 1, -1)
    >>> next_place({-2: False, 0: False, 1: True, 3: True}) is None
    True
    """
    enough = [step for step in reaches if reaches[step]]
    if not enough:
        return max(reaches) + 2 * len(reaches)
    upper = min(enough)
    short_of = [step for step in reaches if step < upper]
    if not short_of:
        return upper - 2 * len(reaches)
    lower = max(short_of)
    if upper - lower > 1:
        return (lower + upper) // 2
    if not any(lower - 4 <= step < lower for step in reaches):
        return lower - 1
    if not any(upper < step <= upper + 4 for step in reaches):
        return upper + 2
    return None


def curves_of(settings: Years, people: int, periods: int) -> list[ScheduleCurve]:
    """Return all schedules of all rungs, and each period alone."""
    return [
        ScheduleCurve(settings, rung, schedule, people, periods)
        for rung, schedule in [*((rung, ALONE) for rung in settings.trust_models), *settings.ways]
    ]


def references_of(settings: Years, people: int, periods: int) -> list[ScheduleCurve]:
    """Return all schedules without noise."""
    return [ScheduleCurve(settings, NONE, schedule, people, periods) for schedule in (ALONE, *settings.schedules)]


def samples_of(measured: Mapping[int, MeasuredYears]) -> dict[int, Floats]:
    """Return shares of popularity by people as crossings take them, shape (1, 1 + samples)."""
    return {users: shares.shares[None] for users, shares in measured.items()}
