"""A user's script is type-checked by the public face alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import blindrec

scenario = blindrec.Scenario(design="sign", items=40, like=[0.9, 0.1], epsilon=1, vectors=4)
result = blindrec.run(scenario, blindrec.Ray(workers=2), repeat=3, out="runs/first")
table, axes = result.frame("items"), result.plot()
plan = blindrec.plan(items=40, like=[[0.9, 0.1], [0.2, 0.8]], epsilon=1)
swept = blindrec.sweep({"grid": [{"items": [10, 20]}]}, seeds=3)
policy: blindrec.Policy
reveal_type(result)
reveal_type(axes)
reveal_type(blindrec.errors.InputError("no"))
reveal_type(blindrec.__version__)
blindrec.run(40)
result.frame("rows")
blindrec.Scenario(items="forty")
blindrec.Runn
"""


@pytest.mark.slow
def test_a_script_is_checked_strictly(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text("[mypy]\nstrict = True\nfollow_imports = silent\n")
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},  # found as an installed package: what has no py.typed is Any
        capture_output=True,
        text=True,
        check=False,
    )
    lines = told.stdout.splitlines()
    revealed = [
        line.partition("Revealed type is ")[2].strip('"').removeprefix("builtins.")
        for line in lines
        if "Revealed" in line
    ]
    assert revealed == [
        "scenarios.returned.RunResult",
        "matplotlib.axes._axes.Axes",
        "coordinator.protocol.errors.InputError",
        "str",
    ], told.stdout
    errors = [line.partition(": error: ")[2] for line in lines if ": error: " in line]
    assert len(errors) == 4, told.stdout
    assert [line.partition(":")[2].partition(":")[0] for line in lines if ": error: " in line] == [
        "14",
        "15",
        "16",
        "17",
    ]
