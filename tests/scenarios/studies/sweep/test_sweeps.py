"""What every kind of sweep must keep: it goes on where it stopped, refuses other folders, fits 80 columns."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from evidence import sample
from matplotlib.figure import Figure
from rich.console import Console
from runs import Command, faults, lines_of_units, printed

from coordinator.protocol.errors import InputError
from scenarios.backends.on_ray import OnRay
from scenarios.backends.selection import InProcess, opened
from scenarios.config.signals import InterruptedRunError
from scenarios.show.drawing import draw_picture
from scenarios.show.records import pictures_of, rendered
from scenarios.store.manifest import FOLDER
from scenarios.store.whole_files import tables_in
from scenarios.studies import study as studies
from scenarios.studies.study import StudyOutcome, claim, measure_units, run_study
from scenarios.studies.sweep.sweeps import KINDS, load_sweep, sweep_of

QUIET = Console(quiet=True)
GRIDS: dict[str, dict[str, Any]] = {
    "users": {
        "share": 0.9,
        "most_users": 20_000,
        "probe": 0.9,
        "decoders": ["centred", "paper"],
        "base": {"rated": 5, "epsilon": 4},
        "grid": [{"items": [16, 24]}],
        "fit": [{"x": "items", "label": "a label that is much longer than any that would fit beside its numbers"}],
    },
    "adaptive": {"items": [30], "rated": 10, "epsilon": 4, "schemes": ["paper", "sign", "adaptive-sign"]},
    "online": {
        "rounds": 30, "voters": 16, "peers": 2, "diversity": 1, "radius": 1, "axes": {"rounds": [30], "ratio": [4]},
    },
    "two-tier": {
        "planted": "80,30,2000", "rank": 2, "regularisation": 1, "public": 20, "private": 20, "every": 20,
        "mechanisms": "none,exact", "figures": "1-right,2",
    },
    "results": {
        "columns": ["accuracy", "exact", "answered"],
        "base": {"users": 300, "rated": 5, "dropout": 0.1, "like": [[0.9, 0.1]]},
        "grid": [{"design": ["maxsense", "sign"], "epsilon": [1, 4]}, {"design": "sign", "epsilon": 4, "items": 1000}],
    },
}  # fmt: skip
CHANGED: dict[str, dict[str, Any]] = {
    "users": {"share": 0.8},
    "adaptive": {"vectors": 4},
    "online": {"voters": 32},
    "two-tier": {"rank": 3},
    "results": {"base": {"users": 301, "rated": 5}},
}
Whole = Callable[[str], tuple[Path, StudyOutcome]]
every_kind = pytest.mark.parametrize("name", KINDS)
# By default one kind: its one sweep serves all tests below, and folder and store are the same code for every kind
any_kind = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name != "online")) for name in KINDS]
)


def grid(name: str, **more: Any) -> dict[str, Any]:
    return {"sweep": name, "seeds": 2, **GRIDS[name], **more}


def run(wanted: dict[str, Any], out: Path) -> StudyOutcome:
    return run_study(sweep_of(wanted), opened(InProcess(1)), out, QUIET)


def same(result: Any) -> Any:
    """What may not differ: all but times and versions."""
    if isinstance(result, dict):
        return {name: same(value) for name, value in result.items() if name not in ("seconds", "versions")}
    return [same(one) for one in result] if isinstance(result, list) else result


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A kind's finished sweep, and its folder."""
    done: dict[str, tuple[Path, StudyOutcome]] = {}

    def of(name: str) -> tuple[Path, StudyOutcome]:
        if name not in done:
            out = tmp_path_factory.mktemp(name) / "sweep"
            done[name] = out, run(grid(name), out)
        return done[name]

    return of


def counted(most: int, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let studies measure so many units and no more; return those that were measured."""
    measured, measure = list[Any](), studies.measure

    def some(unit: Any) -> Any:
        if len(measured) == most:
            raise KeyboardInterrupt
        measured.append(unit)
        return measure(unit)

    monkeypatch.setattr(studies, "measure", some)
    monkeypatch.setattr("scenarios.studies.study.draw", lambda *_: None)
    return measured


@any_kind
def test_an_interrupted_sweep_goes_on(name: str, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, units = tmp_path / "sweep", len(whole(name)[1].units)
    with monkeypatch.context() as patch:
        counted(units - 2, patch)
        with pytest.raises(InterruptedRunError, match=f"{units - 2} units are kept in .*, the same command goes on"):
            run(grid(name), out)
    kept = lines_of_units(out)
    assert len(kept) == units - 2
    measured = counted(2, monkeypatch)
    assert same(run(grid(name), out).result) == same(whole(name)[1].result)
    assert len(measured) == 2
    assert lines_of_units(out)[:-2] == kept


@any_kind
def test_more_seeds_alone_go_on(name: str, whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, units = tmp_path / "sweep", len(whole(name)[1].units)
    measured = counted(2 * units, monkeypatch)
    run(grid(name, seeds=1), out)
    assert len(measured) == units / 2
    with pytest.raises(InputError, match="holds part of another sweep"):
        run(grid(name, **CHANGED[name]), out)
    assert same(run(grid(name), out).result) == same(whole(name)[1].result)
    assert len(measured) == units
    run(grid(name, seeds=1), out)
    assert len(measured) == units


@any_kind
def test_the_folder_holds_units_rows_figures_and_the_result(name: str, whole: Whole) -> None:
    out, done = whole(name)
    assert json.loads((out / "result.json").read_text()) == json.loads(json.dumps(done.result))
    rows = pd.read_csv(out / done.study.tables[1])
    assert len(rows) == len(done.study.rows(done.result)) > 0
    pictures = pictures_of(done.study.family, done.result, done.plotted())
    assert pictures
    files = {FOLDER, "result.json", "versions.json", *done.study.tables, *(f"{one.name}.png" for one in pictures)}
    points = {f"{one.name}.csv" for one in pictures if one.points is not None}
    assert {path.name for path in out.iterdir()} == files | points
    for picture in pictures:
        figure = Figure()
        draw_picture(picture, figure)
        assert list(faults(figure)) == []
    record = json.loads((out / "result.json").read_text())
    again = pictures_of(done.study.family, record, tables_in(out))  # as a report reads a folder
    assert [rendered(one, ".png") for one in again] == [(out / f"{one.name}.png").read_bytes() for one in pictures]


def shown(done: StudyOutcome, width: int) -> list[str]:
    return printed(lambda console: done.study.show(console, done.result, "sweep"), width).splitlines()


@any_kind
def test_no_number_is_cut_or_split_at_80_columns(name: str, whole: Whole) -> None:
    done = whole(name)[1]
    narrow, wide = shown(done, 80), shown(done, 400)
    assert max(map(len, narrow)) <= 80
    assert name == "results" or max(map(len, wide)) > 80
    numbers = [sorted(re.findall(r"\d[\d.,]*", "\n".join(lines))) for lines in (narrow, wide)]
    assert numbers[0] == numbers[1]
    assert "…" not in "".join(narrow)


@pytest.mark.cluster
@pytest.mark.parametrize("name", sample(list(KINDS), 1))
def test_on_ray_it_is_the_same_sweep(name: str, whole: Whole, ray_session: OnRay, tmp_path: Path) -> None:
    sweep = sweep_of(grid(name))
    claim(tmp_path, sweep.content)
    found = measure_units(sweep, ray_session, tmp_path, QUIET)
    assert list(found) == list(whole(name)[1].units)
    assert same(sweep.result(found)) == same(whole(name)[1].result)


@every_kind
def test_a_grid_file_is_any_kind(name: str, blindrec: Command, tmp_path: Path) -> None:
    """The file's name stands in the title; what is unknown is told with what is known."""
    with pytest.raises(InputError, match=r"key 'sedes' is unknown; did you mean 'seeds'\? known are .*seeds"):
        sweep_of(grid(name, sedes=3))
    with pytest.raises(InputError, match="seeds is 0"):
        load_sweep(grid(name), seeds=0)
    assert load_sweep(grid(name), seeds=3).content == sweep_of(grid(name)).content


def test_a_grid_needs_no_command_of_its_own(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.studies.study.draw", lambda *_: None)
    (tmp_path / "mine.toml").write_text('sweep = "online"\nseeds = 1\nrounds = 20\nvoters = 16\naxes = "ratio=4"\n')
    here = ("--backend", "inprocess", "--workers", 1, "--out", tmp_path / "out")
    told = blindrec("sweep", tmp_path / "mine.toml", *here)
    assert told.code == 0, told.err
    assert "sweep mine, inprocess" in told.out
    flags = ("--rounds", 20, "--voters", 16, "--axes", "ratio=4", "--seeds", 1)
    assert blindrec("sweep", "online", *flags, *here).err.endswith("units were done before; going on\n")
    assert "going on" in blindrec("sweep", *here, tmp_path / "mine.toml").err
    choices = r"did you mean 'online'\? choose among users, adaptive, online, two-tier, results"
    with pytest.raises(InputError, match=rf"sweep is 'offline'; {choices}"):
        sweep_of({"sweep": "offline"})
