"""The journal of a run: every round is stored as soon as it is over, after all its answers are charged."""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from actors.database import FORMAT, Chain, make_folder
from actors.keeper import Keeper, LedgerClient, read_charge
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.messages import Query
from coordinator.protocol.statistics.counts import CountStatistic, GroupStatistic, PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust import read_opening, require_agreement
from coordinator.server.rounds.rounds import ANEW, Round
from coordinator.server.rounds.state import Ask
from scenarios.config.files import file_sha256, read_object
from scenarios.config.mechanism_settings import code_digest
from scenarios.config.scenario import Scenario
from scenarios.store.manifest import digest
from scenarios.store.record_log import Codec, Numbers, RecordLog
from scenarios.store.whole_files import write_json


class AnsweredRange(NamedTuple):
    """The devices of a stored round: ``devices`` of ``first`` to ``stop - 1`` answered, and are charged for it."""

    what: str  # The round's name in error messages
    id: bytes
    first: int
    stop: int
    devices: int


def require_booked(answered_ranges: Iterable[AnsweredRange], keeper: LedgerClient) -> None:
    """Refuse to resume if charges for stored answers are missing from the book."""
    entries: dict[bytes, list[tuple[int, int]]] = {}
    for entry in map(read_charge, keeper.read(0, MOST_DEVICES)[1]):
        entries.setdefault(entry.id, []).append((entry.first, entry.stop))
    for part in answered_ranges:
        if (booked := _covered(entries.get(part.id, []), part.first, part.stop)) < part.devices:
            raise InputError(
                f"{part.what} was answered by {part.devices} devices, their ledger tells of "
                f"{booked}; a part of it is missing, what devices spent is not known: put its files back as they "
                f"were, or {ANEW}"
            )


def _covered(stretches: list[tuple[int, int]], first: int, stop: int) -> int:
    """Return how many devices from ``first`` to ``stop - 1`` lie in any of the stretches."""
    count = 0
    for left, right in sorted(stretches):
        first, end = max(first, left), min(stop, right)
        if first < end:
            count, first = count + end - first, end
    return count


_KINDS = (ScoreStatistic, PairStatistic, CountStatistic, GroupStatistic, AnchorStatistic)
_STATISTICS = {kind.__name__: kind for kind in _KINDS}


def _answered(record: Round) -> AnsweredRange:
    ask, statistic = record.ask, record.statistic
    devices = statistic.devices - statistic.refused
    return AnsweredRange(f"round {ask.query.round}", ask.query.id, ask.first, ask.stop, devices)


def _encode(record: Round) -> Numbers:
    query, statistic = record.ask.query, record.statistic
    statistic_fields = {part.name: getattr(statistic, part.name) for part in fields(statistic)}
    arrays: dict[str, Any] = {name: value for name, value in statistic_fields.items() if isinstance(value, np.ndarray)}
    numbers = {
        "size": record.size,
        "first": record.ask.first,
        "stop": record.ask.stop,
        "digest": record.digest.hex(),
        **({"transcripts": list(record.transcripts)} if record.transcripts else {}),
        "query": {
            **{part.name: getattr(query, part.name) for part in fields(query) if part.name not in ("arrays", "period")},
            **({"period": query.period} if query.period else {}),
            "public_seed": query.public_seed.hex(),
            "agreement": query.agreement.hex(),
            "epsilon": None if query.epsilon is None else str(query.epsilon),
            "pool": None,
            "centres": None,
            **({"arrays": sorted(query.arrays)} if query.arrays else {}),
        },
        "statistic": type(statistic).__name__,
        **{name: int(value) for name, value in statistic_fields.items() if name not in arrays},
    }
    arrays |= {name: value for name in ("pool", "centres") if (value := getattr(query, name)) is not None}
    arrays |= {f"array-{index}": query.arrays[name] for index, name in enumerate(sorted(query.arrays))}
    return numbers, arrays


def _decode(numbers: dict[str, Any], arrays: dict[str, Any]) -> Round:
    query_numbers = numbers["query"]
    query = Query(
        **{
            **query_numbers,
            "public_seed": bytes.fromhex(query_numbers["public_seed"]),
            "agreement": bytes.fromhex(query_numbers.get("agreement", "")),
            "epsilon": None if query_numbers["epsilon"] is None else Fraction(query_numbers["epsilon"]),
            "pool": arrays.pop("pool", None),
            "centres": arrays.pop("centres", None),
            "arrays": {
                name: arrays.pop(f"array-{index}") for index, name in enumerate(query_numbers.get("arrays", []))
            },
        }
    )
    kind = _STATISTICS[numbers["statistic"]]
    statistic_numbers = {part.name: numbers[part.name] for part in fields(kind) if part.name not in arrays}
    statistic: Statistic = kind(**arrays, **statistic_numbers)
    return Round(
        ask=Ask(query=query, first=numbers["first"], stop=numbers["stop"]),
        statistic=statistic,
        digest=bytes.fromhex(numbers["digest"]),
        size=numbers["size"],
        transcripts=tuple(numbers.get("transcripts", ())),
    )


def require_opened(rounds: Iterable[Round], keeper: Keeper, agreement: Agreement) -> None:
    """Refuse to resume if stored rounds were opened, and the books of openings do not say so."""
    for opener in agreement.openers:
        noted = Counter[tuple[bytes, int, int]]()
        for line in keeper.read(0, MOST_DEVICES, opener=opener)[1]:
            query_id, opening, digest = read_opening(line, agreement.users)
            require_agreement("the book of openings was begun", digest, agreement.digest)
            noted[query_id, opening.first, opening.mask.size] += int(opening.mask.sum())
        for ask, answered in ((record.ask, record.statistic.answered) for record in rounds):
            if (count := noted[ask.query.id, ask.first, ask.stop - ask.first]) != answered:
                raise InputError(
                    f"round {ask.query.round} was opened for {answered} devices, but the book of {opener} has {count}; "
                    f"the record of opened answers is incomplete: put its files back as they were, or {ANEW}"
                )


class Journal(RecordLog[Round]):
    """The rounds of one seed; see `scenarios.store.record_log.RecordLog`."""

    def __init__(self, out: Path, seed: int) -> None:
        super().__init__(out, seed)
        self._agreement = Chain(self._file, f"agreement of seed {seed}", "agreement TEXT NOT NULL", begin=self._begin)

    codec = Codec(
        noun="round",
        number=lambda record: record.ask.query.round,
        encode=_encode,
        decode=_decode,
        require_booked=lambda rounds, book: require_booked(map(_answered, rounds), book),
    )

    def require_books(self, ledger: Keeper) -> None:
        """Refuse books that say nothing of a stored round, or that were begun under another agreement."""
        super().require_books(ledger)
        if (agreement := self._stored_agreement()) is None:  # nothing was asked, or devices themselves refuse another
            return
        for charge in map(read_charge, ledger.read(0, MOST_DEVICES)[1]):
            require_agreement("the ledger was begun", charge.agreement, agreement.digest)
        require_opened(self, ledger, agreement)

    def agree(self, agreement: Agreement) -> Agreement:
        """Return what the run was begun under; a new run is begun under this one."""
        if (stored := self._stored_agreement()) is not None:
            return stored
        try:
            self._agreement.append([(json.dumps(agreement.content()),)])
        except OSError as error:
            raise LostError(f"{self.path} cannot be written ({error.strerror}); free space there") from None
        return agreement

    def _stored_agreement(self) -> Agreement | None:
        """Return what the run was begun under; None where nothing was agreed yet."""
        return next((Agreement.of_content(json.loads(content)) for (content,) in self._agreement), None)

    @property
    def trusted(self) -> bool:
        """Whether the run began with the present code; see `scenarios.backends.session.RecordStore`."""
        manifest = self._manifest
        return manifest is None or manifest.code_sha256 == code_digest(manifest.scenario.get("policy", ""))


_DEVICES = "devices.json"  # Whose ledger it is
_WORLD = ("seed", "items", "rated", "users", "like", "class_shares", "cluster_shares", "drift")
_FILE = ("columns", "duplicates", "bad_lines", "unrated", "like_from", "held_out", "split_by", "public")
"""What devices are, beside the bytes of a file: who they are, and what they rated and like in each period.

With other ratings a device would answer a question anew that its ledger takes for a repeat.
"""


def shared_ledger(folder: Path, scenario: Scenario) -> Path:
    """Return the ledger of a filled-in scenario's devices in a folder, and refuse a folder of other devices.

    Of another plan than theirs devices themselves refuse everything: each charge names the agreement it was made under.
    """
    ledger, devices = (folder / f"seed-{scenario.seed}").absolute(), _devices(scenario)
    path = ledger / _DEVICES
    owners = read_object(path, f"put it back as it was, or name a new folder than {folder}")
    if owners is None:
        try:
            make_folder(ledger)
            write_json(path, devices)
        except OSError as error:
            raise LostError(f"{path} cannot be written ({error.strerror}); free space there") from None
    elif owners.get("format") != FORMAT:
        raise InputError(
            f"ledger {folder} was written by an earlier version of blindrec, in files that this one cannot read; "
            "resume with the version that wrote it, or name a new folder"
        )
    elif owners != devices:
        names = ", ".join(name for name in devices if owners.get(name) != devices[name] and name != "sha256")
        raise InputError(f"ledger {folder} is of devices with other {names or 'content'}; name a new folder")
    return ledger


def _devices(scenario: Scenario) -> dict[str, Any]:
    values = {name: scenario.model_dump(mode="json")[name] for name in (*_WORLD, *_FILE)}
    values |= {name: getattr(scenario, name) for name in ("item_arrivals", "churn") if getattr(scenario, name)}
    if scenario.ratings is not None and scenario.timed:  # whom a device stands for follows from when people come
        values |= {name: getattr(scenario, name) for name in ("period", "periods", "schedule")}
    file = None if scenario.ratings is None else file_sha256(scenario.ratings, "ratings file")
    values |= {"ratings": file, "format": FORMAT}
    return {**values, "sha256": digest(values)}
