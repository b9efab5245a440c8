"""The journal of a run: every round is stored as soon as it is over, once all its answers are booked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from actors.keeper import Books, read_entry
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.server.rounds.rounds import ANEW, Round
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.counts import CountStatistic, GroupStatistic
from coordinator.server.statistics.pairs import PairStatistic
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.signs import AnchorStatistic
from coordinator.server.statistics.statistic import Statistic
from scenarios.given.policies import code_digest
from scenarios.store.record_log import Chain, Codec, Numbers


class Answered(NamedTuple):
    """A stored round: so many of devices ``first`` to ``stop - 1`` answered something that is charged."""

    what: str
    """Words for the round, for the error."""
    id: bytes
    first: int
    stop: int
    devices: int


def require_booked(kept: Iterable[Answered], keeper: Books) -> None:
    """Refuse to resume if charges for stored answers are missing from the book."""
    entries: dict[bytes, list[tuple[int, int]]] = {}
    for entry in map(read_entry, keeper.read(0, MOST_DEVICES)[1]):
        entries.setdefault(entry.id, []).append((entry.first, entry.stop))
    for one in kept:
        if (found := _covered(entries.get(one.id, []), one.first, one.stop)) < one.devices:
            raise InputError(
                f"{one.what} was answered by {one.devices} devices, their ledger tells of {found}; a part of "
                f"it is missing, what devices spent is not known: put its files back as they were, or {ANEW}"
            )


def _covered(stretches: list[tuple[int, int]], first: int, stop: int) -> int:
    """Return how many devices from ``first`` to ``stop - 1`` lie in any of the stretches."""
    count = 0
    for low, high in sorted(stretches):
        first, end = max(first, low), min(stop, high)
        if first < end:
            count, first = count + end - first, end
    return count


_KINDS = (ScoreStatistic, PairStatistic, CountStatistic, GroupStatistic, AnchorStatistic)
_STATISTICS = {kind.__name__: kind for kind in _KINDS}


def _key(kind: type[Statistic], name: str) -> str:
    """Return the key of a statistic's number in records of format 4, which a field's new name does not change."""
    if name == "ones" and kind in (CountStatistic, GroupStatistic):
        return "told"
    return "asked" if name == "devices" else name


def _answered(over: Round) -> Answered:
    ask, statistic = over.ask, over.statistic
    devices = statistic.devices - statistic.refused
    return Answered(f"round {ask.query.round}", ask.query.id, ask.first, ask.stop, devices)


def _number(over: Round) -> int:
    return over.ask.query.round


def _tell(over: Round) -> Numbers:
    query, statistic = over.ask.query, over.statistic
    held = {part.name: getattr(statistic, part.name) for part in fields(statistic)}
    arrays: dict[str, Any] = {name: value for name, value in held.items() if isinstance(value, np.ndarray)}
    told = {
        "size": over.size,
        "first": over.ask.first,
        "stop": over.ask.stop,
        **({"verifies": True} if over.ask.verifies else {}),
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
        **{_key(type(statistic), name): int(value) for name, value in held.items() if name not in arrays},
    }
    arrays |= {name: value for name in ("pool", "centres") if (value := getattr(query, name)) is not None}
    arrays |= {f"array-{place}": query.arrays[name] for place, name in enumerate(sorted(query.arrays))}
    return told, arrays


def _read(told: dict[str, Any], arrays: dict[str, Any]) -> Round:
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
    numbers = {part.name: told[_key(kind, part.name)] for part in fields(kind) if part.name not in arrays}
    statistic: Statistic = kind(**arrays, **numbers)
    ask = Ask(query=query, first=told["first"], stop=told["stop"], verifies=told.get("verifies", False))
    return Round(ask=ask, statistic=statistic, digest=bytes.fromhex(told["digest"]), size=told["size"])


ROUNDS: Codec[Round] = Codec(
    noun="round",
    number=_number,
    tell=_tell,
    read=_read,
    require_booked=lambda kept, book: require_booked(map(_answered, kept), book),
)
"""How a round is converted to a record."""


class Journal(Chain[Round]):
    """The rounds of one seed; see `scenarios.store.record_log.Chain`."""

    codec = ROUNDS

    @property
    def trusted(self) -> bool:
        """Whether the run began with the present code; see `scenarios.store.round_store.Kept`."""
        mark = self._mark
        return mark is None or mark.code_sha256 == code_digest(mark.scenario.get("policy", ""))
