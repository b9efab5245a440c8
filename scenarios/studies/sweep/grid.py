"""The tables of a grid and the settings that they expand to, and what settings are called in tables."""

from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.budget import as_json
from coordinator.protocol.errors import InputError
from scenarios.config.scenario import Scenario
from scenarios.studies.study import Measure

S = TypeVar("S")  # A setting of an experiment
SettingKey = namedtuple("SettingKey", ("setting", "seed"))  # A unit of a grid: place of the setting, and seed


class SettingsGrid(BaseModel):
    """What a grid says of the settings that its tables expand to; a unit is a setting with a seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # Runs of every setting; their seeds start at the base's ``seed``
    seeds: Annotated[int, Field(ge=1, le=100_000)] = 20
    base: dict[str, Any] = {}  # Keys of a scenario that all settings have
    grid: tuple[dict[str, Any], ...] = ()  # Keys of a scenario; the lists of one table expand as a cartesian product

    @cached_property
    @abstractmethod
    def settings(self) -> tuple[Any, ...]:
        """The scenarios, each with its first seed."""

    @abstractmethod
    def measure_of(self, setting: Any) -> Callable[[Any], Any]:
        """Return what measures one seed's scenario of a setting."""

    def units(self, _: Mapping[SettingKey, Any]) -> dict[SettingKey, Measure[Any]]:
        """Return a unit each setting and seed."""
        measures = [self.measure_of(setting) for setting in self.settings]
        return {
            SettingKey(index, seed): partial(measures[index], setting.model_copy(update={"seed": seed}))
            for turn in range(self.seeds)
            for index, setting in enumerate(self.settings)
            for seed in [setting.seed + turn]
        }


FIRST_SEED = "cannot vary within a grid; give the first seed in [base] and their number as seeds"


def expanded(
    tables: Sequence[Mapping[str, Any]], make: Callable[[dict[str, Any]], S], fixed: Mapping[str, str]
) -> tuple[S, ...]:
    """Return the settings of all [[grid]] tables, made of every combination of a table's lists."""
    if not tables:
        raise InputError("grid is empty; give at least one [[grid]] table")
    settings: list[S] = []
    for table in tables:
        for name in table:
            if name in fixed:
                raise InputError(f"{name} {fixed[name]}")
        axes = {name: value if isinstance(value, list) else [value] for name, value in table.items()}
        for name, choices in axes.items():
            if not choices:
                raise InputError(f"{name} is an empty list in [[grid]]; give at least one value or leave it out")
        for choice in product(*axes.values()):
            varied = dict(zip(axes, choice, strict=True))
            label = f"({', '.join(f'{name} = {value}' for name, value in varied.items())})"
            try:
                setting = make(varied)
            except InputError as error:
                raise InputError(f"setting {label}: {error}") from None
            if setting in settings:
                raise InputError(f"setting {label} is given twice; drop one of them")
            settings.append(setting)
    return tuple(settings)


_SHOWN = {"design", "decoder", "items", "rated", "users", "clusters", "like", "class_shares", "cluster_shares"}
_SHOWN |= {"ratings", "theta", "epsilon", "seed", "settings"}
"""Keys of a scenario that do not make it another design."""


def variant(setting: Scenario) -> str:
    """Return the name of a setting's design with what makes it another one, such as Pairwise-Preference's agreement."""
    parts = [setting.design]
    for holder, always in ((setting.settings, setting.settings.always_told), (setting, frozenset[str]())):
        for name, field in type(holder).model_fields.items():
            value = getattr(holder, name)
            usual = name == "policy" and setting.policy == setting.mechanism.policies[0]  # which goes without saying
            if name not in _SHOWN and (name in always or value != field.default) and not usual:
                parts.append(str(value))
    return " ".join(parts)


def setting_text(name: str, row: Mapping[str, Any]) -> str:
    """Return a field of a row's setting as tables show it; nothing where a setting does not say it."""
    value = row[name]
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)


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
