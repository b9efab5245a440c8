"""The planner beside the measured numbers of a sweep: users, probes and slopes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from runs import Command

from scenarios.planner.candidates import Candidate
from scenarios.planner.needs import Target, users_needed
from scenarios.sweep import users
from scenarios.sweep.grid import Grid, read_grid
from scenarios.sweep.threshold import Threshold, ThresholdKey, ThresholdMeasurement
from scenarios.sweep.users import add_plans, predictions, probe_rows, probes_of, summarize, thresholds


def grid(**more: Any) -> Grid:
    fit = {"x": "items", "per": ["log items"], "criteria": ["exact"]}
    tables = [{"items": [50, 100], "rated": 5}]
    return read_grid({"seeds": 8, "decoders": ["centred", "paper"], "probe": 0.9, "grid": tables, "fit": [fit], **more})


def units(read: Grid, factor: float, *, offset: float = 0.0) -> dict[ThresholdKey, ThresholdMeasurement]:
    """What seeds would measure that scatter by 1 % around ``factor`` times the planned users."""
    users = predictions(read)
    found = dict[ThresholdKey, ThresholdMeasurement]()
    for place in range(len(read.settings)):
        for seed in range(read.seeds):
            spread = 1 + 0.01 * (seed - (read.seeds - 1) / 2) / read.seeds
            wanted = tuple(
                Threshold(*key[1:], round(factor * spread * (value or 0)))
                for key, value in users.items()
                if key[0] == place
            )
            told = dict.fromkeys(read.decoders_of(read.settings[place]), 0.9 + offset + 0.002 * (-1) ** seed)
            found[ThresholdKey(place, seed)] = ThresholdMeasurement(
                thresholds=wanted, devices=1, seconds=0.1, accuracies=told
            )
    return found


def told(read: Grid, measured: dict[ThresholdKey, ThresholdMeasurement]) -> dict[str, Any]:
    summary = summarize(read, thresholds(read, measured))
    add_plans(summary, read, measured)
    return summary


def test_predictions_are_those_of_the_planner() -> None:
    read = grid()
    users = predictions(read)
    assert len(users) == 2 * 2 * 2
    for place, setting in enumerate(read.settings):
        for decoder in ("centred", "paper"):
            one = Candidate(world=setting, settings={"design": "maxsense", "decoder": decoder})
            half = users_needed(one, setting.epsilon, Target(success=0.5, accuracy=None)).users
            assert users[place, decoder, "exact"] == half
            share = users[place, decoder, "share"]
            assert share is not None
            if place == 0:  # 99 % of 50 items are all of them
                assert share == half
            else:  # one of 100 may be wrong: half of the runs do where 1.678 are expected to be
                one_wrong = Target(success=None, accuracy=1 - 0.01678)
                assert share == pytest.approx(users_needed(one, setting.epsilon, one_wrong).users, rel=1e-3)


@pytest.mark.parametrize(("factor", "inside"), [(1.0, True), (1.1, False), (0.9, False)])
def test_users_inside_the_interval(factor: float, inside: bool) -> None:
    read = grid()
    summary = told(read, units(read, factor))
    assert {row["inside"] for row in summary["settings"]} == {inside}
    assert all(row["predicted"] == pytest.approx(row["users"] / factor, rel=0.01) for row in summary["settings"])
    fit = next(row for row in summary["fits"] if row["decoder"] == "centred")
    assert fit["predicted"] == pytest.approx(fit["slope"], abs=0.01)


@pytest.mark.parametrize(("offset", "within"), [(0.0, True), (0.02, False), (-0.02, False)])
def test_probes(offset: float, within: bool) -> None:
    read = grid()
    rows = probe_rows(read, units(read, 1.0, offset=offset))
    assert len(rows) == 2 * 2
    for row in rows:
        assert row["predicted"] == pytest.approx(0.9, abs=1e-3)
        assert row["accuracy"] == pytest.approx(0.9 + offset)
        assert row["standard_error"] == pytest.approx(0.002 * math.sqrt(8 / 7) / math.sqrt(8))
        assert row["within"] == within


def test_a_probe_that_is_not_predicted_has_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    read = grid()
    found = units(read, 1.0)
    monkeypatch.setattr(users, "predictor", lambda _: None)
    assert probe_rows(read, found) == []


def test_probes_that_nobody_can_measure() -> None:
    assert probes_of(grid(probe=None), grid().settings[0]) == ()
    few = grid(most_users=100, decoders=["centred"])
    assert probes_of(few, few.settings[1]) == (0,)
    assert probe_rows(few, units(few, 1.0)) == []
    alone = grid(seeds=1)
    assert probe_rows(alone, units(alone, 1.0)) == []


def test_a_blind_design_is_not_planned() -> None:
    mirrored = [[0.9, 0.1], [0.1, 0.9]]
    read = grid(base={"like": mirrored}, decoders=["centred"], fit=[])
    assert set(predictions(read).values()) == {None}
    assert {probes_of(read, setting) for setting in read.settings} == {(0,)}
    measured = {
        ThresholdKey(place, 0): ThresholdMeasurement(
            thresholds=(Threshold("centred", "exact", 5), Threshold("centred", "share", None)), devices=1, seconds=1
        )
        for place in range(2)
    }
    assert {row["inside"] for row in told(read, measured)["settings"]} == {None}


def test_a_tiny_sweep(blindrec: Command, tmp_path: Path) -> None:
    """12 seeds: a median scatters by 0.26 / sqrt(12) = 0.075 in its logarithm, 0.35 is over four of that."""
    (tmp_path / "tiny.toml").write_text(
        'seeds = 12\nprobe = 0.9\n[base]\ndesign = "curator-items"\n[[grid]]\nitems = [20, 40]\nrated = 10\n'
    )
    out = tmp_path / "sweep"
    command = ("sweep", "sample-complexity", tmp_path / "tiny.toml", "--out", out, "--backend", "inprocess")
    result = blindrec(*command, "--workers", 1, "--json", "-").result
    assert json.loads((out / "result.json").read_text()) == result
    assert len(result["settings"]) == 4
    assert len(result["probes"]) == 2
    for row in result["settings"]:
        if row["criterion"] == "exact":  # of so few items the share is not near its mean
            assert abs(math.log(row["predicted"] / row["users"])) < 0.35
    for row in result["probes"]:
        assert row["accuracy"] == pytest.approx(0.9, abs=0.06)
