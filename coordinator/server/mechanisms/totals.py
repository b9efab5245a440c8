"""Sums by two servers on the server that reads them: which query is asked, and what noisy totals of likes say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.totals import (
    CHANGES,
    DELTA,
    DEVIATION,
    HONEST,
    LEAST_ANSWERS,
    Totals,
    dose,
    noise_deviation,
)
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.public_half import ADD_REMOVE, REPLACE
from coordinator.protocol.shares import WORD_BYTES
from coordinator.protocol.value_channels import PADDED
from coordinator.server.design import Decoding, RoundTerms, World, query_of
from coordinator.server.mechanisms.toys import CuratorSettings
from coordinator.server.server_half import ONE_ROUND, TRUST_TWO_SERVERS, ServerHalf, SumMoments

if TYPE_CHECKING:
    from coordinator.server.statistics.counts import CountStatistic

SERVERS, DEVICES = "servers", "devices"
IDEAL, NO_PROOFS = "ideal", "none"


class TotalsSettings(CuratorSettings):
    """Settings of two servers' sums."""

    most_likes: int = Field(
        default=0, ge=0, description="Two servers: likes of a device that count at most, 0 for as many as rated [0]."
    )
    noise: Literal["servers", "devices"] = Field(
        default="servers",
        description="Two servers: who adds noise to sums, each server a full dose, or devices shares of one [servers].",
    )
    proofs: Literal["ideal", "none"] = Field(
        default="ideal",
        description="Two servers: a vector of a liar is checked by an ideal proof before it is shared, or by none "
        "[ideal].",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LikeTotals:
    """Sums of likes of all items that two servers publish together; a device's most likes bound its share."""

    items: int  # Number of items N
    most: int  # Most likes w of a device that count
    delta: float  # Chance that the promise fails; 0 for discrete Laplace noise
    neighbours: str  # "replace" or "add-remove"
    honest: int = 0  # Devices whose shares of noise make a dose; 0 where each server adds a dose of its own
    least_answers: int = 0  # Fewest answers that the servers open

    def __post_init__(self) -> None:
        if not 1 <= self.most <= self.items:
            raise InputError(f"most_likes is {self.most}; it must lie between 1 and the number of items, {self.items}")

    @property
    def changes(self) -> int:
        """Coordinates of the sums that one person changes by one."""
        return self.most if self.neighbours == ADD_REMOVE else 2 * self.most

    def query(self, **terms: Unpack[RoundTerms]) -> Query:
        """Return the query of the round."""
        epsilon, devices = terms["epsilon"], self.honest > 0
        parameters = {
            PADDED: float(self.most),
            DELTA: 0.0 if epsilon is None else self.delta,
            CHANGES: float(self.changes),
            DEVIATION: dose(epsilon, self.delta, self.changes, devices=devices),
            HONEST: float(self.honest),
            LEAST_ANSWERS: float(self.least_answers),
        }
        return query_of(
            "totals", self.items, terms, questions=self.items, answer_bits=8 * WORD_BYTES, parameters=parameters
        )


def honest_devices(world: World) -> tuple[int, int]:
    """Return how many honest devices are counted on for noise, and how many answers hold so many.

    Of answers that are expected a share may be liars, whose noise nobody counts on.
    """
    expected, honest = Fraction(str(world.expected_answers)), 1 - Fraction(str(world.assume_malicious))
    devices = math.floor(world.users * expected * honest)
    if devices < 1:
        raise InputError(
            f"of {world.users} users {world.expected_answers:g} are expected to answer, {world.assume_malicious:g} of "
            "these to lie: nobody is left to add noise; let servers add it"
        )
    return devices, math.ceil(devices / honest)


class TotalsHalf(ServerHalf):
    """Two servers' noisy totals of likes."""

    name = "totals"
    title = "two servers' totals of likes"
    settings = TotalsSettings
    decoders = ("totals",)
    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND,)
    trust = TRUST_TWO_SERVERS
    bounded = False
    ranks = True

    def neighbours(self, settings: TotalsSettings) -> str:
        """Return the relation that the noise is calibrated for."""
        return settings.neighbours

    def label(self, row: Mapping[str, Any]) -> str:
        """Return its name, with the relation of neighbours where that is not the one of all others."""
        return f"{self.name}, {ADD_REMOVE}" if row.get("neighbours", REPLACE) == ADD_REMOVE else self.name

    def design(self, settings: TotalsSettings, world: World) -> LikeTotals:
        """Return what two servers add up in a world."""
        honest, least = honest_devices(world) if settings.noise == DEVICES else (0, 0)
        return LikeTotals(
            items=world.items,
            most=min(settings.most_likes or world.rated, world.items),
            delta=world.delta,
            neighbours=settings.neighbours,
            honest=honest,
            least_answers=least,
        )

    def aggregate(self, query: Query, release: Release) -> CountStatistic:
        """Refuse: no device's answer comes to this server."""
        raise InputError(f"{query} is answered in shares for two servers, which publish their sums alone")

    def decode(self, statistic: CountStatistic, query: Query, how: Decoding) -> Model:
        """Cluster items by noisy totals of likes, which rank them; the error is that of the noise."""
        from coordinator.server.decoding.line import kmeans_on_line

        totals = statistic.sums.astype(np.float64)
        error = Totals().deviation(query, statistic.answered)
        cluster = kmeans_on_line(totals, how.clusters)
        return Model(cluster=cluster, score=totals, error=np.full(totals.size, error), clusters=how.clusters)

    def moments(self, settings: TotalsSettings, world: World) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        from coordinator.server.moments.count_moments import set_shares

        if world.block is None:
            return None
        design = self.design(settings, world)
        level = set_shares(world.block, design.most)
        deviation = noise_deviation(
            world.epsilon,
            design.changes,
            dose(world.epsilon, design.delta, design.changes, devices=design.honest > 0),
            honest=design.honest,
            answered=world.users,
        )
        return SumMoments(level=level, noise=deviation**2)


SERVER = (TotalsHalf(),)
