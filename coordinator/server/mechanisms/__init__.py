"""The server's half of each mechanism, a module each; they are found by what they declare."""

from __future__ import annotations

from functools import cache

from coordinator.protocol.custom import admitted
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.server.custom import server_half
from coordinator.server.server_half import ServerHalf


@cache
def server_halves() -> dict[str, ServerHalf]:
    """Return every mechanism by its name."""
    halves = declared(__name__, __path__, "SERVER", ServerHalf)
    fields: dict[str, tuple[ServerHalf, str]] = {}
    for half in halves:
        for name, field in half.settings.model_fields.items():
            other, meant = fields.setdefault(name, (half, repr(field)))
            if meant != repr(field):
                raise RoomError(f"{other.name} and {half.name} share the setting {name}; give it one type and one text")
    return by_name(halves, lambda half: [half.name])


@cache
def _by_query() -> dict[str, ServerHalf]:
    return by_name(server_halves().values(), lambda half: half.asks)


def half_of(design: str) -> ServerHalf:
    """Return the half that reads queries of a design, `Query.design`."""
    if own := admitted(design):
        return server_half(own)
    if (half := _by_query().get(design)) is None:
        raise InputError(f"design {design!r} is unknown to the server; it knows {', '.join(_by_query())}")
    return half
