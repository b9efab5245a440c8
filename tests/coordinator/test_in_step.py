"""A plan that goes on in step begins no round before the last one is kept; others run ahead of it for a while."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from threading import Thread

import pytest

from coordinator.protocol.messages import Query
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.fleet.coordinator_actor import HELD_PAUSE, MOST_HELD, Coordinator
from coordinator.server.rounds.conductor import Fleet
from coordinator.server.rounds.state import RunProgress

ROUNDS = 2 * MOST_HELD
PATIENCE = 30.0


@dataclass
class Counting:
    """Rounds that are their numbers; it knows how many were begun."""

    in_step: bool
    own: None = None
    begun: list[int] = field(default_factory=list)

    def rehearsal(self) -> Query | None:
        return None

    def begin(self, _: Fleet) -> Counting:
        return self

    def run_round(self) -> int | None:
        if len(self.begun) == ROUNDS:
            return None
        self.begun.append(len(self.begun))
        return self.begun[-1]

    def replay(self, over: int) -> None:
        self.begun.append(over)

    def outcome(self) -> list[int]:
        return self.begun

    def progress(self) -> RunProgress:
        return RunProgress(rounds=len(self.begun))


@pytest.mark.parametrize(("in_step", "ahead"), [(True, 1), (False, MOST_HELD + 1)])
def test_rounds_wait_until_earlier_ones_are_kept(*, in_step: bool, ahead: int) -> None:
    plan, kept = Counting(in_step), list[int]()
    server = Coordinator(plan, {}, Layout(devices=8, workers=1, devices_per_actor=8))
    conducting = Thread(target=server.run, daemon=True)
    conducting.start()
    until = time.monotonic() + PATIENCE
    while len(plan.begun) < ahead and time.monotonic() < until:
        time.sleep(HELD_PAUSE)
    time.sleep(10 * HELD_PAUSE)
    assert len(plan.begun) == ahead, "nobody has kept any"
    while len(kept) < ROUNDS and time.monotonic() < until:
        kept += server.new_rounds(len(kept))
    server.new_rounds(len(kept))
    conducting.join(PATIENCE)
    assert kept == list(range(ROUNDS))
    assert not conducting.is_alive()
