"""One online run: a world, its clients served one after the other, each kept as soon as it is over."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.voters import ClientCohort, VoterCohort
from coordinator.protocol.budget import ADD_REMOVE, Epsilon, add, as_float, as_json
from coordinator.protocol.checked import MOST_DEVICES
from coordinator.protocol.coins import derive
from coordinator.protocol.trust_models import CURATOR
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
from scenarios.config.scenario import UNTARGETED
from scenarios.data.datasets import lines_skipped, read_for
from scenarios.experiment.experiment import Record, Running
from scenarios.families.online.online_bounds import epsilon_exact, epsilon_needed, epsilon_proved, loss_bound
from scenarios.families.online.online_scenario import RECORD_COLUMNS, OnlineScenario
from scenarios.families.online.online_worlds import (
    ClientWorld,
    OnlineWorld,
    lies_of,
    planted_world,
    with_liars,
    world_from_file,
    world_of_table,
)
from scenarios.show.tables import Average, finite, joined
from scenarios.store.journal import AnsweredRange, require_booked
from scenarios.store.record_log import Codec, Numbers, RecordLog

if TYPE_CHECKING:
    import pandas as pd


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
    """What came of a run, whose outcome are the clients as they were served."""

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


def privacy_losses(run: ClientRun) -> tuple[float, float]:
    """Return the run's largest exact privacy loss: of voters that are no peers, and of all voters [nats]."""
    # Where the client has exactly P peers the bound speaks of the others: without a peer there are fewer than P.
    size = np.abs(run.served.exposure)
    if not size.size or np.isnan(size).any():
        return math.nan, math.nan
    spare = run.world.peers > run.facts.peers
    covered = size if spare else size[~run.world.peer[run.served.electors]]
    return float(covered.max(initial=0.0)), float(size.max())


GUARANTEE = "epsilon-differential privacy of all recommendations to one client, one voter added or removed; the "
GUARANTEE += "coordinator sees every vote"
NO_GUARANTEE = "none: nothing is proved of this recommender here; the coordinator sees every vote"


_WORST = frozenset(column.name for column in RECORD_COLUMNS if column.average is Average.WORST)


def record(run: OnlineResult) -> dict[str, Any]:
    """Return a run's result: of its client, or the means over its clients."""
    rows = [client_record(run, client) for client in run.clients]

    def of_all(name: str) -> Any:  # of what is guaranteed the largest, else the mean
        values = [row[name] for row in rows]
        if name not in _WORST or None in values:
            return joined(values)
        return finite(max(math.inf if value == "inf" else value for value in values))

    total, scenario, lying = sum_of(run), run.scenario, dict[str, Any]()
    losses = np.zeros(run.world.voters.users)  # of a voter in all services together: their likelihoods multiply
    for client in run.clients:
        losses[client.served.electors] += client.served.exposure
    if scenario.malicious is not None:
        lying = {"malicious": scenario.malicious, "attack": scenario.attack or UNTARGETED, "liars": lies_of(run.world)}
    return {
        "recommender": run.scenario.recommender,
        "trust_model": CURATOR,
        "guarantee": NO_GUARANTEE if total is None else GUARANTEE,
        # The theorems compare what is recommended with and without one voter
        "neighbours": None if total is None else ADD_REMOVE,
        "delta": None if total is None else 0.0,
        "clients": len(rows),
        **{name: of_all(name) for name in rows[0] if name not in ("client", "seconds")},
        **({} if run.scenario.ratings is None else lines_skipped(run.scenario, read_for(run.scenario))),
        **lying,
        "voter_epsilon": total,
        "voter_loss": finite(float(np.abs(losses).max())),
        "budget": None if run.scenario.budget is None else as_json(run.scenario.budget),
        "seed": run.scenario.seed,
        "recommendations_sha256": digest(run),
        "seconds": run.seconds,
        "backend": run.backend,
        "workers": run.layout.workers,
        "actors": run.costs.actors,
        "devices_per_actor": run.layout.devices_per_actor,
        "retries": run.costs.retries,
        "restarts": run.costs.restarts,
    }


def client_record(run: OnlineResult, client: ClientRun) -> dict[str, Any]:
    """Return one client's row."""
    world, served, facts = client.world, client.served, client.facts
    covered, largest = privacy_losses(client)
    peers = world.peer[served.electors]
    shape = world.shape(facts.peers)
    honest = facts.peers  # on whom a bound of the loss may count: those that are promised, without liars among them
    if run.scenario.malicious is not None:
        honest = min(honest, world.peers)
    bound = None
    if served.electors.size == world.voters and honest:
        bound = loss_bound(run.scenario.recommender, **{**shape, "peers": honest})
    return {
        "client": world.name,
        **shape,
        "peers_measured": world.peers,
        "skipped": world.skipped,
        "loss": served.loss,
        "loss_bound": bound,
        "loss_random": world.client.random_loss,
        "loss_share": served.loss / world.rounds,
        "epsilon_proved": client.epsilon,
        "epsilon_exact": epsilon_exact(run.scenario.recommender, **shape),
        "epsilon_needed": epsilon_needed(**shape, loss=bound),
        "privacy_loss_of_run": None if math.isnan(covered) else covered,
        "privacy_loss_of_peers": None if math.isnan(largest) else largest,
        "log_likelihood": served.log_likelihood,
        "peers_alive": int(np.count_nonzero(served.alive & peers)),
        "peers_kicked": int(np.count_nonzero(~served.alive & peers)),
        "survivors": int(np.count_nonzero(served.alive)),
        "refused": world.voters - served.electors.size,
        "seconds": client.seconds,
    }


def sum_of(run: OnlineResult) -> float | str | None:
    """Return what all clients together may learn of a voter, as proved [nats]: services compose, epsilons add up."""
    total: Epsilon = Fraction(0)
    for client in run.clients:
        if client.epsilon is None:
            return None
        if client.epsilon:  # else no vote was used
            total = add(total, cost(run.scenario, client.epsilon))
    budget = run.scenario.budget
    return as_json(total if budget is None or total is None else min(total, budget))


def digest(run: OnlineResult) -> str:
    """Return SHA-256 of all recommendations and answers: equal for the same seed on every layout."""
    hasher = hashlib.sha256()
    for client in run.clients:
        hasher.update(client.served.chosen.tobytes() + client.served.liked.tobytes())
    return hasher.hexdigest()


def tables_of(run: OnlineResult) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: clients; their rounds; and their voters."""
    import pandas as pd  # noqa: PLC0415 (only a run has tables)

    def of_clients(columns: Callable[[ClientWorld, Served], dict[str, Any]]) -> pd.DataFrame:
        parts = (
            pd.DataFrame({"client": client_run.world.name, **columns(client_run.world, client_run.served)})
            for client_run in run.clients
        )
        return pd.concat(parts, ignore_index=True)

    return {
        "clients": pd.DataFrame([client_record(run, client) for client in run.clients]),
        "rounds": of_clients(
            lambda world, served: {
                "round": np.arange(world.rounds),
                "recommended": served.chosen,
                "liked": served.liked,
                "survivors": served.survivors,  # until then
            }
        ),
        "voters": of_clients(
            lambda world, served: {
                "voter": served.electors,
                "peer": world.peer[served.electors],
                "alive": served.alive,
                "d_strikes": served.first_strikes,
                "r_strikes": served.second_strikes,
                "privacy_loss": served.exposure,
            }
        ),
    }


def serve_seed(scenario: OnlineScenario, running: Running) -> Record:
    """Serve the clients of one seed."""
    world = build_world(scenario)
    stored_clients = None if running.out is None else KeptClients(running.out, scenario.seed)
    if stored_clients:
        stored_clients.check(running.console)
    rounds = sum(client.rounds for client in world.clients)
    with running.progress(rounds, scenario.seed, done="rounds over", unit="rounds") as progress:
        run = run_online(
            world.scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            world=world,
            progress=progress,
            stored_clients=stored_clients,
        )
    return Record(values=record(run), scenario=run.scenario.again(), tables=partial(tables_of, run))
