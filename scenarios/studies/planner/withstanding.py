"""How many users designs need if a share of them lies, and where no number is enough.

Promotions lower an attacked item's signal from ``delta`` to ``(1 - f) delta - f s(1)``, and users count by the square
of signals. Small pools of sign sensing cost users, and let each liar move less. Source: ours (spec, sections 5 and 6).
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import scipy
from rich import box
from rich.console import Console
from scipy.special import ndtr

from coordinator.protocol.budget import as_json, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import World
from coordinator.protocol.moments.sign_moments import sign_contrast
from scenarios.config.resolve import ResolvedRun, block_of
from scenarios.config.scenario import Scenario
from scenarios.show.tables import name_of, remark, titled
from scenarios.studies.planner.least_users import Candidate, Target, candidates
from scenarios.studies.planner.plan import DesignPlan
from scenarios.theory.emulated_runs import MOST_USERS
from scenarios.theory.liars import Influence, influence_of, universal_limit

POOLS = (1, 3, 10, 30, 100, 1000)  # numbers of pools that are tried for sign sensing; one item a pool is the most
THETAS = (0.25, 0.5, 1.0, 2.0)  # sensed items a user rated that are tried, on average, beside the design's own
NOT_KNOWN = "no formula for its liars"


def withstanding(made: DesignPlan, share: float, custom: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the designs of a plan that protect all a device holds need if a share of their users lies."""
    check_share(share)
    compared = zip(candidates(made.world, custom), made.rows, strict=True)
    able = [
        (candidate, row)
        for candidate, row in compared
        if candidate.protects_all and row["users"] and row["epsilon"] is not None
    ]
    most = max((row["epsilon"] for _, row in able), key=float, default=as_json(made.world.epsilon))
    limit = universal_limit(block_of(made.world), parse_epsilon(most))
    if able and made.target.success is not None and share >= limit:
        raise InputError(
            f"malicious is {share:g}; from {limit:.4g} on liars turn an item round at epsilon "
            f"{float(most):.4g}, whatever is asked and computed: f / (1 - f) = tanh(epsilon / 2) (w / N) "
            "gap; raise epsilon, or let an accuracy be enough"
        )
    rows = [changed_row for candidate, row in able for changed_row in _rows(candidate, row, made.target, share)]
    enough = [row for row in rows if row["users"] is not None]
    best = min(enough, key=lambda row: float(row["users"]), default=None)
    return {"malicious": share, "epsilon": most, "tipping_limit": limit, "designs": rows, "recommended": best}


def check_share(share: float) -> None:
    """Refuse a share of liars that is not above 0 and below 1."""
    if not 0 < share < 1:
        raise InputError(f"malicious is {share:g}; it must lie above 0 and below 1")


def _rows(candidate: Candidate, row: Mapping[str, Any], target: Target, share: float) -> list[dict[str, Any]]:
    """Return a row for each number of pools that a design can be asked in."""
    run = candidate.at(parse_epsilon(row["epsilon"]))
    influence, scenario = influence_of(run), run.scenario
    common = {
        "design": name_of(row),
        "epsilon": row["epsilon"],
        "pool_size": run.world.items,
        "theta": _theta(scenario),
    }
    common |= {"users_honest": row["users"], "tipping_share": None}
    if influence is None:
        return [common | {"users": None, "note": NOT_KNOWN}]
    rows = []
    for changed, cost, pooled in [*_pooled(run, influence), *_sensed(run, influence)]:
        users, note = _needed(pooled, run, target, share, row["users"] * cost)
        rows.append(common | {"tipping_share": pooled.tipping(1), **changed, "users": users, "note": note})
    return rows


def _theta(scenario: Scenario) -> float | None:
    """Return the sensed items a user rated, on average; None of designs that sense no items."""
    return float(scenario.value("theta")) if "theta" in type(scenario.settings).model_fields else None


Variant = tuple[dict[str, Any], float, Influence]  # What it changes, how many times as many users, and its liars


def _sensed(run: ResolvedRun, influence: Influence) -> Iterator[Variant]:
    """Yield other theta of a design that senses items, how many times as many users they cost, and their liars."""
    # Users count by the square of what an answer's noise is to the gap. Where fewer items are sensed an answer is less
    # often about several liked ones at once: it costs users, and a liar moves less of the gap.
    scenario = run.scenario
    if (theta := _theta(scenario)) is None:
        return
    questions = scenario.value("questions")
    most = run.world.rated / (questions if isinstance(questions, int) else 1)  # the sets must not overlap
    for other in (value for value in THETAS if value != theta and value < most):
        settings = scenario.settings.model_copy(update={"theta": other})
        sensing = scenario.model_copy(update={"settings": settings})
        changed = influence_of(replace(run, scenario=sensing))
        assert changed is not None  # as at its own theta
        yield {"theta": other}, (changed.noise / influence.noise) ** 2, changed


def _pooled(run: ResolvedRun, influence: Influence) -> Iterator[Variant]:
    """Yield pools' sizes, if there are any, how many times as many users they cost, and what liars do to them."""
    # An answer about a pool of M items has the contrast c(M), and each of the ceil(N/M) pools its share of the users.
    items, scenario = run.world.items, run.scenario
    if scenario.design != "sign" or scenario.value("vectors") != 1:
        yield {}, 1.0, influence
        return
    for size in sorted({-(-items // many) for many in POOLS if many <= items}, reverse=True):
        rise, pools = _contrast(run.world, size) / _contrast(run.world, items), -(-items // size)
        levels, deviation = influence.levels * rise, influence.deviation * math.sqrt(pools)
        pooled = Influence(levels=levels, deviation=deviation, shift=partial(_met, influence, items, size))
        yield {"pool_size": size}, pools / rise**2, pooled


def _met(influence: Influence, items: int, size: int, promoted: int) -> float:
    """Return s(r) in a pool, where a liar meets one of its items with some of the others: their number is random."""
    others = np.arange(min(promoted, size))
    chances = scipy.stats.hypergeom.pmf(others, items - 1, promoted - 1, size - 1)
    likely = chances > chances.max() * 1e-9
    return float(sum(p * influence.shift(1 + k) for p, k in zip(chances[likely], others[likely].tolist(), strict=True)))


def _contrast(world: World, pool: int) -> float:
    items, rated = world.items, world.rated
    return sign_contrast(pool, items=items, rated=rated, vectors=1, best_count=1, epsilon=world.epsilon)


def _needed(
    influence: Influence, run: ResolvedRun, target: Target, share: float, honest: float
) -> tuple[int | None, str]:
    """Return the users that meet a target although a share of them lies, or None and why there is no such number."""
    if target.success is not None:
        tipping = influence.tipping(1)
        if share >= tipping:
            return None, f"liars turn an item round from {tipping:.3g} on"
        left = 1 - share / (1 - share) * (1 - tipping) / tipping
        needed = honest / (1 - share) ** 2 / left**2
        return (math.ceil(needed), "") if needed <= MOST_USERS else (None, f"more than {MOST_USERS:.0e} users")
    if influence.tips_only:
        return None, NOT_KNOWN
    assert target.accuracy is not None  # one of the two is given
    items = run.world.items
    allowed, most = (1 - target.accuracy) * items, items // 2

    def wrong(users: float) -> float:
        spread = replace(influence, deviation=influence.deviation * math.sqrt(honest / users))
        count = spread.worst(share, 1, most)
        missed = ndtr(-(1 - share) * spread.gap / 2 / float(spread.deviation.mean()))
        return float(count * spread.passing(share, count, 1) + (items - count) * missed)

    influence = replace(influence, deviation=influence.deviation / math.sqrt(honest))
    users = honest / (1 - share) ** 2
    while wrong(users) > allowed:
        users *= 1.02
        if users > MOST_USERS:
            return None, f"liars turn more than {allowed:.3g} items round, however many users answer"
    return math.ceil(users), ""


def show_withstanding(console: Console, result: Mapping[str, Any]) -> None:
    """Print a table of what designs need with liars."""
    columns = ("design", "pool", "theta", "users, honest", "users", "tips an item")
    table = titled(f"with a share of {result['malicious']:g} of liars", *columns, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in result["designs"]:
        theta = "" if row["theta"] is None else f"{row['theta']:g}"
        share = "" if row["tipping_share"] is None else f"{row['tipping_share']:.3g}"
        users = f"{row['users']:,}" if row["users"] else "none"
        table.add_row(row["design"], str(row["pool_size"]), theta, f"{row['users_honest']:,}", users, share)
    console.print(table)
    advice = "none is enough"
    if best := result["recommended"]:
        theta = "" if best["theta"] is None else f" at theta {best['theta']:g}"
        epsilon = f" at epsilon {float(best['epsilon']):.4g}"
        advice = f"{best['design']} in pools of {best['pool_size']}{theta}: {best['users']:,} users{epsilon}"
    limit = f"of any mechanism at epsilon {float(result['epsilon']):.4g}: liars tip an item from"
    remark(console, f"{limit} {result['tipping_limit']:.4g} on", f"with liars: {advice}")
