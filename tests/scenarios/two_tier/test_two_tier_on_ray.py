"""The two-tier model on Ray: the model and the releases of this process, and no actor left behind."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
import ray
from actors.second_order.private_host import HostedDevices
from runs import holds_within

from benchmarks.victims import alive, below
from coordinator.protocol.second_order import SecondOrderRelease
from coordinator.server.completion.cohorts import cut_users
from scenarios.places.in_process import InProcess
from scenarios.places.on_ray import OnRay
from scenarios.places.session import Session
from scenarios.two_tier.config import two_tier_of
from scenarios.two_tier.experiment import read_table, run, world_of

pytestmark = pytest.mark.cluster
VARIES = {"seconds", "seconds_per_iteration", "peak_memory_mb", "backend", "workers"}


def kill_one(host: str) -> None:
    """End the process of one of the actors as a fault would."""
    next(process for process, words in below(psutil.Process()).items() if host in words).kill()


def test_ray_gives_the_result_of_this_process_though_actors_die(
    ray_session: OnRay, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Public users' completed rows come from several cohorts, behind two workers and behind one.

    A process of private devices dies before its first answers have arrived, and one of public users soon after.
    Another one dies when a model was announced to it and it has not yet been asked.
    """
    monkeypatch.setattr("coordinator.server.completion.cohorts.RATINGS_A_COHORT", 300)
    flags = {"planted": "150,70,6000", "public": 40, "private": 13, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = two_tier_of({**flags, "mechanism": "pmd", "weight": 0.5, "batch": 7})
    public = world_of(wanted, read_table(wanted)).split.public_rows
    assert len(cut_users(public.starts)) > 3

    def told(session: Session, mechanism: str = "pmd") -> dict[str, Any]:
        found = run(wanted.model_copy(update={"mechanism": mechanism}), session)
        return {name: value for name, value in found.items() if name not in VARIES}

    before, answer, hosts = set(below(psutil.Process())), HostedDevices.answer, ["PublicHost", "PrivateHost"]

    def lost(self: HostedDevices, *asked: Any) -> list[SecondOrderRelease]:
        releases = answer(self, *asked)
        if hosts:
            kill_one(hosts[-1])
            if hosts.pop() == "PrivateHost":
                raise ray.exceptions.RayActorError  # before the answers, which are kept, have arrived
        return releases

    pin, replaced = HostedDevices.pin, list[bool]()

    def forgotten(self: HostedDevices, *announced: Any) -> None:
        pin(self, *announced)
        if not hosts and not replaced:
            kill_one("PrivateHost")
            replaced.append(True)

    here = told(InProcess(1))
    with monkeypatch.context() as patch:
        patch.setattr(HostedDevices, "answer", lost)
        patch.setattr(HostedDevices, "pin", forgotten)
        assert told(ray_session) == here
    assert (hosts, replaced) == ([], [True])
    assert told(OnRay(1), "none")["rmse_public_only"] == here["rmse_public_only"] != here["rmse"]
    new = [one for one, words in below(psutil.Process()).items() if one not in before and "Host" in words]
    assert holds_within(20, lambda: not alive(new))
    assert "max_restarts" not in capfd.readouterr().err


def test_ray_validates_the_weight_of_this_process(ray_session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Public users that announced models are fitted to have actors of their own, beside those of all public users."""
    monkeypatch.setattr("coordinator.server.completion.cohorts.RATINGS_A_COHORT", 300)
    flags = {"planted": "150,70,6000", "public": 40, "private": 28, "rank": 3, "regularisation": 2, "iterations": 4}
    wanted = two_tier_of({**flags, "mechanism": "laplace", "epsilon": "20", "batch": 14})
    here, there = (
        {k: v for k, v in run(wanted, one).items() if k not in VARIES} for one in (InProcess(2), ray_session)
    )
    assert there == here
    assert here["validation_users"] == 8
    assert here["weight"] > 0
