"""Custom mechanisms as server halves: each class is a half with its own settings, whatever its module is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

from pydantic import ConfigDict, Field, create_model
from pydantic.fields import FieldInfo

from coordinator.protocol.budget import REPLACE
from coordinator.protocol.custom import CustomMechanism, UserClass, admit, admitted, as_whole, is_native
from coordinator.protocol.custom_adapter import DECODERS, adapter, policies_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import POOLED, InWorld, Mechanism, Offers, Settings, World
from coordinator.protocol.messages import Query
from coordinator.protocol.trust_models import LOCAL
from scenarios.config.identity import (
    OURS,
    bases_of,
    bring,
    build_mechanism,
    came_by_value,
    code_of,
    identity,
    modules_of_class,
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

    def most_questions(self, world: World) -> int:
        """Return the most questions that epsilon may be split over."""
        return self.mechanism().most_questions(world)

    @property
    def settled(self) -> bool:
        """Whether no setting is left open."""
        return self.mechanism().settled

    def settle(self, world: World, decoder: str) -> Self:
        """Return the settings with all open ones chosen."""
        return self._having(self.mechanism().settle(world, decoder))

    @property
    def sizes_open(self) -> bool:
        """Whether sizes are open that follow from the central epsilon."""
        return self.mechanism().sizes_open

    def sized(self, query: Query, devices: int, delta: float) -> Self:
        """Return the settings with the best sizes behind a shuffler."""
        return self._having(self.mechanism().sized(query, devices, delta))

    def _having(self, mechanism: UserClass) -> Self:
        return self.model_copy(update={name: getattr(mechanism, name) for name in type(mechanism).model_fields})

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the class and its values, because the type of settings is made again where they arrive."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        kind = self.custom_kind.kind
        return _rebuilt, (kind, code_of(kind, self.helpers), values)


def _rebuilt(kind: type[UserClass], code: str, values: Mapping[str, Any]) -> CustomSettings:
    bring(kind, tuple(values.get("helpers", ())), code)
    return custom_kind_of(kind).settings.model_validate(dict(values))


class CustomKind(Offers):
    """A class as scenarios see it before its settings and its world are given; see `MechanismKind`."""

    decoders = DECODERS

    def __init__(self, kind: type[UserClass]) -> None:
        self.kind, self.name, self.title = kind, f"{kind.__module__}:{kind.__qualname__}", kind.__name__  # type: ignore[misc]
        self.policies = policies_of(kind)  # type: ignore[misc] # each class has its own
        self.native = is_native(kind)
        if self.native:
            _require_reports(as_whole(kind))
            for name in ("decoders", "all_policies_with", "bounded", "paired", "ranks"):
                setattr(self, name, getattr(kind, name) or getattr(self, name))
        self.by_address = self.native and as_whole(kind).by_address
        self.settings: type[CustomSettings] = _settings_of_class(kind, self)

    def policies_with(self, settings: CustomSettings) -> tuple[str, ...]:
        """Return the policies that the class can follow with its settings."""
        if not self.native:
            return self.policies
        policies = adapter(custom_of(settings)).policies_with()
        if not policies:
            raise InputError(f"design {self.name} with these settings follows no policy of {', '.join(POOLED)}")
        return policies

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


def _require_reports(kind: type[Mechanism]) -> None:
    """Refuse a class whose devices do anything but randomize their reports."""
    if kind.trust != LOCAL or kind.shares or kind.names_rated or not (kind.private and kind.randomizes):
        raise InputError(
            f"design {kind.__name__} says more of trust than a class of one's own can: its devices randomize reports "
            "that name no rated items, under local trust or behind a shuffler"
        )


def _settings_of_class(kind: type[UserClass], custom_kind: CustomKind) -> type[CustomSettings]:
    fields: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        if name in {"helpers", "custom_kind", "values", "mechanism"}:
            raise InputError(f"design {kind.__name__} has a setting {name}, a name that is taken; rename it")
        description = field.description or f"{kind.__name__}: {name}."
        fields[name] = (field.annotation, FieldInfo.merge_field_infos(field, description=description))
    settings: type[CustomSettings] = create_model(f"{kind.__name__}Settings", __base__=CustomSettings, **fields)
    settings.custom_kind, settings.splits = custom_kind, kind.splits
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
    named = [*(base.__module__ for base in bases_of(kind)), *helpers, *imported]
    packages = {name.partition(".")[0] for name in named}
    return packages - sys.stdlib_module_names - OURS - {"__main__"}


def travelling() -> frozenset[str]:
    """Return the packages of all custom mechanisms in this process, which are sent to other processes by value."""
    return frozenset(_PACKAGES)


def settings_in(mechanism: UserClass) -> CustomSettings:
    """Return a mechanism's settings as a scenario holds them."""
    kind = type(mechanism)
    values = {name: getattr(mechanism, name) for name in kind.model_fields}
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
