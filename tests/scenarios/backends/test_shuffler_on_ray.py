"""A shuffler on Ray: the same releases as in this process, a coordinator without devices, and a death in between."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import ray
from boundary import SEED, shows_a_secret
from runs import alike, here, small

from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.fleet.shuffler_actor import start_shuffler
from coordinator.server.rounds.state import RunProgress
from scenarios.backends.on_ray import OnRay
from scenarios.families.main.run import MainResult, run

pytestmark = pytest.mark.cluster
SCENARIO = small(
    design="grr", trust="shuffled", policy="fixed", rounds=2, users=20_000, dropout=0.05, seed=SEED, like="0.9,0.2"
)


@dataclass
class Watched:
    """A run whose shuffler died, and what its coordinator was started with."""

    finished: MainResult | None = None
    coordinator: list[Any] = field(default_factory=list)
    shufflers: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)


@pytest.fixture(scope="module")
def watched(ray_session: OnRay) -> Watched:
    """One run on Ray, whose shuffler is killed at the first sign of progress."""
    seen = Watched()

    def coordinating(*arguments: Any) -> Any:
        seen.coordinator = list(arguments)
        return start_coordinator(*arguments)

    def shuffling(*arguments: Any) -> Any:
        seen.shufflers.append(start_shuffler(*arguments))
        ray.kill(seen.shufflers[-1], no_restart=False)
        return seen.shufflers[-1]

    def progress(tally: RunProgress) -> None:
        if not seen.counts and tally.rounds:
            ray.kill(seen.shufflers[-1], no_restart=False)
        seen.counts.append(tally.count)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.backends.on_ray.start_coordinator", coordinating)
        patch.setattr("scenarios.backends.on_ray.start_shuffler", shuffling)
        patch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0.01)
        seen.finished = run(SCENARIO, ray_session, progress=progress, devices_per_actor=12_000)
    return seen


def test_ray_repeats_the_run_in_process_although_the_shuffler_died(watched: Watched) -> None:
    assert watched.finished is not None
    assert alike(watched.finished, here(SCENARIO))
    assert watched.counts[-1] == 20_000


def test_the_coordinator_holds_no_handle_of_a_device(watched: Watched) -> None:
    _, devices, *_, middle = watched.coordinator
    assert devices == {}
    assert middle is watched.shufflers[-1]
    assert not shows_a_secret(watched.coordinator[:3], SEED)


def test_the_shuffler_ends_with_the_run(watched: Watched) -> None:
    with pytest.raises(ray.exceptions.ActorDiedError):
        ray.get(watched.shufflers[-1].progress.remote())
