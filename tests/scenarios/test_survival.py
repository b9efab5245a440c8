"""Processes of a run are killed in the middle of a round: it ends with the same releases, and nobody spends more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from runs import below, here, small

from scenarios.cluster import OnRay
from scenarios.experiment import Run, run

pytestmark = pytest.mark.cluster
SCENARIO = small(items=300, rated=40, users=2_000_000, design="sign", policy="fixed", rounds=2, seed=11)
VICTIMS = ("ray::DeviceHost", "ray::Aggregator", "ray::Coordinator")


@dataclass
class Killer:
    """Kills a process of a kind, once each time so many answers are in."""

    victim: str
    after: list[int]
    killed: list[int] = field(default_factory=list)

    def __call__(self, answers: int) -> None:
        if self.after and answers >= self.after[0]:
            for one, line in below(psutil.Process()).items():
                if line.startswith(self.victim) and one.pid not in self.killed:
                    self.killed.append(one.pid)
                    self.after.pop(0)
                    one.kill()
                    return


def same(one: Run, other: Run) -> bool:
    """Whether releases, model, advice and what devices spent are equal."""
    return (
        one.outcome.releases_sha256 == other.outcome.releases_sha256
        and one.outcome.model.score.tolist() == other.outcome.model.score.tolist()
        and one.ran.advice.tolist() == other.ran.advice.tolist()
        and spent(one) == spent(other)
    )


def spent(one: Run) -> set[object]:
    """What devices spent; all of them were asked alike."""
    return {amount for _, _, amount in one.ran.spent}


@pytest.fixture(scope="module")
def undisturbed() -> Run:
    """The run in this process."""
    return here(SCENARIO, workers=2)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_process_that_is_killed_changes_nothing(
    victim: str, ray_session: OnRay, undisturbed: Run, tmp_path: Path
) -> None:
    killer = Killer(victim, [1, 1_200_000])
    survived = run(SCENARIO, ray_session, progress=killer, ledger=tmp_path)
    assert len(killer.killed) == 2
    assert same(survived, undisturbed)
    assert survived.ran.restarts == (2 if victim == "ray::Coordinator" else 0)
    assert (survived.ran.retries > 0) == (victim == "ray::DeviceHost")
