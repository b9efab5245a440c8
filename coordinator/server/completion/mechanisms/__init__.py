"""The server's halves of two-tier mechanisms, a module each: how releases are folded, their weight, epsilons of sweeps.

Importing it loads no numerical library except NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats2
    from coordinator.protocol.features import ItemFeatures
    from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease


CHUNK = 256  # Decoded rows that are held in memory at once if not all of them fit
HALF = 0.5  # The paper's weight of a release's row against a public user's


@dataclass(frozen=True, kw_only=True)
class SecondOrderServer:
    """What the server does with one mechanism; a module of `coordinator.server.completion.mechanisms` declares it."""

    name: str  # The mechanism's
    # Weight of a release's row relative to a public user's; None to choose it on held-out public users
    weight: float | None = None
    sided: bool = False  # Whether a release may be about r' or -r', so that an attacker first has to find out which
    # Default epsilons of sweeps; ``("",)`` for a mechanism without epsilon, and empty to leave it out
    swept: tuple[str, ...] = ()
    # Default epsilons of the attack, likewise; None if errors should not propose to attack it
    attacked: tuple[str, ...] | None = None

    def rows(self, features: ItemFeatures, releases: Sequence[SecondOrderRelease]) -> int:  # noqa: ARG002 (others look at it)
        """Return how many rows releases of one batch are folded to."""
        return len(releases)

    def reading_features(self, features: ItemFeatures) -> ItemFeatures:
        """Return the part of the model that is needed to read releases; the book keeps it."""
        return replace(features, vectors=np.empty((features.items, 0)))

    def blocks(
        self, query: SecondOrderQuery, features: ItemFeatures, releases: Sequence[SecondOrderRelease], *, rescale: bool
    ) -> Iterator[Floats2]:
        """Yield the rows z of one batch's checked releases, some at a time, float64, shape (some, m)."""
        for first in range(0, len(releases), CHUNK):
            chunk = releases[first : first + CHUNK]
            yield np.stack([release.as_vector(features, query, rescale=rescale) for release in chunk])


@functools.cache
def second_order_server_halves() -> dict[str, SecondOrderServer]:
    """Return every mechanism's server half by its name, in the order in which mechanisms are listed."""
    halves = by_name(declared(__name__, __path__, "SERVER", SecondOrderServer), lambda part: (part.name,))
    if missing := second_order_public_halves().keys() - halves.keys():
        raise RoomError(f"{__name__} has no half of {min(missing)!r}; declare it in a module there")
    return {name: halves[name] for name in second_order_public_halves()}


def server_part_of(name: str) -> SecondOrderServer:
    """Return the server's half of a mechanism that has a public one."""
    return second_order_server_halves()[name]
