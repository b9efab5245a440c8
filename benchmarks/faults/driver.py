"""The driver in a history: it stores the coordinators' rounds, and ends the run if it cannot."""

from collections import deque
from typing import Any

from benchmarks.faults.processes import KeepersProcess
from benchmarks.faults.scheduler import LONG, Fault, Scheduler
from benchmarks.faults.witness import Witness
from coordinator.protocol.errors import BlindrecError
from scenarios.store.record_log import RecordLog


class DriverFailed(Fault):
    """The driver ends the run with an error."""

    def __init__(self, error: BlindrecError) -> None:
        super().__init__(str(error))
        self.error = error


class Driver:
    """Stores the coordinator's rounds in order, as `scenarios.backends.on_ray` does."""

    def __init__(
        self, chain: RecordLog[Any], keeper: KeepersProcess, scheduler: Scheduler, witness: Witness, *, in_step: bool
    ) -> None:
        self._keeper, self._in_step = keeper, in_step
        self._chain, self._scheduler, self._witness = chain, scheduler, witness
        self._told: deque[Any] = deque()
        self._failed: BlindrecError | None = None

    def hear(self, record: Any) -> None:
        """Take a round, which is fetched and stored a little later; wait for that if the plan goes on in step."""
        self._told.append(record)
        slow = LONG if self._scheduler.happens("driver lags") else 1.0
        self._scheduler.at(slow * self._scheduler.delay(), self._keep)
        if self._in_step:
            self.wait()

    def coordinator_died(self) -> None:
        """Forget the rounds that a dead coordinator had not handed out."""
        self._told.clear()

    def _keep(self) -> None:
        if not self._told or self._failed:
            return
        record = self._told.popleft()
        try:
            self._keeper.require_there()
            self._witness.keeps(record)
            self._chain.keep(record)
        except BlindrecError as error:
            self._failed = error
            return
        self._scheduler.say("one more round is kept")

    def require_well(self) -> None:
        """End the run if a round cannot be stored or the keeper is gone."""
        try:
            self._keeper.require_there()
        except BlindrecError as error:
            self._failed = error
        if self._failed:
            raise DriverFailed(self._failed)

    def wait(self) -> None:
        """Wait until all rounds are stored."""
        while self._told:
            self._scheduler.step()
            self.require_well()
