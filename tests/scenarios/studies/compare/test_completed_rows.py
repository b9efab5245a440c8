"""Ratings completed in two tiers, as rows of a comparison: what they learn from, and whether they find taste."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runs import planted_ratings, write_movielens

from scenarios.families.two_tier.two_tier_scenario import needs_scale
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.public_users import CompletionRow, ratings_left
from scenarios.studies.compare.scoring import ListScores, score
from scenarios.studies.compare.worlds import FileWorld, table_of, world_of

ROWS = [row for row in registered_rows().values() if isinstance(row, CompletionRow)]


@pytest.fixture
def wanted(tmp_path: Path) -> Comparison:
    """Two tastes: the items of one are liked by one half of the people, and disliked by the other."""
    coins = np.random.default_rng(1)
    rows = [
        (person, int(item), 5.0 if item % 2 == person % 2 else 1.0)
        for person in range(60)
        for item in coins.choice(40, 20, replace=False)
    ]
    return Comparison(ratings=write_movielens(tmp_path / "ratings.csv", rows), like_from=4)


def asked(wanted: Comparison) -> RowRequest:
    return RowRequest(settings=wanted, epsilon=None, users=60, public=0.3, seed=0)


def scored(row: str, of: FileWorld, wanted: Comparison) -> ListScores:
    return score(of, registered_rows()[row].advise(of, asked(wanted)), asked(wanted), features=False)


def test_ratings_are_those_that_are_not_held_out(wanted: Comparison) -> None:
    of, table = world_of(wanted, 0), table_of(wanted)
    rows = ratings_left(table, of)
    assert np.array_equal(rows.items, of.fold.train.items)
    assert np.array_equal(rows.values >= 4, of.fold.train.values)
    assert rows.items.size < table.ratings


@pytest.mark.parametrize("row", [row.mechanism for row in ROWS])
def test_completed_ratings_find_taste_where_popularity_cannot(row: str, wanted: Comparison) -> None:
    of = world_of(wanted, 0)
    popular, better = (scored(f"two-tier: {name}", of, wanted) for name in ("popularity", row))
    assert popular.people == better.people == 42
    assert better.ndcg > 1.3 * popular.ndcg


def test_devices_are_asked_what_the_mechanism_asks(wanted: Comparison) -> None:
    of = world_of(wanted, 0)
    told = [row.advise(of, asked(wanted)) for row in ROWS]
    scores = [one.scorer(one.holds[one.people]) for one in told if one.scorer is not None]
    assert len(ROWS) == len(scores) == 3
    assert not any(np.allclose(scores[one], scores[other]) for one, other in ((0, 1), (0, 2), (1, 2)))


def test_files_without_ratings_have_no_such_rows(tmp_path: Path) -> None:
    lines = "".join(f"{user},{item}\n" for user, item, _ in planted_ratings(users=20, items=30, each=12))
    (tmp_path / "seen.csv").write_text(lines)
    table = table_of(Comparison(ratings=tmp_path / "seen.csv", columns=("1", "2")))
    assert not any(row.fits(table) for row in ROWS)
    continuous = replace(table, values=np.linspace(-10, 10, table.ratings))
    assert [row.how for row in ROWS if row.fits(continuous)] == [row.how for row in ROWS if not needs_scale(row.how)]
    assert any(needs_scale(row.how) for row in ROWS)
