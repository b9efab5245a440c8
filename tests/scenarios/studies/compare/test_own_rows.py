"""Users' own mechanisms as rows of a comparison: as the command names them, refused where they lie, and known again."""

from __future__ import annotations

from pathlib import Path

import foreign_mechanisms as foreign
import numpy as np
import pytest
from runs import Command, planted_ratings, refused, write_movielens

import blindrec as face
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.scoring import own_rows
from scenarios.studies.compare.worlds import world_of

FEW = (
    "--backend",
    "inprocess",
    "--like-from",
    4,
    "--seeds",
    3,
    "--mechanisms",
    "popularity",
    "--trust-models",
    "none,local",
    "--epsilon",
    "2,4",
)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=50, items=30, each=16))


def test_own_mechanisms_stand_beside_the_others(blindrec: Command, ratings: Path) -> None:
    design = ("--design", "foreign_mechanisms:GRR,foreign_mechanisms:OUE", "--setting", "shift=1")
    result = blindrec("compare", ratings, *FEW, *design, "--scale", "1,4,100", "--devices", 200, "--json", "-").result
    rows = [row for row in result["rows"] if row["trust_model"] == "local"]
    names = list(dict.fromkeys(row["mechanism"] for row in rows))
    assert [name.partition("@")[0] for name in names] == ["GRR", "OUE"]
    assert {(row["epsilon"], row["users"], row["simulated"]) for row in rows} == {
        (epsilon, users, "devices")
        for epsilon in (2.0, 4.0)
        for users in (50, 200)  # no law for 5,000
    }
    told = [remark for remark in result["remarks"] if "@" in remark]
    assert told[0] == f"{names[0]} is foreign_mechanisms:GRR, shift 1; its channel was checked exactly"
    assert told[1].startswith(f"{names[0]} is not measured with 5,000 people: it has no law")


def test_from_python_a_mechanism_is_enough_and_other_settings_are_another_row(ratings: Path) -> None:
    told = face.compare(
        ratings,
        design=[foreign.GRR(), foreign.GRR(shift=1)],
        mechanisms="set",
        scale=1,
        epsilon=1,
        seeds=3,
        trust_models="local",
        progress=False,
    )
    assert len({row["mechanism"] for row in told["rows"]}) == 3
    with pytest.raises(face.errors.PolicyError, match=r"(?i)liar"):
        face.compare(ratings, design=foreign.Liar(), scale=1, epsilon=1, progress=False)


def test_items_are_ranked_by_what_its_class_estimates(ratings: Path) -> None:
    wanted = Comparison(ratings=ratings, like_from=4, design=(foreign.GRR(),))  # type: ignore[arg-type] # is read
    world, (row,) = world_of(wanted, 0), own_rows(wanted).values()
    told = row.advise(world, RowRequest(settings=wanted, epsilon=None, users=20_000, public=0, seed=0))
    train = world.fold.train
    signs = np.where(train.values, 1.0, -1.0) / train.degrees[train.owners]  # a random rated item, liked or not
    assert np.corrcoef(told.popularity, np.bincount(train.items, signs, world.items))[0, 1] > 0.9


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--design", "set"), "design is set, which needs no name to be compared"),
        (("--design", "nowhere:Mine"), "design nowhere:Mine cannot be imported"),
        (("--setting", "shift=1"), "setting shift is none of any design; give --design"),
        (
            ("--design", "foreign_mechanisms:OUE", "--setting", "shift=1"),
            "setting shift is none of foreign_mechanisms:OUE",
        ),
        (("--design", "foreign_mechanisms:Liar"), "mechanism Liar"),
        (("--design", "foreign_mechanisms:OUE", "--trust-models", "none"), "add that to --trust-models"),
        (("--design", "foreign_mechanisms:OUE", "--devices", 49), "of which at most 49 devices answer"),
    ],
)
def test_what_cannot_be_compared_is_told_in_a_line(
    blindrec: Command, ratings: Path, flags: tuple[object, ...], told: str
) -> None:
    assert told in refused(blindrec, "compare", ratings, *FEW, *flags)
