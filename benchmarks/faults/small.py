"""Settings under which small worlds have parts as large ones do, and clocks tell a history's time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from benchmarks.faults.scheduler import Scheduler
from coordinator.server.completion import cohorts, fitting
from coordinator.server.online import service, serving

RATINGS_A_COHORT, ROUNDS_A_BALLOT = 8, 2
"""So that a few public users fill several cohorts, and a few rounds several ballots."""


class _Clock:
    """In the place of `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def perf_counter(self) -> float:
        """Return the history's time: what is kept follows from its number."""
        return self._scheduler.now


@contextmanager
def small(scheduler: Scheduler) -> Iterator[None]:
    """Let cohorts and ballots be small, and clocks tell the history's time."""
    clock = _Clock(scheduler)
    places: list[tuple[Any, str, Any]] = [
        (cohorts, "RATINGS_A_COHORT", RATINGS_A_COHORT),
        (service, "MOST_ROUNDS", ROUNDS_A_BALLOT),
        (serving, "time", clock),
        (fitting, "time", clock),
    ]
    with ExitStack() as stack:
        for place in places:
            stack.enter_context(mock.patch.object(*place))
        yield
