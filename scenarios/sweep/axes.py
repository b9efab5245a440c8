"""What exponents are fitted against, and which settings of a grid a fit is about."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.given.config import Scenario
from scenarios.given.mechanisms import all_settings

Criterion = Literal["exact", "share", "top"]
"""Success: all labels right (the paper's), a share of them, or that share of the 50 most popular items."""
LABELS: tuple[Criterion, ...] = ("exact", "share")
TOP: Criterion = "top"
Axis = Literal["items", "rated", "epsilon", "tanh2", "items/rated"]
Divisor = Literal["log items", "items", "items^2", "rated", "items/rated"]

_VALUES: dict[str, Callable[[int, int, float], float]] = {
    "items": lambda items, rated, epsilon: float(items),  # noqa: ARG005 (one signature for all axes)
    "items^2": lambda items, rated, epsilon: float(items) ** 2,  # noqa: ARG005 (same)
    "log items": lambda items, rated, epsilon: math.log(items),  # noqa: ARG005 (same)
    "rated": lambda items, rated, epsilon: float(rated),  # noqa: ARG005 (same)
    "items/rated": lambda items, rated, epsilon: items / rated,  # noqa: ARG005 (same)
    "epsilon": lambda items, rated, epsilon: epsilon,  # noqa: ARG005 (same)
    "tanh2": lambda items, rated, epsilon: math.tanh(epsilon / 2) ** 2,  # noqa: ARG005 (same)
}


class Fit(BaseModel):
    """An exponent to fit: the slope of ``ln(U* / per)`` on ``ln x``.

    Attributes
    ----------
    x : {"items", "rated", "epsilon", "tanh2", "items/rated"}
        ``tanh2`` is ``tanh(epsilon / 2)^2``.
    per : list of {"log items", "items", "items^2", "rated", "items/rated"}
        What U* is divided by first, all of them.
    where : dict
        Keys of a scenario: the fit is about settings that have these values; ``"default"`` stands for a key's default,
        which may be none.
    criteria : list of {"exact", "share", "top"}
        Which successes the fit is about; default: the two that are about labels.
    expected : float or None
        The slope that theory says.
    label : str
        Name in tables; default: made of x and per.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    x: Axis
    per: tuple[Divisor, ...] = ()
    where: dict[str, Any] = {}
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = LABELS
    expected: float | None = None
    label: str = ""

    @property
    def name(self) -> str:
        """The label, or what stands for it."""
        divided = "".join(f" / {one}" for one in self.per)
        where = "".join(f", {name} {value}" for name, value in self.where.items())
        return self.label or f"U*{divided} on {self.x}{where}"


_SHOWN = frozenset(
    [
        "design",
        "decoder",
        "items",
        "rated",
        "users",
        "clusters",
        "like",
        "class_shares",
        "cluster_shares",
        "ratings",
        "theta",
        "epsilon",
        "seed",
        "settings",
    ]
)
"""Keys of a scenario that do not make it another design."""


def variant(setting: Scenario) -> str:
    """Return the name of a setting's design with what makes it another one, such as Pairwise-Preference's agreement."""
    told = [setting.design]
    for holder, always in ((setting.settings, setting.settings.always_told), (setting, frozenset[str]())):
        for name, field in type(holder).model_fields.items():
            mine = getattr(holder, name)
            if name not in _SHOWN and (name in always or mine != field.default) and not _usual_policy(setting, name):
                told.append(str(mine))
    return " ".join(told)


def _usual_policy(setting: Scenario, name: str) -> bool:
    """Return whether a name is that of a policy which goes without saying."""
    return name == "policy" and setting.policy == setting.half.policies[0]


def value(name: str, setting: Scenario) -> float:
    """Return an axis' or a divisor's value at a setting."""
    return _VALUES[name](setting.items or 0, setting.rated or 0, as_float(setting.epsilon))


def divisor(fit: Fit, setting: Scenario) -> float:
    """Return what U* is divided by at a setting."""
    return math.prod(value(one, setting) for one in fit.per)


def concerns(fit: Fit, setting: Scenario) -> bool:
    """Return whether a fit is about a setting."""
    return all(_normal(name, wanted) == setting.value(name) for name, wanted in fit.where.items())


def _normal(name: str, wanted: Any) -> Any:
    if wanted == "default":
        own = Scenario.model_fields.get(name)
        return (own or all_settings()[name]).default
    if name == "epsilon":
        return parse_epsilon(wanted)
    if name == "like" and isinstance(wanted, str):
        return tuple(tuple(float(part) for part in row.split(",")) for row in wanted.split(";"))
    return wanted


def check_fit(fit: Fit, settings: Sequence[Scenario]) -> None:
    """Refuse a fit that the settings cannot tell.

    Raises
    ------
    InputError
        If ``where`` names no key of a scenario, settings of several designs are mixed, a value of x is infinite, or
        there are fewer than two.
    """
    for name in fit.where:
        if name not in set(Scenario.flat_names()):
            raise InputError(f"fit {fit.name!r}: where names {name!r}, which is no key of a scenario")
    chosen = [setting for setting in settings if concerns(fit, setting)]
    designs = sorted({variant(one) for one in chosen})
    if len(designs) > 1:
        raise InputError(f"fit {fit.name!r} mixes {', '.join(designs)}; choose one with where")
    values = {value(fit.x, setting) for setting in chosen}
    if not all(map(math.isfinite, values)):
        raise InputError(f"fit {fit.name!r}: {fit.x} is infinite at some setting; leave it out with where")
    if len(values) < 2:
        raise InputError(f"fit {fit.name!r} has {len(values)} value of {fit.x} in the grid; an exponent needs two")
