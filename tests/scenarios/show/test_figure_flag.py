"""`--figure` reaches every command that ends in numbers, refuses before any work, and is what `.plot()` draws."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from runs import Command, planted_ratings, write_movielens

import blindrec as api
from scenarios.cli import command_line
from scenarios.show import records
from scenarios.show.drawing import draw_picture
from scenarios.show.picture import Picture

HERE = "--backend inprocess --workers 1"
RUN = f"run --items 12 --rated 4 --users 200 {HERE}"
GRID = 'sweep = "results"\nexperiment = "run"\nseeds = 2\nbase = {rated = 4, users = 99}\ngrid = [{items = [8, 12]}]\n'
COMMANDS = {
    "run": RUN,
    "online": f"online --rounds 20 --voters 16 --peers 2 {HERE}",
    "two-tier": f"two-tier --planted 60,20,900 --public 30 --rank 2 --regularisation 1 --mechanism none {HERE}",
    "data": "data ratings.csv",
    "bounds": "bounds --items 100 --rated 5",
    "plan": "plan --items 24 --rated 6 --epsilon 2",
    "compare": f"compare ratings.csv --trust-models none --mechanisms popularity,chance --seeds 3 {HERE}",
    "audit": "audit --design sign --releases 2000 --rounds 2",
    "adversary": "adversary theorem-6 --rounds 60 --voters 16 --repeat 2",
    "sweep": f"sweep grid.toml --out swept {HERE}",
}
WITHOUT = {
    "check",
    "amplify",
    "compose",
    "submit",
    "status",
    "watch",
    "fetch",
    "stop",
}  # Verdicts, two numbers, and jobs


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=24, each=12))
    (tmp_path / "grid.toml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    yield
    plt.close("all")


def flags(command: Any) -> Iterator[set[str]]:
    if hasattr(command, "commands"):
        for name, one in command.commands.items():
            yield from flags(one) if name not in WITHOUT else ()
    else:
        loaded = getattr(command, "loaded", command)
        yield {parameter.name for parameter in loaded.params}


def test_every_command_that_prints_json_draws() -> None:
    every = [names for names in flags(command_line()) if "json" in names]
    assert len(every) >= 13
    assert all("figure" in names for names in every)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_write_pictures(name: str, blindrec: Command, no_pairs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(picture: Picture, ending: str) -> bytes:
        drawn.append(picture)
        return ending.encode()

    drawn: list[Picture] = []
    monkeypatch.setattr(records, "rendered", kept)
    monkeypatch.setattr("scenarios.studies.study.draw", lambda *_: None)
    ended = blindrec(*COMMANDS[name].split(), "--figure", "picture.SVG")
    assert ended.code == 0, ended.err
    assert Path("picture.SVG").read_bytes() == b".svg"
    figure = Figure()
    draw_picture(drawn[0], figure)
    assert any(axes.has_data() for axes in figure.axes)


def test_resuming_a_finished_run_draws_it_again(blindrec: Command) -> None:
    assert blindrec(*RUN.split(), "--out", "kept", "--figure", "first.svg").code == 0
    assert blindrec("resume", "kept", "--figure", "again.svg").code == 0
    assert Path("first.svg").read_bytes() == Path("again.svg").read_bytes()


@pytest.mark.parametrize(
    ("figure", "told"),
    [
        ("picture.gif", "figure is picture.gif; name a file that ends in .svg, .pdf, .png"),
        ("picture", "figure is picture; name a file that ends in .svg, .pdf, .png"),
        ("nowhere/picture.svg", "figure nowhere/picture.svg cannot be written"),
        ("folder.svg", "figure folder.svg is a folder; name a file"),
    ],
)
@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_written_is_refused_before_the_work(
    name: str, figure: str, told: str, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("folder.svg").mkdir()
    before = sorted(Path().rglob("*"))
    ended = blindrec(*COMMANDS[name].split(), "--figure", figure)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert sorted(Path().rglob("*")) == before


def test_plot_draws_the_same_and_others_by_name() -> None:
    scenario = api.Scenario(items=12, rated=4, users=200, epsilon=3)
    result = api.run(scenario, api.InProcess(workers=1), progress=False)
    assert result.plot().get_ylabel() == "score, with its standard error"
    assert result.plot("shares").get_xlabel() == "share"
    with pytest.raises(api.errors.InputError, match=r"of is 'share'; did you mean 'shares'\? choose"):
        result.plot("share")
