"""The two-tier model on Ray: the model and the releases of this process, and no actor left behind."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from runs import holds_within

from benchmarks.victims import alive, below
from scenarios.cluster import OnRay
from scenarios.session import InProcess, Session
from scenarios.two_tier.config import two_tier_of
from scenarios.two_tier.experiment import run

pytestmark = pytest.mark.cluster
VARIES = {"seconds", "seconds_per_iteration", "peak_memory_mb", "backend", "workers"}


def test_ray_gives_the_result_of_this_process(ray_session: OnRay) -> None:
    flags = {"planted": "150,70,6000", "public": 40, "private": 13, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = two_tier_of({**flags, "mechanism": "pmd", "weight": 0.5, "batch": 7})

    def told(session: Session) -> dict[str, Any]:
        return {name: value for name, value in run(wanted, session).items() if name not in VARIES}

    before = set(below(psutil.Process()))
    assert told(ray_session) == told(InProcess(1))
    new = [one for one, words in below(psutil.Process()).items() if one not in before and "Host" in words]
    assert holds_within(20, lambda: not alive(new))
