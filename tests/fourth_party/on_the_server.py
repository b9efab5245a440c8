"""Unary encoding on the server: how often each bit was told, debiased."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.design import Decoding, World
from coordinator.server.server_half import ServerHalf, Settings


@dataclass(frozen=True, kw_only=True)
class Told(Statistic):
    """How many devices told each bit."""

    counts: ClassVar[tuple[str, ...]] = ("told",)

    told: Ints

    @property
    def ones(self) -> int:
        """Ones among the answered bits."""
        return int(self.told.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Unary encoding in a catalogue."""

    items: int

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return the query of one round."""
        return Query(
            design="unary",
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            questions=2 * self.items,
        )


class Unary(ServerHalf):
    """Unary encoding on the server."""

    name = "unary"
    title = "unary encoding"
    decoders = ("totals",)

    def design(self, settings: Settings, world: World) -> Asked:  # noqa: ARG002 (it has none)
        """Return what is asked in a world."""
        return Asked(items=world.items)

    def aggregate(self, query: Query, release: Release) -> Told:  # noqa: ARG002 (all say the same)
        """Return how often each bit was told."""
        answered, bits = release.answered_mask(), release.unpacked()
        return Told(
            told=bits[answered].sum(axis=0, dtype=np.int64),
            devices=release.count,
            answered=int(answered.sum()),
            refused=release.refused,
        )

    def decode(self, statistic: Told, query: Query, how: Decoding) -> Model:
        """Cluster items by likes less dislikes."""
        from coordinator.server.decoding.line import kmeans_on_line  # noqa: PLC0415 (numerical)

        zero = 1 / (np.exp(as_float(query.epsilon)) + 1)
        score = (statistic.told[1::2] - statistic.told[::2]) / (1 / 2 - zero)
        error = np.sqrt(2 * statistic.answered * zero * (1 - zero)) / (1 / 2 - zero)
        cluster = kmeans_on_line(score, how.clusters)
        return Model(cluster=cluster, score=score, error=np.full(score.size, float(error)), clusters=how.clusters)


SERVER = (Unary(),)
