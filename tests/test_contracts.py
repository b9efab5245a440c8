"""The contracts of imports are about rooms: who adds a mechanism, a policy, a row or a sweep edits none of them."""

import tomllib
from pathlib import Path
from typing import Any

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]
CONTRACTS: list[dict[str, Any]] = PROJECT["importlinter"]["contracts"]


def named(contract: dict[str, Any]) -> set[str]:
    """The modules that a contract names, in full."""
    whole = {
        name
        for key in ("source_modules", "forbidden_modules", "containers", "ancestors")
        for name in contract.get(key, ())
    }
    layers = {name.strip(" ()") for line in contract.get("layers", ()) for name in line.replace(":", "|").split("|")}
    inside = {f"{container}.{layer}" for container in contract.get("containers", ()) for layer in layers}
    ignored = {name.strip() for line in contract.get("ignore_imports", ()) for name in line.split("->")}
    return whole | inside | ignored


def test_contracts_name_rooms_and_what_stands_beside_them() -> None:
    """No file inside a room is named; a room is a folder, or a file that stands among folders."""
    names = set().union(*map(named, CONTRACTS))
    assert {"actors", "coordinator.protocol", "coordinator.protocol.mechanisms", "scenarios.families.online"} <= names
    root, depth = Path(__file__).parents[1], {}
    for name in names:
        place = root.joinpath(*name.split("."))
        assert place.is_dir() or place.with_suffix(".py").is_file(), name
        depth[name] = name.count(".")
    assert max(depth.values()) <= 2


def test_every_package_of_ours_is_held_to_having_no_circles() -> None:
    """A circle of modules is one of siblings, too: below the package that is nearest to all of them."""
    held = [set(contract["ancestors"]) for contract in CONTRACTS if contract["type"] == "acyclic_siblings"]
    assert held == [set(PROJECT["importlinter"]["root_packages"])]
