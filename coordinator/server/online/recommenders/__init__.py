"""Recommenders, a file each: p-REC in its readings, ours, and their rivals. They are found, not listed.

A module here declares ``RECOMMENDERS``, a tuple of `coordinator.server.online.recommender.NamedRecommender`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import MappingProxyType

from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared
from coordinator.server.online.recommender import NamedRecommender


@functools.cache
def named_recommenders() -> Mapping[str, NamedRecommender]:
    """Return all recommenders by name, in their declared order."""
    every = declared(__name__, __path__, "RECOMMENDERS", NamedRecommender)
    every.sort(key=lambda one: (one.order, one.name))
    return MappingProxyType(by_name(every, lambda one: (one.name,)))


def recommender_of(name: str) -> NamedRecommender:
    """Return a recommender by its name."""
    if name not in named_recommenders():
        raise InputError(f"recommender is {name!r}; choose among {', '.join(named_recommenders())}")
    return named_recommenders()[name]


def compared_in(where: str) -> tuple[str, ...]:
    """Return the names of the recommenders that say they stand in a comparison; see `NamedRecommender.compared`."""
    return tuple(name for name, one in named_recommenders().items() if where in one.compared)


def bounded_names() -> tuple[str, ...]:
    """Return the recommenders by weight that never kick a peer out: the paper's, ours, those for ``D = R = 0`` only."""
    bounded = (one for one in named_recommenders().values() if one.bounded)
    return tuple(one.name for one in sorted(bounded, key=lambda one: (not one.promised, one.ours)))


def still_names() -> tuple[str, ...]:
    """Return the names of the recommenders that are for ``D = R = 0`` only."""
    return tuple(name for name, one in named_recommenders().items() if not one.promised)
