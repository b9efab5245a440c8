"""Where compiled kernels of code that was sent are kept: by what they are made of, not by where they lie."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from coordinator.protocol.versions import require_tested

require_tested("numba")
from numba.core import caching  # noqa: E402 (its locators are private)

SENT = "_ray_pkg_"
"""Folders into which Ray unpacks what it was sent begin like this; each version of the code gets its own."""
WITH_KERNELS = ("actors", "coordinator", "scenarios")
"""The packages whose kernels call each other."""
UNUSED = 30
"""Days after which kernels of other code are removed."""


class OfSentCode(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Keeps a kernel below the user's cache folder, in a folder for all of our code as it is.

    Beside its module it would be lost with Ray's session, and with every change of a file that is sent along. It
    depends on the whole code, because a kernel holds the kernels that it calls.

    Parameters
    ----------
    function : callable
        The kernel, before it is compiled.
    file : str
        Its source.
    """

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        self._folder = kept() / function.__module__.rpartition(".")[0]

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> Any:
        """Return the place of a kernel of ours that was sent; None for any other, and where the folder is no good."""
        sent = any(part.startswith(SENT) for part in Path(file).parts)
        if not sent or function.__module__.partition(".")[0] not in WITH_KERNELS:
            return None
        return super().from_function(function, file)  # type: ignore[no-untyped-call] # numba has no types


def _home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@cache
def kept() -> Path:
    """Return the folder for our code as it is; once it is new, those that nobody used for `UNUSED` days are removed."""
    folder = _home() / "blindrec" / _digest()
    if folder.is_dir():
        with suppress(OSError):  # a folder of somebody else, which is as good to read
            os.utime(folder)
        return folder
    oldest = time.time() - UNUSED * 86_400
    for other in folder.parent.glob("[0-9a-f]" * len(folder.name)):
        if other.stat().st_mtime < oldest:
            shutil.rmtree(other, ignore_errors=True)
    return folder


@cache
def _digest() -> str:
    """Return the SHA-256 of all source that kernels may be made of."""
    whole = hashlib.sha256()
    for name in WITH_KERNELS:
        spec = importlib.util.find_spec(name)
        for folder in (spec and spec.submodule_search_locations) or ():
            for file in sorted(Path(folder).rglob("*.py")):
                whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def keep_sent_kernels() -> None:
    """Let numba ask `OfSentCode` first, and go on as ever where that has no place."""
    if OfSentCode not in caching.CacheImpl._locator_classes:
        caching.CacheImpl._locator_classes.insert(0, OfSentCode)
