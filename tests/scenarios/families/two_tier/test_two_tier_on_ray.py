"""The two-tier model on Ray: the model and the releases of this process, and no actor left behind."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import psutil
import pytest
from runs import holds_within

from benchmarks.victims import alive, below
from coordinator.server.completion.crowd import cut_users
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend, Progress, silent
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.families.two_tier.two_tier_seed import read_table, run, world_of

SHAPE = "260,500,90000"
"""Of a planted table whose public users make several cohorts."""
VARIES = {
    "seconds",
    "seconds_per_iteration",
    "peak_memory_mb",
    "backend",
    "backend_reason",
    "workers",
    "retries",
    "restarts",
}


@pytest.mark.cluster
def test_ray_gives_the_result_of_this_process_though_actors_die(
    ray_session: OnRay, capfd: pytest.CaptureFixture[str]
) -> None:
    """Public users' completed rows come from several cohorts, behind two workers and behind one.

    Processes of private devices, of public users and the coordinator die while batches answer.
    """
    flags = {"planted": SHAPE, "public": 200, "private": 60, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = TwoTier.model_validate({**flags, "mechanism": "pmd", "weight": 0.5, "batch": 2})
    public = world_of(wanted, read_table(wanted)).split.public_rows
    assert len(cut_users(public)) == 3
    victims, killed = ["ray::DeviceHost", "ray::PublicHost", "ray::Coordinator", "ray::DeviceHost"], list[str]()

    def kill(tally: RunProgress) -> None:
        if victims and 0 < tally.count < 50:
            for one, line in below(psutil.Process()).items():
                if line.startswith(victims[0]):
                    one.kill()
                    killed.append(victims.pop(0))
                    return

    def told(session: Backend, mechanism: str = "pmd", progress: Progress = silent) -> dict[str, Any]:
        found = run(
            wanted.model_copy(update={"mechanism": mechanism}), session, watched=lambda _: nullcontext(progress)
        )
        return {name: value for name, value in found.items() if name not in VARIES}

    before, here = set(below(psutil.Process())), told(InProcess(1))
    assert told(ray_session, progress=kill) == here
    assert not victims, "the run was over before its processes were killed"
    assert told(OnRay(1), "none")["rmse_public_only"] == here["rmse_public_only"] != here["rmse"]
    new = [one for one, words in below(psutil.Process()).items() if one not in before and "Host" in words]
    assert holds_within(20, lambda: not alive(new))
    assert "max_restarts" not in capfd.readouterr().err


@pytest.mark.cluster
@pytest.mark.thorough
def test_ray_validates_the_weight_of_this_process(ray_session: OnRay) -> None:
    """Public users that announced models are fitted to have actors of their own, beside those of all public users."""
    flags = {"planted": SHAPE, "public": 200, "private": 56, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = TwoTier.model_validate({**flags, "mechanism": "laplace", "epsilon": "20", "batch": 28})
    here, there = (
        {k: v for k, v in run(wanted, one).items() if k not in VARIES} for one in (InProcess(2), ray_session)
    )
    assert there == here
    assert here["validation_users"] == 40
    assert here["weight"] > 0
