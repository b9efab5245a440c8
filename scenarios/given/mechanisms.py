"""The server halves of mechanisms by name, and which of a scenario's flat values are their own settings."""

from __future__ import annotations

import re
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairwise import AGREEMENTS
from coordinator.server.mechanisms import server_halves
from coordinator.server.server_half import ServerHalf, Settings
from scenarios.given.validation import first_line
from scenarios.own.halves import half_at

_PATH = re.compile(r"[\w.]+:[\w.]+")
"""An import path of one's own, ``package.module:Name``."""

ORDER = (
    "maxsense",
    "sign",
    "anchor",
    "multi-maxsense",
    "grr",
    "oue",
    "olh",
    "hadamard",
    "subset",
    "set",
    "pairs",
    "pairwise",
    "curator-items",
    "curator-pairs",
    "item-query",
    "full-reveal",
)
"""Mechanisms as they are listed; others come after them, by name."""
VARIANTS: dict[str, tuple[dict[str, str], ...]] = {
    "multi-maxsense": ({"questions": "ceil"}, {"questions": "auto"}),
    "pairwise": (*({"agreement": agreement} for agreement in AGREEMENTS), {"rated_items": "public"}),
}
"""Settings that plans compare, of mechanisms that they compare at other than the default ones."""


def designs() -> dict[str, ServerHalf]:
    """Return every mechanism by its name, as they are listed."""
    places = {name: place for place, name in enumerate(ORDER)}
    return dict(sorted(server_halves().items(), key=lambda item: (places.get(item[0], len(places)), item[0])))


def variants(half: ServerHalf) -> tuple[dict[str, str], ...]:
    """Return the settings that a plan compares a mechanism at."""
    return VARIANTS.get(half.name, ({},))


def server_half(design: str) -> ServerHalf:
    """Return the server's half of a mechanism by its name, or of one's own by its import path."""
    if _PATH.fullmatch(design):
        return half_at(design)
    if (half := designs().get(design)) is None:
        told = f"choose one of {', '.join(designs())}, or your own, mypackage.mymodule:MyMechanism"
        raise InputError(f"design is {design!r}; {told}")
    return half


def all_settings() -> dict[str, FieldInfo]:
    """Return the settings of all mechanisms by their names; those that share a name share its field."""
    return {name: field for half in designs().values() for name, field in half.settings.model_fields.items()}


def shared_settings() -> list[str]:
    """Return the names of settings that several mechanisms share, which a plan compares them at."""
    names = [name for half in designs().values() for name in half.settings.model_fields]
    return [name for name in all_settings() if names.count(name) > 1]


def own_settings(half: ServerHalf, values: dict[str, Any]) -> Settings:
    """Take a mechanism's settings out of a scenario's flat values, and refuse those that are about others."""
    for name in sorted(all_settings().keys() & values.keys()):
        if name not in half.settings.model_fields:
            _require_default(half, name, values.pop(name))
    own = {name: values.pop(name) for name in half.settings.model_fields if name in values}
    try:
        return half.settings.model_validate(own)
    except ValidationError as error:
        raise InputError(first_line(error, half.settings)) from None


def _require_default(half: ServerHalf, name: str, value: Any) -> None:
    owners = [other for other in designs().values() if name in other.settings.model_fields]
    default = owners[0].settings.model_fields[name].default
    try:
        value = getattr(owners[0].settings.model_validate({name: value}), name)
    except ValidationError as error:
        raise InputError(first_line(error, owners[0].settings)) from None
    if value != default:
        told = " and ".join(other.name for other in owners)
        raise InputError(f"{name} is {value!r}, which is about {told}; the design is {half.name}, leave it out")
