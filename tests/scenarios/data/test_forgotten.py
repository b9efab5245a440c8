"""Devices die and what they wrote is gone, as on another node: budgets hold, and nobody answers otherwise."""

from dataclasses import dataclass, field
from fractions import Fraction

import psutil
import pytest
import worlds

from benchmarks.victims import actors_below
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.policies import Fixed
from coordinator.server.rounds.rounds import QueryPlan
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.backends.selection import InProcess
from scenarios.families.main.run import Job, MainResult, run_job

# By default the tests of keepers on Ray see that a process which is started anew has spent what it has spent
pytestmark = [pytest.mark.cluster, pytest.mark.thorough]
USERS, DESIGN = 600_000, SignSensing(items=300, rated=40)
ALL = 3 * USERS  # Answers that are asked for; the last third is refused


@dataclass
class Killer:
    """Kills one of the devices' processes as soon as so many answers are in."""

    at: list[int]
    killed: list[psutil.Process] = field(default_factory=list)

    def __call__(self, tally: RunProgress) -> None:
        if self.at and tally.count >= self.at[0]:
            victim = actors_below(psutil.Process(), "devices")[0]
            victim.kill()
            self.killed.append(victim)
            self.at.pop(0)


def job() -> Job:
    """Three rounds that ask every device, whose budget holds two answers; the keeper has no disk."""
    setting = Setting(design=DESIGN, epsilon=Fraction(3), public_seed=worlds.PUBLIC, answers_per_device=3)
    learner = PosteriorLearner(clusters=2, design=DESIGN)
    return Job(
        ratings=worlds.block_ratings(worlds.world(items=300, rated=40), USERS),
        secret=worlds.SECRET,
        plan=QueryPlan(policy=Fixed(setting=setting, rounds=3), learner=learner, devices=USERS, budget=Fraction(2)),
        layout=Layout(devices=USERS, workers=2, devices_per_actor=USERS // 4),
    )


def refused(ran: MainResult) -> list[int]:
    """Refusals, round by round."""
    return [counts.refused for counts in ran.outcome.state.counts]


def spent(ran: MainResult) -> set[object]:
    """What devices spent."""
    return {amount for _, _, amount in ran.spent}


def test_processes_that_forget_know_from_their_keeper(ray_session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts of two cohorts each; one dies in the last round, one after the last answer."""
    monkeypatch.setattr("scenarios.backends.on_ray.MOST_ACTORS", 2)
    killer = Killer([2 * USERS + 50_000, ALL])
    survived = run_job(job(), ray_session, advised=100, top=10, progress=killer)
    assert (len(set(killer.killed)), survived.costs.actors) == (2, 2)
    undisturbed = run_job(job(), InProcess(2), advised=100, top=10, progress=lambda _: None)
    assert refused(survived) == refused(undisturbed) == [0, 0, USERS]
    assert survived.outcome.releases_sha256 == undisturbed.outcome.releases_sha256
    assert spent(survived) == spent(undisturbed) == {Fraction(2)}
    assert survived.advice.tolist() == undisturbed.advice.tolist()
    assert survived.outcome.size == undisturbed.outcome.size
