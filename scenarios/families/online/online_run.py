"""One online run: a world, its clients served one after the other, each kept as soon as it is over."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from actors.voters import ClientCohort, VoterCohort
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import derive
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.online.recommenders import PublicFacts, recommender_of
from coordinator.server.online.service import CLIENTS, VOTERS, ClientPlan, Served, ServedClient, ServingPlan
from scenarios.backends.session import (
    Backend,
    BackendJob,
    Costs,
    DeviceGroup,
    ExperimenterView,
    NoStore,
    Progress,
    SessionResult,
    silent,
)
from scenarios.data.datasets import read_for
from scenarios.families.online.online_bounds import epsilon_proved
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import (
    ClientWorld,
    OnlineWorld,
    planted_world,
    with_liars,
    world_from_file,
    world_of_table,
)
from scenarios.store.journal import AnsweredRange, require_booked
from scenarios.store.record_log import Codec, Numbers, RecordLog


def _answered(client: ServedClient) -> AnsweredRange:
    return AnsweredRange(f"client {client.number}", client.service, 0, MOST_DEVICES, client.served.electors.size)


def _tell(client: ServedClient) -> Numbers:
    numbers = {"number": client.number, "service": client.service.hex(), "seconds": client.seconds}
    return numbers, {part.name: np.asarray(getattr(client.served, part.name)) for part in fields(Served)}


def _read(numbers: dict[str, Any], arrays: dict[str, Any]) -> ServedClient:
    likelihood = float(arrays.pop("log_likelihood"))
    return ServedClient(
        number=numbers["number"],
        service=bytes.fromhex(numbers["service"]),
        served=Served(log_likelihood=likelihood, **arrays),
        seconds=numbers["seconds"],
    )


class KeptClients(RecordLog[ServedClient]):
    """The clients of one seed; see `scenarios.store.record_log.RecordLog`."""

    codec = Codec(
        noun="client",
        number=lambda client: client.number,
        encode=_tell,
        decode=_read,
        require_booked=lambda stored_clients, book: require_booked(map(_answered, stored_clients), book),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """One client as it was served."""

    world: ClientWorld = field(repr=False)
    facts: PublicFacts  # What holds, for the recommender
    epsilon: float | None  # What is proved: the largest privacy loss of a voter in this service [nats]
    served: Served
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineResult(SessionResult[tuple[ClientRun, ...]]):
    """The result of a run: its clients as they were served."""

    scenario: OnlineScenario
    world: OnlineWorld = field(repr=False)

    @property
    def clients(self) -> tuple[ClientRun, ...]:
        """The outcome."""
        return self.outcome

    @property
    def seconds(self) -> float:
        """Seconds of all services, each from its announcement to its last recommendation."""
        return sum(client.seconds for client in self.outcome)


def build_world(scenario: OnlineScenario) -> OnlineWorld:
    """Return the world of a scenario: planted, of a ratings file, or written down."""
    if scenario.ratings is not None:
        return with_liars(world_of_table(scenario, read_for(scenario)))
    return with_liars(planted_world(scenario) if scenario.world is None else world_from_file(scenario, scenario.world))


def proved(scenario: OnlineScenario, world: ClientWorld, recommender: str) -> float | None:
    """Return what is proved of a recommender in a client's world [nats]; None where nothing is."""
    epsilon = math.inf
    alike = recommender_of(recommender).epsilon_of
    if alike is not None:
        epsilon = as_float(scenario.epsilon) if scenario.epsilon else proved(scenario, world, alike) or math.inf
    return epsilon_proved(recommender, **world.shape(promised_peers(scenario, world)), epsilon=epsilon)


def promised_peers(scenario: OnlineScenario, world: ClientWorld) -> int:
    """Return P: what the scenario says; where peers were counted, one fewer, so that the promise covers peers, too."""
    if scenario.peers is not None:
        return scenario.peers
    return max(world.peers - 1, 1)


def run_online(
    scenario: OnlineScenario,
    session: Backend,
    *,
    devices_per_actor: int | None = None,
    world: OnlineWorld | None = None,
    progress: Progress = silent,
    stored_clients: KeptClients | None = None,
) -> OnlineResult:
    """Serve all clients of a scenario."""
    world = world or build_world(scenario)
    layout = plan_layout(devices=world.voters.users, workers=session.workers, devices_per_actor=devices_per_actor)
    plans, promises = list[ClientPlan](), list[tuple[ClientWorld, PublicFacts, float | None]]()
    coins, kind = derive(scenario.seed, "recommender"), recommender_of(scenario.recommender)
    for client in world.clients:
        epsilon = proved(scenario, client, scenario.recommender)
        nats = math.inf if epsilon is None else epsilon
        facts = client.facts(peers=promised_peers(scenario, client), epsilon=nats)
        facts = facts if kind.promised else replace(facts, diversity=0, radius=0)
        service = client.service(scenario.recommender, cost(scenario, epsilon))
        plans.append(ClientPlan(service=service, facts=facts, coin=derive(coins, client.name)))
        promises.append((client, facts, epsilon))
    plan = ServingPlan(clients=tuple(plans), voters=world.voters.users)

    def finish(clients: list[ServedClient], _: ExperimenterView, costs: Costs) -> OnlineResult:
        runs = tuple(
            ClientRun(
                world=client, facts=facts, epsilon=epsilon, served=served_client.served, seconds=served_client.seconds
            )
            for (client, facts, epsilon), served_client in zip(promises, clients, strict=True)
        )
        return OnlineResult(
            scenario=scenario, world=world, outcome=runs, costs=costs, backend=session.name, layout=layout
        )

    devices = {client_world.client.number: client_world.client for client_world in world.clients}
    work: BackendJob[ServedClient, list[ServedClient], OnlineResult] = BackendJob(
        plan=plan,
        device_groups={
            VOTERS: DeviceGroup(
                kind=partial(VoterCohort, budget=scenario.budget), holdings=world.voters, bounds=layout.cohorts
            ),
            CLIENTS: DeviceGroup(kind=ClientCohort, holdings=devices, bounds=[(0, max(devices) + 1)]),
        },
        secret=world.secret,
        layout=layout,
        finish=finish,
        records=NoStore() if stored_clients is None else stored_clients,
        ledger=None if stored_clients is None else stored_clients.ledger,
    )
    return session.run(work, progress)


def cost(scenario: OnlineScenario, epsilon: float | None) -> Epsilon:
    """Return what a service costs a voter: as it was given, else as it is proved."""
    return exact(epsilon) if scenario.epsilon is None else scenario.epsilon


def exact(epsilon: float | None) -> Epsilon:
    """Return a proved bound as the ledger's exact number, rounded up to a millionth of a nat, and at least that."""
    # Nothing is booked as free: where no vote is used, a millionth is an upper bound.
    return None if epsilon is None else Fraction(max(1, math.ceil(epsilon * 10**6)), 10**6)
