"""The two-tier model on Ray: the model and the releases of this process, and no actor left behind."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from runs import alive, below, holds_within

from coordinator.completion.cohorts import cut_users
from scenarios.cluster import OnRay
from scenarios.session import InProcess, Session
from scenarios.two_tier.config import two_tier_of
from scenarios.two_tier.experiment import read_table, run, world_of

pytestmark = pytest.mark.cluster
VARIES = {"seconds", "seconds_per_iteration", "peak_memory_mb", "backend", "workers"}


def test_ray_gives_the_result_of_this_process(ray_session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public users' completed rows come from several cohorts, behind two workers and behind one."""
    monkeypatch.setattr("coordinator.completion.cohorts.RATINGS_A_COHORT", 300)
    flags = {"planted": "150,70,6000", "public": 40, "private": 13, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = two_tier_of({**flags, "mechanism": "pmd", "weight": 0.5, "batch": 7})
    public = world_of(wanted, read_table(wanted)).split.public_rows
    assert len(cut_users(public.starts)) > 3

    def told(session: Session, mechanism: str = "pmd") -> dict[str, Any]:
        found = run(wanted.model_copy(update={"mechanism": mechanism}), session)
        return {name: value for name, value in found.items() if name not in VARIES}

    before = set(below(psutil.Process()))
    here = told(InProcess(1))
    assert told(ray_session) == here
    assert told(OnRay(1), "none")["rmse_public_only"] == here["rmse_public_only"] != here["rmse"]
    new = [one for one, words in below(psutil.Process()).items() if one not in before and "Host" in words]
    assert holds_within(20, lambda: not alive(new))
