"""Scenario files that are wrong or cannot be read are refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from coordinator.protocol.errors import InputError
from scenarios.given.config import load_scenario


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("epsilom = 1", ["epsilom", "unknown"]),
        ("[speed]\nworkers = 2", ["speed", "unknown"]),
        ('items = "many"', ["items", "'many'"]),
        ("items = 10.5", ["items", "10.5"]),
        ("items = 10\nitems = 11", ["scenario.toml", "no TOML"]),
        ("items: 10", ["scenario.toml", "no TOML"]),
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
