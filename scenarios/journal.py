"""The journal of a run: every round is kept as soon as it is over, so that a run that was killed goes on from there."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from actors.durable import make_folder
from actors.keeper import Keeper
from coordinator.protocol.errors import InputError, LedgerError, LostError
from coordinator.protocol.messages import Query
from coordinator.server.rounds.conductor import Round
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.pairs import PairStatistic
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import Statistic
from scenarios.files import write_bytes
from scenarios.mark import FOLDER, FORMAT, MARK, UNCLAIMED, digest, read_mark
from scenarios.policies import code_digest
from scenarios.spending import require_booked

_DIGEST = 32
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)
_STATISTICS = {kind.__name__: kind for kind in (ScoreStatistic, PairStatistic, CountStatistic)}


class Journal:
    """The rounds of one seed, a file each: numbers only, no pickles. Each names the digest of the one before.

    Parameters
    ----------
    out : Path
        The run's folder.
    seed : int
        Whose rounds these are.

    Raises
    ------
    InputError
        If the folder's mark cannot be read.

    Notes
    -----
    The folder of the ledger is named by the run, not only by its place, so that one of another run is noticed.
    """

    def __init__(self, out: Path, seed: int) -> None:
        self._mark = mark = read_mark(out)
        run = mark.run if mark else UNCLAIMED
        self.folder = out / FOLDER / f"seed-{seed}"
        self.ledger = (out / FOLDER / "ledger" / run / f"seed-{seed}").absolute()
        self.damaged: Path | None = None
        self._first = digest([run, seed, mark.identity if mark else None])

    @property
    def trusted(self) -> bool:
        """Whether the code that is here is the one that the run began with; see `scenarios.round_store.Kept`."""
        mark = self._mark
        return mark is None or mark.code_sha256 == code_digest(mark.scenario.get("policy", ""))

    def __iter__(self) -> Iterator[Round]:
        """Yield the rounds that are kept, in order, up to the first one that is missing, torn or damaged.

        That one, and those after it, are put aside under another name, and will be asked again: devices repeat their
        answers, and spend nothing. `damaged` names it.

        Raises
        ------
        InputError
            If another run or another version of blindrec kept one, it is not in its place, or a file cannot be put
            aside.
        """
        before = self._first
        for number in itertools.count():
            path = self._path(number)
            try:
                content = path.read_bytes()
                over, after = from_bytes(content)
            except InputError as error:
                raise InputError(f"{path}: {error}") from None
            except FileNotFoundError:
                self._put_aside(number + 1)
                return
            except _UNREADABLE:
                self.damaged = path
                self._put_aside(number)
                return
            if after != before:
                raise InputError(
                    f"{path} is no round {number} of this run, or another round before it was exchanged; put the run's "
                    "own file there, or remove it: then its round is asked again"
                )
            yield over
            before = content[:_DIGEST].hex()

    def check(self) -> Path | None:
        """Read all rounds and the ledger; return the first damaged round, which is put aside, or None.

        Raises
        ------
        InputError
            If something does not belong to the run, the ledger is damaged, or it lacks what devices answered.
        """
        try:
            require_booked(self, Keeper(self.ledger))
        except LedgerError as error:
            raise InputError(str(error)) from None
        return self.damaged

    def _put_aside(self, number: int) -> None:
        for path in sorted(self.folder.glob("*.npz")):
            if path.name < self._path(number).name:
                continue
            try:
                path.replace(path.with_suffix(".damaged"))
            except OSError as error:
                raise InputError(f"round {path} is damaged and cannot be put aside ({error.strerror})") from None

    def keep(self, over: Round) -> None:
        """Write a round, whole or not at all; the one before is kept already.

        Raises
        ------
        LostError
            If it cannot be written, as on a full disk: what was kept before can be resumed.
        """
        number = over.ask.query.round
        try:
            make_folder(self.folder)
            write_bytes(self._path(number), to_bytes(over, self._digest(number - 1)))
        except OSError as error:
            raise LostError(f"round {number} cannot be kept in {self.folder} ({error.strerror})") from None

    def _digest(self, number: int) -> str:
        """Return the digest of a kept round; for the one before the first, what the run begins from."""
        if number < 0:
            return self._first
        with self._path(number).open("rb") as file:
            return file.read(_DIGEST).hex()

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"


def kept_rounds(out: Path) -> int:
    """Return how many rounds a folder keeps, over all seeds."""
    return sum(1 for _ in (out / FOLDER).glob("seed-*/*.npz"))


def drop(out: Path) -> None:
    """Remove the journal of a run that is finished; its mark goes last, so that the rest can be removed once more.

    Rounds go before what devices booked: rounds whose charges are not booked could not be gone on with.
    """
    folder = out / FOLDER
    for part in sorted(folder.glob("*/"), key=lambda part: part.name == "ledger"):
        shutil.rmtree(part, ignore_errors=True)
    with suppress(OSError):
        (folder / MARK).unlink(missing_ok=True)
        folder.rmdir()


def to_bytes(over: Round, before: str) -> bytes:
    """Return a round as bytes: their digest, then an ``.npz`` file of its arrays, with everything else as JSON.

    Parameters
    ----------
    over : Round
    before : str
        Digest of the round before.
    """
    query, statistic = over.ask.query, over.statistic
    held = {part.name: getattr(statistic, part.name) for part in fields(statistic)}
    arrays: dict[str, Any] = {name: value for name, value in held.items() if isinstance(value, np.ndarray)}
    told = {
        "format": FORMAT,
        "before": before,
        "size": over.size,
        "first": over.ask.first,
        "stop": over.ask.stop,
        "digest": over.digest.hex(),
        "query": {
            **{part.name: getattr(query, part.name) for part in fields(query) if part.name != "arrays"},
            "public_seed": query.public_seed.hex(),
            "epsilon": None if query.epsilon is None else str(query.epsilon),
            "pool": None,
            "centres": None,
            **({"arrays": sorted(query.arrays)} if query.arrays else {}),
        },
        "statistic": type(statistic).__name__,
        **{name: int(value) for name, value in held.items() if name not in arrays},
    }
    arrays |= {name: value for name in ("pool", "centres") if (value := getattr(query, name)) is not None}
    arrays |= {f"array-{place}": query.arrays[name] for place, name in enumerate(sorted(query.arrays))}
    content = _zipped({"told": np.frombuffer(json.dumps(told).encode(), np.uint8), **arrays})
    return hashlib.sha256(content).digest() + content


def _zipped(arrays: dict[str, Any]) -> bytes:
    """Return an ``.npz`` file, lightly compressed: a run waits for it after every round."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as folder:
        for name, values in arrays.items():
            with folder.open(f"{name}.npy", "w", force_zip64=True) as part:
                np.lib.format.write_array(part, values, allow_pickle=False)
    return file.getvalue()


def from_bytes(content: bytes) -> tuple[Round, str]:
    """Return the round that `to_bytes` wrote, and the digest of the one before.

    Raises
    ------
    ValueError
        If the digest is not the content's.
    InputError
        If another version wrote it.
    """
    check, content = content[:_DIGEST], content[_DIGEST:]
    if hashlib.sha256(content).digest() != check:
        raise ValueError("the digest is another one's")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    told: dict[str, Any] = json.loads(arrays.pop("told").tobytes())
    if told["format"] != FORMAT:
        raise InputError(
            f"a kept round has format {told['format']}, this version of blindrec reads {FORMAT}; go on with the "
            "version that kept it, or name a new folder"
        )
    asked = told["query"]
    query = Query(
        **{
            **asked,
            "public_seed": bytes.fromhex(asked["public_seed"]),
            "epsilon": None if asked["epsilon"] is None else Fraction(asked["epsilon"]),
            "pool": arrays.pop("pool", None),
            "centres": arrays.pop("centres", None),
            "arrays": {name: arrays.pop(f"array-{place}") for place, name in enumerate(asked.get("arrays", []))},
        }
    )
    kind = _STATISTICS[told["statistic"]]
    numbers = {part.name: told[part.name] for part in fields(kind) if part.name not in arrays}
    statistic: Statistic = kind(**arrays, **numbers)
    ask = Ask(query=query, first=told["first"], stop=told["stop"])
    over = Round(ask=ask, statistic=statistic, digest=bytes.fromhex(told["digest"]), size=told["size"])
    return over, told["before"]
