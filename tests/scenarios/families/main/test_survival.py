"""Processes of a run are killed in the middle of a round: it ends with the same releases, and nobody spends more."""

from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from runs import here, small

from benchmarks.victims import actors_below
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.families.main.run import MainResult, run

pytestmark = pytest.mark.cluster
SCENARIO = small(items=300, rated=40, users=500_000, design="sign", policy="fixed", rounds=2, seed=11)


@dataclass
class Killer:
    """Kills a process of each kind, one after the other, as soon as so many answers are in."""

    victims: list[tuple[int, str]]
    killed: list[str] = field(default_factory=list)

    def __call__(self, tally: RunProgress) -> None:
        if self.victims and tally.count >= self.victims[0][0]:
            for one in actors_below(psutil.Process(), self.victims[0][1])[:1]:
                one.kill()
                self.killed.append(self.victims.pop(0)[1])


def spent(one: MainResult) -> set[object]:
    """What devices spent; all of them were asked alike."""
    return {amount for _, _, amount in one.spent}


def test_processes_that_are_killed_change_nothing(ray_session: OnRay, tmp_path: Path) -> None:
    """Releases, model, advice and what devices spent are those of an undisturbed run."""
    killer = Killer([(1, "devices"), (150_000, "worker"), (300_000, "coordinator")])
    survived = run(SCENARIO, ray_session, progress=killer, ledger=tmp_path)
    assert killer.killed == ["devices", "worker", "coordinator"]
    undisturbed = here(SCENARIO, workers=2)
    assert survived.outcome.releases_sha256 == undisturbed.outcome.releases_sha256
    assert survived.outcome.model.score.tolist() == undisturbed.outcome.model.score.tolist()
    assert survived.advice.tolist() == undisturbed.advice.tolist()
    assert spent(survived) == spent(undisturbed) == {SCENARIO.epsilon}
    assert survived.costs.restarts == 1
