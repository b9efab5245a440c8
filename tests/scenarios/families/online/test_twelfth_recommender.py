"""One more recommender is one more file: bounds, sweeps, figures, tables and help follow from what it declares."""

from pathlib import Path

import pytest

from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError
from coordinator.server.online import recommenders
from coordinator.server.online.recommenders import (
    bounded_names,
    named_recommenders,
    recommender_of,
    still_names,
)
from scenarios.families.online.adversaries import ADVERSARIES
from scenarios.show.sweep_figures import look_of
from scenarios.studies.sweep.online_clients import RATINGS
from scenarios.studies.sweep.online_sweep import AXES

SWEEP = "sweep online --backend inprocess --workers 1 --seeds 1"


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
