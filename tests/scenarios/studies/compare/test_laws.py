"""Sums of devices' answers and sums that are drawn from their law agree, item by item, and a wrong law is found out."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import planted_ratings, write_movielens
from statistical import normal_radius

from coordinator.protocol.arrays import Floats
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.worlds import FileWorld, world_of

LOCAL = [row for row in registered_rows().values() if isinstance(row, LocalRow)]
SEEDS, USERS, ITEMS = 12, 6000, 30


@pytest.fixture(scope="module")
def of(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    path = tmp_path_factory.mktemp("file") / "ratings.csv"
    write_movielens(path, planted_ratings(users=60, items=ITEMS, each=12))
    return world_of(Comparison(ratings=path, like_from=4), 0)


def doubts(row: LocalRow, of: FileWorld, epsilon: Fraction, otherwise: Fraction) -> Floats:
    """The difference of both means over seeds, in standard errors, an item each."""
    wanted = Comparison(ratings=Path("none.csv"), likes=6)

    def asked(seed: int, privacy: Fraction) -> RowRequest:
        return RowRequest(settings=wanted, epsilon=privacy, users=USERS, public=0, seed=seed)

    answered = np.array([row.model_of_answers(of, asked(seed, epsilon)).score for seed in range(SEEDS)])
    drawn = np.array([row.model_of_sample(of, asked(100 + seed, otherwise)).score for seed in range(SEEDS)])
    spread = np.hypot(answered.std(axis=0, ddof=1), drawn.std(axis=0, ddof=1)).mean()
    found: Floats = (answered.mean(axis=0) - drawn.mean(axis=0)) / (spread / np.sqrt(SEEDS))
    return found


@pytest.mark.statistical
@pytest.mark.parametrize("row", LOCAL, ids=lambda row: row.mechanism)
def test_the_law_is_that_of_devices(row: LocalRow, of: FileWorld) -> None:
    """Fails with probability 1e-6 a mechanism, if the items' spreads, estimated together, are alike."""
    found = doubts(row, of, Fraction(4), Fraction(4))
    assert np.abs(found).max() < 1.2 * normal_radius(1.0, comparisons=ITEMS)


@pytest.mark.statistical
@pytest.mark.parametrize("row", [row for row in LOCAL if row.mechanism != "MaxSense"], ids=lambda row: row.mechanism)
def test_another_law_is_found_out(row: LocalRow, of: FileWorld) -> None:
    """The twin: likes are cut to another number, or counted of other people."""
    liked = of.fold.liked
    kept = liked.where(liked.owners % 3 > 0)
    train = of.fold.train.where(of.fold.train.owners % 3 > 0)
    other = replace(of, fold=replace(of.fold, liked=kept, train=train))
    wanted = Comparison(ratings=Path("none.csv"), likes=6)
    asked = [
        RowRequest(settings=wanted, epsilon=Fraction(4), users=USERS, public=0, seed=seed) for seed in range(SEEDS)
    ]
    answered = np.array([row.model_of_answers(of, one).score for one in asked])
    drawn = np.array([row.model_of_sample(other, one).score for one in asked])
    spread = np.hypot(answered.std(axis=0, ddof=1), drawn.std(axis=0, ddof=1)).mean()
    assert np.abs(answered.mean(axis=0) - drawn.mean(axis=0)).max() > 1.2 * normal_radius(
        spread / np.sqrt(SEEDS), comparisons=ITEMS
    )
