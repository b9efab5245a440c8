"""Devices that are not simulated: the sum of their answers is drawn from its law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.law import Law, People
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.state import Ask


@dataclass(frozen=True, slots=True)
class Drawn:
    """Carries a query to nobody; see `coordinator.server.rounds.conductor.Transport`."""

    people: People  # Whom devices are drawn from
    coins: np.random.Generator  # What sums are drawn with
    _laws: dict[bytes, Law] = field(default_factory=dict, repr=False)  # Of the latest query, by its id

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Draw the sum of the answers of as many devices as a round asks; nothing is released."""
        return self._law(ask.query).draw(ask.stop - ask.first, self.coins), []

    def _law(self, query: Query) -> Law:
        if (law := self._laws.get(query.id)) is not None:
            return law
        self._laws.clear()
        return self._laws.setdefault(query.id, mechanism_of(query.design).law(query, self.people))
