"""MaxSense: is any of a few items that are sensed at random liked? One bit a device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Model, Query, Release
from coordinator.server.design import Decoding, World
from coordinator.server.moments.told_ratings import NoSignal
from coordinator.server.server_half import (
    POOLED,
    POSTERIOR,
    SETS,
    ServerHalf,
    Settings,
    Theta,
    check_shape,
)

if TYPE_CHECKING:
    from coordinator.server.decoding.estimates import Estimates
    from coordinator.server.moments.blocks import SketchMoments
    from coordinator.server.moments.emulation import Crowd
    from coordinator.server.statistics.scores import ScoreStatistic


class MaxSenseSettings(Settings):
    """Settings of MaxSense."""

    theta: Theta = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MaxSense:
    """MaxSense: each item is sensed with probability ``theta / rated``; the bit is 1 if a sensed item was liked.

    Source: Banerjee, Hegde, Massoulié, Figure 2 and Theorem 15 [5.1].

    Attributes
    ----------
    items : int
        Number of items N, at least 1.
    rated : int
        Number of items w that a user rated: public, typical where users differ; 1 to N.
    theta : float
        Expected number of a user's rated items that are sensed, in (0, rated].

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    theta: float = 1.0

    name: ClassVar[str] = "maxsense"
    widest: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, self.theta)

    @property
    def sensing(self) -> float:
        """Sensing probability p of each item if the query is about all items."""
        return self.theta / self.rated

    def sensing_in(self, pool: int) -> float:
        """Return the sensing probability of each of ``pool`` items; it is at most 1/2 unless these are all items."""
        return self.sensing if pool == self.items else min(self.sensing * self.items / pool, 0.5)

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        expected: Floats | None = None,
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that are sensed, by default all."""
        whole = pool is None or pool.size == self.items
        return Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={"sensing": self.sensing_in(self.items if pool is None else pool.size)},
            pool=None if whole else pool,
        )

    def read(self, query: Query, statistic: ScoreStatistic, expected: Floats | None = None) -> Estimates:
        """Return what a round tells of every item's b; see `estimates.read_sets`."""
        from coordinator.server.decoding.estimates import read_sets

        return read_sets(query, statistic, rated=self.rated)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; ``expected`` holds b, by default 1/2."""
        from coordinator.server.decoding.estimates import others_share

        pool = query.items if query.pool is None else query.pool.size
        sensing, contrast, share = self.sensing_in(pool), bit_channel(query.epsilon).contrast, self.rated / self.items
        liked = np.full(pool, 0.5) if expected is None else np.clip(expected, 0, 1)
        none = math.exp(np.log1p(-np.minimum(sensing * share * liked, 0.5)).sum())
        answer, silent = (
            (1 - contrast) / 2 + contrast * (1 - none),
            none ** others_share(pool, items=self.items, rated=self.rated),
        )
        noise = answer * (1 - answer)
        rate = (contrast * share * silent) ** 2 * sensing * (1 - sensing) / noise if noise else 0.0
        return np.full(pool, rate)

    def emulate(self, query: Query, crowd: Crowd, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
        """Draw a round's counts from exact moments; see `emulation.draw_sets`."""
        from coordinator.server.moments.emulation import draw_sets

        return draw_sets(query, crowd, coins)


class MaxSenseHalf(ServerHalf):
    """MaxSense on the server."""

    name = "maxsense"
    title = "MaxSense"
    settings = MaxSenseSettings
    decoders = (*SETS, POSTERIOR)
    policies = POOLED
    ranks = True

    def design(self, settings: MaxSenseSettings, world: World) -> MaxSense:
        """Return MaxSense in a world."""
        return MaxSense(items=world.items, rated=world.rated, theta=settings.theta)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        """Return sensed items and scores; see `scores.aggregate_scores`."""
        from coordinator.server.statistics.scores import aggregate_scores

        return aggregate_scores(query, release)

    def decode(self, statistic: ScoreStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by their scores; see `line.decode`."""
        from coordinator.server.decoding.line import decode

        return decode(statistic, sensing=query.parameters["sensing"], clusters=how.clusters, decoder=how.decoder)

    def moments(self, settings: MaxSenseSettings, world: World) -> SketchMoments | NoSignal | None:
        """Return `blocks.maxsense_moments`, or no signal if every rated item is sensed."""
        from coordinator.server.moments.blocks import maxsense_moments

        sensing = settings.theta / world.rated
        if world.block is None:
            return None
        if sensing >= 1:
            return NoSignal()
        return maxsense_moments(world.block, sensing=sensing, epsilon=as_float(world.epsilon))


SERVER = (MaxSenseHalf(),)
