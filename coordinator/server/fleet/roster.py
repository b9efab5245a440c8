"""Which processes embody the devices, and what a process that was started again must book: it may know nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.server.rounds.state import Ask


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

    @property
    def different(self) -> list[Any]:
        """Every host once."""
        return list(dict.fromkeys(self.hosts))


class Part(NamedTuple):
    """Devices ``first`` to ``stop - 1`` of one cohort, behind one host."""

    host: Any
    first: int
    stop: int


class Roster:
    """What the server knows of hosts: the process that stood behind each one last, by its token, and what was asked.

    A host's token, its incarnation, is drawn when its process starts. It is named with every question, and a process
    with another one answers nothing before it has booked what earlier ones answered.

    Parameters
    ----------
    cohorts : Cohorts
        Whom to ask.
    """

    def __init__(self, cohorts: Cohorts) -> None:
        self._cohorts = cohorts
        self._incarnations: dict[Any, bytes] = {}
        self._asked: list[Ask] = []

    @property
    def hosts(self) -> list[Any]:
        """Every host once."""
        return self._cohorts.different

    def parts(self, ask: Ask) -> list[Part]:
        """Return each cohort's share of a round; that of some cohorts is empty."""
        return [
            Part(host, max(first, ask.first), min(stop, ask.stop))
            for (first, stop), host in zip(self._cohorts.bounds, self._cohorts.hosts, strict=True)
        ]

    def answered(self, ask: Ask) -> None:
        """Remember a round, as soon as a first release came in: until then nobody need book it."""
        if not self._asked or self._asked[-1] is not ask:
            self._asked.append(ask)

    def incarnation(self, host: Any) -> bytes:
        """Return the token of the process that has booked all that its devices answered.

        Raises
        ------
        KeyError
            If the host was never heard of.
        """
        return self._incarnations[host]

    def strangers(self, told: Mapping[Any, bytes]) -> set[Any]:
        """Return the hosts whose tokens are not those that are known."""
        return {host for host, incarnation in told.items() if self._incarnations.get(host) != incarnation}

    def forgotten(self, strangers: Collection[Any]) -> Iterator[tuple[Ask, list[Part]]]:
        """Yield round by round, in order, what devices behind some hosts were asked."""
        for ask in self._asked:
            yield ask, [one for one in self.parts(ask) if one.host in strangers and one.first < one.stop]

    def booked(self, told: Mapping[Any, bytes]) -> None:
        """Take tokens, after these very processes have booked all that was forgotten."""
        self._incarnations.update(told)
