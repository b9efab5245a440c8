"""The launcher's file against the schema in Ray's wheel, and what it starts against Ray's command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from jsonschema import Draft202012Validator

FILE = Path(__file__).parents[2] / "deploy" / "launcher.yaml"
SCHEMA = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"


def read() -> dict[str, Any]:
    """The launcher's file."""
    described: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return described


def faults(described: dict[str, Any]) -> list[str]:
    """What Ray's schema says against it."""
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(described)]


def test_the_file_is_what_ray_expects() -> None:
    assert faults(read()) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("head_setup_command", []), ("max_workers", "one"), ("auth", {"user": "ray"}), ("docker", {"images": "x"})],
)
def test_a_planted_fault_is_found(key: str, value: object) -> None:
    assert faults({**read(), key: value})


def test_there_is_a_worker_for_each_address() -> None:
    described = read()
    assert described["max_workers"] == len(described["provider"]["worker_ips"])


def test_every_ray_is_that_of_the_environment_and_asks_for_a_token() -> None:
    described = read()
    starts = [*described["head_start_ray_commands"], *described["worker_start_ray_commands"]]
    assert all(line.startswith(". ~/blindrec-env/bin/activate; ") for line in starts)
    assert all("RAY_AUTH_MODE=token ray start" in line for line in starts if "ray start" in line)
    assert "~/.ray/auth_token" in described["file_mounts"]
