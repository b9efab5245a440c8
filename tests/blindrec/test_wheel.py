"""The wheel: it holds all that the product is, and works elsewhere, without the checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import blindrec
from benchmarks.pages import ROOT, modules, read

ROOMS = ("actors", "blindrec", "coordinator", "scenarios")
DATA = ("*.py", "py.typed", "templates/*", "grids/*.toml")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built as `pip install .` builds it, of a copy: a build leaves files beside what it reads."""
    folder, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(copy)]
    subprocess.run(build, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and what it depends on, but not this checkout."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as parts:
        parts.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib"))  # whose own .pth files are not read
    return folder / "bin" / "python"


def run(python: Path, folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a program of the environment in a folder, with nothing of the checkout around it."""
    ours = ("BLINDREC", "NUMBA", "PYTHON", "RAY")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    ended = subprocess.run(
        [str(python), *map(str, words)], cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended


@pytest.mark.thorough  # A build takes ten seconds
def test_it_holds_every_file_of_the_product(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    files = {path.relative_to(ROOT).as_posix() for room in ROOMS for kind in DATA for path in (ROOT / room).rglob(kind)}
    assert len(files) > 250
    assert names == files


@pytest.mark.thorough  # It compiles all kernels that it needs
def test_a_mechanism_of_ones_own_runs_from_it(elsewhere: Path, tmp_path: Path) -> None:
    """The README's own, and the same digest as here would be."""
    (tmp_path / "mine.py").write_text(dict(modules(read("README.md")))["mine.py"], encoding="utf-8")
    where = run(elsewhere, tmp_path, "-c", "import blindrec; print(blindrec.__file__)").stdout
    assert where.startswith(str(elsewhere.parents[1]))
    world = ["--items", 20, "--rated", 5, "--users", 20_000, "--epsilon", 2, "--backend", "inprocess"]
    run(elsewhere, tmp_path, "-m", "blindrec", "run", "--design", "mine:Mine", *world, "--json", "mine.json")
    record = json.loads((tmp_path / "mine.json").read_text(encoding="utf-8"))
    assert record["exact"]
    assert record["channel"] == "checked exactly"


@pytest.mark.thorough
@pytest.mark.cluster
def test_reports_grids_and_ray_work_from_it(elsewhere: Path, tmp_path: Path) -> None:
    command = (elsewhere, tmp_path, "-m", "blindrec")
    run(*command, "run", "--items", 20, "--rated", 5, "--users", 2000, "--backend", "ray", "--out", "first")
    run(*command, "report", "first", "--out", "first.html")
    assert "maxsense" in (tmp_path / "first.html").read_text(encoding="utf-8")
    run(*command, "sweep", "accuracy", "--out", "grid", "--backend", "inprocess")
    sent = run(elsewhere, tmp_path, "-c", "from scenarios.backends.sending import own_packages as o; print(o())").stdout
    assert str(ROOT) not in sent
    assert all(f"site-packages/{room}'" in sent for room in ROOMS)


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {blindrec.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
