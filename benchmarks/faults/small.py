"""Settings that divide small worlds into as many parts as large ones, with clocks that show a history's time."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from benchmarks.faults.scheduler import Scheduler
from coordinator.server.completion import crowd, fitting
from coordinator.server.online import service

RATINGS_A_COHORT, ROUNDS_A_BALLOT = 8, 2
"""Limits so low that a few public users fill several cohorts, and a few rounds several ballots."""


class _Clock:
    """Replaces the module `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def perf_counter(self) -> float:
        """Return the history's time, so that stored times follow from its number."""
        return self._scheduler.now


@contextmanager
def small(scheduler: Scheduler) -> Iterator[None]:
    """Make cohorts and ballots small, and let clocks show the history's time."""
    clock = _Clock(scheduler)
    places: list[tuple[Any, str, Any]] = [
        (crowd, "RATINGS_A_COHORT", RATINGS_A_COHORT),
        (service, "MOST_ROUNDS", ROUNDS_A_BALLOT),
        (service, "time", clock),
        (fitting, "time", clock),
    ]
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch.object(*place))
        yield
