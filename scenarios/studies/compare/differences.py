"""Differences of rows on the same people, with intervals that hold at once for all rows of a table."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.coins import derive
from coordinator.protocol.trust_models import PUBLIC_RATES
from scenarios.show.intervals import CONFIDENCE
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores

METRICS = ("ndcg", "hit_rate")
TIMES, BLOCK = 4_000, 500
"""Tables that are simulated, so many at a time; the confidence's own standard error is then 0.3 %."""
LEAST = 1e-9  # Variances of numbers that are stored with six digits, where these do not differ at all


class Difference(NamedTuple):
    """A difference of two rows."""

    values: Floats  # shape (splits,)
    samples: Floats2  # shape (splits, samples): among the same samples of people in all rows


def at_once(apart: Sequence[Difference], confidence: float = CONFIDENCE) -> Floats2:
    """Return the mean of each difference and its ends, shape (differences, 3), which all hold at once.

    The ends are a Student's quantile times a standard error, one level for all differences, so that each of them is as
    likely to miss: max-t (Westfall and Young 1993) in the balanced form of Beran 1988.
    """
    means, within, across, deviations = _errors(apart)
    # A mean D over S splits is off for two reasons. Which people are in the file: its variance v is that of D among
    # samples of people, whose deviations say how differences depend on each other, as the samples are the same ones.
    # And which coins fell: w, the variance over splits over S, with S - 1 degrees of freedom, two by default. Some of
    # a hundred differences have a w near 0 by chance, and Student's quantile for that is 44; so w counts as no less
    # than v times the mean ratio of w to v, and not more than one difference in c has c times that ratio.
    samples, splits = deviations.shape[1], apart[0].values.size
    people_vary = within > LEAST**2
    ratios = across[people_vary] / within[people_vary]
    floor = (float(ratios.mean()) if people_vary.any() else 0.0) * within
    # The mean ratio has as many degrees of freedom as that many differences have which make most of it
    pooled = (splits - 1) * (float(ratios.sum() ** 2 / np.square(ratios).sum()) if ratios.any() else 1.0)
    across = np.maximum(across, floor)
    whole = within + across
    errors = np.sqrt(whole)
    open_ends = errors > LEAST
    if not open_ends.any():
        return np.stack([means, means, means], axis=1)
    # By Satterthwaite, D / sqrt(v + w) has Student's law with these degrees of freedom. A hundred samples of people
    # do, as v has 99 of them then, and no quantile is taken among samples: what is simulated is normal with their
    # covariances.
    parts = within**2 / (samples - 1) + across**2 / max(pooled, 1.0)
    degrees = np.where(open_ends, whole**2 / np.where(open_ends, parts, 1), 1)
    level = _level(within[open_ends], across[open_ends], deviations[open_ends], confidence)
    reach = special.stdtrit(degrees, 1 - level / 2) * errors
    return np.stack([means, means - reach, means + reach], axis=1)


def _errors(differences: Sequence[Difference]) -> tuple[Floats, Floats, Floats, Floats2]:
    """Return means, their variances over people and over splits, and deviations of their samples."""
    values = np.stack([difference.values for difference in differences])
    samples = np.stack([difference.samples.mean(axis=0) for difference in differences])
    deviations = samples - samples.mean(axis=1, keepdims=True)
    splits = values.shape[1]
    across = values.var(axis=1, ddof=1) / splits if splits > 1 else np.zeros(len(values))
    return values.mean(axis=1), deviations.var(axis=1, ddof=1), across, deviations


def _level(within: Floats, across: Floats, deviations: Floats2, confidence: float) -> float:
    """Return how rarely one interval may miss, so that with this confidence none of all does."""
    coins = np.random.default_rng(int.from_bytes(derive(0, "differences at once")))
    whole = np.sqrt(within + across)[:, None]
    shares = deviations / whole / math.sqrt(deviations.shape[1] - 1)
    largest = np.empty(TIMES)
    for first in range(0, TIMES, BLOCK):  # hundreds of differences at once would take 10 MB and more
        people = coins.normal(size=(deviations.shape[1], BLOCK))
        errors = shares @ people + np.sqrt(across)[:, None] / whole * coins.normal(size=(len(shares), BLOCK))
        largest[first : first + BLOCK] = np.abs(errors).max(axis=0)
    return float(2 * special.ndtr(-np.quantile(largest, confidence)))


Group = Sequence[tuple[CompareKey, CompareMeasurement, ListScores]]
"""What every split measured of a row of a table."""


def differences(groups: Sequence[Group], plain: Mapping[int, ListScores]) -> list[dict[str, Any]]:
    """Return columns of each row about its differences from plain popularity, and from the row above it.

    That is the mechanism before it of the same trust model, at the same epsilon or without any, with the same people.
    """
    columns, above = [dict[str, Any]() for _ in groups], _above(groups)
    to_popularity = [{} if not is_beside_popularity(of) else _to(of, _beside(of, plain, popular=True)) for of in groups]
    to_above = [
        {} if index is None else _to(of, _beside(of, {key.seed: scores for key, _, scores in groups[index]}))
        for of, index in zip(groups, above, strict=True)
    ]
    for column, index, with_above in zip(columns, above, to_above, strict=True):
        column["above"] = groups[index][0][0].mechanism if index is not None and with_above else None
    for name, pairs in (("to_popularity", to_popularity), ("to_above", to_above)):
        for column, more in zip(columns, _columns(pairs, name), strict=True):
            column.update(more)
    return columns


def is_beside_popularity(of: Group) -> bool:
    """Return whether a row stands beside plain popularity: not where it is that, or no part of what is compared."""
    key, _, scores = of[0]
    return key.trust_model != PUBLIC_RATES and (key[:2] != ("none", "popularity") or scores.features)


def _above(groups: Sequence[Group]) -> list[int | None]:
    """Return the place of the row above each row."""
    places, last = list[int | None](), dict[tuple[Any, ...], list[int]]()
    for index, of in enumerate(groups):
        key, _, scores = of[0]
        before = last.setdefault((key.trust_model, key.users, key.public, scores.features), [])
        names = {other: groups[other][0][0] for other in before}
        others = [at for at, it in names.items() if it.mechanism != key.mechanism and it.epsilon in {"", key.epsilon}]
        places.append(others[-1] if others else None)
        before.append(index)
    return places


Numbers = Mapping[str, Sequence[float]]
"""Of each metric a mean, and those of the samples of people."""


def _numbers(scores: ListScores) -> Numbers:
    return {name: (getattr(scores, name), *scores.resampled[name]) for name in METRICS}


def _beside(of: Group, others: Mapping[int, ListScores], *, popular: bool = False) -> dict[int, Numbers]:
    """Return others' numbers by split, where they are about a row's people, or plain popularity's among these."""
    numbers = dict[int, Numbers]()
    for key, _, scores in of:
        other = others.get(key.seed)
        if popular and scores.popular is not None:
            numbers[key.seed] = scores.popular
        elif other is not None and other.people == scores.people:
            numbers[key.seed] = _numbers(other)
    return numbers


def _to(of: Group, others: Mapping[int, Numbers]) -> dict[str, Difference]:
    """Return a row's differences from others, by metric; none where a split or its people are other ones."""
    if any(key.seed not in others for key, *_ in of):
        return {}
    parts = {}
    for name in METRICS:
        gaps = np.array([np.subtract(_numbers(scores)[name], others[key.seed][name]) for key, _, scores in of])
        parts[name] = Difference(gaps[:, 0], gaps[:, 1:])
    return parts


def _columns(pairs: Sequence[Mapping[str, Difference]], name: str) -> list[dict[str, float | None]]:
    """Return the columns about rows' differences in all metrics; each column's intervals hold at once."""
    columns = [dict[str, float | None]() for _ in pairs]
    for metric in METRICS:
        column = name if metric == METRICS[0] else f"{metric}_{name}"
        places = [index for index, of in enumerate(pairs) if metric in of]
        ends = at_once([pairs[index][metric] for index in places]).tolist() if places else []
        by_place = dict(zip(places, ends, strict=True))
        for index, values in enumerate(columns):
            numbers = by_place.get(index, (None, None, None))
            values |= dict(zip((column, f"{column}_low", f"{column}_high"), numbers, strict=True))
    return columns
