"""Exponents of thresholds: which settings a fit is about, slopes on log axes, and their bootstrap over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import scipy
from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import all_settings
from scenarios.sweep.grid import variant
from scenarios.sweep.threshold import LABELS, Criterion

Axis = Literal["items", "rated", "epsilon", "tanh2", "items/rated"]
Divisor = Literal["log items", "items", "items^2", "rated", "items/rated"]
VALUES: dict[str, Callable[[float, float, float], float]] = {
    "items": lambda items, *_: items,
    "items^2": lambda items, *_: items**2,
    "log items": lambda items, *_: math.log(items),
    "rated": lambda _, rated, __: rated,
    "items/rated": lambda items, rated, _: items / rated,
    "epsilon": lambda *sizes: sizes[2],
    "tanh2": lambda *sizes: math.tanh(sizes[2] / 2) ** 2,
}
"""Axes and divisors, from items, rated items and epsilon of a setting."""
RESAMPLES = 2000
SEED = 20_121
TAIL = 0.025


def axis_value(name: str, setting: Scenario) -> float:
    """Return an axis' or a divisor's value at a setting."""
    return VALUES[name](float(setting.items or 0), float(setting.rated or 0), as_float(setting.epsilon))


class Fit(BaseModel):
    """An exponent to fit: the slope of ``ln(U* / per)`` on ``ln x``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    x: Axis  # one of "items", "rated", "epsilon", "tanh2", "items/rated"; ``tanh2`` is ``tanh(epsilon / 2)^2``
    # one of "log items", "items", "items^2", "rated", "items/rated"; What U* is divided by first, all of them
    per: tuple[Divisor, ...] = ()
    # Keys of a scenario: the fit is about settings that have these values; ``"default"`` stands for a key's default,
    # which may be none
    where: dict[str, Any] = {}
    # one of "exact", "share", "top"; Which successes the fit is about; default: the two that are about labels
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = LABELS
    expected: float | None = None  # The slope that theory says
    label: str = ""  # Name in tables; default: made of x and per

    @property
    def name(self) -> str:
        """The label, or what stands for it."""
        divided = "".join(f" / {one}" for one in self.per)
        where = "".join(f", {name} {value}" for name, value in self.where.items())
        return self.label or f"U*{divided} on {self.x}{where}"

    def divisor(self, setting: Scenario) -> float:
        """Return what U* is divided by at a setting."""
        return math.prod(axis_value(one, setting) for one in self.per)

    def concerns(self, setting: Scenario) -> bool:
        """Return whether it is about a setting."""
        return all(_normal(name, value) == setting.value(name) for name, value in self.where.items())

    def points(self, settings: Sequence[Scenario], users: Floats) -> tuple[Floats, Floats]:
        """Return the logarithms of x and of ``U* / per``; ``users`` has a row each setting, a column each seed."""
        x = np.log([axis_value(self.x, setting) for setting in settings])
        return x, np.log(users / np.array([self.divisor(setting) for setting in settings])[:, None])

    def check(self, settings: Sequence[Scenario]) -> None:
        """Refuse what the settings cannot tell."""
        for name in self.where:
            if name not in set(Scenario.flat_names()):
                raise InputError(f"fit {self.name!r}: where names {name!r}, which is no key of a scenario")
        subset = [setting for setting in settings if self.concerns(setting)]
        designs = sorted({variant(one) for one in subset})
        if len(designs) > 1:
            raise InputError(f"fit {self.name!r} mixes {', '.join(designs)}; choose one with where")
        values = {axis_value(self.x, setting) for setting in subset}
        if not all(map(math.isfinite, values)):
            raise InputError(f"fit {self.name!r}: {self.x} is infinite at some setting; leave it out with where")
        if len(values) < 2:
            raise InputError(
                f"fit {self.name!r} has {len(values)} value of {self.x} in the grid; an exponent needs two"
            )


def _normal(name: str, value: Any) -> Any:
    if value == "default":
        return (Scenario.model_fields.get(name) or all_settings()[name]).default
    if name == "epsilon":
        return parse_epsilon(value)
    if name == "like" and isinstance(value, str):
        return tuple(tuple(float(part) for part in row.split(",")) for row in value.split(";"))
    return value


def slope(x: Floats, y: Floats) -> float:
    """Return the least-squares slope of the mean of ``y`` (settings, seeds) on ``x`` (settings,)."""
    return float(_slopes(x, y.mean(axis=1)[None, :])[0])


def _slopes(x: Floats, means: Floats) -> Floats:
    centred = x - x.mean()
    slopes: Floats = means @ centred / (centred @ centred)
    return slopes


def bootstrap(x: Floats, y: Floats) -> tuple[float, float] | None:
    """Return the 95 % interval of `slope`, seeds drawn anew `RESAMPLES` times; None for a single seed.

    A seed is drawn for all settings together: its world is related from setting to setting, so that thresholds of one
    seed need not be independent.

    The expanded percentile interval (Hesterberg, *What Teachers Should Know About the Bootstrap*, 2015): plain
    percentiles are too narrow for few seeds, by ``sqrt((n - 1) / n)`` and by the normal's quantile for Student's t.
    """
    seeds = y.shape[1]
    if seeds < 2:
        return None
    samples = np.random.default_rng(SEED).multinomial(seeds, np.full(seeds, 1 / seeds), size=RESAMPLES) / seeds
    tail = float(scipy.stats.norm.cdf(math.sqrt(seeds / (seeds - 1)) * scipy.stats.t.ppf(TAIL, seeds - 1)))
    low, high = np.quantile(_slopes(x, samples @ y.T), [tail, 1 - tail])
    return float(low), float(high)
