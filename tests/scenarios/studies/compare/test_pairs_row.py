"""Pairs in a comparison: what devices tell of pairs and what is drawn from its law agree, weight by weight."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import planted_ratings, write_movielens
from statistical import normal_radius

from coordinator.protocol.arrays import Floats
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, DEVICES, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.worlds import FileWorld, world_of

SEEDS, ITEMS = 12, 14


@pytest.fixture
def world(tmp_path: Path) -> FileWorld:
    rows = planted_ratings(users=80, items=ITEMS, each=9)
    return world_of(Comparison(ratings=write_movielens(tmp_path / "ratings.csv", rows), like_from=4), 0)


def weights(world: FileWorld, epsilon: int, *, drawn: bool) -> Floats:
    """Weights of the item-item model, a row a seed."""
    row, wanted = registered_rows()["local: pairs"], Comparison(ratings=Path("none.csv"), likes=8)
    assert isinstance(row, LocalRow)
    told = []
    for seed in range(100 if drawn else 0, SEEDS + (100 if drawn else 0)):
        asked = RowRequest(settings=wanted, epsilon=Fraction(epsilon), users=20_000, public=0, seed=seed)
        near = (row.model_of_sample if drawn else row.model_of_answers)(world, asked).near
        assert near is not None
        told.append(near.weights.ravel())
    return np.array(told)


@pytest.mark.statistical
def test_the_law_of_pairs_is_that_of_devices(world: FileWorld) -> None:
    """Means over seeds, in standard errors that all weights share: false alarm 1e-6; the twin's epsilon is another."""
    answered, same, other = (weights(world, epsilon, drawn=law) for epsilon, law in ((4, False), (4, True), (2, True)))

    def doubt(drawn: Floats) -> float:
        spread = np.hypot(answered.std(axis=0, ddof=1), drawn.std(axis=0, ddof=1))
        spread = spread[spread > 0].mean()
        return float(np.abs(answered.mean(axis=0) - drawn.mean(axis=0)).max() / spread * np.sqrt(SEEDS))

    radius = 1.2 * normal_radius(1.0, comparisons=ITEMS**2)
    assert doubt(same) < radius
    assert doubt(other) > radius


def test_a_row_says_whether_devices_answered_and_scores_by_their_own_likes(world: FileWorld) -> None:
    row, others = registered_rows()["local: pairs"], world.matrix[:3].toarray()
    for devices, simulated in ((0, AGGREGATE), (1000, DEVICES)):
        wanted = Comparison(ratings=Path("none.csv"), likes=8, devices=devices)
        told = row.advise(world, RowRequest(settings=wanted, epsilon=None, users=1000, public=0, seed=0))
        assert told.simulated == simulated
        assert told.scorer is not None
        one, other = (told.scorer(own) for own in (world.matrix[:3], world.matrix[3:6]))
        assert one.shape == others.shape == (3, ITEMS)
        assert not np.array_equal(one, other)
