"""Devices of a run and rows of the comparison rank alike: the same model, likes and features make the same lists."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from runs import planted_ratings, write_movielens

from actors.advice import public_order
from actors.device import Cohort
from actors.ratings import StoredRatings
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.scoring import TOP, _lists
from scenarios.studies.compare.worlds import world_of


@pytest.mark.parametrize("name", ["subset", "sign", "MaxSense", "set", "pairs"])
@pytest.mark.parametrize("featured", [False, True])
def test_a_row_gives_the_advice_of_a_run(name: str, featured: bool, tmp_path: Path) -> None:
    """With few likes in a few items lists differ from device to device; `pairs` asks about all items, or 20 of 30."""
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=150, items=30, each=12))
    movies = tmp_path / "movies.csv"
    lines = [f"{item + 1},Film {item} (19{50 + item}),{'Drama' if item % 3 else 'War|Drama'}" for item in range(30)]
    movies.write_text("movieId,title,genres\n" + "\n".join(lines) + "\n")
    wanted = Comparison(ratings=ratings, features=movies, like_from=4, likes=6)
    world, row = world_of(wanted, 0), registered_rows()[f"local: {name}"]
    assert isinstance(row, LocalRow)
    if name == "pairs":
        row = replace(row, settings=lambda *_: {"pair_items": 20})

    def asked() -> RowRequest:
        return RowRequest(settings=wanted, epsilon=Fraction(8), users=3000, public=0, seed=0)

    model, advised = row.model_of_answers(world, asked()), row.advise(world, asked())
    one = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)  # as `run_job` hands it to devices
    people = np.arange(world.people)
    devices = StoredRatings(rows=world.fold.train, user=people.astype(np.int32), rated_public=False)
    cohort = Cohort(devices, bytes(16), 0, people.size, None)
    lists = cohort.recommend(one, 0, people.size, TOP, world.features if featured else None)
    order = public_order(model.near, model.score).astype(np.int64)
    assert lists.tolist() == _lists(world, advised, people, order, features=featured).tolist()
    assert len({tuple(one) for one in lists.tolist()}) > people.size / 3
