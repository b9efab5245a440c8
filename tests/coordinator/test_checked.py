"""What is refused where a message is made: arrays of other types, and devices that are not here."""

from __future__ import annotations

import numpy as np
import pytest

from coordinator.protocol.checked import require_array, require_block
from coordinator.protocol.errors import BlockError, InputError


@pytest.mark.parametrize("wrong", [[1, 2], np.zeros(2, np.int32), np.zeros(2), np.zeros(2, ">i8"), None])
def test_arrays_of_another_type_or_byte_order_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match=r"^counts: .*give an array of int64$"):
        require_array("counts", wrong, np.int64, [2])


def test_arrays_of_another_shape_or_order_are_refused() -> None:
    square = np.arange(4, dtype=np.int64).reshape(2, 2)
    assert require_array("counts", square, np.int64, [None, 2]) is square
    for wrong, shape in ((square, [2]), (square, [2, 3]), (square.T, [2, 2])):
        with pytest.raises(InputError, match=r"^counts: shape \(2, 2\); give"):
            require_array("counts", wrong, np.int64, shape)


@pytest.mark.parametrize(("first", "stop"), [(4, 9), (2, 5), (6, 5)])
def test_devices_that_are_not_here_are_named(first: int, stop: int) -> None:
    with pytest.raises(BlockError, match=rf"^devices {first} to {stop - 1} are not all among devices 3 to 7 here$"):
        require_block(first, stop, 3, 8)


def test_devices_that_are_here_are_not_refused() -> None:
    require_block(3, 8, 3, 8)
    require_block(5, 5, 3, 8)
