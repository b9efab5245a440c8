"""Two servers on Ray: the same sums as in this process although both died, and a coordinator without devices."""

from dataclasses import dataclass, field
from typing import Any

import pytest
import ray
from boundary import SEED, shows_a_secret
from ray import cloudpickle
from runs import alike, here, present, small

from actors.shares import share_permit
from coordinator.aggregators.ray_shares import start_server
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PermitError
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.server.fleet.coordinator_actor import start_coordinator
from coordinator.server.rounds.state import ServerState
from scenarios.backends.on_ray import OnRay
from scenarios.config.resolve import resolve
from scenarios.families.main.run import MainResult, run

pytestmark = pytest.mark.cluster
SCENARIO = small(design="totals", noise="devices", dropout=0.05, users=2000, seed=SEED)


@dataclass
class Watched:
    """A run whose servers died, and what its processes were started with."""

    finished: MainResult | None = None
    coordinator: list[Any] = field(default_factory=list)
    servers: list[Any] = field(default_factory=list)
    settings: list[tuple[Any, ...]] = field(default_factory=list)
    refusals: list[type[Exception]] = field(default_factory=list)


@pytest.fixture(scope="module")
def watched(ray_session: OnRay) -> Watched:
    """One run on Ray, whose servers are killed when they have hardly started."""
    seen = Watched()

    def coordinating(*arguments: Any) -> Any:
        seen.coordinator = list(arguments)
        return start_coordinator(*arguments)

    def starting(*arguments: Any) -> Any:
        seen.settings.append(arguments)
        seen.servers.append(start_server(*arguments))
        ray.kill(seen.servers[-1], no_restart=False)
        if len(seen.servers) == 1:
            route = arguments[3]
            query = present(resolve(SCENARIO.complete()).policy.next_query(ServerState(devices=2000)))
            for wrong in (b"", derive(SEED, "public")):
                with pytest.raises(PermitError) as error:
                    raise_cause(route._hosts[0].share.remote(wrong, query.query, 0, 8))
                seen.refusals.append(error.type)
            with pytest.raises(PermitError) as error:
                raise_cause(route._hosts[0].ask.remote(query.query, 0, 8))
            seen.refusals.append(error.type)
        return seen.servers[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.backends.on_ray.start_coordinator", coordinating)
        patch.setattr("scenarios.backends.on_ray.start_server", starting)
        seen.finished = run(SCENARIO, ray_session, devices_per_actor=1200)
    return seen


def raise_cause(answer: Any) -> None:
    """Raise the error of ours behind Ray's."""
    try:
        ray.get(answer)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from None


def test_ray_repeats_the_run_in_process_although_both_servers_died(watched: Watched) -> None:
    whole = here(SCENARIO)
    assert watched.finished is not None
    assert alike(watched.finished, whole)
    assert watched.finished.outcome.transcripts == whole.outcome.transcripts


def test_the_coordinator_holds_no_handle_of_a_device_and_nobodys_secret(watched: Watched) -> None:
    _, devices, *_, middle = watched.coordinator
    assert devices == {}
    assert middle == tuple(watched.servers)
    assert not shows_a_secret(watched.coordinator[:3], SEED)
    held: bytes = cloudpickle.dumps(watched.coordinator[:4])  # type: ignore[no-untyped-call] # Ray gives it no types
    for side in SIDES:
        assert secret_of(SEED, side) not in held
        assert share_permit(derive(SEED, "devices"), side) not in held


def test_each_server_gets_its_own_secret_and_permit_alone(watched: Watched) -> None:
    (words, one, permit, *_), (seeds, other, another, *_) = watched.settings
    assert (words.side, seeds.side) == SIDES
    assert len({one, other, permit, another, derive(SEED, "devices")}) == 5


def test_devices_hosts_give_nothing_without_a_permit(watched: Watched) -> None:
    assert watched.refusals == [PermitError] * 3


def test_both_servers_end_with_the_run(watched: Watched) -> None:
    for server in watched.servers:
        with pytest.raises(ray.exceptions.ActorDiedError):
            ray.get(server.warm_up.remote(None))
