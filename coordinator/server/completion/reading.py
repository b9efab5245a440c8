"""The server's half of a two-tier mechanism: how releases are folded, how much they weigh, what they are tried at.

Looking at it loads no numerical library but NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from coordinator.protocol.arrays import Floats2
    from coordinator.protocol.features import ItemFeatures
    from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease

CHUNK = 256
"""Decoded rows that stand in memory at once, where all do not fit."""
HALF = 0.5
"""The paper's weight of a release's row against a public user's."""


class SecondOrderServer:
    """What the server does with one mechanism; a module of `coordinator.server.completion.mechanisms` declares it.

    Attributes
    ----------
    name : str
        The mechanism's.
    weight : float or None
        Weight of a release's row against a public user's; None: chosen on held-out public users.
    sided : bool
        Whether a release may lie on either side of +-r', so that an attacker first has to find out which.
    swept : tuple of str
        Epsilons that a sweep shows it at where nothing else is said; ``("",)`` for one that has none, empty: it is left
        out.
    attacked : tuple of str, or None
        Epsilons that the attack tries it at where nothing else is said, likewise; None: no error proposes to attack it.
    """

    name: str
    weight: float | None = None
    sided: bool = False
    swept: tuple[str, ...] = ()
    attacked: tuple[str, ...] | None = None

    def rows(self, features: ItemFeatures, releases: Sequence[SecondOrderRelease]) -> int:  # noqa: ARG002 (others look at it)
        """Return how many rows releases of one batch are folded to."""
        return len(releases)

    def kept(self, features: ItemFeatures) -> ItemFeatures:
        """Return what of the model releases are read with; the book keeps it."""
        return replace(features, vectors=np.empty((features.items, 0)))

    def blocks(
        self,
        query: SecondOrderQuery,
        features: ItemFeatures,
        releases: Sequence[SecondOrderRelease],
        *,
        rescale: bool,
    ) -> Iterator[Floats2]:
        """Yield the rows z of one batch's releases, some at a time, float64, shape (some, m); all are checked."""
        for first in range(0, len(releases), CHUNK):
            some = releases[first : first + CHUNK]
            yield np.stack([release.as_vector(features, query, rescale=rescale) for release in some])
