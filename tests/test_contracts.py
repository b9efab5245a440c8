"""The contracts of imports stay few and short: who adds a mechanism, a policy or a scenario edits none of them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]
CONTRACTS: list[dict[str, Any]] = PROJECT["importlinter"]["contracts"]


def named(contract: dict[str, Any]) -> set[str]:
    """The modules that a contract names, in full."""
    told = {
        name
        for key in ("source_modules", "forbidden_modules", "containers", "ancestors")
        for name in contract.get(key, ())
    }
    layers = {name.strip(" ()") for line in contract.get("layers", ()) for name in line.replace(":", "|").split("|")}
    inside = {f"{container}.{layer}" for container in contract.get("containers", ()) for layer in layers}
    ignored = {name.strip() for line in contract.get("ignore_imports", ()) for name in line.split("->")}
    return told | inside | ignored


def test_all_contracts_together_name_few_modules() -> None:
    names = set().union(*map(named, CONTRACTS))
    assert {"actors", "coordinator.protocol", "coordinator.server.mechanisms"} <= names
    assert len(names) <= 22, sorted(names)


def test_every_package_of_ours_is_held_to_having_no_circles() -> None:
    """A circle of modules is one of siblings, too: below the package that is nearest to all of them."""
    held = [set(contract["ancestors"]) for contract in CONTRACTS if contract["type"] == "acyclic_siblings"]
    assert held == [set(PROJECT["importlinter"]["root_packages"])]
