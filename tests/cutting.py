"""Commands that are cut off at each of their file operations in turn, as by a kill: for tests of what survives that.

Run as a script, so that one process without threads, which has loaded everything, is forked for every cut: the child
ends by `os._exit` before its n-th operation in the folder, or in the middle of it where that is a write.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

CUT = 77
"""Exit code of a process that was cut off."""
WRITES = os.O_WRONLY | os.O_RDWR
NAMED = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "truncate", "chmod", "link", "symlink")
HELD = ("write", "fsync", "ftruncate", "fdatasync")
"""Operations on names, and on files that are open."""


@dataclass
class Cutting:
    """Counts the operations of this process in a folder, and ends it at one of them.

    Attributes
    ----------
    folder : Path
        The folder, and all that is below it.
    at : int
        The operation before which the process ends; -1 for none.
    torn : bool
        Whether it ends in the middle of that operation, if it is a write, and after it otherwise.
    """

    folder: Path
    at: int = -1
    torn: bool = False
    done: list[str] = field(default_factory=list)
    held: dict[int, str] = field(default_factory=dict)
    ours: bool = False

    def start(self) -> None:
        """Watch from now on; there is no way back."""
        open_, close = os.open, os.close

        def opened(path: Any, flags: int, *rest: Any, dir_fd: int | None = None) -> int:
            place = self._place(path, dir_fd)

            def made() -> int:
                self.ours = True
                try:
                    return open_(path, flags, *rest, dir_fd=dir_fd)
                finally:
                    self.ours = False

            held = self._counted(f"open {place}", made) if place and flags & WRITES else made()
            self.held[held] = place
            return held

        def closed(held: int) -> None:
            self.held.pop(held, None)
            close(held)

        for name, replacement in (("open", opened), ("close", closed)):
            setattr(os, name, replacement)
        for name in NAMED:
            setattr(os, name, self._named(name, getattr(os, name)))
        for name in HELD:
            setattr(os, name, self._on_held(name, getattr(os, name)))
        sys.addaudithook(self._looked)

    def _place(self, path: Any, dir_fd: int | None = None) -> str:
        """Return a path within the folder; empty for one outside of it."""
        if not isinstance(path, str | bytes | os.PathLike):
            return self.held.get(path, "")
        base = self.held.get(dir_fd, "/") if dir_fd is not None else os.getcwd()  # noqa: PTH109 (Path would look it up)
        place = os.path.normpath(os.path.join(base, os.fsdecode(path)))  # noqa: PTH118 (same)
        return place if Path(place).is_relative_to(self.folder) else ""

    def _counted(self, what: str, operation: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        last = len(self.done) == self.at
        self.done.append(what)
        if last and self.torn:
            (half or operation)()
        if last:
            os._exit(CUT)
        return operation()

    def _named(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(path: Any, *rest: Any, **more: Any) -> Any:
            if place := self._place(path, more.get("dir_fd")):
                return self._counted(f"{name} {place}", lambda: operation(path, *rest, **more))
            return operation(path, *rest, **more)

        return replaced

    def _on_held(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(held: int, *rest: Any) -> Any:
            if not (place := self.held.get(held)):
                return operation(held, *rest)
            half = (lambda: operation(held, rest[0][: len(rest[0]) // 2])) if name == "write" else None
            return self._counted(f"{name} {place}", lambda: operation(held, *rest), half)

        return replaced

    def _looked(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Refuse files that are opened to be written in a way that is not counted."""
        if event != "open" or self.ours or not isinstance(path := arguments[0], str) or not arguments[2] & WRITES:
            return
        if self._place(path) and not Path(path).is_dir():  # a file without a name in a folder is counted
            os.write(2, f"{path} is opened past the operations that are counted\n".encode())
            os._exit(1)


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code, what it printed as error, and the operations that it made."""

    code: int
    err: str
    operations: list[str]


def forked(act: Callable[[], int], folder: Path, at: int = -1, *, torn: bool = False) -> Ended:
    """Run something in a child process, which is cut off at an operation.

    Parameters
    ----------
    act : callable
        Returns an exit code.
    folder : Path
        Whose operations count.
    at : int
        Before which one; -1 for none.
    torn : bool
        Whether in the middle of it.
    """
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _child(act, Cutting(folder, at, torn), theirs)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        err, _, operations = said.read().partition("\0")
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), err, operations.splitlines())


def _child(act: Callable[[], int], cutting: Cutting, theirs: int) -> NoReturn:
    code = 1
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
            cutting.start()
            code = act()
        told = err.getvalue()
    except BaseException as error:  # told to the parent, who fails
        told = f"{type(error).__name__}: {error}"
    os.write(theirs, f"{told}\0{chr(10).join(cutting.done)}".encode())
    os._exit(code)
