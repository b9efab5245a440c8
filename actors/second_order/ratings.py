"""What private devices of the two-tier model hold: ratings as numbers, frozen for a run; shows no data when printed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivateRatings:
    """Ratings of private devices in compressed sparse rows.

    They are checked here, where the experimenter makes them. What devices answer or refuse later follows from public
    facts alone: an error that depended on a rating would tell it.

    Attributes
    ----------
    starts : ndarray of int64, shape (devices + 1,)
        Device i's ratings stand at ``starts[i]`` to ``starts[i + 1] - 1``.
    items : ndarray of int32
        Rated items, each once a device.
    values : ndarray of float64
        Their ratings.
    count : int
        Items of the public catalogue.

    Raises
    ------
    InputError
        The first device with a rating that cannot be used, the rating and the remedy; for the experimenter's eyes.
    """

    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)
    values: Floats = field(repr=False)
    count: int

    def __post_init__(self) -> None:
        """Refuse what devices could not hold."""
        self._refuse(
            (self.items < 0) | (self.items >= self.count), f"the catalogue has items 0 to {self.count - 1} only"
        )
        self._refuse(~(np.abs(self.values) <= LARGEST), f"give finite ratings, of {LARGEST:g} at most")

    @property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.starts.size - 1)

    def block(self, first: int, stop: int) -> PrivateRatings:
        """Return the ratings of devices ``first`` to ``stop - 1`` alone."""
        low, high = self.starts[first], self.starts[stop]
        return PrivateRatings(
            starts=self.starts[first : stop + 1] - low,
            items=self.items[low:high],
            values=self.values[low:high],
            count=self.count,
        )

    def _refuse(self, bad: np.ndarray[tuple[int], np.dtype[np.bool_]], remedy: str) -> None:
        if bad.any():
            place = int(np.argmax(bad))
            device = int(np.searchsorted(self.starts, place, side="right")) - 1
            raise InputError(
                f"private device {device} rated item {self.items[place]} with {self.values[place]:g}; {remedy}"
            )
