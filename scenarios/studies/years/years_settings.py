"""The settings of a study of years: a synthetic world or a file, its periods, schedules and privacy."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import product
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from coordinator.protocol.budget import DELTA_IN_WORDS, default_delta, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.schedule import (
    COUNTER,
    MEMOIZE,
    MOST_PERIODS,
    NAMES,
    SCHEDULES,
    Horizon,
    Schedule,
    panels_of,
    schedule_of,
)
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.server.ageing import DRIFT, renewal
from scenarios.config.files import NamedPath, brief, file_sha256
from scenarios.config.identity import import_object, modules_of
from scenarios.config.settings import (
    MOST_OF_FILE,
    OWN,
    BadLines,
    ColumnNames,
    Duplicates,
    FilePeriod,
    LikeFrom,
    Seed,
    Unrated,
    like_bar,
    names_among,
    parts_of,
)

LADDER = (LOCAL, SHUFFLED, TWO_SERVERS, CURATOR)
"""Rungs, from no trust to most."""

PERIODS = 12  # Of a made world
BLOCK = 10  # Seeds that a unit measures
SEEDS = {"made": 40, "file": 10}
TOLERANCE = 0.234  # With this relative noise of the tenth item, a list of the made world just keeps 95 %
SUMS = (CURATOR, TWO_SERVERS)
RUNGS_OF = {MEMOIZE: (LOCAL,), COUNTER: SUMS}
"""Schedules that only some trust models support, and which."""
WAYS = {"made": ("once", "split", "rotate", "front"), "file": ("once", "stay:4", "split", "rotate")}
"""Default schedules."""
ESTIMATED = "estimated"
_MADE = ("items", "drift", "item_arrivals", "churn")
_OF_FILE = ("period", "columns", "like_from", "duplicates", "unrated")


def _schedules(value: Any) -> tuple[str, ...]:
    names = [str(part) for part in parts_of(value)]
    if len(set(names)) < len(names) or not names:
        raise InputError(f"schedule is {brief(value)}; name each of them once")
    return tuple(names)


def _filter_drift(value: Any) -> Any:
    if value == ESTIMATED:
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not number >= 0 or isinstance(value, bool):
        raise InputError(f"filter_drift is {brief(value)}; give a number from 0 on, inf, or {ESTIMATED}")
    return number


def _epsilon(value: Any) -> Any:
    epsilon = parse_epsilon(value)
    if epsilon is None:
        raise InputError("epsilon is inf; a year's is finite")
    return epsilon


def schedule_named(name: str) -> Schedule:
    """Return a schedule by its name, or one of your own by its import path."""
    if ":" not in name or name.partition(":")[0] in {*SCHEDULES, "stay"}:
        return schedule_of(name)
    kind = import_object(name, "schedule")
    try:
        schedule = kind()
    except Exception as error:
        raise InputError(f"schedule {name} cannot be made: {type(error).__name__}: {error}") from error
    if not isinstance(schedule, Schedule):
        raise InputError(f"schedule {name} is no schedule; derive the class from blindrec.Schedule")
    return schedule


class Years(BaseModel):
    """The settings of a study of years."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ratings: NamedPath | None = Field(default=None, description="A file of ratings with times [a made world].")
    columns: ColumnNames = None
    duplicates: Duplicates = None
    bad_lines: BadLines = "refuse"
    unrated: Unrated = None
    like_from: LikeFrom = None
    period: FilePeriod = None
    periods: Annotated[int, Field(ge=2, le=MOST_PERIODS - 1)] | None = Field(
        default=None,
        description=f"Periods under one budget; a file's last ones [{PERIODS}; of a file at most {MOST_OF_FILE}].",
    )
    schedule: Annotated[tuple[str, ...] | None, BeforeValidator(lambda value: value and _schedules(value))] = Field(
        default=None,
        description=f"Who answers when, by ',': {', '.join(NAMES)}, {COUNTER}, {MEMOIZE} (no epsilon), or your own "
        f"{OWN} [once, split, rotate, front; a file: once, stay:4, split, rotate].",
    )
    epsilon: Annotated[Fraction, BeforeValidator(_epsilon)] = Field(
        default=Fraction(1), description="Epsilon of a person's history over all periods, in nats [1]."
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | None = Field(
        default=None, description=f"Delta, where devices trust somebody [{DELTA_IN_WORDS}]."
    )
    trust_models: Annotated[
        tuple[str, ...], BeforeValidator(lambda value: names_among(value, LADDER, "trust model"))
    ] = Field(default=LADDER, description=f"Some of {', '.join(LADDER)}, by ',' [all].")
    worth: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.95, description="The target: reach this share of popularity's quality in every period [0.95]."
    )
    people: Annotated[int, Field(ge=20, le=10**9)] | None = Field(
        default=None, description="Number of people [100000; those of the file]."
    )
    likes: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=20, description="Public: pad or cut each person's set to w likes [20]."
    )
    items: Annotated[int, Field(ge=100, le=100_000)] = Field(default=2000, description="Made world: items N [2000].")
    drift: Annotated[float, Field(ge=0, le=3)] = Field(
        default=DRIFT, description=f"Made world: step of the random walk of items' log odds per period [{DRIFT:g}]."
    )
    item_arrivals: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.02, description="Made world: share of items replaced by new ones in each period [0.02]."
    )
    churn: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="Made world: share of people who leave in each period; as many join [0]."
    )
    filter_drift: Annotated[
        float | str | None, BeforeValidator(lambda value: None if value is None else _filter_drift(value))
    ] = Field(
        default=None,
        description="Drift by which estimates age: 0 pools all periods, inf uses only the latest, or estimated "
        "[the made world's; a file: estimated].",
    )
    seeds: Annotated[int, Field(ge=3, le=10_000)] | None = Field(
        default=None, description="Number of made worlds, or of draws of a file's answers [40; a file: 10]."
    )
    seed: Seed = 0

    @model_validator(mode="after")
    def _consistent(self) -> Years:
        names = _MADE if self.ratings is not None else _OF_FILE
        for name in names:
            if (value := getattr(self, name)) != type(self).model_fields[name].default:
                other = "made worlds; leave the file or it out" if self.ratings else "files; name one too"
                raise ValueError(f"{name} is {brief(value)}, which is about {other}")
        if self.likes * 3 > self.items and self.ratings is None:
            raise ValueError(f"likes is {self.likes} of {self.items} items; give at most a third of them")
        if not self.ways:
            name = self.schedules[0]
            raise ValueError(f"schedule {name} is about --trust-models {' or '.join(RUNGS_OF[name])}; name one of them")
        if MEMOIZE in self.schedules and self.ratings is not None:
            raise ValueError(
                f"schedule {MEMOIZE} is measured in made worlds, where everybody's likes change every period; leave "
                "the file or it out"
            )
        for name in self.schedules:
            if name in RUNGS_OF:
                continue
            schedule = schedule_named(name)
            for alone in (True, False):
                horizon = self.horizon(self.periods or PERIODS, alone=alone)
                for arrival in (1, horizon.periods):
                    panels_of(schedule, arrival, horizon)
        return self

    @property
    def kind(self) -> str:
        """``made`` or ``file``."""
        return "made" if self.ratings is None else "file"

    @property
    def schedules(self) -> tuple[str, ...]:
        """The schedules that are measured."""
        return self.schedule or WAYS[self.kind]

    @property
    def ways(self) -> list[tuple[str, str]]:
        """All pairs of trust model and schedule to measure."""
        pairs = product(self.trust_models, self.schedules)
        return [(rung, name) for rung, name in pairs if rung in RUNGS_OF.get(name, self.trust_models)]

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First seeds of units, and how many seeds each has."""
        count = self.seeds or SEEDS[self.kind]
        return [(self.seed + first, min(BLOCK, count - first)) for first in range(0, count, BLOCK)]

    @property
    def filter_of(self) -> float | None:
        """The drift that the filter takes; None to estimate it."""
        if self.filter_drift is None:
            return self.drift if self.ratings is None else None
        return None if isinstance(self.filter_drift, str) else self.filter_drift

    @property
    def renewal(self) -> Fraction:
        """The share of knowledge that ages in a period, for schedule `front`."""
        drift = self.filter_of
        worn = renewal(DRIFT if drift is None else drift, 0.0 if self.ratings else self.item_arrivals, TOLERANCE)
        return Fraction(round(1000 * worn), 1000)

    @property
    def liked_from(self) -> float | None:
        """The least rating of a liked item, or None for above a person's mean; without ratings all is liked."""
        return like_bar(self.columns, self.like_from)

    def horizon(self, periods: int, *, alone: bool) -> Horizon:
        """Return what schedules depend on."""
        return Horizon(periods=periods, alone=alone, renewal=self.renewal)

    def delta_of(self, people: int) -> float:
        """Return the delta of a guarantee to so many people."""
        return default_delta(people) if self.delta is None else self.delta

    def content(self) -> dict[str, Any]:
        """Return the settings that every unit depends on, as JSON values, but not which units to measure."""
        names = ("bad_lines", "likes", "periods", "drift", "item_arrivals", "churn", "items", "duplicates", "unrated")
        shared = {name: getattr(self, name) for name in names}
        drift = self.filter_of
        return {
            "sweep": "years",
            "ratings_sha256": None if self.ratings is None else file_sha256(self.ratings, "file"),
            "columns": None if self.columns is None else list(self.columns),
            "like_from": self.liked_from,
            "period": self.period,
            **shared,
            "filter_drift": "estimated" if drift is None else "inf" if math.isinf(drift) else drift,
            "delta": self.delta,
            "renewal": str(self.renewal),
            **self._custom_code(),
        }

    def _custom_code(self) -> dict[str, Any]:
        """Return the digests of custom schedules, if there are any."""
        kinds = {name: type(schedule_named(name)).__module__ for name in self.schedules if ":" in name}
        code = {
            name: hashlib.sha256("".join(text for _, text in sorted(modules_of([module]).items())).encode()).hexdigest()
            for name, module in kinds.items()
            if not module.startswith("coordinator.")
        }
        return {"schedules": code} if code else {}
