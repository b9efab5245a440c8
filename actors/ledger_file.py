"""A ledger on disk: what a device is charged is written, and safe, before it answers.

Each process appends to a file of its own for each cohort; whoever embodies a device later reads all files of the
folder. A last line that a crash tore off was never answered: it is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actors.durable import make_folder
from actors.log import Log, damaged, read_log
from coordinator.protocol.budget import Epsilon, PrivacyParameter, require_epsilon
from coordinator.protocol.checked import MOST_DEVICES, require_whole
from coordinator.protocol.errors import InputError, LedgerError

SUFFIX = ".ledger"


@dataclass(frozen=True, slots=True)
class Entry:
    """Devices ``first`` to ``stop - 1`` were charged ``epsilon`` for the query ``id``.

    Raises
    ------
    InputError
        If ``epsilon`` is no privacy parameter, ``id`` is no digest, or the devices are none.
    """

    id: bytes
    epsilon: Epsilon
    first: int
    stop: int

    def __post_init__(self) -> None:
        """Refuse what nobody can be charged."""
        object.__setattr__(self, "epsilon", require_epsilon(self.epsilon))
        if type(self.id) is not bytes or not self.id:
            raise InputError("what is charged has no id; give a digest")
        require_whole("first device", self.first, 0, MOST_DEVICES)
        require_whole("end of devices", self.stop, self.first, MOST_DEVICES)

    def line(self) -> str:
        """Return the entry as a line."""
        return json.dumps([self.id.hex(), None if self.epsilon is None else str(self.epsilon), self.first, self.stop])


class LedgerFile:
    """The file that one cohort's ledger is written to.

    Parameters
    ----------
    folder : Path
        Shared by all cohorts; made if need be. Its last two names tell the run and the seed, and so does the head of
        every file: a ledger of another run is refused.
    first : int
        The cohort's first device; names the file.

    Raises
    ------
    LedgerError
        If the folder cannot be made.
    """

    def __init__(self, folder: Path, first: int) -> None:
        self._folder = folder
        self._log = Log(folder, f"{first:012d}", SUFFIX, owner_of(folder))
        try:
            make_folder(folder)
        except OSError as error:
            raise LedgerError(f"ledger folder {folder} cannot be made ({error.strerror})") from None

    def append(self, entries: list[Entry]) -> None:
        """Write entries and wait until the disk holds them.

        Raises
        ------
        LedgerError
            If they cannot be written: then nothing may be answered.
        """
        try:
            self._log.append([entry.line() for entry in entries])
        except OSError as error:
            raise LedgerError(
                f"ledger in {self._folder} cannot be written ({error.strerror}); devices do not answer what they "
                "cannot book"
            ) from None


def owner_of(folder: Path) -> str:
    """Return the run and the seed that a folder of ledgers belongs to, as its name tells them."""
    return "/".join(folder.parts[-2:])


def read_entries(folder: Path, first: int, stop: int) -> Iterator[Entry]:
    """Yield what devices ``first`` to ``stop - 1`` were charged, from all files of a folder.

    Raises
    ------
    LedgerError
        If a file belongs to another run, or a line other than a torn last one is damaged.
    """
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for number, told in enumerate(read_log(path, owner_of(folder)), start=2):
            if (entry := _read(told)) is None:
                raise damaged(path, number)
            low, high = max(first, entry.first), min(stop, entry.stop)
            if low < high:
                yield Entry(entry.id, entry.epsilon, low, high)


def _read(told: bytes) -> Entry | None:
    """Return a line's entry, or None where it holds none."""
    try:
        query_id, epsilon, first, stop = json.loads(told)
        return Entry(bytes.fromhex(query_id), None if epsilon is None else PrivacyParameter(epsilon), first, stop)
    except (ValueError, TypeError, RecursionError):
        return None
