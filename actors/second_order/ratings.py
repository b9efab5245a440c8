"""What private devices of the two-tier model hold: ratings as numbers, frozen for a run; shows no data when printed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PrivateRatings:
    """Ratings of private devices in compressed sparse rows.

    Attributes
    ----------
    starts : ndarray of int64, shape (devices + 1,)
        Device i's ratings stand at ``starts[i]`` to ``starts[i + 1] - 1``.
    items : ndarray of int32
        Rated items, each once a device.
    values : ndarray of float64
        Their ratings.
    """

    starts: Ints = field(repr=False)
    items: Indices = field(repr=False)
    values: Floats = field(repr=False)

    @property
    def devices(self) -> int:
        """Number of devices."""
        return int(self.starts.size - 1)

    def block(self, first: int, stop: int) -> PrivateRatings:
        """Return the ratings of devices ``first`` to ``stop - 1`` alone."""
        low, high = self.starts[first], self.starts[stop]
        return PrivateRatings(
            starts=self.starts[first : stop + 1] - low, items=self.items[low:high], values=self.values[low:high]
        )

    def check(self, features: ItemFeatures, *, on_scale: bool, first: int = 0) -> None:
        """Refuse ratings that the model cannot be completed with.

        Parameters
        ----------
        features : ItemFeatures
            The public model.
        on_scale : bool
            Whether ratings must belong to its scale.
        first : int
            Address of the first device, for the error.

        Raises
        ------
        InputError
            The first device with such a rating, the rating and the remedy.
        """
        foreign = (self.items < 0) | (self.items >= features.items)
        self._refuse(foreign, first, f"the model has items 0 to {features.items - 1} only")
        self._refuse(~np.isfinite(self.values), first, "give finite ratings")
        if on_scale and features.scale is not None:
            told = ", ".join(f"{level:g}" for level in features.scale)
            off = ~np.isin(self.values, features.scale)
            self._refuse(off, first, f"pmd takes ratings of the declared scale only, which is {told}")

    def _refuse(self, bad: np.ndarray[tuple[int], np.dtype[np.bool_]], first: int, remedy: str) -> None:
        if bad.any():
            place = int(np.argmax(bad))
            device = first + int(np.searchsorted(self.starts, place, side="right")) - 1
            raise InputError(
                f"private device {device} rated item {self.items[place]} with {self.values[place]:g}; {remedy}"
            )
