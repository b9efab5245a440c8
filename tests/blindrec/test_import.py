"""``import blindrec``: what it loads, what it shows, its types, and what it says of another project's packages."""

import ast
import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import assert_type

import pytest
from matplotlib.axes import Axes

import blindrec
from blindrec import NEIGHBOURS, foreign
from scenarios import PACKAGES
from scenarios.backends.sending import own_packages
from scenarios.from_python import RunResult

ROOT = Path(__file__).parents[2]
OURS = {*NEIGHBOURS, "blindrec"}
HEAVY = {"numpy", "scipy", "pandas", "numba", "sklearn", "matplotlib", "pyarrow", "ray", "rich", "typer", "pydantic"}


def fresh(program: str, path: Path | str | None = None, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own, ``path`` before all other places."""
    begin = f"import sys; sys.path[:0] = {[str(path)] if path else []!r}\n"
    command = [sys.executable, "-c", begin + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def loaded(program: str) -> set[str]:
    """The packages, and our modules, that a program loads."""
    told = fresh(f"{program}\nimport json, sys; print(json.dumps(list(sys.modules)))")
    assert told.returncode == 0, told.stderr
    names = json.loads(told.stdout)
    return {name for name in names if name.partition(".")[0] in OURS} | {name.partition(".")[0] for name in names}


def test_the_import_loads_no_other_package_of_ours_and_nothing_heavy() -> None:
    assert loaded("import blindrec; dir(blindrec); blindrec.__version__") & (OURS | HEAVY) == {"blindrec"}


MECHANISM = (
    "Mechanism, Catalogue, Question, Tally, RatingsBlock, CoinsBlock, Likelihood, independent_bits, matrix_channel"
)


@pytest.mark.few(2)
@pytest.mark.parametrize("names", ["Policy, Setting, Ask, ServerState", MECHANISM, "errors"])
def test_what_policies_and_mechanisms_need_loads_the_servers_side_only(names: str) -> None:
    """So their modules can be loaded where the coordinator runs; a mechanism's needs no more than the protocol."""
    found = loaded(f"from blindrec import {names}")
    assert found & OURS == {"blindrec", "coordinator"}
    assert ("coordinator.server" in found) is ("Policy" in names)


def test_every_name_is_there_and_no_other() -> None:
    assert dir(blindrec) == blindrec.__all__ == sorted(blindrec.__all__)
    assert all(getattr(blindrec, name) is not None for name in blindrec.__all__)
    with pytest.raises(AttributeError, match=r"^blindrec has no public name 'Runn'; it has Amplification, "):
        blindrec.Runn  # type: ignore[attr-defined] # noqa: B018 (what is refused)


def test_editors_and_type_checkers_see_every_name() -> None:
    (block,) = [node for node in ast.parse(Path(blindrec.__file__).read_text()).body if isinstance(node, ast.If)][:1]
    seen = [alias.asname or alias.name for node in block.body for alias in getattr(node, "names", [])]
    assert sorted([*seen, "__version__"]) == blindrec.__all__


def test_all_packages_are_built_sent_and_checked() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = [one.rstrip("*") for one in told["tool"]["setuptools"]["packages"]["find"]["include"]]
    assert sorted(names) == sorted(PACKAGES) == sorted(OURS)
    assert {*names} <= {*told["tool"]["mypy"]["files"]}
    assert sorted(told["tool"]["importlinter"]["root_packages"]) == sorted(names)
    assert [Path(one).name for one in own_packages()] == list(PACKAGES)
    assert all((ROOT / name / "py.typed").is_file() for name in names)  # else all that a package gives is Any


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize("kind", ["package", "module", "namespace"])
def test_another_projects_package_is_told_in_a_line_without_loading_it(name: str, kind: str, tmp_path: Path) -> None:
    place = tmp_path / name
    if kind == "module":
        place = tmp_path / f"{name}.py"
        place.write_text("raise RuntimeError('loaded')")
    else:
        place.mkdir()
        (place / ("__init__.py" if kind == "package" else "other.py")).write_text("raise RuntimeError('loaded')")
    said = fresh("import blindrec", tmp_path)
    if kind == "namespace":  # Python takes a package with a first file before it, wherever that lies
        assert said.returncode == 0
        return
    line = said.stderr.strip().splitlines()[-1]
    assert line.startswith(f"ImportError: {name} in {place} is another project's package, blindrec needs its own; ")
    assert f"pip uninstall {name}, then pip install --force-reinstall blindrec" in line
    assert "loaded" not in said.stderr


def test_a_folder_called_blindrec_where_python_starts_is_passed_over(tmp_path: Path) -> None:
    """As above a clone: no code of ours could say anything if Python took that folder for the package."""
    (tmp_path / "blindrec").mkdir()
    said = fresh("import blindrec; print(blindrec.Scenario.__name__)", tmp_path)
    assert (said.returncode, said.stdout) == (0, "Scenario\n"), said.stderr


def first_files(name: str, folder: Path) -> None:
    """Copy the modules of a package, without those of packages in it, into a folder."""
    (folder / name).mkdir(parents=True)
    for file in (ROOT / name).glob("*.py"):
        (folder / name / file.name).write_bytes(file.read_bytes())


def test_a_foreign_wheel_over_ours_is_told_in_the_same_place(tmp_path: Path) -> None:
    """As pip leaves it: their first file, and ours beside it."""
    for name in OURS:
        first_files(name, tmp_path)
    assert fresh("import blindrec; print(blindrec.__file__)", tmp_path).stdout.startswith(str(tmp_path))
    (tmp_path / "coordinator" / "__init__.py").write_text('"""Coordinates."""\n')
    said = fresh("import blindrec", tmp_path)
    assert f"coordinator in {tmp_path / 'coordinator'} is another project's" in said.stderr


def test_packages_in_folders_of_their_own_or_in_a_zip_are_ours(tmp_path: Path) -> None:
    """As Ray lays out what it was sent."""
    for name in OURS:
        first_files(name, tmp_path / name)
    folders = [str(tmp_path / name) for name in OURS]
    apart = fresh(f"sys.path[:0] = {folders!r}\nimport blindrec; print(blindrec.__file__)")
    assert apart.stdout.startswith(str(tmp_path)), apart.stderr
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as zipped:
        for file in tmp_path.glob("*/*/*.py"):
            zipped.write(file, f"{file.parent.name}/{file.name}")
    inside = fresh("import blindrec; print(blindrec.__file__)", tmp_path / "all.zip")
    assert inside.stdout.startswith(str(tmp_path / "all.zip")), inside.stderr


def test_one_that_is_missing_or_made_by_hand_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blindrec.NEIGHBOURS", ("a_package_that_nobody_has",))
    assert str(foreign(ROOT)).startswith("a_package_that_nobody_has is not there, blindrec needs its own; ")
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "actors", type(sys)("actors"))
    assert str(foreign(ROOT)).startswith("actors in this process is another project's package")


@pytest.mark.parametrize("how", ["installed", "module"])
def test_the_command_says_it_in_one_line(how: str, tmp_path: Path) -> None:
    (tmp_path / "scenarios.py").write_text("")
    if how == "installed":
        program = "sys.argv[0] = '/somewhere/bin/blindrec'\nfrom blindrec.__main__ import main\nmain()"
        said = fresh(program, tmp_path)
    else:
        command = [sys.executable, "-m", "blindrec"]
        said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert said.stderr.count("\n") == 1
    assert f"scenarios in {tmp_path / 'scenarios.py'} is another project's package" in said.stderr


def test_the_command_runs() -> None:
    begin = [sys.executable, "-m", "blindrec", "bounds", "--items", "1000", "--rated", "30", "--json", "-"]
    said = subprocess.run(begin, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stderr) == (0, "")
    assert json.loads(said.stdout)["bounds"]


def script() -> None:
    """What a user writes. It is never run; a type that is another one is an error of mypy."""
    scenario = blindrec.Scenario(design="sign", items=40, like=[0.9, 0.1], epsilon=1, vectors=4)
    result = blindrec.run(scenario, blindrec.Ray(workers=2), repeat=3, out="runs/first")
    _table, axes = result.frame("items"), result.plot()
    _plan = blindrec.plan(items=40, like=[[0.9, 0.1], [0.2, 0.8]], epsilon=1)
    _swept = blindrec.sweep({"grid": [{"items": [10, 20]}]}, seeds=3)
    _policy: blindrec.Policy
    assert_type(result, RunResult)
    assert_type(axes, Axes)
    assert_type(blindrec.errors.InputError("no"), blindrec.errors.InputError)
    assert_type(blindrec.__version__, str)


def wrong() -> None:
    """What a user must not write. It is never run; an error that mypy no longer finds makes its comment one."""
    blindrec.run(40)  # type: ignore[arg-type]
    blindrec.run(blindrec.Scenario()).frame("rows")  # type: ignore[arg-type]
    blindrec.Scenario(items="forty")  # type: ignore[arg-type]
    blindrec.Runn()  # type: ignore[attr-defined]
