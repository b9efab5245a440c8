"""One more recommender is one more file: bounds, sweeps, figures, tables and help follow from what it declares."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from runs import planted_ratings, write_movielens

from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError
from coordinator.server.online import recommenders
from coordinator.server.online.recommenders import (
    bounded_names,
    compared_in,
    named_recommenders,
    recommender_of,
    still_names,
)
from scenarios.families.online.adversaries import ADVERSARIES
from scenarios.show.sweep_figures import look_of
from scenarios.studies.sweep.online_sweep import AXES, RATINGS, compared_on

TWELFTH = '''
"""The first object, always."""
import numpy as np
from coordinator.server.online.recommenders import RULES, NamedRecommender, Unweighted

class First(Unweighted):
    def chances(self, sums):
        return np.eye(sums.size)[0]

RECOMMENDERS = (
    NamedRecommender(
        name="first-object", about="ever the first; epsilon 0", build=lambda _: First(), limits=RULES["everybody"],
        proved_epsilon=lambda _: 0.0, compared=("rounds", "radius", "ratings", "theorem-6"),
    ),
)
'''
PRELUDE = """
import sys
from coordinator.server.online import recommenders
recommenders.__path__.append(sys.argv[1])
from scenarios import cli
for line in sys.stdin.read().splitlines():
    try:
        cli.main(line.split())
    except SystemExit as ended:
        assert not ended.code, (line, ended.code)
"""
SWEEP = "sweep online --backend inprocess --workers 1 --seeds 1"


@pytest.mark.thorough  # by default a mechanism of two tiers is three files more
@pytest.mark.slow
def test_a_twelfth_recommender_is_one_file(tmp_path: Path) -> None:
    """It stands in the help, runs, is swept where it says, and has a colour of its own."""
    room = tmp_path / "room"
    room.mkdir()
    (room / "first_object.py").write_text(TWELFTH)
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=24, items=90, each=60))
    told = "\n".join(
        [
            "online --help",
            f"online --backend inprocess --recommender first-object --rounds 30 --json {tmp_path}/one.json",
            f"adversary theorem-6 --rounds 60 --voters 16 --repeat 2 --json {tmp_path}/adversary.json",
            f"{SWEEP} --rounds 60 --voters 16 --axes rounds=60,radius=0 --out {tmp_path}/swept",
            f"{SWEEP} --ratings {ratings} --clients 2 --recommenders p-rec,first-object --out {tmp_path}/served",
        ]
    )
    command = [sys.executable, "-c", PRELUDE, str(room)]
    ended = subprocess.run(command, input=told, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert f"  {'first-object':23}ever the first; epsilon 0" in ended.stdout
    one = json.loads((tmp_path / "one.json").read_text())
    assert (one["recommender"], one["loss_bound"]) == ("first-object", None)
    assert (one["epsilon_proved"], one["epsilon_exact"]) == (0, 0)
    against = json.loads((tmp_path / "adversary.json").read_text())["rows"]
    assert [row["recommender"] for row in against] == [*compared_in("theorem-6"), "first-object"]
    drawn = pd.read_csv(tmp_path / "swept" / "figure.csv")
    table = pd.read_csv(tmp_path / "swept" / "table.csv")
    for axis in ("rounds", "radius"):
        assert list(dict.fromkeys(table[table["axis"] == axis]["recommender"])) == [*compared_on(axis), "first-object"]
        mine = drawn[(drawn["axis"] == axis) & (drawn["recommender"] == "first-object")]
        assert {"measured", "measured, halving"} == set(mine["kind"])
    served = pd.read_csv(tmp_path / "served" / "table.csv")
    assert list(served["recommender"]) == ["p-rec", "first-object"]
    assert (tmp_path / "served" / "figure.png").stat().st_size > 0


def test_a_module_that_declares_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "empty_room_module.py").write_text("")
    monkeypatch.setattr(recommenders, "__path__", [*recommenders.__path__, str(tmp_path)])
    with pytest.raises(RoomError, match=r"recommenders\.empty_room_module declares no RECOMMENDERS"):
        named_recommenders.__wrapped__()


def test_order_of_what_is_found() -> None:
    rivals = ("plurality", "multiplicative-weights", "dsybil", "naive", "random")
    ours = ("p-rec", "p-rec-sim", "p-rec-lean", "p-rec-sharp", "p-rec-wide", "p-rec-literal")
    assert tuple(named_recommenders()) == (*ours, *rivals)
    assert bounded_names() == ("p-rec", "p-rec-wide", "p-rec-lean", "p-rec-sharp", "p-rec-sim")
    assert still_names() == ("p-rec-sim",)
    with pytest.raises(InputError, match=r"recommender is 'best'; choose among p-rec, p-rec-sim, .*, naive, random"):
        recommender_of("best")


def test_recommenders_are_compared_in_what_there_is_and_everything_compares_some() -> None:
    known = {*AXES, *ADVERSARIES, RATINGS}
    assert {where for one in named_recommenders().values() for where in one.compared} == known


def test_what_is_declared_of_bounds_fits_together() -> None:
    for one in named_recommenders().values():
        assert one.weighting is not None or not (one.bounded or one.sharp or one.exact)
        assert set(one.exact) <= {"epsilon", "loss"}
        assert one.epsilon_of is None or named_recommenders()[one.epsilon_of].bounded


def test_every_recommender_has_a_look_of_its_own() -> None:
    assert len({(*look_of(name).values(),) for name in named_recommenders()}) == len(named_recommenders())
    assert look_of("") == {"color": "black"}


def test_looks_go_on_for_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    many = {f"number {place}": None for place in range(60)}
    monkeypatch.setattr("scenarios.show.sweep_figures.named_recommenders", lambda: many)
    assert len({(*look_of(name).values(),) for name in many}) == len(many)
