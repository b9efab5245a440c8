"""Mechanisms on devices: a module each, found by itself."""

from __future__ import annotations

from functools import cache

from actors.halves import DeviceHalf
from actors.own import device_half
from coordinator.protocol.custom import admitted
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared


@cache
def found() -> dict[str, DeviceHalf]:
    """Return every device half by the names of the queries that it answers, module by module."""
    return by_name(declared(__name__, __path__, "DEVICE", DeviceHalf), lambda half: half.names)


def half_of(name: str) -> DeviceHalf:
    """Return the device half that answers a query's design."""
    if own := admitted(name):
        return device_half(own)
    if (half := found().get(name)) is None:
        raise InputError(f"design {name!r} is unknown to devices; they know {', '.join(found())}")
    return half
