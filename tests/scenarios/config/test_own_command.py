"""Foreign mechanisms by the command line: named by import path, with settings, and named again to go on."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import mechanisms
import pytest
from faults import stopped
from runs import Command, refused, result

from scenarios.backends.selection import InProcess
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import run
from scenarios.studies.planner.least_users import candidates, simulated

pytestmark = pytest.mark.usefixtures("undrawn", "few_draws")

WORLD = ("--items", 20, "--rated", 5, "--users", 4000, "--epsilon", 2, "--backend", "inprocess")
LATER = ("--policy", "fixed", "--rounds", 4)


@pytest.fixture
def folder(importable: Path) -> Path:
    """A working directory with a package of one's own, ``theirs``."""
    (importable / "theirs").mkdir()
    (importable / "theirs" / "__init__.py").write_text("", encoding="utf-8")
    source = Path(mechanisms.__file__).read_text(encoding="utf-8")
    late = source.replace(
        "        item, liked = ratings", "        stop_at(question.round)\n        item, liked = ratings", 1
    )
    (importable / "theirs" / "good.py").write_text(source, encoding="utf-8")
    (importable / "theirs" / "killed.py").write_text(late + KILLS, encoding="utf-8")
    (importable / "theirs" / "policy.py").write_text(POLICY, encoding="utf-8")
    return importable


KILLS = """

def stop_at(number):
    import pathlib
    if number == 2 and pathlib.Path("kill").exists():
        import os, signal
        os.kill(os.getpid(), signal.SIGINT)
"""
POLICY = """
from coordinator.server.rounds.policies import Fixed

def twice(setting):
    return Fixed(setting=setting, rounds=2)
"""


def test_a_design_of_ones_own_runs_by_its_name(blindrec: Command, folder: Path) -> None:
    told = result(blindrec, "run", "--design", "theirs.good:GRR", "--setting", "shift=2", *WORLD)
    assert (told["design"], told["shift"], told["channel"]) == ("theirs.good:GRR", 2, "checked exactly")
    assert told["mechanism"].startswith("GRR@")
    assert told["accuracy"] > 0.7
    (folder / "mine.toml").write_text(
        'design = "theirs.good:GRR"\nshift = 2\nitems = 20\nrated = 5\nusers = 4000\nepsilon = 2\n', encoding="utf-8"
    )
    again = result(blindrec, "run", "mine.toml", "--allow-code", "--backend", "inprocess")
    assert again["releases_sha256"] == told["releases_sha256"]
    in_python = Scenario(design=mechanisms.GRR(shift=2), items=20, rated=5, users=4000, epsilon=2)
    assert record(run(in_python, InProcess(2)))["releases_sha256"] == told["releases_sha256"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("theirs.good:Liar",), "mechanism Liar, method channel, round 0: one release gives away 2.2 nats"),
        (
            ("theirs.good:GRR", "--setting", "shift=many"),
            "setting shift of design GRR is 'many': Input should be",
        ),
        (("theirs.good:GRR", "--theta", "2"), "theta is 2.0, which is about "),
        (("theirs.good:OUE", "--policy", "eliminate"), "policy is 'eliminate'; choose one of one-round, fixed for"),
        (("theirs.good:OUE", "--decoder", "paper"), "decoder is 'paper'; choose one of k-means, posterior"),
        (("theirs.good:OUE", "--with", "nowhere_to_be_found"), "with is nowhere_to_be_found, which cannot be imported"),
    ],
)
def test_what_cannot_be_used_is_one_line(
    blindrec: Command, folder: Path, arguments: tuple[object, ...], line: str
) -> None:
    assert refused(blindrec, "run", "--design", *arguments, *WORLD).startswith(line)


def test_more_noise_than_needed_is_told_and_runs(blindrec: Command, folder: Path) -> None:
    ended = blindrec("run", "--design", "theirs.good:Shy", *WORLD)
    assert ended.code == 0
    assert "mechanism Shy: its channel gives away 1 nats at most, its question claims 2" in ended.err


def test_a_guarantee_that_was_not_checked_says_so_wherever_it_stands(blindrec: Command, folder: Path) -> None:
    told = result(blindrec, "run", "--design", "theirs.good:Large", *WORLD)
    assert told["guarantee"].endswith("(claimed, not checked)")
    assert told["channel"] == "claimed, not checked"
    shown = blindrec("run", "--design", "theirs.good:Large", *WORLD).words
    assert "(claimed, not checked)" in " ".join(shown.replace("│", " ").split())


def theirs() -> list[str]:
    """The modules of the package that are imported."""
    return [name for name in sys.modules if name.partition(".")[0] == "theirs"]


@pytest.mark.usefixtures("interruptible")
def test_a_run_goes_on_where_its_design_is_named_again(blindrec: Command, folder: Path) -> None:
    whole = result(blindrec, "run", "--design", "theirs.killed:OUE", *LATER, *WORLD)
    out = folder / "out"
    (folder / "kill").touch()
    ended = blindrec("run", "--design", "theirs.killed:OUE", *LATER, *WORLD, "--out", out)
    assert ended.code == 3, ended.err
    (folder / "kill").unlink()
    kept = json.loads((out / "rounds" / "scenario.json").read_text(encoding="utf-8"))
    assert kept["scenario"]["design"] == whole["mechanism"]
    for name in theirs():
        del sys.modules[name]
    line = refused(blindrec, "resume", out, "--backend", "inprocess")
    assert theirs() == []  # nothing is imported because a folder says so
    assert line.startswith(f"the run in {out} is of a custom design, OUE; name it again: --design package.module")
    line = refused(blindrec, "resume", out, "--design", "theirs.good:OUE", "--backend", "inprocess")
    assert f"design theirs.good:OUE is OUE@" in line  # noqa: F541 (as the others)
    assert "has changed; go on with those, or start in a new folder" in line
    shutil.copy(folder / "theirs" / "killed.py", folder / "moved.py")
    again = result(blindrec, "resume", out, "--design", "moved:OUE", "--backend", "inprocess")
    assert again["releases_sha256"] == whole["releases_sha256"]
    assert again["rounds"] == 4


@pytest.mark.usefixtures("interruptible")
def test_a_policy_of_ones_own_is_named_again_too(blindrec: Command, folder: Path) -> None:
    out = folder / "out"
    policy = ("--policy", "theirs.policy:twice")
    whole = result(blindrec, "run", "--design", "theirs.good:OUE", *policy, *WORLD)
    assert whole["rounds"] == 2
    (folder / "kill").touch()
    killed = folder / "theirs" / "killed.py"
    killed.write_text(killed.read_text(encoding="utf-8").replace("number == 2", "number == 1"), encoding="utf-8")
    assert blindrec("run", "--design", "theirs.killed:OUE", *policy, *WORLD, "--out", out).code == 3
    (folder / "kill").unlink()
    design = ("--design", "theirs.killed:OUE")
    line = refused(blindrec, "resume", out, *design, "--backend", "inprocess")
    assert line.startswith(f"the run in {out} follows a custom policy; name it again: --policy theirs.policy:tw")
    line = refused(blindrec, "resume", out, *design, "--policy", "fixed", "--backend", "inprocess")
    assert line.startswith(f"the run in {out} follows policy theirs.policy:twice, not fixed")
    assert result(blindrec, "resume", out, *design, *policy, "--backend", "inprocess")["rounds"] == 2


PLAN = ("plan", "--items", 40, "--rated", 5, "--epsilon", 2, "--design")


def test_a_plan_compares_it_by_what_its_class_predicts(blindrec: Command, no_pairs: None, folder: Path) -> None:
    mine, *others = result(blindrec, *PLAN, "theirs.good:OUE")["designs"]
    assert (mine["design"], mine["note"]) == ("theirs.good:OUE", "")
    assert mine["exact"] == pytest.approx(0.95, abs=1e-3)
    assert "maxsense" in {row["design"] for row in others}
    assert refused(blindrec, *PLAN, "theirs.good:Liar").startswith("mechanism Liar, method channel, round 0: one rel")
    assert refused(blindrec, *PLAN, "maxsense").startswith("design is 'maxsense'; a plan compares all of blindrec's")


def test_a_plan_simulates_what_predicts_nothing(
    blindrec: Command, no_pairs: None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scenarios.studies.planner.least_users.MOST_SIMULATED", 0)
    mine = result(blindrec, *PLAN, "theirs.good:GRR")["designs"][0]
    assert mine["note"].startswith("simulated with ")
    assert mine["users_low"] < mine["users"] < (mine["users_high"] or 10**9)
    assert mine["simulated"] >= 3

    table = blindrec(*PLAN, "theirs.good:GRR").words
    row = table[table.index("theirs.good:GRR") :].split("maxsense", 1)[0]
    assert "(simulated)" in row
    assert f" {mine['users']:,} " in row
    assert f" [{mine['users_low']:,}, " in row
    assert "simulated with " in table


def test_a_plan_simulates_nothing_where_clusters_are_liked_alike() -> None:
    mirrored = Scenario(design=mechanisms.GRR(), items=20, rated=5, like=[[0.9, 0.1], [0.1, 0.9]])
    assert simulated(resolve(mirrored)) is None


def test_plans_recommend_no_claims(blindrec: Command, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.studies.planner.least_users.MOST_SIMULATED", 0)
    monkeypatch.setattr("scenarios.studies.planner.plan.candidates", lambda *request: candidates(*request)[:1])
    made = result(blindrec, *PLAN, "theirs.good:Large")
    assert (made["designs"][0]["channel"], made["recommended"]) == ("claimed, not checked", None)
    table = blindrec(*PLAN, "theirs.good:Large").words
    assert "claimed, not checked:" in table
    assert "protects all a device holds:" not in table
    assert (
        "claimed, not checked: that theirs.good:Large, k-means protects all a device holds; it is never recomm" in table
    )


GRID = """
seeds = 2
[base]
design = "{design}"
rated = 3
epsilon = 4
[[grid]]
items = [6]
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("design", "channel"), [("theirs.good:Large", "claimed, not checked"), ("theirs.good:GRR", "checked exactly")]
)
def test_a_sweep_says_how_far_a_channel_was_checked(blindrec: Command, folder: Path, design: str, channel: str) -> None:
    (folder / "grid.toml").write_text(GRID.format(design=design), encoding="utf-8")
    swept = ["sweep", "sample-complexity", "grid.toml", "--allow-code", "--out", "sw", *WORLD[-2:], "--workers", 1]
    shown = blindrec(*swept)
    assert shown.code == 0, shown.err
    assert channel in shown.out
    told = json.loads((folder / "sw" / "result.json").read_text(encoding="utf-8"))["settings"]
    assert {row["channel"] for row in told} == {channel}
    assert channel in (folder / "sw" / "settings.csv").read_text(encoding="utf-8")


# Resumed runs and their policies: what was asked stands in the journal, and another policy is refused.


FLAGS = ["run", "--items", "12", "--rated", "4", "--epsilon", "3", "--design", "sign", "--users", "3000"]
FLAGS += ["--backend", "inprocess", "--workers", "1", "--json", "-"]
WAVERING = """
import os
import numpy as np

class Wavering:
    def __init__(self, setting):
        self.setting = setting

    def next_query(self, state):
        if (number := len(state.asked)) == 5:
            return None
        other = os.environ.get("OTHER_PROCESSOR") == "yes" and number < 3
        pool = np.arange(11 if other else 12, dtype=np.int32)
        return self.setting.ask(state, users=101 if other else 100, pool=pool)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A policy of one's own, in a module of the working directory."""
    name = f"wavering_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(WAVERING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield f"{name}:Wavering"
    sys.modules.pop(name, None)


def test_a_resumed_run_takes_its_rounds_as_they_were_asked(
    mine: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another processor the policy would have asked them otherwise, for the last bits of a number."""
    flags = [*FLAGS, "--policy", mine]
    whole = blindrec(*flags, "--out", tmp_path / "whole").result
    stopped(blindrec, 3, *flags, "--out", tmp_path / "out")
    monkeypatch.setenv("OTHER_PROCESSOR", "yes")
    assert blindrec(*flags).result["releases_sha256"] != whole["releases_sha256"]
    resumed = blindrec("resume", tmp_path / "out", "--policy", mine, "--backend", "inprocess", "--json", "-")
    assert (resumed.code, resumed.result["releases_sha256"]) == (0, whole["releases_sha256"]), resumed.err
    for name in ("rounds.parquet", "items.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_policy_whose_code_asks_otherwise_is_refused(mine: str, blindrec: Command, tmp_path: Path) -> None:
    """Where its code was changed since; brought back, the run goes on. So it does where it asks the same."""
    module, flags, out = mine.partition(":")[0], [*FLAGS, "--policy", mine, "--out", tmp_path / "out"], tmp_path / "out"
    resume = ["resume", out, "--policy", mine, "--backend", "inprocess"]
    stopped(blindrec, 3, *flags)
    for change in ("else 99", "else 100 if number < 2 else 99"):
        Path(f"{module}.py").write_text(WAVERING.replace("else 100", change))
        for again in (resume, flags):
            sys.modules.pop(module)
            line = refused(blindrec, *again)
            assert "its code has changed since the run began, and it would ask query" in line
            assert line.startswith(f"policy Wavering, round {2 if 'number' in change else 0}: ")
            assert line.endswith("; go on with that code, or start in a new folder\n")
    Path(f"{module}.py").write_text(WAVERING + "# another comment\n")
    sys.modules.pop(module)
    assert blindrec(*flags).code == 0


def test_what_a_policy_imports_is_its_code_too(mine: str, blindrec: Command, tmp_path: Path) -> None:
    helper, module = f"of_{mine.partition(':')[0]}", mine.partition(":")[0]
    (tmp_path / f"{helper}.py").write_text("USERS = 100\n")
    text = WAVERING.replace("else 100", "else USERS").replace("import os\n", f"import os\nfrom {helper} import USERS\n")
    (tmp_path / f"{module}.py").write_text(text)
    flags = [*FLAGS, "--policy", mine, "--out", tmp_path / "out"]
    stopped(blindrec, 2, *flags)
    for users in (99, 100):
        (tmp_path / f"{helper}.py").write_text(f"USERS = {users}\n\n")
        for name in (helper, module):
            sys.modules.pop(name)
        ended = blindrec(*flags)
        assert (ended.code, "its code has changed" in ended.err) == ((0, False) if users == 100 else (2, True))
