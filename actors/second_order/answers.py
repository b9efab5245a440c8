"""The one answer of every private device, kept: in memory, and in a folder before anybody sees it.

A folder holds files of frames. A frame is written and synced as a whole before its answers are let out, so a torn
last frame was never sent and is dropped; damage anywhere else is an error, since devices must not answer again.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from coordinator.protocol.errors import InputError

SUFFIX = ".answers"
_FRAME = struct.Struct("<Q16s")  # length of the body, its digest


class Answer(NamedTuple):
    """What a device said, to which question, about which model."""

    device: int
    query_id: bytes
    model: bytes
    mechanism: str
    epsilon: str
    """As a fraction; empty where there is none."""
    guarantee: str
    """What the device was promised, in words."""
    payload: bytes


class Answers:
    """Answers of devices ``first`` to ``stop - 1``.

    Parameters
    ----------
    first, stop : int
        The devices.
    folder : Path or None
        Where answers are kept beyond this process, whatever cohorts wrote them; None for memory only.

    Raises
    ------
    InputError
        If the folder cannot be used, or what it keeps is damaged.
    """

    def __init__(self, first: int, stop: int, folder: Path | None) -> None:
        self._held: dict[int, Answer] = {}
        self._file: Path | None = None
        if folder is None:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for path in sorted(folder.glob(f"*{SUFFIX}")):
                self._held |= {one.device: one for one in read(path) if first <= one.device < stop}
            self._file = _opened(folder / f"{first}-{stop}{SUFFIX}")
        except OSError as error:
            raise InputError(f"folder {folder} cannot keep answers ({error.strerror}); name another one") from None

    def get(self, device: int) -> Answer | None:
        """Return what a device has answered, or None."""
        return self._held.get(device)

    def keep(self, answers: Sequence[Answer]) -> None:
        """Keep answers for good; when this returns, they may be sent."""
        if self._file is not None:
            try:
                _append(self._file, answers)
            except OSError as error:
                raise InputError(f"answers cannot be kept in {self._file} ({error.strerror}); make room") from None
        self._held |= {one.device: one for one in answers}


def _opened(path: Path) -> Path:
    """Make the file if it is new, and cut off a torn frame if it is not; synced with its folder."""
    with path.open("ab") as file:
        file.truncate(max((end for end, _ in _frames(path.read_bytes(), path)), default=0))
        os.fsync(file.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return path


def _append(path: Path, answers: Sequence[Answer]) -> None:
    """Write a frame and sync it, whole or not at all."""
    body = b"".join(_record(one) for one in answers)
    with path.open("ab") as file:
        start = file.tell()
        try:
            file.write(_FRAME.pack(len(body), _digest(body)) + body)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.truncate(path, start)
            raise


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _record(one: Answer) -> bytes:
    told = {
        "device": one.device,
        "query": one.query_id.hex(),
        "model": one.model.hex(),
        "mechanism": one.mechanism,
        "epsilon": one.epsilon,
        "guarantee": one.guarantee,
        "bytes": len(one.payload),
    }
    return json.dumps(told).encode() + b"\n" + one.payload


def _frames(content: bytes, path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (end, body) of every whole frame.

    Raises
    ------
    InputError
        If a frame that is not the last one is damaged.
    """
    at = 0
    while at + _FRAME.size <= len(content):
        size, digest = _FRAME.unpack_from(content, at)
        end = at + _FRAME.size + size
        body = content[at + _FRAME.size : end]
        if end > len(content) or (end == len(content) and _digest(body) != digest):
            return
        if _digest(body) != digest:
            raise InputError(f"answers {path} are damaged at byte {at}; restore the file, devices answer only once")
        yield end, body
        at = end


def read(path: Path) -> list[Answer]:
    """Return the answers that a file keeps.

    Raises
    ------
    InputError
        If it is damaged, other than by a torn last frame.
    """
    found = []
    for _, body in _frames(path.read_bytes(), path):
        at = 0
        while at < len(body):
            head = body.index(b"\n", at)
            told = json.loads(body[at:head])
            at = head + 1 + told["bytes"]
            query_id, model = bytes.fromhex(told["query"]), bytes.fromhex(told["model"])
            words = told["mechanism"], told["epsilon"], told["guarantee"]
            found.append(Answer(told["device"], query_id, model, *words, body[head + 1 : at]))
    return found
