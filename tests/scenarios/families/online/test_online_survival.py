"""Processes of an online run are killed while clients are served: the same recommendations, and the same exposure."""

from __future__ import annotations

from fractions import Fraction

import psutil
import pytest

from benchmarks.victims import below
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.backends.selection import InProcess
from scenarios.families.online.online_run import run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_seed import record

SCENARIO = OnlineScenario(rounds=2000, voters=200, clients=2, budget=Fraction(2000), recommender="p-rec-lean")
LASTING = ("recommendations_sha256", "loss", "voter_loss", "refused", "peers_alive")


@pytest.mark.cluster
def test_processes_that_are_killed_change_nothing(ray_session: OnRay) -> None:
    victims, killed = ["ray::DeviceHost", "ray::Coordinator", "ray::DeviceHost"], list[str]()

    def over(tally: RunProgress) -> None:
        if victims and tally.count >= 1300 * len(killed):
            for one, line in below(psutil.Process()).items():
                if line.startswith(victims[0]):
                    one.kill()
                    killed.append(victims.pop(0))
                    return

    survived = record(run_online(SCENARIO, ray_session, over=over))
    undisturbed = record(run_online(SCENARIO, InProcess(2)))
    assert len(killed) == 3
    assert {name: survived[name] for name in LASTING} == {name: undisturbed[name] for name in LASTING}
