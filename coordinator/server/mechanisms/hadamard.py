"""Hadamard response: a device names the signs of its random item in a few public rows of the Hadamard matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import COIN, kary_channel, odds_within
from coordinator.protocol.coins import round_key
from coordinator.protocol.mechanisms.hadamard import MOST_ROWS, ROWS
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.one_item import columns, values_of
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf, FrequencySettings

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates


class HadamardSettings(FrequencySettings):
    """Settings of Hadamard response, beside those of every oracle."""

    rows: Annotated[
        int, Field(ge=0, le=MOST_ROWS, description="Hadamard: public rows a device answers about, 0 for the best [0].")
    ] = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hadamard(FrequencyDesign):
    """Local hashing whose hash is t rows of the Hadamard matrix: a report speaks for the values with those signs.

    With one row it is the Hadamard bit. Source: Acharya, Sun and Zhang (2019). Several rows that each device draws for
    itself, so that one transform counts them, are our addition.

    Attributes
    ----------
    rows : int
        Rows t of a device; 0 for as many as have the least noise.
    """

    rows: int = 0

    name: ClassVar[str] = "hadamard"

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of rows; up to factors the noise is ``(e^eps + x)^2 / x`` with ``x = 2^t - 1``."""
        if self.rows or epsilon is None:
            return {ROWS: self.rows or MOST_ROWS}
        odds = odds_within(epsilon)
        return {ROWS: min(range(1, MOST_ROWS + 1), key=lambda rows: (odds + 2**rows - 1) ** 2 / (2**rows - 1))}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return ``p = e^eps / (e^eps + 2^t - 1)``, as the channel has it, and ``q = 2^-t``."""
        from coordinator.server.decoding.frequencies import Rates

        signs = 1 << int(query.parameters[ROWS])
        return Rates(kary_channel(query.epsilon, values=signs).own / COIN, 1 / signs)


class HadamardHalf(FrequencyHalf):
    """Hadamard response on the server."""

    name = "hadamard"
    title = "Hadamard response"
    settings = HadamardSettings
    asking = Hadamard

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices told the signs of each value, by one transform of what rows and products add up to.

        Whether all t signs agree is the mean over all products of rows of the product's sign, which is what a device
        told times what the value has; so counts are a 2^t-th of the transform, without a remainder.
        """
        from coordinator.protocol.hadamard import gather, transform
        from coordinator.protocol.streams import device_streams
        from coordinator.server.statistics.frequencies import reported

        rows, answered = int(query.parameters[ROWS]), release.answered_mask()
        told = reported(query, release, 1 << rows)[answered]
        streams = device_streams(round_key(query.public_seed, query.round), release.first, release.count)[answered]
        counts = np.zeros(columns(query), np.int64)
        gather(streams, told, rows, counts)
        transform(counts)
        return counts[: values_of(query)] >> rows


SERVER = (HadamardHalf(),)
