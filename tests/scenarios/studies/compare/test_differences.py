"""Paired differences of rows: intervals that hold at once for a table, on the same people, and what the table says."""

import math
from typing import Any

import numpy as np
import pytest
from evidence import binomial_bounds, size
from scipy import special

from coordinator.protocol.arrays import Floats, Floats2
from scenarios.studies.compare.differences import Difference, _errors, at_once, differences
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores
from scenarios.studies.compare.summary import better_rows

TABLES, ROWS, SPLITS, PEOPLE, SAMPLES = size(60, 30), 20, 3, 80, 100


def table(coins: np.random.Generator) -> list[Difference]:
    """Differences of rows that are alike in truth, by people who differ, tastes they share, splits, and some coins."""
    tastes = coins.normal(size=(PEOPLE, 3)) @ coins.normal(size=(3, ROWS)) + coins.normal(size=(PEOPLE, ROWS))
    spread = np.where(np.arange(ROWS) < ROWS // 4, 2 * np.sqrt(SPLITS / PEOPLE), 0)  # of coins, for a quarter of rows
    splits = [tastes + coins.normal(size=tastes.shape) + spread * coins.normal(size=ROWS) for _ in range(SPLITS)]
    weights = coins.poisson(1.0, (SAMPLES, PEOPLE)).astype(np.float64)
    samples = [weights @ one / weights.sum(axis=1)[:, None] for one in splits]
    means = np.stack([one.mean(axis=0) for one in splits])
    return [Difference(means[:, row], np.stack([one[:, row] for one in samples])) for row in range(ROWS)]


def row_by_row(apart: list[Difference]) -> Floats2:
    """The twin: intervals of 95 % each, which hold one by one and not at once."""
    means, within, across, _ = _errors(apart)
    reach = special.ndtri(0.975) * np.sqrt(within + across)
    return np.stack([means, means - reach, means + reach], axis=1)


@pytest.mark.statistical
@pytest.mark.parametrize(("intervals", "hold"), [(at_once, True), (row_by_row, False)])
def test_intervals_hold_at_once(intervals: Any, hold: bool) -> None:
    """For tables of 20 rows; false alarm below 1e-4 where 95 % of tables hold. Row by row a third of them do."""
    coins, covered = np.random.default_rng(0), 0
    for _ in range(TABLES):
        _, low, high = intervals(table(coins)).T
        covered += bool(((low <= 0) & (high >= 0)).all())
    assert (covered >= binomial_bounds(TABLES, 0.95, false_alarm=2e-4)[0]) == hold


def reaches(*apart: Difference) -> Floats:
    means, low, high = at_once(apart).T
    assert means - low == pytest.approx(high - means)
    assert means == pytest.approx([difference.values.mean() for difference in apart])
    return np.asarray(high - means)


def test_a_single_interval_is_students_over_splits_or_over_people() -> None:
    """The simulated level is .05 +- .0034, which moves these by 4 and .7 % at most."""
    coins, splits = np.random.default_rng(0), np.array([0.1, 0.2, 0.4])
    people = coins.normal(size=SAMPLES)
    of_splits = special.stdtrit(2, 0.975) * splits.std(ddof=1) / math.sqrt(3)
    assert reaches(Difference(splits, np.full((3, SAMPLES), 0.3))) == pytest.approx([of_splits], rel=0.04)
    of_people = special.stdtrit(SAMPLES - 1, 0.975) * people.std(ddof=1)
    assert reaches(Difference(np.zeros(3), np.tile(people, (3, 1)))) == pytest.approx([of_people], rel=0.015)
    # Samples are the same in all splits, whose mean is what counts: what takes turns there is no error
    assert reaches(Difference(np.zeros(2), np.stack([people, -people]))) == pytest.approx([0], abs=1e-9)


def test_splits_that_agree_by_chance_count_as_the_others_do() -> None:
    """Two of equal variance over people, 1; over splits of .5 in the mean, as 1 and 0: errors are of 2 and of 1.5."""
    people = np.random.default_rng(0).normal(size=SAMPLES)
    people /= people.std(ddof=1)
    samples, splits = np.tile(people, (3, 1)), np.array([-1.0, 0.0, 1.0]) * math.sqrt(3)
    first, second = reaches(Difference(splits, samples), Difference(np.zeros(3), samples))
    degrees = [whole**2 / (1 / (SAMPLES - 1) + across**2 / 2) for whole, across in ((2, 1), (1.5, 0.5))]
    level = 2 * special.stdtr(degrees[0], -first / math.sqrt(2))
    assert 0.024 < level < 0.05  # of two intervals that depend on each other
    assert second == pytest.approx(special.stdtrit(degrees[1], 1 - level / 2) * math.sqrt(1.5))


def test_a_difference_that_never_varies_is_certain() -> None:
    same = Difference(np.full(3, 0.1), np.full((3, 5), 0.1))
    assert at_once([same, same]).tolist() == [[pytest.approx(0.1)] * 3] * 2


def scored(samples: Floats, *, people: int = 50, popular: Floats | None = None) -> ListScores:
    numbers = {name: tuple(samples.tolist()) for name in ("hit_rate", "ndcg", "recall")}
    means: dict[str, Any] = {name: float(samples.mean()) for name in numbers}
    beside = None if popular is None else {name: (float(popular.mean()), *popular.tolist()) for name in numbers}
    return ListScores(features=False, **means, coverage=0.5, people=people, resampled=numbers, popular=beside)


def group(trust_model: str, mechanism: str, epsilon: str, scores: list[ListScores], **key: Any) -> list[Any]:
    keys = [CompareKey(trust_model, mechanism, epsilon, 50, key.get("public", ""), seed) for seed in range(len(scores))]
    units = [CompareMeasurement(scores=(one,), simulated=None, seconds=1.0) for one in scores]
    return [*zip(keys, units, scores, strict=True)]


def test_a_row_stands_beside_popularity_and_the_row_above_it() -> None:
    coins = np.random.default_rng(0)
    base = [0.2 + 0.01 * coins.normal(size=40) for _ in range(3)]

    def shifted(by: float, **more: Any) -> list[ListScores]:
        return [scored(one + by + 0.001 * coins.normal(size=40), **more) for one in base]

    of_private = [scored(one - 0.1, people=9, popular=one - 0.12) for one in base]
    groups = [
        group("none", "popularity", "", [scored(one) for one in base]),
        group("none", "EASE", "", shifted(0.05)),
        group("local", "set", "1", shifted(-0.05)),
        group("local", "set", "4", shifted(0.0)),
        group("local", "pairs", "4", shifted(0.03)),
        group("local", "pairs", "1", [scored(one, people=7) for one in base]),
        group("two-tier", "EASE", "", of_private, public="0.2"),
        group("public-rates", "directions", "1", shifted(0.5)),
        group("two-tier", "posterior", "1", of_private, public="0.2"),
    ]
    plain = {key.seed: one for key, _, one in groups[0]}
    columns = differences(groups, plain)
    assert [one["above"] for one in columns] == [
        *(None, "popularity", None, None, "set", None, None, None),
        "EASE",  # which has no epsilon
    ]
    told = [one["to_popularity"] for one in columns]
    expected = [None, 0.05, -0.05, 0.0, 0.03, None, 0.02, None, 0.02]  # none where other people are evaluated
    assert told == [None if one is None else pytest.approx(one, abs=2e-3) for one in expected]
    assert columns[4]["to_above"] == pytest.approx(0.03, abs=2e-3)
    assert columns[4]["hit_rate_to_above_low"] > 0
    keys = [of[0][0] for of in groups]
    rows = [{**key._asdict(), "features": False, **one} for key, one in zip(keys, columns, strict=True)]
    for row in rows:
        row |= {name: float(row[name]) if row[name] else None for name in ("epsilon", "public")}
    first, *lines = better_rows(rows)
    assert "hold at once" in first
    private = "two-tier: EASE (20.0 % public); posterior at epsilon 1 (20.0 % public)"
    assert lines == ["none: EASE (50)", "local: pairs at epsilon 4 (50)", private]
    (nothing,) = better_rows([row for row in rows if row["mechanism"] == "set"])
    assert nothing.startswith("no row is shown to beat plain popularity's NDCG")
