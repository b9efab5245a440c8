"""Mechanisms in public: a module each, found by itself."""

from __future__ import annotations

from functools import cache

from coordinator.protocol.custom import public_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared
from coordinator.protocol.public_half import PublicHalf


@cache
def public_halves() -> dict[str, PublicHalf]:
    """Return every public half by what its queries are called, module by module in the order of their names."""
    return by_name(declared(__name__, __path__, "PUBLIC", PublicHalf), lambda half: (half.name,))


def half_of(name: str) -> PublicHalf:
    """Return the public half of a query's design: of a module here, or of a custom mechanism that was admitted."""
    if (half := public_halves().get(name) or public_of(name)) is None:
        raise InputError(f"design {name!r} is unknown to devices; they know {', '.join(public_halves())}")
    return half
