"""The system's operations on files as `actors.durable_log` calls them, some of which fail."""

import errno
import functools
import os
from collections.abc import Callable
from typing import Any

import pytest

from actors import durable_log


class Disk:
    """A disk that fails at the operation of a number, and, as a full one does, at all later ones."""

    def __init__(self, at: int = -1, number: int = errno.ENOSPC, *, later: bool = False) -> None:
        self.at, self.number, self.later, self.done = at, number, later, list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _tried(self, what: str) -> None:
        self.done.append(what)
        here = len(self.done) - 1
        if here == self.at or (self.later and 0 <= self.at < here):
            raise OSError(self.number, os.strerror(self.number))

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        """Open a file."""
        self._tried("open")
        return os.open(path, flags, mode)

    def write(self, held: int, content: memoryview) -> int:
        """Write a half of it before it fails."""
        try:
            self._tried("write")
        except OSError:
            os.write(held, content[: len(content) // 2])
            raise
        return os.write(held, content)

    def fsync(self, held: int) -> None:
        """Wait for the disk."""
        self._tried("fsync")
        os.fsync(held)

    def instead_of_the_system(self, patch: pytest.MonkeyPatch) -> None:
        """Let the store call these; folders are made and files renamed by `pathlib`, which asks the system itself."""
        patch.setattr(durable_log, "os", self)
        for name in ("mkdir", "replace"):
            patch.setattr(os, name, functools.partial(self._called, name, getattr(os, name)))

    def _called(self, name: str, operation: Callable[..., None], *given: Any) -> None:
        self._tried(name)
        operation(*given)
