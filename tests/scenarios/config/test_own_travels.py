"""Foreign mechanisms from a folder of one's own on Ray: by the command, with a helper package, and from a script."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import mechanisms
import pytest
from runs import Command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
PATIENCE = 300.0
HELPER = """
import numpy as np

def one_hot(item, liked, items):
    bits = np.zeros((item.size, 2 * items), np.uint8)
    rated = np.flatnonzero(item >= 0)
    bits[rated, item[rated] + items * ~liked[rated]] = 1
    return bits
"""
HELPED = """
import sketching.hot
from theirs.good import OUE

class Helped(OUE):
    def sketch(self, question, ratings, coins):
        return sketching.hot.one_hot(*ratings.random_item(coins.words()), question.items)
"""
SCRIPT = """
import json
{source}
if __name__ == "__main__":
    from scenarios.backends.ray_instance import on_ray
    from scenarios.config.scenario import Scenario
    from scenarios.families.main.run import run
    from scenarios.families.main.main_seed import record
    from scenarios.backends.selection import InProcess

    wanted = Scenario(design=GRR(shift=3), items=20, rated=5, users=20_000, epsilon=2)
    with on_ray(address=None, workers=1) as session:
        far = record(run(wanted, session, devices_per_actor=10_000))
    near = record(run(wanted, InProcess(1)))
    print(json.dumps([one["releases_sha256"] for one in (far, near)]))
"""


@pytest.fixture
def folder(importable: Path) -> Path:
    """A folder of one's own: a package, and another one that it imports."""
    source = Path(mechanisms.__file__).read_text(encoding="utf-8")
    for package, files in (("theirs", {"good": source, "helped": HELPED}), ("sketching", {"hot": HELPER})):
        (importable / package).mkdir()
        for name, text in {"__init__": "", **files}.items():
            (importable / package / f"{name}.py").write_text(text, encoding="utf-8")
    (importable / "script.py").write_text(
        SCRIPT.format(source=source.replace("from __future__ import annotations\n", "")), encoding="utf-8"
    )
    return importable


def ran(folder: Path, *words: str) -> Any:
    """What a Python process in that folder prints as its last line of JSON, or as a whole."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_command_runs_it_on_ray_as_in_process(folder: Path, lent: None, blindrec: Command) -> None:
    """One class from a module of its package, with a package beside it that helps; Ray's workers find neither."""
    asked = ["--design", "theirs.helped:Helped", "--with", "sketching", "--items", "20", "--rated", "5"]
    run = ["run", *asked, "--users", "2000", "--json", "-"]
    near = blindrec(*run, "--backend", "inprocess").result
    far = blindrec(*run, "--backend", "ray", "--workers", "1", "--devices-per-actor", "1000").result
    assert far["releases_sha256"] == near["releases_sha256"]
    assert (far["mechanism"], far["actors"]) == (near["mechanism"], 2)


@pytest.mark.thorough  # by default the class of a module travels
def test_a_class_of_a_script_runs_on_ray(folder: Path) -> None:
    far, near = ran(folder, "script.py")
    assert far == near
