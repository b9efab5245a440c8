"""A shuffler, and two servers, on Ray: the answer of this process although they died, and no device's handle."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import ray
from messages import SEED, shows_a_secret
from ray import cloudpickle
from runs import alike, here, present, small

from actors.shares import share_permit
from coordinator.aggregators.ray_shares import start_server
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PermitError
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.fleet.shuffler_actor import start_shuffler
from coordinator.server.rounds.state import RunProgress, ServerState
from scenarios.backends.on_ray import OnRay
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.run import MainResult, run

pytestmark = pytest.mark.cluster
SHUFFLED = small(
    design="grr", trust="shuffled", policy="fixed", rounds=2, users=20_000, dropout=0.05, seed=SEED, like="0.9,0.2"
)
SHARED = small(design="totals", noise="devices", dropout=0.05, users=2000, seed=SEED)


@dataclass
class Watched:
    """A run whose shuffler or servers died, and what its processes were started with."""

    scenario: Scenario
    finished: MainResult | None = None
    coordinator: list[Any] = field(default_factory=list)
    parties: list[Any] = field(default_factory=list)
    settings: list[tuple[Any, ...]] = field(default_factory=list)
    refusals: list[type[Exception]] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)

    def coordinating(self, *arguments: Any) -> Any:
        """Start the coordinator."""
        self.coordinator = list(arguments)
        return start_coordinator(*arguments)

    def shuffling(self, *arguments: Any) -> Any:
        """Start a shuffler, and kill it when it has hardly started."""
        self.parties.append(start_shuffler(*arguments))
        ray.kill(self.parties[-1], no_restart=False)
        return self.parties[-1]

    def serving(self, *arguments: Any) -> Any:
        """Start a server, and kill it; ask the first one's devices without a permit."""
        self.settings.append(arguments)
        self.parties.append(start_server(*arguments))
        ray.kill(self.parties[-1], no_restart=False)
        if len(self.parties) == 1:
            query = present(resolve(SHARED.complete()).policy.next_query(ServerState(devices=2000))).query
            host = arguments[3]._hosts[0]
            asked = [host.share.remote(wrong, query, 0, 8) for wrong in (b"", derive(SEED, "public"))]
            for answer in (*asked, host.ask.remote(query, 0, 8)):
                with pytest.raises(ray.exceptions.RayTaskError) as error:
                    ray.get(answer)
                self.refusals.append(type(error.value.cause))
        return self.parties[-1]

    def progress(self, tally: RunProgress) -> None:
        """Kill the shuffler once more at the first sign of progress."""
        if self.scenario is SHUFFLED and not self.counts and tally.rounds:
            ray.kill(self.parties[-1], no_restart=False)
        self.counts.append(tally.count)


def watched(session: OnRay, scenario: Scenario, devices_per_actor: int) -> Watched:
    seen = Watched(scenario)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.backends.on_ray.start_coordinator", seen.coordinating)
        patch.setattr("scenarios.backends.on_ray.start_shuffler", seen.shuffling)
        patch.setattr("scenarios.backends.on_ray.start_server", seen.serving)
        patch.setattr("coordinator.server.fleet.panel.FIRST_PAUSE", 0.01)
        seen.finished = run(scenario, session, progress=seen.progress, devices_per_actor=devices_per_actor)
    return seen


@pytest.fixture(scope="module")
def shuffled(ray_session: OnRay) -> Watched:
    return watched(ray_session, SHUFFLED, 12_000)


@pytest.fixture(scope="module")
def shared(ray_session: OnRay) -> Watched:
    return watched(ray_session, SHARED, 1200)


@pytest.mark.parametrize("trust", ["shuffled", "shared"])
def test_ray_repeats_the_run_in_process_although_they_died(trust: str, request: pytest.FixtureRequest) -> None:
    seen: Watched = request.getfixturevalue(trust)
    whole = here(seen.scenario)
    assert seen.finished is not None
    assert alike(seen.finished, whole)
    assert seen.finished.outcome.transcripts == whole.outcome.transcripts
    assert seen.counts[-1] == seen.scenario.users


@pytest.mark.parametrize("trust", ["shuffled", "shared"])
def test_the_coordinator_holds_no_handle_of_a_device_and_nobodys_secret(
    trust: str, request: pytest.FixtureRequest
) -> None:
    seen: Watched = request.getfixturevalue(trust)
    _, devices, *_, middle = seen.coordinator
    assert devices == {}
    assert middle == (tuple(seen.parties) if trust == "shared" else seen.parties[-1])
    assert not shows_a_secret(seen.coordinator[:3], SEED)


def test_each_server_gets_its_own_secret_and_permit_alone(shared: Watched) -> None:
    held: bytes = cloudpickle.dumps(shared.coordinator[:4])  # type: ignore[no-untyped-call] # Ray gives it no types
    for side in SIDES:
        assert secret_of(SEED, side) not in held
        assert share_permit(derive(SEED, "devices"), side) not in held
    (words, one, permit, *_), (seeds, other, another, *_) = shared.settings
    assert (words.side, seeds.side) == SIDES
    assert len({one, other, permit, another, derive(SEED, "devices")}) == 5


def test_devices_hosts_give_nothing_without_a_permit(shared: Watched) -> None:
    assert shared.refusals == [PermitError] * 3


def test_they_end_with_the_run(shuffled: Watched, shared: Watched) -> None:
    for ask in (shuffled.parties[-1].progress.remote, *(partial(one.warm_up.remote, None) for one in shared.parties)):
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(ask())
