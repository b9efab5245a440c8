"""What each adversary does to a recommender, measured beside the bound: rows that the command line prints."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in
from scenarios.given.settings import validated
from scenarios.online.adversaries import (
    ChainStep,
    claim_1,
    halving_world,
    measure,
    slow_halving_world,
    theorem_15_chain,
)
from scenarios.online.config import OnlineScenario
from scenarios.online.loss_bounds import loss_bound, loss_lower_bound, slow_halving_loss
from scenarios.online.privacy_bounds import epsilon_needed, epsilon_proved
from scenarios.online.run import run_online
from scenarios.online.worlds import OnlineWorld
from scenarios.places.session import Backend
from scenarios.report.printing import text_of


def show_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as a table that stands on its side: names down, a column a row; what does not apply is left out.

    Rows for which a line has no room stand in a table of their own below.
    """
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    words = [name.replace("_", " ") for name in names]
    columns = [["" if row[name] is None else text_of(row[name]) for name in names] for row in rows]
    frame = len(" │ │")
    while columns:
        room, shown = console.width - max(map(len, words)) - frame, 0
        while shown < len(columns) and (room := room - max(map(len, columns[shown])) - len(" │ ")) >= 0:
            shown += 1
        beside, columns = columns[: shown or 1], columns[shown or 1 :]
        table = Table(title=Text(title), title_justify="left", show_header=False)
        for cells in zip(words, *beside, strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)


Row = dict[str, Any]
Adversary = Callable[[OnlineScenario, int, Backend], Row]


def halving(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:
    """Return Theorem 6's adversary against one recommender: loss over seeds beside what no algorithm avoids."""
    bound = loss_lower_bound(
        scenario.rounds or 0, scenario.objects, scenario.voters or 0, scenario.peers or 0, scenario.radius or 0
    )
    return _loss_row(scenario, seeds, session, halving_world, {"no_algorithm_expects_less": bound})


def slow_halving(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:
    """Return slow halving against one recommender: loss over seeds beside ``B log2(N / P)``."""
    about = slow_halving_loss(scenario.recommender, scenario.voters or 0, scenario.peers or 0, 0, scenario.radius or 0)
    return _loss_row(scenario, seeds, session, slow_halving_world, {"strikes_times_halvings": about})


def _loss_row(
    scenario: OnlineScenario, seeds: int, session: Backend, build: Callable[[OnlineScenario], OnlineWorld], bound: Row
) -> Row:
    losses, kicked = [], 0
    for seed in range(scenario.seed, scenario.seed + seeds):
        world = build(scenario.model_copy(update={"seed": seed}))
        client = run_online(world.scenario, session, world=world).clients[0]
        losses.append(client.served.loss)
        kicked += int(np.count_nonzero(~client.served.alive & client.world.peer))
    client_world = client.world
    return {
        "recommender": scenario.recommender,
        "rounds": client_world.rounds,
        "loss": float(np.mean(losses)),
        "loss_error": float(np.std(losses, ddof=1)) / math.sqrt(seeds) if seeds > 1 else None,
        **bound,
        "loss_bound": loss_bound(
            scenario.recommender,
            rounds=client_world.rounds,
            objects=client_world.objects,
            voters=client_world.voters,
            peers=client_world.peers,
            diversity=client_world.diversity,
            radius=client_world.radius,
        ),
        "seeds": seeds,
        "peers_kicked": kicked,
    }


def chain_1(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:  # noqa: ARG001 (an adversary like the others)
    """Return Claim 1's chain of adjacent patterns against one recommender, D = R = 0."""
    rounds, peers = scenario.rounds or 0, scenario.peers or 0
    steps = claim_1(rounds, peers, recommender=scenario.recommender, objects=scenario.objects)
    size = (rounds, scenario.objects, 2 * peers, peers)
    return {
        **_chain_row(scenario, steps),
        "log_of_rounds": math.log(rounds),
        "epsilon_needed": epsilon_needed(*size, 0, 0, loss_bound(scenario.recommender, *size)),
        "epsilon_proved": epsilon_proved(scenario.recommender, *size),
    }


def chain_15(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:  # noqa: ARG001 (an adversary like the others)
    """Return Theorem 15's chain against one recommender, and its random configuration's divergence over seeds."""
    rounds, peers = scenario.rounds or 0, scenario.peers or 0
    shape = (rounds, peers, scenario.diversity or 0, scenario.radius or 0)
    steps = theorem_15_chain(*shape, recommender=scenario.recommender, objects=scenario.objects)
    measurement = measure(scenario.recommender, *shape, range(scenario.seed, scenario.seed + seeds))
    return {
        **_chain_row(scenario, steps),
        "p_rec_total": sum(shape[2:]) * math.log(2 * rounds - 1),
        "loss": measurement.loss,
        "divergence": _finite(measurement.ratio),
        "divergence_error": _finite(measurement.ratio_error),
        "epsilon_implied": _finite(measurement.implied),
        "epsilon_at_least": measurement.paper,
        "epsilon_conjectured": measurement.conjectured,
        "epsilon_proved": measurement.proved,
        "seeds": seeds,
    }


def _chain_row(scenario: OnlineScenario, steps: list[ChainStep]) -> Row:
    largest = max(abs(step.ratio) for step in steps)
    return {
        "recommender": scenario.recommender,
        "steps": len(steps),
        "total": _finite(steps[-1].total),
        "largest_step": _finite(largest),
    }


def _finite(value: float) -> float | str | None:
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value


ADVERSARIES: dict[str, tuple[Adversary, dict[str, int], str]] = {
    "theorem-6": (
        halving,
        {"rounds": 500, "radius": 32, "diversity": 0},
        "R rounds in which nobody can know, then voters halve: what any algorithm loses",
    ),
    "slow-halving": (
        slow_halving,
        {"radius": 5, "diversity": 0},
        "every split repeated until the wrong half is out: B log2(N/P), which (L) cannot go below",
    ),
    "claim-1": (
        chain_1,
        {"peers": 10, "diversity": 0, "radius": 0},
        "P adjacent steps that must leak ln T in all (p-rec-sim)",
    ),
    "theorem-15": (
        chain_15,
        {"peers": 3, "diversity": 2, "radius": 1},
        "2P adjacent steps between two groups of peers; and their random configuration's divergence",
    ),
}
"""By name: the adversary, its own defaults, and a line about it; recommenders declare that they are compared in it."""


def rows_against(
    name: str, recommenders: tuple[str, ...] | None, options: Row, seeds: int, session: Backend
) -> list[Row]:
    """Return an adversary's rows, one a recommender."""
    if name not in ADVERSARIES:
        raise InputError(f"adversary is {name!r}; choose among {', '.join(ADVERSARIES)}")
    if seeds < 1:
        raise InputError(f"repeat is {seeds}; it must be at least 1")
    adversary, defaults, _ = ADVERSARIES[name]
    values = {**defaults, **{key: value for key, value in options.items() if value is not None}}
    return [
        adversary(validated(OnlineScenario, None, {**values, "recommender": recommender}), seeds, session)
        for recommender in recommenders or compared_in(name)
    ]
