"""The README's own policy: short, and it runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from runs import Command

README = Path(__file__).parents[2] / "README.md"


def test_the_policy_in_the_readme_is_short_and_runs(
    blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    code = next(block for block in blocks if "mypolicy" in block)
    assert code.count("\n") <= 25
    (tmp_path / "mypolicy.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    world = ["--items", 100, "--rated", 10, "--users", 400_000]
    ended = blindrec(
        "run", "--design", "sign", "--policy", "mypolicy:Doubtful", *world, "--backend", "inprocess", "--json", "-"
    )
    assert ended.code == 0
    assert ended.result["exact"]
    assert ended.result["undecided"] == 0
    assert 30_000 < ended.result["answered"] < 400_000
    assert ended.result["rounds"] > 1
