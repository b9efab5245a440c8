"""What all statistics have in common: arrays of whole numbers that add up, and the numbers of devices."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypedDict

import numpy as np

from coordinator.protocol.checked import require_array, require_whole
from coordinator.protocol.errors import InputError

if TYPE_CHECKING:
    from coordinator.protocol.messages import Query, Release

MOST = 1 << 62  # A count at most


@dataclass(frozen=True, kw_only=True)
class Statistic:
    """Sums over the devices that answered; sums of two blocks add up to that of both."""

    counts: ClassVar[tuple[str, ...]] = ()  # Names of the fields that are arrays of int64
    padded: ClassVar[tuple[str, ...]] = ()
    """Those of them whose sizes differ between rounds: the shorter one is padded with zeros."""
    same: ClassVar[tuple[str, ...]] = ()  # Names of the numbers that must be equal and are not added up

    devices: int  # How many were asked
    answered: int
    refused: int

    if TYPE_CHECKING:

        @property
        def ones(self) -> int:
            """Ones among the answered bits; a field of some statistics, a sum of counts in others."""

    @property
    def missing(self) -> int:
        """Devices that neither answered nor refused."""
        return self.devices - self.answered - self.refused

    def __add__(self, other: Self) -> Self:
        sums: dict[str, Any] = {}
        for name in (part.name for part in fields(self)):
            total, more = getattr(self, name), getattr(other, name)
            if name in self.padded and total.size != more.size:
                size = max(total.size, more.size)
                total, more = (np.pad(counts, (0, size - counts.size)) for counts in (total, more))
            sums[name] = total if name in self.same else total + more
        return type(self)(**sums)

    def shape(self) -> tuple[object, ...]:
        """Return the type and the sizes of the counts, which must be equal in statistics that are added up."""
        counts = {name: require_array(name, getattr(self, name, None), np.int64, None) for name in self.counts}
        shapes = [array.ndim if name in self.padded else array.shape for name, array in counts.items()]
        for part in fields(self):
            if part.name not in self.counts:
                require_whole(part.name, getattr(self, part.name, None), 0, MOST)
        return type(self), *shapes, *(getattr(self, name) for name in self.same)


def merge(first: Statistic, *others: Statistic) -> Statistic:
    """Return the sum of statistics of one mechanism, in the order given."""
    shape, total = _shape(first), first
    for other in others:
        if _shape(other) != shape:
            raise InputError("statistics of different designs or catalogues have no sum; merge those of one query")
        total = total + other
    return total


class DeviceCounts(TypedDict):
    """The numbers of devices of a statistic, by its fields."""

    devices: int
    answered: int
    refused: int


def device_counts(release: Release) -> DeviceCounts:
    """Return how many devices of a block were asked, answered and refused."""
    answered = int(release.answered_mask().sum())
    return {"devices": release.count, "answered": answered, "refused": release.refused}


def no_answer(query: Query, release: Release, why: str) -> InputError:
    """Return the error for a release that no honest devices can have sent; it names them."""
    last = release.first + release.count - 1
    return InputError(
        f"the release of devices {release.first} to {last} is no answer to {query}: {why}; their process runs other "
        "code than the server, start it anew with the same"
    )


def _shape(statistic: object) -> tuple[object, ...]:
    if not isinstance(statistic, Statistic):
        raise InputError(f"a statistic is expected here, not a {type(statistic).__name__}")
    return statistic.shape()
