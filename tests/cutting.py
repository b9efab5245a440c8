"""What a kill leaves of a folder at each of a command's file operations: for tests of what survives that.

Run as a script, so that one process without threads, which has loaded everything, is forked for every command. The
child copies the folder before each of its operations there, and in the middle of each write: a kill at that point would
leave just that, since the system holds what was written, and locks end with their process.
"""

import io
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

WRITES = os.O_WRONLY | os.O_RDWR
NAMED = ("mkdir", "rmdir", "unlink", "remove", "rename", "replace", "truncate", "chmod", "link", "symlink")
HELD = ("write", "fsync", "ftruncate", "fdatasync")  # Operations on names, and on files that are open


@dataclass
class Cutting:
    """Notes the operations of this process in a folder, and keeps what a kill at each of them would leave."""

    folder: Path
    kept: Path | None = None  # where copies go, named by their order
    cuts: list[str] = field(default_factory=list)
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

    def keep(self, cut: str) -> None:
        """Copy the folder, if there is one."""
        if self.kept is not None:
            if self.folder.exists():
                shutil.copytree(self.folder, self.kept / str(len(self.cuts)), symlinks=True)
            self.cuts.append(cut)

    def _counted(self, what: str, operation: Callable[[], Any]) -> Any:
        self.done.append(what)
        self.keep(f"before {what}")
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
            if name != "write":
                return self._counted(f"{name} {place}", lambda: operation(held, *rest))

            def in_two() -> int:
                begun: int = operation(held, rest[0][: len(rest[0]) // 2])
                self.keep(f"in write {place}")
                more: int = operation(held, rest[0][begun:])
                return begun + more

            return self._counted(f"write {place}", in_two)

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
    """How a command ended: exit code, what it printed as error, its operations, and of which cuts copies are kept."""

    code: int
    err: str
    operations: list[str]
    cuts: list[str]


def forked(act: Callable[[], int], folder: Path, kept: Path | None = None) -> Ended:
    """Run something in a child process; copies of a folder are kept outside of it."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        os.close(ours)
        _child(act, Cutting(folder, kept), theirs)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        err, operations, cuts = said.read().split("\0")
    _, status = os.waitpid(child, 0)
    return Ended(os.waitstatus_to_exitcode(status), err, operations.splitlines(), cuts.splitlines())


def _child(act: Callable[[], int], cutting: Cutting, theirs: int) -> NoReturn:
    code = 1
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as err:
            cutting.start()
            code = act()
        told = err.getvalue()
        cutting.keep("after the last operation")
    except BaseException as error:  # told to the parent, who fails
        told = f"{type(error).__name__}: {error}"
    with os.fdopen(theirs, "w", encoding="utf-8") as says:
        says.write("\0".join((told, "\n".join(cutting.done), "\n".join(cutting.cuts))))
        says.flush()
    os._exit(code)
