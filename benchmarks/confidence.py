"""How often a run that promises all labels gets all of them right, over settings drawn at random.

``python -m benchmarks.confidence --settings 24 --runs 300 --seed 1`` draws settings of `--policy eliminate` from the
seed (N from 15 to 120, two and three clusters, skews to .1/.9, contrasts from .6/.4, one and two user classes,
MaxSense, plain and centred signs, epsilon from .5 to 4), conducts adaptive runs of each on emulated statistics
(``--devices``: by devices) and counts those that end with every label right. ``--anchor auto`` does so for anchor
sensing (N from 80 to 300, w / N from .05 to .4, epsilon from .5 to 3, mirrored classes and others, unequal shares),
beside the users that `blindrec plan` tells. Runs that the ``--json`` file already holds are not repeated.
"""

import json as jsons
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from scipy import stats

from benchmarks import anchor_tables
from coordinator.protocol.coins import derive
from coordinator.server.anchor.anchor_queries import AnchorSensing
from coordinator.server.moments.sign_moments import pair_contrast
from coordinator.server.rounds.rounds import Outcome
from coordinator.server.rounds.setting import Setting
from scenarios.backends.selection import InProcess
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import block_parameters, populate
from scenarios.families.main.run import run
from scenarios.studies.sweep.threshold import emulate
from scenarios.theory.predictors import users_of

MOST_USERS, MOST_DEVICES = 10**11, 10**8  # Number of emulated users and of devices; only those that are asked cost time
ANCHOR_USERS = 200_000  # Users of pairs at most, by their threshold, of settings of anchor sensing
LEVEL = 0.05  # Probability that correct code fails in any setting at any confidence (Bonferroni)


def settings(count: int, seed: int) -> list[dict[str, Any]]:
    """Return settings drawn at random, as values of a scenario.

    Designs, numbers of clusters and of user classes take turns, so that twelve settings have every combination; all
    else is drawn. Every cluster has a share of at least .1. Neighbouring levels, averaged over user classes, are at
    least .2 apart, and clusters have the same order in each class.
    """
    scenarios = []
    for place in range(count):
        coins = np.random.default_rng([seed, place])
        design = [{"design": "maxsense"}, {"design": "sign", "signs": "plain"}, {"design": "sign"}][place % 3]
        clusters, classes = 2 + place // 3 % 2, 1 + place // 6 % 2
        items = round(float(np.exp(coins.uniform(np.log(15), np.log(120)))))
        shares = 0.1 + (1 - 0.1 * clusters) * coins.dirichlet(np.full(clusters, 0.7))
        like, class_shares = _like(coins, clusters, classes)
        scenarios.append(
            {
                **design,
                "policy": "eliminate",
                "items": items,
                "rated": int(coins.integers(max(2, items // 10), items // 2, endpoint=True)),
                "like": like,
                "class_shares": class_shares,
                "cluster_shares": _rounded(shares),
                "epsilon": str(round(float(np.exp(coins.uniform(np.log(0.5), np.log(4)))), 2)),
            }
        )
    return scenarios


def anchor_settings(count: int, seed: int, learner: str) -> list[dict[str, Any]]:
    """Return settings of anchor sensing drawn at random, as values of a scenario.

    Every second one has mirrored classes; the others' two classes like clusters in opposite order, .4 apart each. All
    shares of classes and clusters are .25 to .75. Settings whose pairs stand out only after `ANCHOR_USERS` are drawn
    anew, since they would cost too much.
    """
    scenarios = list[dict[str, Any]]()
    for place in range(count):
        coins = np.random.default_rng([seed, place])
        while len(scenarios) == place:
            items = round(float(np.exp(coins.uniform(np.log(80), np.log(300)))))
            rated = max(2, round(items * coins.uniform(0.05, 0.4)))
            epsilon = round(float(np.exp(coins.uniform(np.log(0.5), np.log(3)))), 2)
            classes, clusters = (_rounded(np.array([share, 1 - share])) for share in coins.uniform(0.25, 0.75, 2))
            like = _crossed(coins, mirrored=place % 2 == 0)
            design = AnchorSensing(items=items, rated=rated)
            pool = design.pool(bytes(16)).size
            rates = 2 * np.array(like) - 1
            moments = np.einsum("k,ki,kj->ij", classes, rates, rates) * np.sqrt(np.outer(clusters, clusters)) * pool
            contrast = pair_contrast(pool, items=items, rated=rated, epsilon=Fraction(str(epsilon)))
            if pool / (contrast * np.linalg.eigvalsh(moments)[-1]) ** 2 <= ANCHOR_USERS:
                scenarios.append(
                    {
                        "design": "anchor",
                        "learner": learner,
                        "items": items,
                        "rated": rated,
                        "like": like,
                        "class_shares": classes,
                        "cluster_shares": clusters,
                        "epsilon": str(epsilon),
                    }
                )
    return scenarios


def _crossed(coins: np.random.Generator, *, mirrored: bool) -> tuple[tuple[float, ...], ...]:
    """Draw P(like) of two classes that like two clusters in opposite order."""
    while True:
        rows = np.sort(coins.uniform(0.05, 0.95, (2, 2)), axis=1).round(2)
        rows[1] = rows[1, ::-1]
        if mirrored:
            rows = np.array([[rows[0, 1], 1 - rows[0, 1]], [1 - rows[0, 1], rows[0, 1]]]).round(2)[::-1]
        if (np.abs(rows[:, 1] - rows[:, 0]) >= 0.4).all():
            return tuple(tuple(row) for row in rows.tolist())


def _rounded(shares: np.ndarray[Any, Any]) -> tuple[float, ...]:
    whole = np.round(shares, 2)
    whole[shares.argmax()] += 1 - whole.sum()
    return tuple(whole.round(2).tolist())


def _like(coins: np.random.Generator, clusters: int, classes: int) -> tuple[tuple[tuple[float, ...], ...], Any]:
    """Draw P(like) and the class shares, until neighbouring clusters are far enough apart."""
    while True:
        rows = np.sort(coins.uniform(0.05, 0.95, (classes, clusters)), axis=1)[:, ::-1].round(2)
        shares = _rounded(coins.dirichlet(np.full(classes, 3.0))) if classes > 1 else (1.0,)
        gaps = -np.diff(np.array(shares) @ rows)
        if gaps.min() >= 0.2 and min(shares) >= 0.2:
            return tuple(tuple(row) for row in rows.tolist()), shares


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of one run."""

    right: bool
    users: int
    rounds: int
    promised: float


def ended(values: dict[str, Any], *, confidence: float, seed: int, devices: bool = False) -> Ended:
    """Conduct one run; ``promised`` is the sum of all doubts at its end."""
    users = MOST_DEVICES if devices or values["design"] == "anchor" else MOST_USERS
    scenario = Scenario.model_validate({**values, "users": users, "confidence": confidence, "seed": seed})
    if values["design"] == "anchor" and not devices:
        return _anchored(scenario)
    population = populate(scenario)
    outcome: Outcome = run(scenario, InProcess(1), population=population).outcome if devices else emulate(population)
    assert population.truth is not None
    assert outcome.posterior is not None
    if values["design"] == "anchor":  # its clusters have no order
        right = clustering_scores(outcome.model.cluster, population.truth).exact
        right &= bool(outcome.posterior.decided(1 - confidence).all())
    else:
        right = bool((outcome.model.cluster == population.truth).all())
    state = outcome.state
    return Ended(right, state.answers_asked, len(state.asked), float(outcome.posterior.doubt.sum()))


def _anchored(scenario: Scenario) -> Ended:
    """Conduct one run of anchor sensing on sums that have the devices' own distribution; see `anchor_tables`."""
    scenario = scenario.complete()
    of, design = block_parameters(scenario), RunSpec(scenario).design
    assert isinstance(design, AnchorSensing)
    crowd = anchor_tables.Crowd(
        items=design.items,
        rated=design.rated,
        like=of.like,
        shares=of.class_shares,
        seed=scenario.seed,
        sizes=of.cluster_sizes,
    )
    setting = Setting(
        design=design,
        epsilon=scenario.epsilon,
        public_seed=derive(scenario.seed, "public"),
        clusters=2,
        confidence=scenario.confidence,
    )
    one = anchor_tables.run_once(crowd, setting, most=MOST_DEVICES)
    return Ended(one.wrong == 0 and one.undecided == 0, one.users, one.rounds, one.promised)


def _planned(values: dict[str, Any], confidence: float) -> float:
    """Return the users that `blindrec plan` tells for a setting of anchor sensing."""
    scenario = Scenario.model_validate({**values, "users": MOST_DEVICES, "confidence": confidence})
    return users_of(scenario.complete(), 1 - confidence)


def lowest(right: int, runs: int, level: float) -> float:
    """Return the upper Clopper-Pearson bound of the share of right runs; below nominal the promise is broken."""
    return float(stats.beta.ppf(1 - level, right + 1, runs - right)) if right < runs else 1.0


def in_words(values: dict[str, Any]) -> str:
    """Return a setting in one line."""
    like = ";".join(",".join(f"{b:g}" for b in row) for row in values["like"])
    name = values["design"] + (" plain" if values.get("signs") == "plain" else "")
    shares = ",".join(f"{share:g}" for share in values["cluster_shares"])
    classes = ",".join(f"{share:g}" for share in values["class_shares"])
    return (
        f"{name:10} N={values['items']:<3} w={values['rated']:<2} eps={values['epsilon']:<4} shares={shares:11} "
        f"like={like}" + (f" classes={classes}" if len(values["like"]) > 1 else "")
    )


def main(
    settings_count: Annotated[int, typer.Option("--settings", help="Settings to draw.")] = 24,
    runs: Annotated[int, typer.Option(help="Runs of each at each confidence.")] = 300,
    seed: Annotated[int, typer.Option(help="What settings are drawn from.")] = 1,
    confidence: Annotated[str, typer.Option(help="Confidences, by ','.")] = "0.9,0.99",
    only: Annotated[str, typer.Option(help="Places of settings to run, by ',' [all].")] = "",
    devices: Annotated[bool, typer.Option(help="By devices in this process, not emulated.")] = False,
    anchor: Annotated[
        str, typer.Option(help="Anchor sensing by this learner instead: auto, mirrored, tables, mixed.")
    ] = "",
    json: Annotated[Path | None, typer.Option(help="File of all runs: read where it is there, and written.")] = None,
) -> None:
    """Print, for each setting and confidence, the share of runs with all labels right."""
    results: dict[str, list[Any]] = jsons.loads(json.read_text()) if json and json.exists() else {}
    nominal = [float(part) for part in confidence.split(",")]
    scenarios = anchor_settings(settings_count, seed, anchor) if anchor else settings(settings_count, seed)
    places = [int(part) for part in only.split(",")] if only else range(settings_count)
    level, broken = LEVEL / (len(places) * len(nominal)), 0
    totals = dict.fromkeys(nominal, 0)
    begin = time.process_time()
    for place in places:
        print(f"{place:2} {in_words(scenarios[place])}", flush=True)
        for target in nominal:
            some = results.setdefault(
                f"{'devices ' if devices else ''}{anchor and anchor + ' '}{seed}/{place}/{target}", []
            )
            for turn in range(len(some), runs):
                one = ended(scenarios[place], confidence=target, seed=turn, devices=devices)
                some.append([one.right, one.users, one.rounds, one.promised])
            planned = f", planned {_planned(scenarios[place], target):.0f}" if anchor else ""
            if json:
                json.write_text(jsons.dumps(results))
            table = np.array(some[:runs], float)
            right = int(table[:, 0].sum())
            bound = lowest(right, runs, level)
            broken += bound < target
            totals[target] += right
            _, users, rounds, left = table.mean(axis=0)
            print(
                f"     {target}: {right}/{runs} = {right / runs:.3f}, at most {bound:.3f}"
                f"{' BROKEN' if bound < target else ''}; users {users:.0f}{planned}, "
                f"rounds {rounds:.1f}, doubt left {left:.4f}",
                flush=True,
            )
    for target in nominal:
        count = runs * len(places)
        share = totals[target] / count
        print(f"{target}: pooled {share:.4f}, standard error {np.sqrt(target * (1 - target) / count):.4f}")
    print(f"{broken} settings below nominal, all tests together at {LEVEL}; {time.process_time() - begin:.0f} s")


if __name__ == "__main__":
    typer.run(main)
