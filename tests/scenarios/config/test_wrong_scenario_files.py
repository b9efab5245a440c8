"""Scenario files that are wrong or cannot be read are refused in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from runs import Command, refused

from coordinator.protocol.errors import InputError
from scenarios.config.run_spec import load_scenario


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[speed]\nworkers = 2", ["speed", "unknown"]),
        ("items = 10.5", ["items", "10.5"]),
        ("items = 10\nitems = 11", ["scenario.toml", "no TOML"]),
        ("columns = ['u']", ["columns", "['u']"]),
        ("like = [[0.9, 0.1], 0.5]", ["like", "0.5"]),
        ("epsilon = true", ["epsilon", "True"]),
    ],
)
def test_files_that_are_wrong_are_refused(text: str, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as raised:
        load_scenario(file, {})
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'design = "\xff"')
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "latin.toml"):
        with pytest.raises(InputError, match=f"scenario file {path} "):
            load_scenario(path, {})


SPY = """
from pathlib import Path
Path("imported").touch()
def policy(setting): raise ValueError("it was made")
"""


@pytest.mark.parametrize(
    ("command", "text", "key"),
    [
        ("run", 'policy = "builtins:exec"', "policy"),
        ("run", 'policy = "spy:policy"', "policy"),
        ("run", 'design = "spy:policy"', "design"),
        ("run", 'helpers = ["spy"]', "helpers"),
        ("sweep", 'base = { policy = "spy:policy" }', "policy"),
        ("sweep", '[[grid]]\ndesign = ["maxsense", "spy:policy"]', "design"),
        ("sweep", 'sweep = "results"\nexperiment = "run"\n[[grid]]\npolicy = ["spy:policy"]', "policy"),
    ],
)
def test_files_that_name_code(
    command: str, text: str, key: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that names code is a program: it is not imported unless somebody says so."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "spy", raising=False)
    Path("spy.py").write_text(SPY, encoding="utf-8")
    Path("given.toml").write_text(text, encoding="utf-8")
    begins = ["run", "given.toml"] if command == "run" else ["sweep", "given.toml", "--out", "swept"]
    line = refused(blindrec, *begins, "--backend", "inprocess")
    assert f"names code, {key} = " in line
    assert "--allow-code" in line
    assert not Path("imported").exists()


def test_code_that_somebody_allows_or_names(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "spy", raising=False)
    Path("spy.py").write_text(SPY, encoding="utf-8")
    Path("given.toml").write_text('policy = "spy:policy"\nitems = 12\nrated = 4\nusers = 100\n', encoding="utf-8")
    here = ["--backend", "inprocess"]
    assert blindrec("run", "given.toml", "--policy", "one-round", *here).code == 0
    assert not Path("imported").exists()
    assert "it was made" in refused(blindrec, "run", "given.toml", "--allow-code", *here)
    assert Path("imported").exists()
    assert "it was made" in refused(blindrec, "run", "given.toml", "--policy", "spy:policy", *here)
