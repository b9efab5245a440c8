"""The worst answers: a module for each kind of sketch, found by itself; own mechanisms are searched."""

from __future__ import annotations

from functools import cache

from actors.lying.lie import Lie
from actors.lying.search import Search
from coordinator.protocol.admitted import admitted
from coordinator.protocol.finding import by_name, declared


@cache
def found() -> dict[str, Lie]:
    """Return every lie by the designs that it is about."""
    return by_name(declared(__name__, __path__, "LIES", Lie), lambda lie: lie.names)


def lie_about(design: str) -> Lie | None:
    """Return how liars answer a query's design; None where they do best to make up ratings, as nothing hides these."""
    if own := admitted(design):
        return Search(own)
    return found().get(design)
