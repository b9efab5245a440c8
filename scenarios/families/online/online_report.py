"""What is reported of an online run: its record, every column declared once, its tables, and one seed."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coordinator.protocol.budget import ADD_REMOVE, Epsilon, add, as_json
from coordinator.protocol.trust_models import CURATOR
from coordinator.server.online.service import Served
from scenarios.config.scenario import UNTARGETED
from scenarios.data.datasets import lines_skipped, read_for
from scenarios.experiment.common_columns import (
    ACTORS,
    ATTACK,
    DELTA,
    GUARANTEE,
    LEFT_OUT_OF_FILE,
    MALICIOUS,
    NEIGHBOURS,
    REFUSED,
    ROUNDS,
    SECONDS,
    SEED,
    TRUST_MODEL,
    WHERE,
)
from scenarios.experiment.experiment import Record, Running
from scenarios.families.online.online_bounds import epsilon_exact, epsilon_needed, loss_bound
from scenarios.families.online.online_run import ClientRun, KeptClients, OnlineResult, build_world, cost, run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import ClientWorld, lies_of
from scenarios.show.columns import Average, Column, finite, joined, read_by, record_of

if TYPE_CHECKING:
    import pandas as pd

_PROVED = "epsilon-differential privacy of all recommendations to one client, one voter added or removed; the "
_PROVED += "coordinator sees every vote"
_UNPROVED = "none: nothing is proved of this recommender here; the coordinator sees every vote"


def privacy_losses(run: ClientRun) -> tuple[float, float]:
    """Return the run's largest exact privacy loss: of voters that are no peers, and of all voters [nats]."""
    # Where the client has exactly P peers the bound speaks of the others: without a peer there are fewer than P.
    size = np.abs(run.served.exposure)
    if not size.size or np.isnan(size).any():
        return math.nan, math.nan
    spare = run.world.peers > run.facts.peers
    covered = size if spare else size[~run.world.peer[run.served.electors]]
    return float(covered.max(initial=0.0)), float(size.max())


def digest(run: OnlineResult) -> str:
    """Return SHA-256 of all recommendations and answers: equal for the same seed on every layout."""
    hasher = hashlib.sha256()
    for client in run.clients:
        hasher.update(client.served.chosen.tobytes() + client.served.liked.tobytes())
    return hasher.hexdigest()


COLUMNS: tuple[Column[OnlineResult], ...] = (
    read_by(SEED, lambda run: run.scenario.seed),
    read_by(TRUST_MODEL, lambda _: CURATOR),
    GUARANTEE,
    NEIGHBOURS,
    DELTA,
    Column("clients", "clients", "clients that are served one after the other", value=lambda run: len(run.clients)),
    replace(ROUNDS, label="rounds T"),
    *LEFT_OUT_OF_FILE,
    Column("skipped", "rounds skipped (client likes nothing)", "rounds in which the client likes no object"),
    Column("objects", "objects m", "objects of a round"),
    Column("voters", "voters N", "users whose votes are used"),
    replace(REFUSED, label="voters that stay away"),
    replace(MALICIOUS, label="share of voters that lie"),
    ATTACK,
    Column("liars", "voters that lie", "voters that lie", Average.MEAN),
    Column("peers", "peers P, promised", "voters that agree with the client as far as promised"),
    Column("peers_measured", "  as there are", "peers as there are in the data"),
    Column("diversity", "diversity D", "rounds in which several objects are liked"),
    Column("radius", "radius R", "rounds in which a peer errs"),
    Column("loss", "loss: disliked recommendations", "recommendations that the client dislikes", Average.MEAN),
    Column("loss_bound", "  its bound", "proved bound of the expected loss"),
    Column("loss_random", "  of random recommendations", "loss of random recommendations", Average.MEAN),
    Column("loss_share", "", "loss by the number of rounds", Average.MEAN, most=1),
    Column("epsilon_proved", "epsilon, proved [nats]", "epsilon as the paper proves it", Average.WORST),
    Column("epsilon_exact", "epsilon, exact worst case [nats]", "exact epsilon in the worst case", Average.WORST),
    Column(
        "epsilon_needed",
        "  any algorithm with that bound of the loss needs at least [nats]",
        "epsilon that any algorithm with this bound of the loss needs at least",
    ),
    Column(
        "privacy_loss_of_run",
        "exact privacy loss of this run [nats]",
        "exact privacy loss of a voter in this run",
        Average.WORST,
    ),
    Column("privacy_loss_of_peers", "  peers included", "the same with peers included", Average.WORST),
    Column(
        "voter_epsilon",
        "epsilon of a voter, all clients [nats]",
        "epsilon of a voter over all clients",
        Average.WORST,
        unless_one="clients",
    ),
    Column(
        "voter_loss",
        "exact loss of a voter, all clients [nats]",
        "exact privacy loss of a voter over all clients",
        Average.WORST,
        unless_one="clients",
    ),
    Column(
        "budget",
        "budget of a voter [nats]",
        "epsilon that a voter may spend",
        value=lambda run: None if run.scenario.budget is None else as_json(run.scenario.budget),
    ),
    Column("peers_alive", "peers alive at the end", "peers that still vote at the end", Average.MEAN),
    Column("survivors", "voters alive at the end", "voters that still vote at the end", Average.MEAN),
    Column("log_likelihood", "", "logarithm of the probability of these recommendations", Average.NOTHING),
    read_by(SECONDS, lambda run: run.seconds, average=Average.JOINED),
    Column(
        "recommendations_sha256",
        "SHA-256 of all recommendations",
        "digest of all recommendations",
        Average.NOTHING,
        value=digest,
    ),
    Column(
        "recommender", "", "algorithm by which the coordinator recommends", value=lambda run: run.scenario.recommender
    ),
    Column("peers_kicked", "", "peers that were struck out"),
    *WHERE,
    *ACTORS,
)
"""Columns of a record; what is proved or leaked counts by the largest of clients, and of seeds."""


_WORST = frozenset(column.name for column in COLUMNS if column.average is Average.WORST)


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
    parts = {
        "guarantee": _UNPROVED if total is None else _PROVED,
        # The theorems compare what is recommended with and without one voter
        "neighbours": None if total is None else ADD_REMOVE,
        "delta": None if total is None else 0.0,
        **{name: of_all(name) for name in rows[0] if name != "client"},
        **({} if run.scenario.ratings is None else lines_skipped(run.scenario, read_for(run.scenario))),
        **lying,
        "voter_epsilon": total,
        "voter_loss": finite(float(np.abs(losses).max())),
    }
    return record_of(COLUMNS, run, parts)


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
    rounds = sum(client.rounds for client in world.clients)
    with (
        KeptClients.checked(running.out, scenario.seed) as stored_clients,
        running.progress(rounds, scenario.seed, done="rounds over", unit="rounds") as progress,
    ):
        run = run_online(
            world.scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            world=world,
            progress=progress,
            stored_clients=stored_clients,
        )
    return Record(values=record(run), scenario=run.scenario.again(), tables=partial(tables_of, run))
