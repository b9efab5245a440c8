"""A library's matrix factorisation in a comparison, as a check from outside on the models of the house."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from runs import write_movielens

from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.worlds import world_of

pytest.importorskip("implicit", reason="the package implicit is not installed; it is the extra `check`")


def test_a_librarys_factors_find_what_the_houses_models_find(tmp_path: Path) -> None:
    """Four tastes in ten items each of forty: models of items tell them apart, and popularity does not."""
    coins = np.random.default_rng(2)
    rows = [
        (person, int(item), 5.0)
        for person in range(120)
        for item in 10 * (person % 4) + coins.choice(10, 7, replace=False)
    ]
    path = write_movielens(tmp_path / "ratings.csv", rows)
    wanted = Comparison(ratings=path, like_from=4, rank=4, ridge=5, neighbours=9)
    of, asked = world_of(wanted, 0), RowRequest(settings=wanted, epsilon=None, users=120, public=0, seed=0)
    worth = {
        name: score(of, registered_rows()[f"none: {name}"].advise(of, asked), asked, features=False).ndcg
        for name in ("popularity", "SVD", "EASE", "ALS")
    }
    assert worth["ALS"] > 2 * worth["popularity"]
    assert worth["ALS"] == pytest.approx(worth["SVD"], abs=0.1)
    assert worth["ALS"] == pytest.approx(worth["EASE"], abs=0.1)
    again = score(of, registered_rows()["none: ALS"].advise(of, asked), asked, features=False).ndcg
    assert again == worth["ALS"]
