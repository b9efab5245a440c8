"""An item-item model, such as that of EASE, which devices apply to their own likes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bools2, Floats, Floats2, Indices
from coordinator.protocol.checked import LARGEST, MOST_ITEMS, Checked, require_array, require_ascending, require_range


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ItemToItem(Checked):
    """What one like says for each other item, among some items of the catalogue; public.

    Attributes
    ----------
    pool : ndarray of int32, shape (M,)
        The items, ascending.
    liked : ndarray of float64, shape (M,)
        Estimated share of devices that like each; it orders items that a device's likes say nothing of.
    weights : ndarray of float64, shape (M, M)
        What a like of the row's item adds to the score of the column's item.

    Raises
    ------
    InputError
        If the arrays do not fit each other, or hold something that is no number.
    """

    pool: Indices
    liked: Floats = field(repr=False)
    weights: Floats2 = field(repr=False)

    def check(self) -> None:
        """Refuse a model that does not hold together; see `Checked.check`."""
        require_array("items of a model", self.pool, np.int32, [None])
        require_ascending("items of a model", self.pool, 0, MOST_ITEMS)
        require_array("shares of a model", self.liked, np.float64, self.pool.shape)
        require_array("weights of a model", self.weights, np.float64, [self.pool.size, self.pool.size])
        require_range("shares of a model", self.liked, -LARGEST, LARGEST)
        require_range("weights of a model", self.weights, -LARGEST, LARGEST)


def scores(model: ItemToItem, likes: Bools2) -> Floats2:
    """Return every device's scores of the model's items: the sum of the weights of its likes.

    Weights on the public grid make it exact, whatever the order in which they are added.

    Parameters
    ----------
    model : ItemToItem
        The public model of M items.
    likes : ndarray of bool, shape (devices, M)
        Which of them each device likes; private.

    Returns
    -------
    ndarray of float64, shape (devices, M)

    Examples
    --------
    >>> model = ItemToItem(
    ...     pool=np.array([0, 3], np.int32), liked=np.array([0.2, 0.1]), weights=np.array([[0.0, 0.5], [0.25, 0.0]])
    ... )
    >>> scores(model, np.array([[True, False]])).tolist()
    [[0.0, 0.5]]
    """
    found: Floats2 = likes.astype(np.float64) @ model.weights
    return found
