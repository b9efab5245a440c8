"""The server's halves of two-tier mechanisms, a module each; what their releases hold is in the protocol's room."""

from __future__ import annotations

import functools

from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.protocol.second_order_mechanisms import second_order_public_halves
from coordinator.server.completion.reading import SecondOrderServer


@functools.cache
def second_order_server_halves() -> dict[str, SecondOrderServer]:
    """Return every mechanism's server half by its name, in the order in which mechanisms are listed."""
    halves = by_name(declared(__name__, __path__, "SERVER", SecondOrderServer), lambda half: (half.name,))
    if missing := second_order_public_halves().keys() - halves.keys():
        raise RoomError(f"{__name__} has no half of {min(missing)!r}; declare it in a module there")
    return {name: halves[name] for name in second_order_public_halves()}


def half_of(name: str) -> SecondOrderServer:
    """Return the server's half of a mechanism that has a public one."""
    return second_order_server_halves()[name]
