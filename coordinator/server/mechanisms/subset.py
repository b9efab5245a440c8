"""Subset selection: a device names several values, which often include its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import SubsetChannel, odds_within
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.one_item import values_of
from coordinator.protocol.subset_form import CHOSEN
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf, FrequencySettings

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates

Chosen = Annotated[int, Field(ge=0, description="Subsets and sets: values in a release, 0 for the best [0].")]
"""A setting that subset selection and the set mechanism share."""


FAINT = Fraction(1, 10**9)
"""Smallest difference of a value's two rates, relative to them, at which floats are precise enough for estimates."""


def subset_rates(query: Query) -> Rates:
    """Return how often a subset holds a value of the device's own, and another one, as the channel has it.

    Raises
    ------
    InputError
        If the two hardly differ, so that nothing could be estimated.
    """
    from coordinator.server.decoding.frequencies import Rates

    channel = public_half(query.design).channel(query)
    assert isinstance(channel, SubsetChannel)  # of no other query
    own, other = channel.rates
    if own - other < FAINT * other:
        raise InputError(
            f"chosen is {channel.chosen} of {channel.values} values, which tells next to nothing of a set of "
            f"{channel.padded}; choose fewer, or pad less"
        )
    return Rates(float(own), float(other), both=float(channel.both / other**2) if other else 0.0)


class SubsetSettings(FrequencySettings):
    """Settings of subset selection, beside those of every oracle."""

    chosen: Chosen = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset(FrequencyDesign):
    """A report speaks for the values that it names. Source: Ye and Barg (2018); Wang et al. (2016).

    Attributes
    ----------
    chosen : int
        Values k in a release; 0 for as many as have the least noise, and fewer where a pool has no more.
    """

    chosen: int = 0

    name: ClassVar[str] = "subset"

    def __post_init__(self) -> None:
        FrequencyDesign.__post_init__(self)
        if self.chosen > self.items:
            raise InputError(f"chosen is {self.chosen}; it must be at most the number of items, {self.items}")

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the number of values in a subset; the least noise has ``K / (e^eps + 1)``."""
        best = 1 if epsilon is None else round(values / (odds_within(epsilon) + 1))
        return {CHOSEN: max(1, min(self.chosen or best, values - 1))}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return `subset_rates`."""
        return subset_rates(query)


class SubsetHalf(FrequencyHalf):
    """Subset selection on the server."""

    name = "subset"
    title = "subset selection"
    settings = SubsetSettings
    asking = Subset

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices named each value."""
        from coordinator.server.statistics.columns import subset_counts

        return subset_counts(query, release, values=values_of(query), chosen=int(query.parameters[CHOSEN]))


SERVER = (SubsetHalf(),)
