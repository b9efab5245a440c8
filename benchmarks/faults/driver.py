"""The driver in a history: it keeps what coordinators tell it, and ends the run where that cannot be kept."""

from __future__ import annotations

from collections import deque
from typing import Any

from benchmarks.faults.processes import KeepersProcess
from benchmarks.faults.scheduler import LONG, Fault, Scheduler
from benchmarks.faults.witness import Witness
from coordinator.protocol.errors import BlindrecError
from scenarios.store.chain import Chain


class DriverFailed(Fault):
    """The driver ends the run with an error that it tells."""

    def __init__(self, error: BlindrecError) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """Keeps the rounds that the coordinator tells it, in their order, as `scenarios.places.supervising` does."""

    def __init__(
        self, chain: Chain[Any], keeper: KeepersProcess, scheduler: Scheduler, witness: Witness, *, in_step: bool
    ) -> None:
        self._keeper, self._in_step = keeper, in_step
        self._chain, self._scheduler, self._witness = chain, scheduler, witness
        self._told: deque[Any] = deque()
        self._failed: BlindrecError | None = None

    def hear(self, over: Any) -> None:
        """Be told of a round; it is fetched and kept a little later, and waited for where the plan goes on in step."""
        self._told.append(over)
        slow = LONG if self._scheduler.happens("driver lags") else 1.0
        self._scheduler.at(slow * self._scheduler.delay(), self._keep)
        if self._in_step:
            self.wait()

    def coordinator_died(self) -> None:
        """Forget the rounds that the coordinator had not handed out."""
        self._told.clear()

    def _keep(self) -> None:
        if not self._told or self._failed:
            return
        over = self._told.popleft()
        try:
            self._keeper.require_there()
            self._witness.keeps(over)
            self._chain.keep(over)
        except BlindrecError as error:
            self._failed = error
            return
        self._scheduler.say("one more round is kept")

    def require_well(self) -> None:
        """End the run where a round could not be kept, or the keeper is gone."""
        try:
            self._keeper.require_there()
        except BlindrecError as error:
            self._failed = error
        if self._failed:
            raise DriverFailed(self._failed)

    def wait(self) -> None:
        """Wait until all rounds are kept."""
        while self._told:
            self._scheduler.step()
            self.require_well()
