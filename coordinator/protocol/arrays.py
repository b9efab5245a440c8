"""Names for the array types that cross the code, and arrays that kernels only read."""

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Bits: TypeAlias = NDArray[np.uint8]
Bools: TypeAlias = NDArray[np.bool_]
Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Indices: TypeAlias = NDArray[np.int32]
Halves: TypeAlias = NDArray[np.uint16]
Counts: TypeAlias = NDArray[np.uint32]
Words: TypeAlias = NDArray[np.uint64]
PublicArray: TypeAlias = NDArray[Any]

Bits2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
Bools2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.bool_]]
Indices2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Words2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint64]]
Floats2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Words32: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint32]]
Ints2: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]

Array = TypeVar("Array", bound=np.ndarray[Any, Any])


def read_only(array: Array) -> Array:
    """Return a view that nobody writes to: arrays in Ray's store are such, and a kernel is compiled for each kind."""
    view = array.view()
    view.flags.writeable = False
    return view
