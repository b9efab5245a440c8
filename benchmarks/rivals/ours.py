"""The same job with blindrec: in this process and on Ray."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.rivals.inside.one_bit import OneBit
from scenarios.backends.ray_instance import on_ray
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated
from scenarios.families.main.run import run


def scenario_of(job: OneBit, users: int) -> Scenario:
    """Return the job as a scenario: MaxSense with one bit a device; or raise `InputError`."""
    return validated(Scenario, None, asdict(job) | {"like": (job.like,), "users": users})


def measure(scenarios: Sequence[Scenario], workers: int) -> list[dict[str, Any]]:
    """Return one row a scenario and backend: seconds from the first question to what the server learned."""
    rows = [_row(scenario, InProcess(workers)) for scenario in scenarios]
    with on_ray(address=None, workers=workers) as session:
        return rows + [_row(scenario, session) for scenario in scenarios]


def _row(scenario: Scenario, session: Backend) -> dict[str, Any]:
    ran = run(scenario, session)
    statistic: Any = ran.statistic
    return {
        "backend": session.name,
        "devices": statistic.devices,
        "seconds": ran.costs.seconds,
        "devices_per_second": statistic.devices / ran.costs.seconds,
        "share_of_ones": statistic.ones / statistic.answered,
    }
