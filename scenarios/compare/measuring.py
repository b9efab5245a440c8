"""One unit of a comparison: a row at one epsilon and number of people, with public features and without."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.protocol.budget import parse_epsilon
from scenarios.compare.own import rows_of
from scenarios.compare.panel import serve
from scenarios.compare.row import DEVICES, Asked
from scenarios.compare.scoring import Scored, score
from scenarios.compare.settings import COORDINATOR, Comparison
from scenarios.compare.worlds import world_of
from scenarios.places.worker_threads import stop_if_abandoned


class Key(NamedTuple):
    """A unit: its row, and what it was asked; epsilon is empty where the row has none, public where nobody is."""

    trust_model: str
    mechanism: str
    epsilon: str
    users: int
    public: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is measured at one go."""

    wanted: Comparison
    key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one unit found.

    Attributes
    ----------
    scores : tuple of Scored
        Without public features, and with them where the file has any.
    simulated : str or None
        See `scenarios.compare.row.Advised`.
    seconds : float
        Time taken.
    losses : tuple of dict
        Of the coordinator's panel: a record of each client, instead of scores.
    """

    scores: tuple[Scored, ...]
    simulated: str | None
    seconds: float
    losses: tuple[dict[str, Any], ...] = ()


def measure(unit: Unit) -> Measured:
    """Measure one unit, in this process."""
    stop_if_abandoned()
    begin, key, wanted = time.perf_counter(), unit.key, unit.wanted
    if key.trust_model == COORDINATOR:
        losses = serve(wanted, key.mechanism, key.seed)
        return Measured(scores=(), simulated=DEVICES, losses=losses, seconds=time.perf_counter() - begin)
    world, row = world_of(wanted, key.seed), rows_of(wanted)[f"{key.trust_model}: {key.mechanism}"]
    asked = Asked(
        wanted=wanted,
        epsilon=parse_epsilon(key.epsilon) if key.epsilon else None,
        users=key.users,
        public=float(key.public or 0),
        seed=key.seed,
    )
    advised = row.advise(world, asked)
    variants = (False, True) if world.features is not None and row.featured else (False,)
    scores = tuple(score(world, advised, asked, features=features) for features in variants)
    return Measured(scores=scores, simulated=advised.simulated, seconds=time.perf_counter() - begin)
