"""Devices' hosts that also add up what their devices release, so that a node makes each public sensing set once.

This is the experimenter's choice for a simulation (``--together``): both sides of a block are in one process, as they
are without Ray. Releases, sums and ledgers are those of the message-by-message path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from actors.host import DeviceHost
from coordinator.protocol.messages import Query, Release
from coordinator.server.rounds.transcript import Sealed, seal
from coordinator.server.statistics.statistic import Statistic
from scenarios.places import shared_sets

if TYPE_CHECKING:
    from actors.device import Cohort


class BothSides(DeviceHost):
    """A host of devices that rated items, which returns statistics beside releases; see `actors.host.DeviceHost`."""

    def warm_up(self, question: Query | None) -> None:
        """Compile what a question will need on both sides; nothing is answered or charged."""
        if question is not None:
            shared_sets.rehearse(question, self._holdings, self._secret, cast("Cohort", self.cohorts[0]))

    def answer(self, query: Query, first: int, stop: int) -> tuple[Statistic, Release | Sealed]:
        """Answer for devices of one cohort, and sum their answers up; see `scenarios.places.shared_sets.answer`."""
        cohort = cast("Cohort", self._cohort_of(first, stop))
        statistic, release = shared_sets.answer(query, self._holdings, self._secret, cohort, first, stop)
        return statistic, seal(release)
