"""Whom a round asks: which actor stands behind which devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.server.rounds.state import Ask


class Part(NamedTuple):
    """Devices ``first`` to ``stop - 1`` of one cohort, behind one host."""

    host: Any
    first: int
    stop: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cohorts:
    """Addresses of the devices: which actor to call for which stretch.

    Attributes
    ----------
    bounds : list of (int, int)
        The cohorts, ``[first, stop)`` each, ascending.
    hosts : list of ray.actor.ActorHandle
        One a cohort; a host may stand behind several.
    """

    bounds: list[tuple[int, int]]
    hosts: list[Any]

    def parts(self, ask: Ask) -> list[Part]:
        """Return each cohort's share of a round; that of some cohorts is empty."""
        return [
            Part(host, max(first, ask.first), min(stop, ask.stop))
            for (first, stop), host in zip(self.bounds, self.hosts, strict=True)
        ]
