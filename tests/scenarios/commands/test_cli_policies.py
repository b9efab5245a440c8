"""Policies on the command line: ours and a stranger's, in process and on Ray, and what is told when they go astray."""

import json
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from runs import Command, refused

from coordinator.server.rounds.rounds import Round
from scenarios.store.journal import Journal
from scenarios.store.record_log import count_records

pytestmark = pytest.mark.usefixtures("few_draws")

SMALL = ["run", "--items", "12", "--rated", "4", "--epsilon", "3", "--workers", "1"]
HERE = [*SMALL, "--backend", "inprocess"]
BUILT_IN = ["one-round", "fixed", "eliminate", "item-by-item"]


@pytest.fixture(autouse=True)
def no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is for complaints here, however slow the machine is."""
    monkeypatch.setattr("scenarios.show.tables.EVERY", 1e9)


@pytest.mark.parametrize("design", ["maxsense", "sign"])
@pytest.mark.parametrize("policy", BUILT_IN)
@pytest.mark.statistical
def test_every_policy_runs(policy: str, design: str, blindrec: Command) -> None:
    """A wrong label is the false alarm, less than 1e-6; adaptive policies tell so themselves, and need fewer users."""
    flags = ["--design", design, "--policy", policy, "--confidence", "0.999999", "--users", 30_000]
    told = blindrec(*HERE, *flags, "--most-rounds", 600, "--json", "-")
    assert (told.code, told.err) == (0, "")
    result = told.result
    assert (result["policy"], result["policy_error"], result["refused"]) == (policy, None, 0)
    assert result["exact"]
    assert result["asked"] == result["answered"]
    adapts = policy in ("eliminate", "item-by-item")
    assert result["rounds"] > 3 if adapts else result["rounds"] == BUILT_IN.index(policy) + 1
    assert (result["answered"] < 30_000) is adapts
    assert result["undecided"] == (None if design == "maxsense" and not adapts else 0)
    assert (result["accuracy_predicted"] is None) is adapts


def test_a_run_says_why_devices_refused(mine: str, blindrec: Command) -> None:
    flags = [*HERE, "--users", 400, "--policy", f"{mine}:Greedy"]
    result = blindrec(*flags, "--json", "-").result
    assert (result["asked"], result["refused"]) == (700, 300)
    because = "300 beyond their budget: asked for 3 nats, 0 of 3 left (3 spent); lower epsilon per round or the number"
    assert result["refused_because"] == f"{because} of rounds"
    assert because in " ".join(blindrec(*flags).out.replace("│", " ").split())


def test_answers_of_one_device_are_predicted_at_their_share_of_epsilon(blindrec: Command) -> None:
    """So many devices that answer m times at epsilon / m are like m times as many at that epsilon."""
    for design in ("maxsense", "multi-maxsense", "pairwise"):
        questions = ["--questions", "2"] if design == "multi-maxsense" else []
        flags = [*HERE, "--design", design, *questions, "--policy", "fixed", "--json", "-"]
        twice = blindrec(*flags, "--users", 500, "--answers-per-device", 2).result
        single = blindrec(*flags, "--users", 1000, "--epsilon", "1.5").result
        assert twice["accuracy_predicted"] == single["accuracy_predicted"], design
        assert 0.5 < twice["accuracy_predicted"] < 1


MINE = """
from dataclasses import dataclass, replace
import numpy as np
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.rounds.setting import Setting

@dataclass(frozen=True)
class Doubtful:
    setting: Setting

    def next_query(self, state: ServerState) -> Ask | None:
        if not state.asked:
            return self.setting.ask(state, users=400)
        doubt = self.setting.believe(state).doubt
        if (pool := np.flatnonzero(doubt > DOUBT)).size == 0:
            return None
        return self.setting.ask(state, users=200, pool=pool)

class Tired(Doubtful):
    def next_query(self, state):
        if len(state.asked) == 2:
            raise RuntimeError("I am" + chr(10) + "tired")
        return super().next_query(state)

class Greedy(Doubtful):
    def next_query(self, state):
        if len(state.asked) == 2:
            return None
        if not state.asked:
            return self.setting.ask(state, users=400)
        return Ask(query=replace(state.asked[0].query, round=1), first=0, stop=300)

def astray(setting):
    return type("Astray", (), {"next_query": lambda self, state: "no"})()

class Needy:
    def __init__(self, setting, mood):
        pass

class Mute:
    def __init__(self, setting):
        pass

number = 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of one's own in the working directory, which nobody else can find."""
    name = f"policies_of_{tmp_path.name}"
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / f"{name}.py").write_text(f"from {name}_limits import DOUBT\n{MINE}")
    (folder / f"{name}_limits.py").write_text("DOUBT = 1e-6\n")
    (folder / f"{name}_broken.py").write_text("import nothing_that_there_is")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", str(folder))])
    yield name
    for one in [one for one in sys.modules if one.startswith(name)]:
        del sys.modules[one]


OWN = ["--design", "sign", "--users", "30000"]


def test_ones_own_policy_is_found_in_the_working_directory(mine: str, blindrec: Command) -> None:
    told = blindrec(*HERE, *OWN, "--policy", f"{mine}:Doubtful", "--json", "-")
    assert (told.code, told.err) == (0, "")
    assert (told.result["policy"], told.result["exact"]) == (f"{mine}:Doubtful", True)
    assert 2 < told.result["rounds"] < 30
    assert told.result["answered"] == 200 * (told.result["rounds"] + 1)
    assert told.result["undecided"] == 0


BAD: dict[str, list[str]] = {
    "--policy until-learned": ["policy is 'until-learned'", "one-round"],
    "--policy nowhere:Mine": ["nowhere:Mine cannot be imported", "'nowhere'", "working directory"],
    "--policy {mine}_broken:Mine": ["{mine}_broken:Mine cannot be imported", "nothing_that_there_is"],
    "--policy {mine}.deeper:Mine": ["{mine}.deeper:Mine cannot be imported"],
    "--policy {mine}.py:Mine": ["{mine}.py:Mine cannot be imported", "name the module without .py, {mine}:Mine"],
    "--policy {mine}:Nobody": ["{mine}:Nobody", "nothing called Nobody", "; it has ", "Doubtful"],
    "--policy {mine}:number": ["{mine}:number", "number"],
    "--policy {mine}:": ["{mine}:", "nothing called"],
    "--policy :Mine": [":Mine cannot be imported"],
    "--policy {mine}:Needy": ["{mine}:Needy cannot be made", "mood", "blindrec.Setting"],
    "--policy {mine}:Mute": ["{mine}:Mute has no method next_query(state)"],
    "--policy {mine}:astray": ["policy Astray, round 0: it returned 'no'", "blindrec.Ask"],
    "--design pairwise --policy eliminate": ["policy is 'eliminate'", "one-round, fixed for pairwise"],
    "--design item-query --epsilon inf --policy fixed": ["policy is 'fixed'", "until-learned", "item-query"],
    "--design full-reveal --epsilon inf --policy {mine}:Doubtful": ["{mine}:Doubtful", "one-round alone"],
    "--policy fixed --rounds 0": ["rounds is 0", "1"],
    "--policy fixed --rounds 3 --answers-per-device 2": ["rounds is 3", "2", "multiple"],
    "--policy fixed --rounds 101": ["rounds is 101", "100"],
    "--answers-per-device 2": ["answers_per_device is 2", "one-round", "another policy"],
    "--design item-query --epsilon inf --answers-per-device 2": ["answers_per_device is 2", "until-learned"],
    "--design pairs --answers-per-device 2": ["answers_per_device is 2", "groups", "once"],
    "--design pairs --policy one-round": ["policy is 'one-round'", "pairs takes groups alone"],
    "--design pairs --first-group 0.9": ["first_group is 0.9", "second_group 0.15", "less than 1 together"],
    "--design pairs --pair-likes 21": ["pair_likes is 21", "between 2 and 12"],
    "--policy eliminate --answers-per-device 0": ["answers_per_device is 0", "1"],
    "--policy eliminate --decoder centred": ["decoder is 'centred'", "eliminate", "posterior"],
    "--policy eliminate --confidence 0": ["confidence is 0", "greater than 0"],
    "--policy eliminate --confidence 1": ["confidence is 1", "less than 1"],
    "--policy eliminate --confidence nan": ["confidence is nan"],
    "--policy eliminate --confidence high": ["--confidence", "'high'"],
    "--design sign --vectors 3": ["vectors is 3", "power of two", "64"],
    "--design sign --vectors 128": ["vectors is 128", "power of two", "64"],
    "--design sign --vectors 0": ["vectors is 0", "1"],
    "--policy eliminate --most-rounds 0": ["most_rounds is 0", "1"],
}


@pytest.mark.parametrize("flags", BAD)
def test_what_cannot_be_used_is_told_in_a_line(flags: str, mine: str, blindrec: Command, nobody_asks: None) -> None:
    line = refused(blindrec, *HERE, "--users", "100", *flags.replace("{mine}", mine).split())
    for word in BAD[flags]:
        assert word.replace("{mine}", mine) in line, line


def test_a_policy_that_went_astray_leaves_what_rounds_told(mine: str, blindrec: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = blindrec(*HERE, *OWN, "--policy", f"{mine}:Tired", "--out", out, "--json", "-")
    assert told.code == 2
    assert told.err.startswith(
        "blindrec: policy Tired, round 2: it raised RuntimeError in line 23: I am tired; what earlier rounds"
    )
    assert told.err.count("\n") == 1
    assert str(out) in told.err
    assert told.result["policy_error"] == "policy Tired, round 2: it raised RuntimeError in line 23: I am tired"
    assert (told.result["rounds"], told.result["answered"]) == (2, 600)
    assert json.loads((out / "result.json").read_text()) == told.result
    assert pd.read_parquet(out / "rounds.parquet")["asked"].tolist() == [400, 200]
    assert len(pd.read_parquet(out / "items.parquet")) == 12
    shown = blindrec(*HERE, *OWN, "--policy", f"{mine}:Tired")
    assert "policy went astray" in shown.out
    assert shown.err.count("\n") == 1


def test_a_policy_that_was_mended_goes_on_where_it_went_astray(
    mine: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [*HERE, *OWN, "--policy", f"{mine}:Tired", "--json", "-"]
    blindrec(*flags, "--out", tmp_path / "out")
    assert count_records(tmp_path / "out") == 2
    file = Path(f"{mine}.py")
    file.write_text(file.read_text().replace("== 2", "== -1"))
    monkeypatch.delitem(sys.modules, mine)
    mended = blindrec(*flags, "--out", tmp_path / "out")
    assert (mended.code, mended.err) == (0, "")
    fresh = blindrec(*HERE, *OWN, "--policy", f"{mine}:Doubtful", "--json", "-")
    assert mended.result["releases_sha256"] == fresh.result["releases_sha256"]
    assert "rounds" not in {path.name for path in (tmp_path / "out").iterdir()}


@pytest.mark.parametrize("name", ["astray", "Needy"])
def test_a_run_that_asked_nobody_leaves_its_folder(name: str, mine: str, blindrec: Command, tmp_path: Path) -> None:
    """So that a command can be corrected without a new folder."""
    refused(blindrec, *HERE, *OWN, "--policy", f"{mine}:{name}", "--out", tmp_path / "out", "--json", "-")
    assert blindrec(*HERE, "--users", 100, "--out", tmp_path / "out", "--json", "-").code == 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("kept", [0, 3])
def test_a_signal_tells_how_many_rounds_are_kept(
    kept: int, number: signal.Signals, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C and those that end a process; exit code 3 where the run can be gone on with."""
    keep, out = Journal.keep, tmp_path / "out"
    flags = [*HERE, *OWN, "--policy", "fixed", "--rounds", "5", "--out", out, "--json", "-"]

    def interrupted(self: Journal, over: Round) -> None:
        if over.ask.query.round == kept:
            signal.raise_signal(number)
        keep(self, over)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", interrupted)
        told = blindrec(*flags)
    assert (told.code, told.out) == (3 if kept else 130, "")
    assert told.err.count("\n") == 1
    assert told.err.startswith("blindrec: interrupted; ")
    assert (count_records(out), out.exists()) == (kept, kept > 0)
    if kept:
        assert f"3 rounds are kept in {out}" in told.err
        assert f"the same command or blindrec resume {out} goes on" in told.err
    asked: list[int] = []

    def told_of(self: Journal, over: Round) -> None:
        asked.append(over.ask.query.round)

    monkeypatch.setattr(Journal, "keep", told_of)
    assert blindrec(*flags).code == 0
    assert asked == list(range(kept, 5))
