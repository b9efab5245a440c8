"""The Dockerfile copies what exists, installs what is pinned, and is of a Python that the project allows."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from runs import present

import blindrec

ROOT = Path(__file__).parents[2]
LINES = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8").splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def told(instruction: str) -> list[str]:
    """What follows an instruction, a line each."""
    return [line.removeprefix(f"{instruction} ") for line in LINES if line.startswith(f"{instruction} ")]


def test_its_python_is_one_that_the_project_allows() -> None:
    (base,) = told("FROM")
    match = present(re.fullmatch(r"python:3\.(\d+)\.\d+-slim-[a-z]+", base))  # to the last digit, and of one Debian
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14"
    assert match[1] == PROJECT["tool"]["mypy"]["python_version"].removeprefix("3.")


def test_all_that_the_project_needs_to_be_installed_is_copied() -> None:
    copied = {source for line in told("COPY") for source in line.split()[:-1]}
    packages = {name.removesuffix("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    project = PROJECT["project"]
    assert packages | {"pyproject.toml", "constraints.txt", project["readme"], *project["license-files"]} == copied


def test_only_what_is_copied_is_sent_to_be_built() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] != "#"]
    assert lines[0] == "*"
    sent = {line.removeprefix("!") for line in lines if line.startswith("!")}
    assert sent == {source for line in told("COPY") for source in line.split()[:-1]}


def needed(name: str, found: dict[NormalizedName, str]) -> dict[NormalizedName, str]:
    """All that a distribution needs to run here, with what it needs in turn: versions by name."""
    for text in importlib.metadata.requires(name) or []:
        wanted = Requirement(text)
        extras = ("default",) if name == "blindrec" else ("", "default") if name == "ray" else ("",)
        if any(wanted.marker is None or wanted.marker.evaluate({"extra": extra}) for extra in extras):
            known = canonicalize_name(wanted.name)
            if known not in found:
                found[known] = importlib.metadata.version(wanted.name)
                needed(wanted.name, found)
    return found


def test_everything_that_it_installs_is_pinned_as_it_is_tested() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    pinned = {canonicalize_name(name): version for name, _, version in (pin.partition("==") for pin in pins)}
    installed = needed("blindrec", {})
    assert len(installed) > 40
    assert installed == {name: pinned.get(name) for name in installed}


def test_it_installs_what_is_pinned_and_runs_as_nobody_special() -> None:
    assert any("-c constraints.txt" in line for line in told("RUN"))
    assert told("USER") == ["ray"]


@pytest.mark.parametrize("name", ["raycluster.yaml", "rayjob.yaml", "README.md"])
def test_the_image_is_called_the_same_everywhere(name: str) -> None:
    wanted = f"blindrec:{blindrec.__version__}"
    text = (ROOT / "deploy" / name).read_text(encoding="utf-8")
    assert set(re.findall(r"\bblindrec:[0-9][\w.]*", text)) == {wanted}
    assert wanted in LINES[0]
