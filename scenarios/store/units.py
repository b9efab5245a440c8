"""The finished units of a sweep, stored one line each as soon as they are finished."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from actors.log import Kind, Log
from coordinator.protocol.errors import InputError, LostError
from scenarios.store.mark import FOLDER, bound, read_mark

K = TypeVar("K")
M = TypeVar("M")
Reader = Callable[[dict[str, Any]], tuple[K, M]]
"""Takes a line's JSON value and returns the unit's key and what it found."""
Writer = Callable[[K, M], dict[str, Any]]
"""The reverse."""
UNITS = "units"
UNIT = Kind(
    noun="file of units",
    suffix=".units",
    remedy="put it back as it was, or remove that line and all after it: their units are then measured again",
    error=InputError,
)


class Units(Generic[K, M]):
    """The finished units of a sweep, bound to the mark of its folder; see `actors.log.Log`.

    Parameters
    ----------
    out : Path
        The sweep's folder.
    read, write : callable
        How a unit is read from its line, and written to it.

    Raises
    ------
    InputError
        If the folder's mark cannot be read.
    """

    def __init__(self, out: Path, read: Reader[K, M], write: Writer[K, M]) -> None:
        self.folder, self._read, self._write = out / FOLDER / UNITS, read, write
        self._log = Log(self.folder, UNIT, bound(read_mark(out), UNITS))

    def __iter__(self) -> Iterator[tuple[K, M]]:
        """Yield the stored units with their keys, in the order in which they were finished.

        Raises
        ------
        InputError
            If a file cannot be read, belongs to another sweep, or has damage that no crash can explain.
        """
        self._log.settle()
        return self._log.read(lambda told: self._read(json.loads(told)))

    def keep(self, key: K, measured: M) -> None:
        """Write a unit, and wait until the disk holds it.

        Raises
        ------
        LostError
            If it cannot be written, as on a full disk. The sweep can be resumed from the units before.
        """
        try:
            self._log.append([json.dumps(self._write(key, measured))])
        except OSError as error:
            raise LostError(f"a unit cannot be kept in {self.folder} ({error.strerror})") from None
