"""Limits: what memory this machine, its container and this process leave, and files that are read to an end."""

import ctypes
import errno
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import psutil

from coordinator.protocol.errors import InputError

GROUPS, OF_PROCESS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux keeps limits of containers, and which of them this process is in."""
_VERSIONS = {
    "": ("memory.max", "memory.current", "inactive_file"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}
"""By the name of the hierarchy: the limit, what is in use, and which part of that is given back on demand."""
_PART = 1 << 20
_SHARE = 4
"""A file is read whole only if this multiple of its size fits in memory: it is decoded, and split beside itself."""


_ALWAYS = 64 << 20  # Bytes that nobody looks for room for


def memory_left() -> int:
    """Return how many bytes this process can still take: of the machine, its container and its own limit the least."""
    left = [psutil.virtual_memory().available, *_groups_left()]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        left.append(soft - psutil.Process().memory_info().vms)
    return max(0, min(left))


def return_unused() -> None:
    """Give what this process has freed back to the machine; glibc alone would keep it, in pieces too small for more."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def _groups_left() -> Iterator[int]:
    """Yield what every control group that this process is in leaves, from its own to the outermost."""
    try:
        lines = OF_PROCESS.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):  # a system without control groups
        return
    for line in lines:
        _, names, path = line.split(":", 2)
        if (name := "memory" if "memory" in names.split(",") else names) not in _VERSIONS:
            continue
        top = GROUPS / name
        inner = top / path.strip("/")
        # Within a container its own group is mounted at the top, while the path is the one that the host knows.
        for folder in dict.fromkeys([inner, *(parent for parent in inner.parents if parent.is_relative_to(top)), top]):
            if (left := _group_left(folder, *_VERSIONS[name])) is not None:
                yield left


def _group_left(folder: Path, limit: str, usage: str, cached: str) -> int | None:
    try:
        most = int((folder / limit).read_text(encoding="ascii"))
        used = int((folder / usage).read_text(encoding="ascii"))
        figures = dict(line.split()[:2] for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines())
        return most - used + int(figures.get(cached, 0))
    except (OSError, ValueError):  # no such group, or one without a limit ("max")
        return None


def size_of(count: float) -> str:
    """Return a number of bytes in words.

    >>> size_of(512), size_of(16 * 2**20), size_of(19.9 * 2**30)
    ('512 bytes', '16 MB', '19.9 GB')
    """
    for unit, factor in (("TB", 2**40), ("GB", 2**30), ("MB", 2**20), ("kB", 2**10)):
        if count >= factor:
            return f"{count / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{count:.0f} bytes"


def round_bytes(devices: int, bits: int) -> int:
    """Return the memory needed to ask devices at once for their bits and to add these up."""
    # A bit is a byte in a sketch, in the copy that is randomized, in what is drawn and where it is unpacked again; the
    # server counts each in 64 bits, in a sum, in the one that it is added to, and in their total.
    return (4 * devices + 24) * bits


def require_memory(needed: int, what: str, remedy: str) -> None:
    """Refuse work that takes more memory than is left."""
    if needed > _ALWAYS and needed > (left := memory_left()):
        raise InputError(f"{what} takes about {size_of(needed)} of memory, and {size_of(left)} are left; {remedy}")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; a pipe, on which a reader would wait for ever, or a device is refused."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "it is a pipe, a socket or a device", str(path))


def read_whole(path: Path, most: int | None = None) -> bytes:
    """Return the content of a regular file."""
    most = memory_left() // _SHARE if most is None else most
    parts, size = list[bytes](), 0
    with open_regular(path) as file:
        # What `stat` says of the size is not believed: files of /proc say 0, and others grow.
        while part := file.read(min(_PART, most + 1 - size)):
            parts.append(part)
            if (size := size + len(part)) > most:
                raise OSError(errno.EOVERFLOW, f"it is larger than {size_of(most)}", str(path))
    return b"".join(parts)
