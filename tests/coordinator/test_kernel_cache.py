"""Kernels of code that was sent to a cluster: compiled once for each version of the code, wherever Ray unpacks it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coordinator.protocol import kernel_cache

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "coordinator")
CALL = """
import numpy as np
from coordinator.protocol import streams
print(len(streams.device_streams(np.zeros(2, np.uint64), 0, 3)), sum(streams.device_streams.stats.cache_hits.values()))
"""


def sent(folder: Path) -> Path:
    """The packages as Ray unpacks them."""
    for name in PACKAGES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def hits(folder: Path, home: Path) -> int:
    """How often a kernel of that folder was found compiled."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(home), "HOME": str(home)}
    environment.pop("NUMBA_CACHE_DIR", None)
    said = subprocess.run(
        [sys.executable, "-c", CALL], env=environment, cwd=home, capture_output=True, text=True, check=True
    )
    return int(said.stdout.split()[1])


@pytest.mark.slow
def test_a_kernel_is_found_by_what_it_is_made_of(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    first, second = sent(tmp_path / "_ray_pkg_first"), sent(tmp_path / "_ray_pkg_second")
    assert [hits(first, home), hits(second, home)] == [0, 1]
    assert not list(tmp_path.glob("_ray_pkg_*/**/*.nbi"))
    with (second / "actors" / "words.py").open("a", encoding="utf-8") as file:
        file.write("# a kernel may call another module's, whose change numba would not notice\n")
    assert [hits(second, home), hits(first, home)] == [0, 1]
    assert {one.name for one in home.iterdir()} == {"blindrec"}


def test_kernels_of_other_code_go_once_they_are_old_and_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    old, used, other = (tmp_path / "blindrec" / name for name in ("a" * 64, "b" * 64, "rivals"))
    for folder, days in ((old, 31), (used, 29), (other, 31)):
        (folder / "kernels").mkdir(parents=True)
        os.utime(folder, (time.time() - days * 86_400,) * 2)
    mine = kernel_cache.kept.__wrapped__()
    assert [folder.exists() for folder in (old, used, other, mine)] == [False, True, True, False]
    mine.mkdir()
    os.utime(mine, (0, 0))
    kernel_cache.kept.__wrapped__()
    assert mine.stat().st_mtime > time.time() - 3600, "what is used counts as new"


@pytest.mark.slow
def test_what_was_not_sent_stays_beside_its_module(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    mine = sent(tmp_path / "checkout")
    assert [hits(mine, home), hits(mine, home)] == [0, 1]
    assert list(mine.rglob("*.nbi"))
    assert not list(home.iterdir())
