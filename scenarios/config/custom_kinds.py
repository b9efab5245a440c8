"""Custom mechanisms as scenarios see them: a class, whose fields are its settings, whatever its module is."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from coordinator.protocol.custom import CustomMechanism, UserClass, admit, admitted, as_whole, is_native, policies_of
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import InWorld, Mechanism, Offers, Settings, World
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.short_adapter import DECODERS
from coordinator.protocol.trust_models import LOCAL, TWO_SERVERS
from coordinator.server.design import Design
from scenarios.config.identity import (
    OURS,
    bases_of,
    came_by_value,
    code_of,
    identity,
    modules_of_class,
)


class CustomKind(Offers):
    """A custom class as scenarios see it before its settings are given, as they see the class of one of blindrec's."""

    def __init__(self, kind: type[UserClass]) -> None:
        self.kind, self.name, self.title = kind, f"{kind.__module__}:{kind.__qualname__}", kind.__name__  # type: ignore[misc]
        self.policies = policies_of(kind)  # type: ignore[misc] # each class has its own
        self.native = is_native(kind)
        self.decoders = (as_whole(kind).decoders if self.native else ()) or DECODERS  # type: ignore[misc] # as above
        if self.native:
            _require_trust(as_whole(kind))
            for name in ("trust", "all_policies_with", "bounded", "paired", "ranks"):
                setattr(self, name, getattr(kind, name))
        self.by_address = self.native and as_whole(kind).by_address
        self.settings = kind

    def label(self, row: Mapping[str, Any]) -> str:  # noqa: ARG002 (the same in all)
        """Return its name."""
        return self.name


MechanismKind: TypeAlias = type[Mechanism] | CustomKind
"""What scenarios see of a mechanism before its settings are given."""


def _require_trust(kind: type[Mechanism]) -> None:
    """Refuse a class whose devices do anything but randomize their reports, or give shares as blindrec's own do."""
    shared = issubclass(kind, SharedVector)
    said = (kind.trust, kind.shares, kind.names_rated, kind.private, kind.randomizes)
    fields = {name: (field.annotation, field.metadata) for name, field in kind.model_fields.items()}
    ours = SharedVector.model_fields if shared else {}
    if said != (TWO_SERVERS if shared else LOCAL, shared, False, True, True) or any(
        fields[name] != (field.annotation, field.metadata) for name, field in ours.items()
    ):
        raise InputError(
            f"design {kind.__name__} declares a trust model that a custom class cannot have: let devices randomize "
            "reports that name no rated items, under local trust or behind a shuffler, or derive it from "
            "blindrec.SharedVector and keep its trust, noise and neighbours"
        )


_KINDS: dict[type[UserClass], CustomKind] = {}


def custom_kind_of(kind: type[UserClass]) -> CustomKind:
    """Return a class's kind, which is the same object every time."""
    if kind not in _KINDS:
        if kind.model_fields["helpers"].annotation != UserClass.model_fields["helpers"].annotation:
            raise InputError(f"design {kind.__name__} has a setting helpers, a name that is taken; rename it")
        code_of(kind)
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


_KNOWN: dict[tuple[str, tuple[str, ...]], CustomMechanism] = {}


def custom_of(mechanism: UserClass) -> CustomMechanism:
    """Admit a custom mechanism in this process without checking its channel; return it with its identity."""
    name, helpers = f"{type(mechanism).__name__}@{identity(mechanism)}", mechanism.helpers
    if (name, helpers) not in _KNOWN:
        _KNOWN[name, helpers] = CustomMechanism(mechanism=mechanism, name=name, unchecked=True)
        _PACKAGES.update(packages_of(type(mechanism), helpers))
    custom = _KNOWN[name, helpers]
    if admitted(custom.name) is None:
        admit(custom)
    return admitted(custom.name) or custom


def mechanism_with(settings: Settings) -> Mechanism:
    """Return a mechanism with its settings; of a custom class its adapter."""
    if isinstance(settings, UserClass):
        return adapter(custom_of(settings))
    assert isinstance(settings, Mechanism)  # settings of blindrec's own are the mechanism
    return settings


def design_of(settings: Settings, world: World) -> Design:
    """Return a mechanism in a world; a custom class refuses worlds when it is asked."""
    mechanism = mechanism_with(settings)
    if isinstance(settings, UserClass):
        return InWorld(mechanism=mechanism, world=replace(world, block=None))
    design: Design = mechanism.design(world)
    return design


def kind_of(settings: Settings) -> MechanismKind:
    """Return the kind of the mechanism that settings are of."""
    if isinstance(settings, UserClass):
        return custom_kind_of(type(settings))
    return type(mechanism_with(settings))
