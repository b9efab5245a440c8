"""A sweep's grid as a value: which settings, how many seeds, which fits; read from TOML and checked before any run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from coordinator.protocol.budget import as_float, as_json, parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.data.populations import cluster_sizes, populate
from scenarios.given.config import MOST_USERS, Scenario
from scenarios.given.mechanisms import all_settings
from scenarios.given.parsing import first_line
from scenarios.given.run_spec import half_in, load_scenario

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
    return name == "policy" and setting.policy == half_in(setting).policies[0]


def axis_value(name: str, setting: Scenario) -> float:
    """Return an axis' or a divisor's value at a setting."""
    return _VALUES[name](setting.items or 0, setting.rated or 0, as_float(setting.epsilon))


def divisor(fit: Fit, setting: Scenario) -> float:
    """Return what U* is divided by at a setting."""
    return math.prod(axis_value(one, setting) for one in fit.per)


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
    """Refuse a fit that the settings cannot tell."""
    for name in fit.where:
        if name not in set(Scenario.flat_names()):
            raise InputError(f"fit {fit.name!r}: where names {name!r}, which is no key of a scenario")
    chosen = [setting for setting in settings if concerns(fit, setting)]
    designs = sorted({variant(one) for one in chosen})
    if len(designs) > 1:
        raise InputError(f"fit {fit.name!r} mixes {', '.join(designs)}; choose one with where")
    values = {axis_value(fit.x, setting) for setting in chosen}
    if not all(map(math.isfinite, values)):
        raise InputError(f"fit {fit.name!r}: {fit.x} is infinite at some setting; leave it out with where")
    if len(values) < 2:
        raise InputError(f"fit {fit.name!r} has {len(values)} value of {fit.x} in the grid; an exponent needs two")


SHARE = "rated_share"
"""Key of a setting that is none of a scenario's: ``rated = round(rated_share * items)``."""
_NOT_HERE = {
    "users": "is what a sweep looks for; leave it out",
}
MOST_RESAMPLED = 10**8
"""Devices that are drawn from a ratings file at most: they are held in memory."""
_NOT_VARIED = {
    "seed": "cannot vary within a grid; give the first seed in [base] and their number as seeds",
    "decoder": "cannot vary within a grid; list decoders, they all read the same releases",
}


class GridFile(BaseModel):
    """What a grid's TOML file holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Runs of every setting; their seeds start at the base's ``seed``
    seeds: Annotated[int, Field(ge=1, le=100_000)] = 20
    # one of "exact", "share", "top"; What counts as success; default: all labels right, and a share of them. ``top`` is
    # about the 50 most popular items, and the only one where [base] has ``ratings``: a file has no labels
    criteria: Annotated[tuple[Criterion, ...], Field(min_length=1)] = LABELS
    # Share of items right that counts as success by the criterion ``share``; by ``top`` of those 50
    share: Annotated[float, Field(gt=0, le=1)] = 0.99
    resolution: Annotated[float, Field(gt=0, le=1)] = 0.02  # Relative width at which bisection stops
    # Predicted share of items right at whose users accuracy is measured, too: the planner's check
    probe: Annotated[float, Field(gt=0, lt=1)] | None = None
    most_users: Annotated[int, Field(ge=1, le=MOST_USERS)] = 10**9  # No population is made larger
    # Read from the same releases, so that they are paired; default: the one that each setting has by itself
    decoders: tuple[str, ...] = ()
    base: dict[str, Any] = {}  # Keys of `scenarios.given.config.Scenario` that all settings have
    # Keys of a scenario; the lists of one table expand as a cartesian product. ``rated_share`` stands for ``rated``
    grid: tuple[dict[str, Any], ...] = ()
    fit: tuple[Fit, ...] = ()  # Exponents to fit


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A checked grid."""

    settings: tuple[Scenario, ...]  # Filled in; ``users`` is the most that may be simulated, ``seed`` the first seed
    seeds: int  # As in `GridFile`
    share: float
    resolution: float
    decoders: tuple[str, ...]
    fits: tuple[Fit, ...]
    probe: float | None = None
    criteria: tuple[Criterion, ...] = LABELS

    def decoders_of(self, setting: Scenario) -> tuple[str, ...]:
        """Return the decoders that a setting's releases are read by."""
        return self.decoders or (setting.decoder,)

    def content(self) -> dict[str, Any]:
        """Return what results depend on, as JSON values; not the fits, nor how many seeds."""
        settings = [
            {
                **setting.model_dump(mode="json"),
                "epsilon": "inf" if setting.epsilon is None else str(setting.epsilon),
                **({"design": half_in(setting).query_name(setting.settings)} if ":" in setting.design else {}),
            }
            for setting in self.settings
        ]
        return {
            "share": self.share,
            "resolution": self.resolution,
            "decoders": list(self.decoders),
            "probe": self.probe,
            **({} if self.criteria == LABELS else {"criteria": list(self.criteria)}),
            "settings": settings,
        }


def read_grid(values: dict[str, Any]) -> Grid:
    """Check a grid's values and expand its settings; raises `InputError`."""
    try:
        file = GridFile.model_validate(values)
    except ValidationError as error:
        held = Fit if error.errors()[0]["loc"][:1] == ("fit",) else GridFile
        raise InputError(first_line(error, held)) from None
    settings = _settings(file)
    if len(set(file.decoders)) < len(file.decoders):
        raise InputError(f"decoders are {', '.join(file.decoders)}; name each of them once")
    if len(set(file.criteria)) < len(file.criteria):
        raise InputError(f"criteria are {', '.join(file.criteria)}; name each of them once")
    for fit in file.fit:
        check_fit(fit, settings)
    return Grid(
        settings=settings,
        seeds=file.seeds,
        share=file.share,
        resolution=file.resolution,
        decoders=file.decoders,
        fits=file.fit,
        probe=file.probe,
        criteria=file.criteria,
    )


def _settings(file: GridFile) -> tuple[Scenario, ...]:
    if not file.grid:
        raise InputError("grid is empty; give at least one [[grid]] table")
    settings: list[Scenario] = []
    for table in file.grid:
        for name in table:
            if name in _NOT_VARIED:
                raise InputError(f"{name} {_NOT_VARIED[name]}")
        for values in expand(table):
            setting = _setting({**file.base, **values}, values, file)
            if setting in settings:
                raise InputError(f"setting {told_of(values)} is given twice; drop one of them")
            settings.append(setting)
    return tuple(settings)


def expand(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every combination of the lists of a [[grid]] table."""
    axes = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
    for name, choices in axes.items():
        if not choices:
            raise InputError(f"{name} is an empty list in [[grid]]; give at least one value or leave it out")
    return [dict(zip(axes, choice, strict=True)) for choice in product(*axes.values())]


def _setting(values: dict[str, Any], varied: dict[str, Any], file: GridFile) -> Scenario:
    for name in values:
        if name in _NOT_HERE:
            raise InputError(f"{name} {_NOT_HERE[name]}")
    if values.get("policy") == "fixed":
        raise InputError(
            "policy is 'fixed', but a sweep grows one round; leave it out, or choose one that stops itself"
        )
    try:
        wanted = {**_with_rated(values), "users": file.most_users}
        for decoder in file.decoders:
            load_scenario(None, {**wanted, "decoder": decoder})
        setting = _filled(load_scenario(None, wanted), file)
    except InputError as error:
        raise InputError(f"setting {told_of(varied)}: {error}") from None
    return setting


def _filled(setting: Scenario, file: GridFile) -> Scenario:
    """Return a setting with its numbers filled in, those of its ratings file where it has one."""
    if TOP in file.criteria and not half_in(setting).ranks:
        raise InputError(f"criterion {TOP} is about items ranked by popularity, which {setting.design} does not tell")
    if setting.ratings is None:
        setting = setting.complete()
        cluster_sizes(setting)
        return setting
    if file.criteria != (TOP,):
        raise InputError(
            f'ratings is {str(setting.ratings)!r}, a file without labels to compare with; say criteria = ["{TOP}"], or '
            "leave it out: then sweeps run on the block model"
        )
    if file.most_users > MOST_RESAMPLED:
        raise InputError(
            f"most_users is {file.most_users}, but devices of a ratings file are held in memory; give at most "
            f"{MOST_RESAMPLED}"
        )
    path = setting.ratings.resolve()  # workers may run elsewhere
    known = populate(setting.model_copy(update={"ratings": path, "users": None})).scenario
    return known.model_copy(update={"users": file.most_users})


def _with_rated(values: dict[str, Any]) -> dict[str, Any]:
    if SHARE not in values:
        return values
    share, items = values[SHARE], values.get("items")
    if "rated" in values:
        raise InputError(f"{SHARE} is {share} and rated is {values['rated']}; give one of them")
    if not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise InputError(f"{SHARE} is {share!r}; it must lie above 0 and be at most 1")
    if not isinstance(items, int):
        raise InputError(f"{SHARE} is {share}, a share of items; give items, too")
    rest = {name: value for name, value in values.items() if name != SHARE}
    return {**rest, "rated": max(1, round(share * items))}


def told_of(values: Mapping[str, Any]) -> str:
    """Return a setting as messages name it."""
    return f"({', '.join(f'{name} = {value}' for name, value in values.items())})"


def fields_of(setting: Scenario) -> dict[str, Any]:
    """Return the fields of a setting that tables show, as JSON values."""
    return {
        "design": variant(setting),
        "items": setting.items,
        "rated": setting.rated,
        "epsilon": as_json(setting.epsilon),
        "clusters": setting.clusters,
        "theta": setting.value("theta"),
        "like": "" if setting.ratings else ";".join(",".join(f"{b:g}" for b in row) for row in setting.like),
    }
