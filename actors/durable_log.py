"""Logs: their lines are on the disk before anybody acts on them, in files that outlive a crash and a power cut."""

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.limits import open_regular, read_whole

PART = ".blindrec-part"  # Ending of a file that is still being written; nobody reads one that a crash left behind


def make_folder(folder: Path) -> None:
    """Make a folder and those above it where they are missing, and wait until the disk holds their names."""
    # Folders are made from the top, each once the one above it is on the disk. If another process died while it made
    # them, only the lowest folder can be missing from the disk, so this waits for the lowest one even where it exists.
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    lowest = missing[-1].parent if missing else folder
    with suppress(PermissionError):  # whoever cannot read the folder above did not make this one
        sync_folder(lowest.parent)
    for path in reversed(missing):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def settle(folder: Path, ending: str) -> None:
    """Wait until the disk holds a folder's name, and the files with some ending in it as they are read now."""
    # A process may have died after it wrote a file and before the disk held it. Such a file can be read now but is lost
    # in a power cut. Whoever acts on the contents of a folder calls this function first.
    make_folder(folder)
    for path in sorted(folder.glob(f"*{ending}")):
        _wait_for(path, os.O_RDONLY | os.O_NONBLOCK)  # nobody waits for who writes to a named pipe
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Wait until the disk holds a folder's list of files, unless the file system says that it cannot do so."""
    try:
        _wait_for(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _wait_for(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(target: Path, content: bytes) -> None:
    """Replace a file through a temporary one beside it, so that readers find all of the old or all of the new."""
    part = target.with_name(f".{target.name[:40]}.{os.urandom(4).hex()}{PART}")
    try:
        with naming(target):
            add(part, content, new=True)
            part.replace(target)
            sync_folder(target.parent)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make errors of the system name this file, whichever operation failed."""
    try:
        yield
    except OSError as error:
        error.filename, error.filename2 = str(path), None
        raise


def add(path: Path, content: bytes, *, new: bool) -> None:
    """Write at the end of a file, and wait until the disk holds it; the name of a new one is not synchronized here."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if new else 0), 0o666)
    try:
        left = memoryview(content)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


T = TypeVar("T")
FORMAT = 4
"""Version of the format of logs, records and marks of folders; it changes when one of them changes its meaning."""
_DIGEST = 8
_BEGUN = re.compile(rb"[0-9a-f]{0,15}|[0-9a-f]{16}(?: (?:[\[{][ -~]*)?)?")
"""What every line begins with: its digest, then JSON in ASCII."""
_NO_LINE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogKind:
    """The kind of the logs in a folder."""

    noun: str  # Name of such a log in errors
    suffix: str  # Ending of the names of its files
    remedy: str  # Advice of errors about a damaged line
    error: type[BlindrecError]  # The error about a log that is damaged or cannot be read


class Log:
    """The lines in a folder: earlier processes wrote theirs, and this process adds its own in a file of its own."""

    def __init__(self, folder: Path, kind: LogKind, owner: str) -> None:
        self._folder, self._kind, self._owner = folder, kind, owner
        self._count = 0
        self._path: Path | None = None
        self._before = b""

    def settle(self) -> None:
        """Wait until the disk holds what earlier processes wrote, before anybody acts on it."""
        try:
            if self._folder.exists():
                settle(self._folder, self._kind.suffix)
        except OSError as error:
            raise self._kind.error(
                f"{self._kind.noun} in {self._folder} cannot be synchronized ({error.strerror}); look after its disk"
            ) from None

    def read(self, parse: Callable[[bytes], T]) -> Iterator[T]:
        """Yield the lines in order, without a torn last line of a file; a complete one without a line break counts."""
        self._count = 0
        for path in files_of(self._folder, self._kind):
            for number, text in self._lines(path):
                try:
                    line = parse(text)
                except _NO_LINE:
                    raise self._damaged(path, number) from None
                self._count += 1
                yield line

    def append(self, lines: Sequence[str]) -> None:
        """Write lines and wait until the disk holds them."""
        before, texts, path = self._before, list(lines), self._path
        if path is None:
            make_folder(self._folder)
            before, texts = b"", [_head(self._owner), *lines]
        content = bytearray()
        for text in texts:
            before = _digest(before, text.encode())
            content += f"{before.hex()} {text}\n".encode()
        self._path = None
        record_path = path or self._folder / f"{self._count:012d}-{os.urandom(4).hex()}{self._kind.suffix}"
        add(record_path, bytes(content), new=path is None)
        if path is None:
            sync_folder(self._folder)
        self._path, self._before = record_path, before
        self._count += len(lines)

    def _lines(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Yield the lines of a file after its head, with their numbers."""
        before, kind = b"", self._kind
        try:
            lines = read_whole(path).split(b"\n")
        except OSError as error:
            raise kind.error(f"{kind.noun} {path} cannot be read ({error.strerror}); make it readable") from None
        for number, line in enumerate(lines, start=1):
            check, _, text = line.partition(b" ")
            before = _digest(before, text)
            if check != before.hex().encode():
                if number == len(lines) and _torn(line):
                    return
                raise self._damaged(path, number)
            if number > 1:
                yield number, text
            elif text != _head(self._owner).encode():
                raise kind.error(
                    f"{kind.noun} {path} says that it is {text.decode(errors='replace')[:200]}, its folder is that of "
                    f"{self._owner}, format {FORMAT}; move it to where it belongs, or start in a new folder"
                )

    def _damaged(self, path: Path, number: int) -> BlindrecError:
        kind, line = self._kind, f"{path} is damaged on line {number}, or of another version of blindrec"
        return kind.error(f"{kind.noun} {line}; {kind.remedy}")


def files_of(folder: Path, kind: LogKind) -> list[Path]:
    """Return the files of a log, in the order in which they were begun."""
    return sorted(folder.glob(f"*{kind.suffix}"))


def count_lines(folder: Path, kind: LogKind) -> int:
    """Return how many lines the logs of a folder have, without parsing them."""
    return sum(max(_lines_in(path, kind) - 1, 0) for path in files_of(folder, kind))


def _lines_in(path: Path, kind: LogKind) -> int:
    try:
        with open_regular(path) as file:
            return sum(part.count(b"\n") for part in iter(lambda: file.read(1 << 20), b""))
    except OSError as error:
        raise kind.error(f"{kind.noun} {path} cannot be read ({error.strerror}); make it readable") from None


def _torn(tail: bytes) -> bool:
    """Return whether bytes are a torn line: they begin like a line, and their JSON is incomplete."""
    # A line with complete JSON and a wrong digest is not torn: it was changed after it was written.
    if not _BEGUN.fullmatch(tail):
        return False
    try:
        json.JSONDecoder().raw_decode(tail.decode("ascii").partition(" ")[2])
    except ValueError:
        return True
    except RecursionError:  # of brackets only, which is no line of ours
        return False
    return False


def _head(owner: str) -> str:
    return json.dumps({"format": FORMAT, "owner": owner})


def _digest(before: bytes, text: bytes) -> bytes:
    return hashlib.blake2b(before + text, digest_size=_DIGEST).digest()
