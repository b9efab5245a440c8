"""Sign sensing: does the signed sum of a device's ratings agree with public signs? Ours."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.sign import MOST_VECTORS, answer_bits
from coordinator.protocol.messages import CENTRE_UNIT, Query, Release
from coordinator.server.design import RoundTerms, World, query_of
from coordinator.server.server_half import POOLED, POSTERIOR, ServerHalf, Settings, check_shape

if TYPE_CHECKING:
    from coordinator.protocol.moments.emulation import EmulatedDevices
    from coordinator.protocol.moments.sign_moments import SignMoments
    from coordinator.protocol.statistics.scores import ScoreStatistic
    from coordinator.server.decoding.estimates import Estimates


class SignSettings(Settings):
    """Settings of sign sensing."""

    vectors: int = Field(
        default=1, ge=1, description="Sign sensing: vectors a device chooses among, a power of two up to 64 [1]."
    )
    signs: Literal["centred", "plain"] = Field(
        default="centred",
        description="Sign sensing, adaptive: ratings counted centred (from what is expected) or plain.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SignSensing:
    """Sign sensing: every item of the pool has a public sign; the bit is the sign of the signed sum of the ratings.

    A like counts +1 and a dislike -1; if the sum is 0 the device tosses a fair coin. With several sign vectors the
    device names a vector, with its sign, under which its sum is large. This takes a few bits, and needs fewer users at
    the same epsilon. Source: ours (the paper's MaxSense uses likes only and needs a sensing rate).
    """

    items: int  # Number of items N, at least 1
    rated: int  # Number of items w that a user rated: public, typical where users differ; 1 to N
    # Sign vectors m that a device chooses among, a power of two up to `MOST_VECTORS`; answers have ``1 + log2 m`` bits
    vectors: int = 1
    # Whether ratings are counted from their expected values once the server has any; see `centred_moments`. With
    # several sign vectors they are counted from 0
    centred: bool = True

    name: ClassVar[str] = "sign"
    widest: ClassVar[float] = 2.0

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated, 1)
        if not 1 <= self.vectors <= MOST_VECTORS or self.vectors & (self.vectors - 1):
            raise InputError(f"vectors is {self.vectors}; give a power of two, 1 to {MOST_VECTORS}")

    def query(
        self, *, pool: Indices | None = None, expected: Floats | None = None, **terms: Unpack[RoundTerms]
    ) -> Query:
        """Return the query of one round; ``pool`` holds the items that have signs, by default all."""
        from coordinator.protocol.moments.sign_moments import optimal_best_count

        centres = None
        if expected is not None and self.centred and self.vectors == 1:
            centres = np.rint(np.clip(expected, -1, 1) * CENTRE_UNIT).astype(np.int32)
        items = np.arange(self.items, dtype=np.int32) if pool is None else pool
        best = optimal_best_count(
            items.size, items=self.items, rated=self.rated, vectors=self.vectors, epsilon=terms["epsilon"]
        )
        parameters, bits = {"vectors": self.vectors, "kept": best}, answer_bits(self.vectors)
        return query_of(
            self.name, self.items, terms, parameters=parameters, pool=items, answer_bits=bits, centres=centres
        )

    def read(self, query: Query, statistic: ScoreStatistic, expected: Floats | None = None) -> Estimates:
        from coordinator.server.decoding.estimates import read_signs

        likes = None if expected is None else np.clip((1 + expected) / 2, 0, 1)
        return read_signs(query, statistic, rated=self.rated, likes=likes)

    def rates(self, query: Query, expected: Floats | None = None) -> Floats:
        """Return the information of one device's answer about each item; see `estimates.contrasts_of`."""
        from coordinator.server.decoding.estimates import contrasts_of

        contrast, _ = contrasts_of(query, rated=self.rated)
        return contrast**2

    def emulate(self, query: Query, crowd: EmulatedDevices, coins: np.random.Generator) -> tuple[Ints, Ints, int]:
        """Draw a round's counts from exact moments: vectors, agreements with each item's sign, and ones."""
        from coordinator.server.decoding.estimates import contrasts_of

        means = np.zeros(crowd.likes.shape[1])
        for share, likes in zip(crowd.class_shares, crowd.likes, strict=True):
            contrast, offset = contrasts_of(query, rated=crowd.rated, likes=likes)
            means += share * (contrast * (2 * likes - 1) + offset)
        agreed = coins.binomial(crowd.users, np.clip((1 + means) / 2, 0, 1))
        return np.full(means.size, crowd.users), agreed, int(coins.binomial(crowd.users, 0.5))


class SignHalf(ServerHalf):
    """Sign sensing on the server."""

    name = "sign"
    title = "sign sensing"
    settings = SignSettings
    decoders = (POSTERIOR,)
    policies = POOLED
    ranks = True

    def design(self, settings: SignSettings, world: World) -> SignSensing:
        centred = settings.signs == "centred"
        return SignSensing(items=world.items, rated=world.rated, vectors=settings.vectors, centred=centred)

    def aggregate(self, query: Query, release: Release) -> ScoreStatistic:
        from coordinator.protocol.mechanisms.sign import aggregate_signs

        return aggregate_signs(query, release)

    def moments(self, settings: SignSettings, world: World) -> SignMoments:
        from coordinator.protocol.moments.sign_moments import SignMoments

        design = self.design(settings, world)
        query = design.query(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        return SignMoments(contrast=math.sqrt(float(design.rates(query)[0])))


SERVER = (SignHalf(),)
