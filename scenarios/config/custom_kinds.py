"""Custom mechanisms as server halves: each class is a half with its own settings, whatever its module is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, replace
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, create_model

from coordinator.protocol.budget import REPLACE
from coordinator.protocol.custom import CustomMechanism, UserClass, admit, admitted
from coordinator.protocol.custom_adapter import DECODERS, adapter, policies_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import InWorld, Offers, Settings, World
from scenarios.config.identity import (
    OURS,
    bring,
    build_mechanism,
    came_by_value,
    code_of,
    identity,
    modules_of_class,
    settings_fields,
    types_of,
)


class CustomSettings(Settings):
    """Settings of a custom mechanism: those that its class annotates, and packages that are sent with it."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    custom_kind: ClassVar[CustomKind]

    helpers: Annotated[tuple[str, ...], Field(description="Packages that travel with a design of your own.")] = ()

    def values(self) -> dict[str, Any]:
        """Return the class's settings by name."""
        return {name: getattr(self, name) for name in type(self).model_fields if name != "helpers"}

    def mechanism(self) -> UserClass:
        """Return the class with these settings."""
        return build_mechanism(self.custom_kind.kind, self.values())

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the class and its values, because the type of settings is made again where they arrive."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        kind = self.custom_kind.kind
        return _rebuilt, (kind, types_of(kind), code_of(kind, self.helpers), values)


def _rebuilt(kind: type[UserClass], types: Mapping[str, Any], code: str, values: Mapping[str, Any]) -> CustomSettings:
    types_of(kind, types)
    bring(kind, tuple(values.get("helpers", ())), code)
    return custom_kind_of(kind).settings.model_validate(dict(values))


class CustomKind(Offers):
    """A class as scenarios see it before its settings and its world are given; see `MechanismKind`."""

    decoders = DECODERS

    def __init__(self, kind: type[UserClass]) -> None:
        self.kind, self.name, self.title = kind, f"{kind.__module__}:{kind.__qualname__}", kind.__name__  # type: ignore[misc]
        self.policies = policies_of(kind)  # type: ignore[misc] # each class has its own
        self.settings: type[CustomSettings] = _settings_of_class(kind, self)

    def policies_with(self, settings: CustomSettings) -> tuple[str, ...]:  # noqa: ARG002 (the same with all)
        """Return the policies that the class can follow."""
        return self.policies

    def relation(self, settings: CustomSettings) -> str:  # noqa: ARG002 (the same with all)
        """Return the relation of neighbours of a local guarantee."""
        return REPLACE

    def label(self, row: Mapping[str, Any]) -> str:  # noqa: ARG002 (the same in all)
        """Return its name."""
        return self.name

    def query_name(self, settings: CustomSettings) -> str:
        """Return the design of its queries: the class's name and the digest of its source and settings."""
        return custom_of(settings).name

    def design(self, settings: CustomSettings, world: World) -> InWorld:
        """Return the class in a world."""
        return InWorld(mechanism=adapter(custom_of(settings)), world=replace(world, block=None))

    def moments(self, settings: CustomSettings, world: World) -> object | None:
        """Return one answer's information about an item, if the class gives it; see `Mechanism.precision`."""
        return adapter(custom_of(settings)).moments(world)


def _settings_of_class(kind: type[UserClass], custom_kind: CustomKind) -> type[CustomSettings]:
    hints = types_of(kind)
    fields: dict[str, Any] = {}
    for part in settings_fields(kind):
        if part.name in {"helpers", "custom_kind", "values", "mechanism"}:
            raise InputError(f"design {kind.__name__} has a setting {part.name}, a name that is taken; rename it")
        description: Any = Field(description=f"{kind.__name__}: {part.name}.")
        default = ... if part.default is MISSING else part.default
        if part.default_factory is not MISSING:
            default = Field(default_factory=part.default_factory)
        fields[part.name] = (Annotated[hints[part.name], description], default)
    settings: type[CustomSettings] = create_model(f"{kind.__name__}Settings", __base__=CustomSettings, **fields)
    settings.custom_kind = custom_kind
    return settings


_KINDS: dict[type[UserClass], CustomKind] = {}


def custom_kind_of(kind: type[UserClass]) -> CustomKind:
    """Return a class's kind, which is the same object every time."""
    if kind not in _KINDS:
        _PACKAGES.update(packages_of(kind))
        _KINDS[kind] = CustomKind(kind)
    return _KINDS[kind]


_PACKAGES: set[str] = set()


def packages_of(kind: type[UserClass], helpers: Iterable[str] = ()) -> set[str]:
    """Return the packages of a class's code, without Python's and blindrec's."""
    imported = () if came_by_value(kind) else modules_of_class(kind)
    named = [*(base.__module__ for base in kind.__mro__), *helpers, *imported]
    packages = {name.partition(".")[0] for name in named}
    return packages - sys.stdlib_module_names - OURS - {"__main__"}


def travelling() -> frozenset[str]:
    """Return the packages of all custom mechanisms in this process, which are sent to other processes by value."""
    return frozenset(_PACKAGES)


def settings_in(mechanism: UserClass) -> CustomSettings:
    """Return a mechanism's settings as a scenario holds them."""
    kind = type(mechanism)
    values = {part.name: getattr(mechanism, part.name) for part in settings_fields(kind)}
    return custom_kind_of(kind).settings.model_validate(values)


_KNOWN: dict[tuple[str, tuple[str, ...]], CustomMechanism] = {}


def custom_of(settings: CustomSettings) -> CustomMechanism:
    """Admit a custom mechanism in this process without checking its channel; return it with its identity."""
    mechanism, helpers = settings.mechanism(), settings.helpers
    name = f"{type(mechanism).__name__}@{identity(mechanism, helpers)}"
    if (name, helpers) not in _KNOWN:
        _KNOWN[name, helpers] = CustomMechanism(mechanism=mechanism, name=name, unchecked=True, helpers=helpers)
        _PACKAGES.update(packages_of(type(mechanism), helpers))
    custom = _KNOWN[name, helpers]
    if admitted(custom.name) is None:
        admit(custom)
    return admitted(custom.name) or custom
