"""Mechanisms on devices; a module that declares its device halves is registered by that."""

from functools import cache

from actors.custom import device_half
from actors.device_half import DeviceHalf
from coordinator.protocol.custom import admitted
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared


@cache
def registered() -> dict[str, DeviceHalf]:
    """Return every device half by the names of the queries that it answers, module by module."""
    return by_name(declared(__name__, __path__, "DEVICE", DeviceHalf), lambda half: half.names)


def half_of(name: str) -> DeviceHalf:
    """Return the device half that answers a query's design."""
    if own := admitted(name):
        return device_half(own)
    if (half := registered().get(name)) is None:
        raise InputError(f"design {name!r} is unknown to devices; they know {', '.join(registered())}")
    return half
