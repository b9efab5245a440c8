"""Manifests hold only fields that KubeRay knows, the launcher's file those of Ray's schema; planted faults show."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
import yaml
from jsonschema import Draft202012Validator
from runs import present

ROOT = Path(__file__).parents[2]
FIELDS = json.loads((Path(__file__).parent / "crd-fields.json").read_text(encoding="utf-8"))
MANIFESTS = ["raycluster.yaml", "rayjob.yaml"]
LAUNCHER = "launcher.yaml"
SCHEMA = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"


def read(name: str) -> dict[str, Any]:
    """A file of deploy."""
    manifest: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / name).read_text(encoding="utf-8"))
    return manifest


def faults(manifest: dict[str, Any]) -> list[str]:
    """What is wrong with a manifest."""
    if manifest.get("apiVersion") != FIELDS["apiVersion"] or manifest.get("kind") not in FIELDS["kinds"]:
        return [f"unknown resource {manifest.get('apiVersion')} {manifest.get('kind')}"]
    validator = Draft202012Validator(FIELDS["kinds"][manifest["kind"]])
    return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(manifest)]


def cluster(manifest: dict[str, Any]) -> dict[str, Any]:
    """The cluster that a manifest describes."""
    spec = manifest["spec"]
    described: dict[str, Any] = spec.get("rayClusterSpec", spec)
    return described


def pods(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """The pods of its head and of its workers."""
    described = cluster(manifest)
    return [group["template"]["spec"] for group in (described["headGroupSpec"], *described["workerGroupSpecs"])]


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_holds_only_what_kuberay_knows(name: str) -> None:
    assert faults(read(name)) == []


def misspell(manifest: dict[str, Any]) -> None:
    cluster(manifest)["headGroupSpecs"] = cluster(manifest).pop("headGroupSpec")


def write_a_word(manifest: dict[str, Any]) -> None:
    cluster(manifest)["workerGroupSpecs"][0]["replicas"] = "two"


def lose_the_containers(manifest: dict[str, Any]) -> None:
    del pods(manifest)[1]["containers"]


def keep_the_old_version(manifest: dict[str, Any]) -> None:
    manifest["apiVersion"] = "ray.io/v1alpha1"


@pytest.mark.parametrize("name", MANIFESTS)
@pytest.mark.parametrize("plant", [misspell, write_a_word, lose_the_containers, keep_the_old_version])
def test_a_planted_fault_is_found(name: str, plant: Callable[[dict[str, Any]], None]) -> None:
    manifest = read(name)
    plant(manifest)
    assert faults(manifest)


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_is_of_the_pinned_ray_with_a_token_and_shared_memory(name: str) -> None:
    manifest = read(name)
    pinned = present(re.search(r"^ray==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))
    assert cluster(manifest)["rayVersion"] == pinned[1]
    assert cluster(manifest)["authOptions"] == {"mode": "token"}
    for pod in pods(manifest):
        (shared,) = pod["volumes"]
        assert shared["emptyDir"]["medium"] == "Memory"
        (container,) = pod["containers"]
        assert container["volumeMounts"] == [{"name": shared["name"], "mountPath": "/dev/shm"}]
        assert container["resources"]["requests"] == container["resources"]["limits"]
    groups = (cluster(manifest)["headGroupSpec"], *cluster(manifest)["workerGroupSpecs"])
    assert all(int(group["rayStartParams"]["object-store-memory"]) < 2 * 2**30 for group in groups)


def test_the_source_of_the_fields_is_named() -> None:
    source = FIELDS["source"]
    assert re.fullmatch("[0-9a-f]{40}", source["commit"])
    assert {Path(name).name for name in source["sha256"]} == {"ray.io_rayclusters.yaml", "ray.io_rayjobs.yaml"}


def faults_of_launcher(described: dict[str, Any]) -> list[str]:
    """What Ray's schema says against it."""
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [f"{one.json_path}: {one.message}" for one in validator.iter_errors(described)]


def test_the_file_is_what_ray_expects() -> None:
    assert faults_of_launcher(read(LAUNCHER)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [("head_setup_command", []), ("max_workers", "one"), ("auth", {"user": "ray"}), ("docker", {"images": "x"})],
)
def test_a_planted_fault_of_the_launcher_is_found(key: str, value: object) -> None:
    assert faults_of_launcher({**read(LAUNCHER), key: value})


def test_there_is_a_worker_for_each_address() -> None:
    described = read(LAUNCHER)
    assert described["max_workers"] == len(described["provider"]["worker_ips"])


def test_every_ray_is_that_of_the_environment_and_asks_for_a_token() -> None:
    described = read(LAUNCHER)
    starts = [*described["head_start_ray_commands"], *described["worker_start_ray_commands"]]
    assert all(line.startswith(". ~/blindrec-env/bin/activate; ") for line in starts)
    assert all("RAY_AUTH_MODE=token ray start" in line for line in starts if "ray start" in line)
    assert "~/.ray/auth_token" in described["file_mounts"]
