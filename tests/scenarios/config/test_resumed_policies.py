"""Resumed runs and their policies: what was asked stands in the journal, and another policy is refused."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from faults import stopped
from runs import Command, refused

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
