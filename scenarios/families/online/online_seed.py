"""One seed of an online experiment, from its world to the flat record that `--json` prints."""

import hashlib
import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from coordinator.protocol.budget import Epsilon, add, as_json
from coordinator.protocol.public_half import ADD_REMOVE
from coordinator.server.online.service import Served
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.config.lying_settings import UNTARGETED
from scenarios.data.datasets import lines_skipped, read_for
from scenarios.experiment.experiment import Record, Running
from scenarios.families.online.online_bounds import epsilon_needed, loss_bound
from scenarios.families.online.online_run import (
    ClientRun,
    KeptClients,
    OnlineResult,
    build_world,
    cost,
    privacy_losses,
    run_online,
)
from scenarios.families.online.online_scenario import RECORD_COLUMNS, OnlineScenario
from scenarios.families.online.online_worlds import ClientWorld, honest_peers, lies_of
from scenarios.families.online.worst_case import epsilon_exact
from scenarios.show.columns import Average, finite, joined

GUARANTEE = "epsilon-differential privacy of all recommendations to one client, one voter added or removed; the "
GUARANTEE += "coordinator sees every vote"
NO_GUARANTEE = "none: nothing is proved of this recommender here; the coordinator sees every vote"


_WORST = frozenset(column.name for column in RECORD_COLUMNS if column.average is Average.WORST)


def record(run: OnlineResult) -> dict[str, Any]:
    """Return a run's result: of its client, or the means over its clients."""
    rows = [client_record(run, client) for client in run.clients]
    total, scenario, lying = sum_of(run), run.scenario, dict[str, Any]()
    if scenario.malicious is not None:
        lying = {"malicious": scenario.malicious, "attack": scenario.attack or UNTARGETED, "liars": lies_of(run.world)}
    return {
        "recommender": run.scenario.recommender,
        "trust_model": TRUST_CURATOR,
        "guarantee": NO_GUARANTEE if total is None else GUARANTEE,
        # The theorems compare what is recommended with and without one voter
        "neighbours": None if total is None else ADD_REMOVE,
        "delta": None if total is None else 0.0,
        "clients": len(rows),
        **{name: _joined(name, [row[name] for row in rows]) for name in rows[0] if name not in ("client", "seconds")},
        **({} if run.scenario.ratings is None else lines_skipped(run.scenario, read_for(run.scenario))),
        **lying,
        "voter_epsilon": total,
        "voter_loss": _voter_loss(run),
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
    world, served, promise = client.world, client.served, client.promise
    covered, largest = privacy_losses(client)
    peers = world.peer[served.electors]
    shape = world.shape(promise.peers)
    honest = honest_peers(run.scenario, promise.peers, world.peers)
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


def _voter_loss(run: OnlineResult) -> float | str | None:
    """Return the largest loss of a voter in all services of this run together: their likelihoods multiply."""
    total = np.zeros(run.world.voters.users)
    for client in run.clients:
        total[client.served.electors] += client.served.exposure
    return finite(float(np.abs(total).max()))


def digest(run: OnlineResult) -> str:
    """Return SHA-256 of all recommendations and answers: equal for the same seed on every layout."""
    hasher = hashlib.sha256()
    for client in run.clients:
        hasher.update(client.served.chosen.tobytes() + client.served.liked.tobytes())
    return hasher.hexdigest()


def tables_of(run: OnlineResult) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's folder by their names: clients; their rounds; and their voters."""

    def of_clients(columns: Callable[[ClientWorld, Served], dict[str, Any]]) -> pd.DataFrame:
        parts = (pd.DataFrame({"client": one.world.name, **columns(one.world, one.served)}) for one in run.clients)
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


def _joined(name: str, values: list[Any]) -> Any:
    """Return what a record says of several clients: the largest of what is guaranteed, else the mean."""
    if name not in _WORST or None in values:
        return joined(values)
    return finite(max(math.inf if value == "inf" else value for value in values))


def serve_seed(scenario: OnlineScenario, running: Running) -> Record:
    """Serve the clients of one seed."""
    world = build_world(scenario)
    stored_clients = None if running.out is None else KeptClients(running.out, scenario.seed)
    if stored_clients:
        stored_clients.check(running.console)
    rounds = sum(client.rounds for client in world.clients)
    with running.progress(rounds, scenario.seed, "rounds over", "rounds") as over:
        run = run_online(
            world.scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            world=world,
            over=over,
            stored_clients=stored_clients,
        )
    return Record(values=record(run), scenario=run.scenario.again(), tables=partial(tables_of, run))
