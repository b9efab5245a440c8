"""Planned beside measured share of items right of Pairwise-Preference, at settings drawn from a seed.

``python -m benchmarks.pair_predictions --settings 12 --seed N`` draws worlds, plans users for a share of items right,
and runs that many devices in this process, seed after seed, until the mean has a standard error of .006. A plan holds
if the accuracy that it says of its users lies within .03 of what is measured there, two standard errors let through.
"""

import math
from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Any

import numpy as np
import typer
from pydantic import ValidationError

from benchmarks.reference import JsonFile, write_figures
from coordinator.protocol.budget import as_float
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import BlockParameters, pair_agreement
from scenarios.backends.selection import InProcess
from scenarios.backends.session import silent
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import block_parameters, settle
from scenarios.families.main.run import run
from scenarios.theory.emulated_runs import Estimate
from scenarios.theory.predictors import predictor

LEAST_ITEMS, MOST_ITEMS, MOST_USERS = 30, 300, 1_000_000
TOLERANCE, ERROR = 0.03, 0.006
LEAST_RUNS, MOST_RUNS = 40, 120
TARGETS = (0.9, 0.8, 0.95)  # Shares of items right that users are planned for, one setting after the other
EARLIER: tuple[dict[str, Any], ...] = (
    {"items": 80, "rated": 80, "like": ((0.9, 0.2),), "epsilon": 1, "decoder": "centred", "users": 3000},
    {
        "items": 73,
        "rated": 61,
        "like": ((0.8, 0.2), (0.3, 0.9)),
        "class_shares": (0.4, 0.6),
        "epsilon": 3,
        "decoder": "paper",
        "users": 2755,
    },
)
"""Two settings of which a theory missed the share of items right by a tenth."""


def unit_users(parameters: BlockParameters, rates: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Return the users at which the weakest of L - 1 signals in centred answers is as strong as the noise."""
    sizes = parameters.cluster_sizes
    items, root = sizes.sum(), np.sqrt(sizes)
    weights = np.outer(sizes, sizes) / items**2
    strengths = np.sort(np.abs(np.linalg.eigvalsh(root[:, None] * (rates - (rates * weights).sum()) * root)))
    noise = items * (rates * (1 - rates) * weights).sum()
    return float(items * (items - 1) / 2 * noise / max(strengths[1], 1e-12) ** 2)


def draw_settings(seed: int, *, most_items: int = MOST_ITEMS, most_users: int = MOST_USERS) -> Iterator[Scenario]:
    """Draw settings without end: items, rated, tastes, shares, epsilon, the agreement and the decoder.

    Settings are drawn anew where eight times `unit_users` are more than ``most_users``, and those in which the planner
    sees no number of users up to that put 9 in 10 items right, which no run could contradict.
    """
    coins = np.random.default_rng(seed)
    while True:
        items = round(math.exp(coins.uniform(math.log(LEAST_ITEMS), math.log(most_items))))
        classes, clusters = int(coins.integers(1, 3)), int(coins.choice([2, 2, 2, 3]))
        tilt = coins.uniform(0.6, 1.4, clusters) if coins.random() < 0.5 else np.ones(clusters)
        one = round(coins.uniform(0.3, 0.7), 2)
        settings: dict[str, Any] = {
            "design": "pairwise",
            "items": items,
            "rated": max(2, round(items * math.exp(coins.uniform(math.log(0.1), 0)))),
            "like": tuple(map(tuple, coins.uniform(0.05, 0.95, (classes, clusters)).round(2).tolist())),
            "class_shares": (one, 1 - one) if classes == 2 else (1.0,),
            "cluster_shares": tuple((tilt / tilt.sum()).tolist()),
            "epsilon": (0.5, 1, 2, 3, 4, "inf")[coins.integers(6)],
            "agreement": ("rated-equal", "rated-equal", "equal", "positive")[coins.integers(4)],
            "rated_items": ("private", "public")[coins.integers(2)],
            "decoder": ("centred", "paper")[coins.integers(2)],
        }
        try:
            world = settle(Scenario.model_validate(settings).complete())
        except (ValidationError, InputError):
            continue
        parameters = block_parameters(world)
        rates = pair_agreement(
            parameters,
            agreement=world.value("agreement"),
            epsilon=as_float(world.epsilon),
            rated_public=world.settings.rated_public,
        )
        if 8 * unit_users(parameters, rates) <= most_users and (made := plan_of(world)) and made.value <= most_users:
            yield world


def plan_of(scenario: Scenario, target: float = TARGETS[0]) -> Estimate | None:
    """Return what a plan says of the users that put a share of the items right."""
    prediction = predictor(scenario)
    assert prediction is not None
    assert prediction.emulation is not None
    return prediction.emulation.needed(accuracy=target, success=None)


def measured(
    scenario: Scenario, *, error: float = ERROR, least: int = LEAST_RUNS, most: int = MOST_RUNS
) -> tuple[float, float, int]:
    """Run devices with seed after seed; return the mean share of items right, its standard error, and the runs."""
    shares: list[float] = []
    while len(shares) < least or (len(shares) < most and np.std(shares) > error * math.sqrt(len(shares))):
        done = run(
            scenario.model_copy(update={"seed": len(shares)}), InProcess(1), devices_per_actor=None, progress=silent
        )
        assert done.population.truth is not None
        shares.append(clustering_scores(done.outcome.model.cluster, done.population.truth).accuracy)
    return float(np.mean(shares)), float(np.std(shares, ddof=1) / math.sqrt(len(shares))), len(shares)


def compare(scenario: Scenario, target: float) -> dict[str, Any]:
    """Return one setting's plan for a share of items right, what devices measure there, and a verdict."""
    planned = plan_of(scenario, target)
    names = ("items", "rated", "like", "class_shares", "cluster_shares", "agreement", "rated_items", "decoder")
    row = {name: scenario.value(name) for name in names}
    row |= {"epsilon": "inf" if scenario.epsilon is None else float(scenario.epsilon), "target": target}
    if planned is None or planned.value > MOST_USERS:
        return row | {"verdict": "too many users"}
    users = math.ceil(planned.value)
    mean, error, runs = measured(scenario.model_copy(update={"users": users}))
    holds = abs(planned.accuracy - mean) <= TOLERANCE + 2 * error and abs(target - mean) <= TOLERANCE + 2 * error
    return row | {
        "users": users,
        "users_low": math.floor(planned.low),
        "users_high": None if planned.high is None else math.ceil(planned.high),
        "draws": planned.draws,
        "planned": planned.accuracy,
        "measured": mean,
        "error": error,
        "runs": runs,
        "verdict": "holds" if holds else "misses",
    }


def in_words(row: dict[str, Any]) -> str:
    """Return a comparison as a line."""
    likes = ";".join(",".join(f"{like:g}" for like in one) for one in row["like"])
    world = f"N {row['items']}, w {row['rated']}, like {likes}, epsilon {row['epsilon']}"
    design = f"{row['agreement']}, rated {row['rated_items']}, {row['decoder']}"
    if "users" not in row:
        return f"{row['target']:g}: {row['verdict']}; {world}, {design}"
    users = f"{row['users']:,} users [{row['users_low']:,}, {row['users_high'] or math.inf:,}]"
    result = f"{row['planned']:.4f} planned, {row['measured']:.4f} +- {row['error']:.4f} in {row['runs']} runs"
    return f"{row['target']:g}: {users}, {result}: {row['verdict']}; {world}, {design}"


def main(
    settings: Annotated[int, typer.Option(help="Settings to draw.")] = 12,
    seed: Annotated[int, typer.Option(help="What they are drawn from.")] = 0,
    json_file: JsonFile = None,
) -> None:
    """Compare plans with devices."""
    rows = []
    for place, scenario in enumerate(islice(draw_settings(seed), settings)):
        rows.append(compare(scenario, TARGETS[place % len(TARGETS)]))
        print(in_words(rows[-1]), flush=True)
    print({name: sum(row["verdict"] == name for row in rows) for name in ("holds", "misses", "too many users")})
    write_figures(json_file, rows)


if __name__ == "__main__":
    typer.run(main)
