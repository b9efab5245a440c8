"""One online run: a world, its clients served one after the other, and what the experimenter sees of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from coordinator.protocol.ballots import Service
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.coins import derive
from coordinator.server.fleet.layout import plan_layout
from coordinator.server.online.recommender import Promise
from coordinator.server.online.recommenders import recommender_of
from coordinator.server.online.service import Served
from scenarios.online.cast import Cast, Over, Stage
from scenarios.online.config import OnlineScenario
from scenarios.online.kept_clients import KeptClient, KeptClients
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.online.rating_world import world_of_ratings
from scenarios.online.stage import set_stage
from scenarios.online.world_file import world_from_file
from scenarios.online.worlds import ClientWorld, World, planted_world
from scenarios.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How a client will be served.

    Attributes
    ----------
    promise : Promise
        What the recommender is told.
    epsilon : float or None
        What is proved [nats].
    service : Service
        What voters are told.
    """

    promise: Promise
    epsilon: float | None
    service: Service


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """One client as it was served.

    Attributes
    ----------
    world : ClientWorld
    promise : Promise
        What the recommender was told.
    epsilon : float or None
        What is proved: the largest privacy loss of a voter in this service [nats].
    served : Served
    seconds : float
    """

    world: ClientWorld = field(repr=False)
    promise: Promise
    epsilon: float | None
    served: Served
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlineRun:
    """A run that is over.

    Attributes
    ----------
    scenario : OnlineScenario
    world : World
    clients : tuple of ClientRun
    seconds : float
        From the first service's announcement to the last recommendation.
    backend : str
    workers, actors, devices_per_actor : int
    """

    scenario: OnlineScenario
    world: World = field(repr=False)
    clients: tuple[ClientRun, ...]
    seconds: float
    backend: str
    workers: int
    actors: int
    devices_per_actor: int


def build_world(scenario: OnlineScenario) -> World:
    """Return the world of a scenario: planted, of a ratings file, or written down.

    Raises
    ------
    InputError
        If a file cannot be used, or the scenario contradicts it.
    """
    if scenario.ratings is not None:
        return world_of_ratings(scenario, scenario.ratings)
    return planted_world(scenario) if scenario.world is None else world_from_file(scenario, scenario.world)


def proved(scenario: OnlineScenario, world: ClientWorld, recommender: str) -> float | None:
    """Return what is proved of a recommender in a client's world [nats]; None where nothing is.

    Raises
    ------
    InputError
        If the bound's conditions do not hold, as ``T >= m``.
    """
    shape = (world.rounds, world.objects, promised_peers(scenario, world), world.diversity, world.radius)
    epsilon = math.inf
    alike = recommender_of(recommender).epsilon_of
    if alike is not None:
        epsilon = as_float(scenario.epsilon) if scenario.epsilon else proved(scenario, world, alike) or math.inf
    return epsilon_proved(recommender, *shape[:2], world.voters, *shape[2:], epsilon)


def promised_peers(scenario: OnlineScenario, world: ClientWorld) -> int:
    """Return P: what the scenario says; where peers were counted, one fewer, so that the promise covers peers, too."""
    if scenario.peers is not None:
        return scenario.peers
    return max(world.peers - 1, 1)


def run_online(
    scenario: OnlineScenario,
    session: Session,
    *,
    devices_per_actor: int | None = None,
    world: World | None = None,
    over: Over = lambda _: None,
    kept: KeptClients | None = None,
) -> OnlineRun:
    """Serve all clients of a scenario.

    Parameters
    ----------
    scenario : OnlineScenario
    session : Session
        Where.
    devices_per_actor : int, optional
        Size of a cohort of voters. Speed only.
    world : World, optional
        Its world, if it is built already.
    over : callable
        Told how many rounds of all clients are over.
    kept : KeptClients, optional
        Clients that were served before an interruption, and are not served again; told every new one. Voters book
        beside them.

    Returns
    -------
    OnlineRun
        Seconds of clients that were served before count as they were measured then.

    Raises
    ------
    InputError
        If the scenario cannot be run.
    """
    world = world or build_world(scenario)
    layout = plan_layout(devices=world.voters.users, workers=session.workers, devices_per_actor=devices_per_actor)
    plans = [_plan(scenario, client) for client in world.clients]
    served = [] if kept is None else kept.of([plan.service for plan in plans])
    cast = Cast(
        voters=world.voters,
        secret=world.secret,
        clients=[client.client for client in world.clients],
        budget=scenario.budget,
        layout=layout,
    )
    with set_stage(session, cast, None if kept is None else kept.ledger) as stage:
        begin, seconds = time.perf_counter(), sum(one.seconds for one in served)
        for one in _served(stage, scenario, world, plans, len(served), over):
            served.append(one)
            if kept is not None:
                kept.keep(one)
        seconds += time.perf_counter() - begin
        actors = stage.actors
    finished = [
        ClientRun(world=client, promise=plan.promise, epsilon=plan.epsilon, served=one.served, seconds=one.seconds)
        for client, plan, one in zip(world.clients, plans, served, strict=True)
    ]
    return OnlineRun(
        scenario=scenario,
        world=world,
        clients=tuple(finished),
        seconds=seconds,
        backend=session.name,
        workers=session.workers,
        actors=actors,
        devices_per_actor=layout.devices_per_actor,
    )


def _served(
    stage: Stage, scenario: OnlineScenario, world: World, plans: Sequence[Plan], first: int, over: Over
) -> Iterator[KeptClient]:
    """Serve the clients from ``first`` on, one after the other."""
    coins, done = derive(scenario.seed, "recommender"), sum(client.rounds for client in world.clients[:first])
    if first:
        over(done)
    for number, client in enumerate(world.clients[first:], start=first):
        start, before = time.perf_counter(), done
        served = stage.serve(
            plans[number].service,
            plans[number].promise,
            derive(coins, client.name),
            lambda rounds, before=before: over(before + rounds),  # type: ignore[misc] # bound at once
        )
        done += client.rounds
        yield KeptClient(
            number=number, service=plans[number].service.id, served=served, seconds=time.perf_counter() - start
        )


def _plan(scenario: OnlineScenario, client: ClientWorld) -> Plan:
    epsilon = proved(scenario, client, scenario.recommender)
    promise = client.promise(peers=promised_peers(scenario, client), epsilon=math.inf if epsilon is None else epsilon)
    if not recommender_of(scenario.recommender).promised:
        promise = replace(promise, diversity=0, radius=0)
    service = client.service(scenario.recommender, cost(scenario, epsilon))
    return Plan(promise=promise, epsilon=epsilon, service=service)


def cost(scenario: OnlineScenario, epsilon: float | None) -> Epsilon:
    """Return what a service costs a voter: as it was given, else as it is proved."""
    return exact(epsilon) if scenario.epsilon is None else scenario.epsilon


def exact(epsilon: float | None) -> Epsilon:
    """Return a proved bound as the ledger's exact number, rounded up to a millionth of a nat, and at least that.

    Nothing is booked as free: where no vote is used, a millionth is an upper bound.
    """
    return None if epsilon is None else Fraction(max(1, math.ceil(epsilon * 10**6)), 10**6)


def privacy_losses(run: ClientRun) -> tuple[float, float]:
    """Return the run's largest exact privacy loss: of voters that are no peers, and of all voters [nats].

    A voter's loss is ``|ln Pr[recommendations] - ln Pr[recommendations without this voter]|``. Where the client has
    exactly P peers, the bound speaks of the others: without a peer there are fewer than P. NaN where nobody voted or
    where voters' weights differ.
    """
    size = np.abs(run.served.exposure)
    if not size.size or np.isnan(size).any():
        return math.nan, math.nan
    spare = run.world.peers > run.promise.peers
    covered = size if spare else size[~run.world.peer[run.served.electors]]
    return float(covered.max(initial=0.0)), float(size.max())
