"""A sweep's grid: how tables expand, and everything that is wrong with one, in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from coordinator.protocol.errors import InputError
from scenarios.sweep import users
from scenarios.sweep.grid import Fit, Grid, axis_value, concerns, divisor, read_grid
from scenarios.sweep.kinds import built_in_grids, load_sweep
from scenarios.sweep.results import ResultsSweep
from scenarios.sweep.threshold import guess
from scenarios.sweep.users import UsersSweep


def grid(*tables: dict[str, Any], **more: Any) -> Grid:
    return read_grid({"base": {"rated": 5}, "grid": list(tables), **more})


def test_lists_of_a_table_expand_as_a_product_and_tables_by_themselves() -> None:
    read = grid({"items": [40, 60], "epsilon": [1, "inf"]}, {"items": 80, "rated": [4, 8]})
    told = [(one.items, one.rated, one.epsilon) for one in read.settings]
    assert told == [(40, 5, 1), (40, 5, None), (60, 5, 1), (60, 5, None), (80, 4, 1), (80, 8, 1)]


def test_what_is_not_given_has_a_default() -> None:
    read = grid({"items": 40})
    assert (read.seeds, read.share, read.resolution, read.fits) == (20, 0.99, 0.02, ())
    assert read.settings[0].users == 10**9
    assert read.decoders_of(read.settings[0]) == ("centred",)
    paper = read_grid({"base": {"decoder": "paper"}, "grid": [{"items": 40}], "most_users": 7})
    assert paper.decoders_of(paper.settings[0]) == ("paper",)
    assert paper.settings[0].users == 7


def test_like_is_a_string_so_that_lists_stay_lists() -> None:
    read = grid({"items": 40, "like": ["0.9,0.1", "0.9,0.1;0.1,0.9"]})
    assert [one.like for one in read.settings] == [((0.9, 0.1),), ((0.9, 0.1), (0.1, 0.9))]


def test_rated_items_as_a_share() -> None:
    read = read_grid({"base": {"rated_share": 0.25}, "grid": [{"items": [40, 6]}]})
    assert [(one.items, one.rated) for one in read.settings] == [(40, 10), (6, 2)]


def test_axes_and_divisors() -> None:
    (one,) = grid({"items": 100, "rated": 10, "epsilon": 2}).settings
    assert axis_value("items/rated", one) == 10
    assert axis_value("tanh2", one) == pytest.approx(0.5800, abs=1e-4)
    assert divisor(Fit(x="rated", per=("items^2", "log items")), one) == pytest.approx(1e4 * 4.60517, rel=1e-5)
    assert divisor(Fit(x="rated"), one) == 1


def test_where_chooses_settings() -> None:
    read = grid({"items": 40, "epsilon": ["1/2", "inf"], "like": "0.8,0.1"}, {"items": 60, "design": "pairwise"})
    for where, chosen in (
        ({}, [0, 1, 2]),
        ({"epsilon": 0.5}, [0]),
        ({"epsilon": "inf"}, [1]),
        ({"epsilon": "default"}, [2]),
        ({"like": "0.8,0.1", "design": "maxsense"}, [0, 1]),
    ):
        fit = Fit(x="items", where=where)
        assert [place for place, setting in enumerate(read.settings) if concerns(fit, setting)] == chosen


def test_a_sweep_is_known_by_what_results_depend_on() -> None:
    same = [grid({"items": [40, 60]}, seeds=seeds, fit=fit) for seeds, fit in ((3, []), (9, [{"x": "items"}]))]
    assert same[0].content() == same[1].content()
    others = [grid({"items": [40, 61]}), grid({"items": [40, 60]}, share=0.98), grid({"items": [40, 60]}, most_users=9)]
    others.append(grid({"items": [40, 60]}, decoders=["centred", "paper"]))
    others.append(grid({"items": [40, 60]}, criteria=["top"]))
    others.append(grid({"items": [40, 60], "epsilon": "1.0000000000000000001"}))
    assert len({json.dumps(one.content()) for one in [*same, *others]}) == 7


@pytest.mark.parametrize("name", built_in_grids())
def test_built_in_grids_are_sound(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where thresholds of pairs are looked for is predicted in seconds, and tested where they are predicted."""
    monkeypatch.setattr(users, "guess", lambda one: 1e6 if one.design == "pairwise" else guess(one))
    read = load_sweep(name, seeds=3)
    assert len({key.seed for key in read.units({})}) == 3
    assert isinstance(read, ResultsSweep if name in ("accuracy", "lying", "poison", "voters") else UsersSweep)


TOP = {"criteria": ["top"]}
WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["grid is empty", "[[grid]]"]),
    ({"grid": []}, ["grid is empty"]),
    ({"grid": [{"items": []}]}, ["items", "empty list"]),
    ({"grid": [{"items": [40, 40]}]}, ["(items = 40)", "twice"]),
    ({"grid": [{"items": 40}, {"items": 40, "epsilon": 1}]}, ["(items = 40, epsilon = 1)", "twice"]),
    ({"grid": [{"items": 40, "users": 9}]}, ["users", "leave it out"]),
    ({"base": {"users": 9}, "grid": [{"items": 40}]}, ["users", "leave it out"]),
    ({"base": {"ratings": "r.csv"}, "grid": [{"theta": 1}]}, ["ratings", "block model"]),
    ({**TOP, "base": {"ratings": "r.csv"}, "grid": [{"theta": 1}]}, ["most_users is 1000000000", "100000000"]),
    ({**TOP, "grid": [{"items": 40, "design": "pairwise"}]}, ["criterion top", "pairwise"]),
    ({"grid": [{"items": 40}], "criteria": ["top", "top"]}, ["criteria are top, top", "once"]),
    ({"grid": [{"items": 40}], "criteria": ["best"]}, ["criteria", "'best'"]),
    ({"grid": [{"items": 40, "seed": [1, 2]}]}, ["seed", "[base]"]),
    ({"grid": [{"items": 40, "decoder": ["paper"]}]}, ["decoder", "list decoders"]),
    ({"grid": [{"itens": 40}]}, ["(itens = 40)", "'itens'", "unknown"]),
    ({"grid": [{"items": [40, 1]}]}, ["(items = 1)", "items", "2"]),
    ({"base": {"rated": 20}, "grid": [{"items": [40, 12]}]}, ["(items = 12)", "rated", "20", "12"]),
    ({"grid": [{"items": 40, "epsilon": [1, -1]}]}, ["(items = 40, epsilon = -1)", "above 0"]),
    ({"grid": [{"items": 40, "like": "0.9"}]}, ["like", "2 item clusters"]),
    ({"grid": [{"items": 40, "cluster_shares": "1,0"}]}, ["cluster_shares", "larger share"]),
    ({"grid": [{"items": 40, "rated": 4, "rated_share": 0.1}]}, ["rated_share is 0.1", "rated is 4", "one of them"]),
    ({"grid": [{"items": 40, "rated_share": 1.5}]}, ["rated_share is 1.5", "at most 1"]),
    ({"grid": [{"rated_share": 0.5}]}, ["rated_share", "items"]),
    ({"grid": [{"items": 40, "policy": "fixed"}]}, ["'fixed'", "one round"]),
    ({"grid": [{"items": 40, "design": "pairwise", "policy": "eliminate"}]}, ["'eliminate'", "pairwise"]),
    ({"grid": [{"items": 40}], "seeds": 0}, ["seeds is 0", "1"]),
    ({"grid": [{"items": 40}], "seeds": 2.5}, ["seeds is 2.5"]),
    ({"grid": [{"items": 40}], "share": 1.1}, ["share is 1.1"]),
    ({"grid": [{"items": 40}], "resolution": 0}, ["resolution is 0"]),
    ({"grid": [{"items": 40}], "most_users": 0}, ["most_users is 0"]),
    ({"grid": [{"items": 40}], "decoders": ["median"]}, ["(items = 40)", "'median'", "centred"]),
    ({"grid": [{"items": 40}], "decoders": ["paper", "paper"]}, ["decoders", "once"]),
    ({"grid": [{"items": 40}], "sedes": 3}, ["'sedes'", "unknown", "seeds"]),
    ({"grid": {"items": 40}}, ["grid"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "users"}]}, ["fit.0.x", "'users'", "items"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "items", "y": 1}]}, ["fit.0.y", "unknown", "where"]),
    ({"grid": [{"items": 40}], "fit": [{"x": "items"}]}, ["U* on items", "1 value", "two"]),
    ({"grid": [{"items": [40, 60]}], "fit": [{"x": "items", "where": {"rates": 1}}]}, ["rates", "no key"]),
    ({"grid": [{"items": [40, 60]}], "fit": [{"x": "items", "where": {"epsilon": 2}}]}, ["0 value"]),
    ({"grid": [{"items": 40, "epsilon": [1, "inf"]}], "fit": [{"x": "epsilon"}]}, ["epsilon", "infinite", "where"]),
    (
        {"grid": [{"items": [40, 60], "design": ["maxsense", "pairwise"]}], "fit": [{"x": "items", "label": "both"}]},
        ["'both'", "maxsense, pairwise rated-equal", "where"],
    ),
]


@pytest.mark.parametrize(("values", "words"), WRONG, ids=lambda one: " ".join(one) if isinstance(one, list) else "")
def test_grids_that_are_wrong(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        read_grid(values)
    line = str(refused.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_grid_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text("items = ")
    for name, words in {
        "maxsens": ["'maxsens'", "maxsense-items"],
        str(tmp_path / "none.toml"): ["none.toml", "cannot be read"],
        str(tmp_path / "grid.toml"): ["grid.toml", "no TOML"],
        str(tmp_path): ["cannot be read"],
    }.items():
        with pytest.raises(InputError) as refused:
            load_sweep(name)
        assert all(word in str(refused.value) for word in words), str(refused.value)
