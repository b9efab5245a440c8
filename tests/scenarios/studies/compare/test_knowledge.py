"""What rows know beyond their label: without privacy budget a row that is told nothing is worth what chance is."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import write_movielens
from statistical import normal_radius

from scenarios.studies.compare.comparison_settings import COORDINATOR, PUBLIC_RATES, Comparison
from scenarios.studies.compare.row import LearnedScores, Row, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.public_users import PublicModelRow, split_people
from scenarios.studies.compare.scoring import SERVED, score
from scenarios.studies.compare.worlds import FileWorld, world_of

SEEDS, PEOPLE, ITEMS, NOTHING = 30, 60, 300, Fraction(1, 1000)
ASKING = [row for row in registered_rows().values() if row.asks == {"epsilon", "scale"}]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A file whose items stand in the order of how many people like them, so that even this order would tell much."""
    coins, often = np.random.default_rng(5), 1 / np.arange(1, ITEMS + 1)
    rows = [
        (user, int(item), 5.0)
        for user in range(PEOPLE)
        for item in coins.choice(ITEMS, size=12, replace=False, p=often / often.sum())
    ]
    path = write_movielens(tmp_path_factory.mktemp("knows") / "ratings.csv", rows)
    return Comparison(ratings=path, like_from=4, likes=12, paired=20, top=20, co_liked=10)


def over_chance(row: Row, wanted: Comparison, users: int, devices: int) -> tuple[float, float]:
    """How much more than chance a row is worth that spends next to nothing, and its standard error over seeds."""
    told, chance = wanted.model_copy(update={"devices": devices}), registered_rows()["none: chance"]

    def worth(of: FileWorld, one: Row, seed: int) -> float:
        asked = RowRequest(settings=told, epsilon=NOTHING, users=users, public=0, seed=seed)
        return score(of, one.advise(of, asked), asked, features=False).ndcg

    worlds = [world_of(told, 0)] * SEEDS
    gaps = np.array([worth(of, row, seed) - worth(of, chance, seed) for seed, of in enumerate(worlds)])
    return float(gaps.mean()), float(gaps.std(ddof=1)) / np.sqrt(SEEDS)


@pytest.mark.statistical
@pytest.mark.parametrize("devices", [0, 10_000], ids=["drawn", "answered"])
@pytest.mark.parametrize("row", ASKING, ids=lambda row: f"{row.trust_model}: {row.mechanism}")
def test_a_row_that_is_told_nothing_is_worth_what_chance_is(row: Row, devices: int, wanted: Comparison) -> None:
    """False alarm 1e-6 a row. The twin: the row with public totals knows what is popular, whatever devices tell."""
    gap, error = over_chance(row, wanted, PEOPLE * 2, devices)
    assert (gap > normal_radius(error)) == (row.trust_model == PUBLIC_RATES)


@pytest.mark.parametrize(
    "row", [row for row in registered_rows().values() if isinstance(row, PublicModelRow)], ids=lambda row: row.mechanism
)
def test_what_is_learned_from_public_people_knows_nothing_of_others(row: Row, wanted: Comparison) -> None:
    asked = RowRequest(settings=wanted, epsilon=None, users=PEOPLE, public=0.2, seed=0)
    of = world_of(wanted, 0)
    public, private = split_people(of, asked)
    matrices, own = [of.matrix.copy(), of.matrix.copy()], of.matrix[private]
    for changed, people in zip(matrices, (private, public), strict=True):
        changed.data[np.isin(np.repeat(np.arange(PEOPLE), np.diff(changed.indptr)), people)] = 0
        changed.eliminate_zeros()
    told = [row.advise(replace(of, matrix=matrix), asked) for matrix in (of.matrix, *matrices)]

    def scores(advised: LearnedScores) -> np.ndarray:
        return advised.popularity if advised.scorer is None else np.asarray(advised.scorer(own))

    np.testing.assert_array_equal(scores(told[0]), scores(told[1]))
    assert not np.array_equal(scores(told[0]), scores(told[2]))


def test_equal_items_are_not_taken_in_the_order_of_the_file(wanted: Comparison) -> None:
    asked = [RowRequest(settings=wanted, epsilon=None, users=9, public=0, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (one.ranked(np.repeat([1.0, 2.0], 50)).tolist() for one in asked)
    assert first == again != other
    assert sorted(first[:50]) == list(range(50, 100)) != first[:50]


def test_every_row_stands_in_the_page_that_tells_what_it_knows() -> None:
    page = (Path(__file__).parents[4] / "docs" / "worth.md").read_text(encoding="utf-8")
    section = page.partition("## What each row knows")[2].partition("\n## ")[0]
    listed = {
        (model.strip(), name.strip())
        for line in section.splitlines()
        if line.startswith("| `")
        for model, names in [line.replace("`", "").strip("|").split("|")[:2]]
        for name in names.split(";")
    }
    assert listed == {(row.trust_model, row.mechanism) for row in registered_rows().values()} | {("none", "ALS")} | {
        (COORDINATOR, name) for name in SERVED
    }
