"""The journal of a run: every round is stored as soon as it is over, so that a killed run can be resumed from there."""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np

from coordinator.protocol.messages import Query
from coordinator.server.rounds.query_rounds import Round
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.anchor import AnchorStatistic
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.groups import GroupStatistic
from coordinator.server.statistics.pairs import PairStatistic
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import Statistic
from scenarios.given.policies import code_digest
from scenarios.store.booked import Answered, require_booked
from scenarios.store.chain import Chain, Codec, Numbers

_KINDS = (ScoreStatistic, PairStatistic, CountStatistic, GroupStatistic, AnchorStatistic)
_STATISTICS = {kind.__name__: kind for kind in _KINDS}


def _answered(over: Round) -> Answered:
    ask, statistic = over.ask, over.statistic
    devices = statistic.asked - statistic.refused
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
        **{name: int(value) for name, value in held.items() if name not in arrays},
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
    numbers = {part.name: told[part.name] for part in fields(kind) if part.name not in arrays}
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
    """The rounds of one seed; see `scenarios.store.chain.Chain`."""

    codec = ROUNDS

    @property
    def trusted(self) -> bool:
        """Whether the run began with the present code; see `scenarios.store.round_store.Kept`."""
        mark = self._mark
        return mark is None or mark.code_sha256 == code_digest(mark.scenario.get("policy", ""))
