"""The devices' halves of two-tier mechanisms, a module each; all that is public of them is in the protocol's room."""

from __future__ import annotations

import functools

from actors.second_order.device_half import SecondOrderDevice
from coordinator.protocol.finding import RoomError, by_name, declared


@functools.cache
def registered() -> dict[str, SecondOrderDevice]:
    """Return what devices say, by the mechanism's name."""
    return by_name(declared(__name__, __path__, "DEVICE", SecondOrderDevice), lambda half: half.names)


def half_of(name: str) -> SecondOrderDevice:
    """Return the device's half of a mechanism that has a public one."""
    if (half := registered().get(name)) is None:
        raise RoomError(f"{__name__} has no half of {name!r}; declare it in a module there")
    return half
