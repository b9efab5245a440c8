"""Users' own mechanisms where several can be named at once: by import path, or as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from coordinator.protocol.custom import Mechanism
from coordinator.protocol.errors import InputError
from scenarios.given.mechanisms import own_settings, server_half
from scenarios.given.settings import OWN
from scenarios.own.halves import OwnSettings, settings_in


def own_designs(
    paths: Sequence[Any], settings: Mapping[str, Any] | None = None, helpers: tuple[str, ...] = ()
) -> tuple[OwnSettings, ...]:
    """Read users' own mechanisms."""
    values, designs, used = dict(settings or {}), list[OwnSettings](), set[str]()
    for one in paths:
        if isinstance(one, str):
            half = server_half(one)
            fields = half.settings.model_fields.keys() & values.keys()
            used |= fields
            read = own_settings(half, {**{name: values[name] for name in fields}, "helpers": helpers})
        else:
            read = settings_in(one) if isinstance(one, Mechanism) else one
        if not isinstance(read, OwnSettings):
            raise InputError(f"design is {one}, which needs no name to be compared; name your own, {OWN}")
        designs.append(read)
    if strange := sorted(values.keys() - used):
        raise InputError(f"setting {strange[0]} is none of {', '.join(map(str, paths)) or 'any design; give --design'}")
    return tuple(designs)
