"""What all seeds of a comparison say together: rows with intervals over seeds and people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import ndtri

from coordinator.protocol.arrays import Floats
from scenarios.compare.measuring import Key, Measured
from scenarios.compare.scoring import Scored
from scenarios.compare.settings import PUBLIC, Comparison
from scenarios.data.datasets import RatingTable
from scenarios.report.intervals import CONFIDENCE, mean_interval
from scenarios.report.tables import percent

REACHED = 0.95
"""Share of plain popularity's NDCG that a number of people is told for."""
RESAMPLED_NOTE = (
    "more people than the file has are drawn from it with replacement: the noise is what so many people would have, "
    "and nobody in the file is protected by it"
)


def summarize(wanted: Comparison, units: Mapping[Key, Measured], table: RatingTable) -> dict[str, Any]:
    """Return the result of a comparison as JSON values.

    Returns
    -------
    dict
        ``rows``: each with trust_model, mechanism, features, epsilon (None: there is none), users, public (share of
        people whose ratings are), simulated, hit_rate, ndcg and recall with their intervals, over_popularity (NDCG
        less plain popularity's, seed by seed), coverage, seeds, people and seconds; ``people``: how many reach 95 %
        of plain popularity; the file, its split and the public constants.
    """
    grouped: dict[tuple[Any, ...], list[tuple[Key, Measured, Scored]]] = defaultdict(list)
    for key, unit in units.items():
        for one in unit.scores:
            grouped[(*key[:-1], one.features)].append((key, unit, one))
    plain = {key.seed: one for key, _, one in grouped.get(_plain_of(units), ())}
    rows = [_row(of, plain) for of in grouped.values()]
    constants = {name: getattr(wanted, name) for name in PUBLIC}
    return {
        "ratings": wanted.ratings.name,
        "people_in_file": table.users,
        "items": table.count,
        "split_by": wanted.split_by,
        "held_out": wanted.held_out,
        "like_from": wanted.like_from,
        "public_constants": constants,
        "from_the_file": ["items"],
        "duplicates": wanted.duplicates,
        "min_ratings": wanted.min_ratings,
        "level": CONFIDENCE,
        "rows": rows,
        "people": _reached(rows),
        "remarks": [*([RESAMPLED_NOTE] if any(row["users"] > table.users for row in rows) else []), _taken(wanted)],
    }


def _taken(wanted: Comparison) -> str:
    """Return where the constants of mechanisms are from."""
    told = f", and w of set and pairs what {percent(wanted.counted)} of their devices tell" if wanted.counted else ""
    of_file = "of the file only its number of items is taken, but by rows that say so"
    return f"constants of mechanisms are declared{told}; {of_file}"


def _plain_of(units: Mapping[Key, Measured]) -> tuple[Any, ...]:
    found = [key for key in units if key[:2] == ("none", "popularity")]
    return (*found[0][:-1], False) if found else ()


def _row(of: Sequence[tuple[Key, Measured, Scored]], plain: Mapping[int, Scored]) -> dict[str, Any]:
    key, unit, first = of[0]
    scores = [one for *_, one in of]
    told: dict[str, Any] = {
        "trust_model": key.trust_model,
        "mechanism": key.mechanism,
        "features": first.features,
        "epsilon": _number(key.epsilon),
        "users": key.users,
        "public": float(key.public) if key.public else None,
        "simulated": unit.simulated,
    }
    for name in ("hit_rate", "ndcg", "recall"):
        told |= _named(name, [getattr(one, name) for one in scores], [one.resampled[name] for one in scores])
    pairs = [(one, plain[key.seed]) for key, _, one in of if key.seed in plain and plain[key.seed].people == one.people]
    if len(pairs) == len(of):
        told |= _named(
            "over_popularity",
            [one.ndcg - other.ndcg for one, other in pairs],
            [np.subtract(one.resampled["ndcg"], other.resampled["ndcg"]) for one, other in pairs],
            least=-1.0,
        )
    return {
        **told,
        "coverage": float(np.mean([one.coverage for one in scores])),
        "seeds": len(of),
        "people": first.people,
        "seconds": float(np.mean([unit.seconds for _, unit, _ in of])),
    }


def _named(
    name: str, values: Sequence[float], resampled: Sequence[Floats | Sequence[float]], least: float = 0.0
) -> dict[str, float]:
    mean, low, high = over_seeds_and_people(values, resampled)
    return {name: mean, f"{name}_low": max(low, least), f"{name}_high": min(high, 1.0)}


def over_seeds_and_people(
    values: Sequence[float], resampled: Sequence[Sequence[float] | Floats]
) -> tuple[float, float, float]:
    """Return a mean and its interval over seeds and people.

    The reaches of Student's interval over seeds and of the normal one over samples of people, each a mean over seeds,
    add up as the sides of a right triangle. A single seed has the second alone.

    Parameters
    ----------
    values : sequence of float
        One a seed.
    resampled : sequence of arrays of float
        One array a seed, the same samples of people in each.
    """
    mean, (_, low, _) = float(np.mean(values)), mean_interval(values)
    samples = np.mean([np.asarray(one) for one in resampled], axis=0)
    among_people = float(np.std(samples, ddof=1)) * float(ndtri((1 + CONFIDENCE) / 2))
    reach = math.hypot(0.0 if low is None else mean - low, among_people)
    return mean, mean - reach, mean + reach


def _number(epsilon: str) -> float | str | None:
    if not epsilon or epsilon == "inf":
        return epsilon or None
    over, _, under = epsilon.partition("/")
    return float(over) / float(under or 1)


def _reached(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how many people each mechanism needs for a share of plain popularity's NDCG, interpolated.

    ``users`` is None where it is not reached; ``at_most`` says that the fewest people measured reach it already.
    """
    plain = [row["ndcg"] for row in rows if row["mechanism"] == "popularity" and row["trust_model"] == "none"][:1]
    curves: dict[tuple[Any, ...], list[tuple[int, float]]] = defaultdict(list)
    for row in rows:
        if row["epsilon"] is not None and row["public"] is None:
            name = tuple(row[part] for part in ("trust_model", "mechanism", "features", "epsilon"))
            curves[name].append((row["users"], row["ndcg"]))
    names = ("trust_model", "mechanism", "features", "epsilon")
    return [
        {**dict(zip(names, name, strict=True)), "share": REACHED, **_crossing(sorted(curve), REACHED * plain[0])}
        for name, curve in curves.items()
        if plain
    ]


def _crossing(curve: Sequence[tuple[int, float]], height: float) -> dict[str, Any]:
    """Return where a curve first reaches a height, interpolated on the logarithm of people."""
    if curve[0][1] >= height:
        return {"users": curve[0][0], "at_most": True}
    for (few, low), (many, high) in pairwise(curve):
        if high >= height:
            along = (height - low) / (high - low)
            return {"users": round(math.exp(math.log(few) + along * math.log(many / few))), "at_most": False}
    return {"users": None, "at_most": False}
