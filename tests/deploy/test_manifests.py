"""Manifests hold only fields that KubeRay knows, the launcher's file those of Ray's schema; planted faults show."""

import importlib.metadata
import json
import os
import re
import secrets
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import ray
import yaml
from jsonschema import Draft202012Validator
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name
from runs import free_ports, present

import blindrec
from scenarios.cli import command_line
from scenarios.cluster.job_request import parsed

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


# The deploy page's commands for a head by hand, pasted as they stand: they wait for the head, and end it.


PAGE = Path(__file__).parents[2] / "deploy" / "README.md"
PORTS = ("6379", "8265", "8266")


def block() -> str:
    """The first commands of the section."""
    section = PAGE.read_text(encoding="utf-8").partition("## A head by hand")[2]
    match = present(re.search(r"```\n(.*?)```", section, re.DOTALL))
    return match[1]


@pytest.mark.thorough  # three quarters of a minute of starting and stopping heads
@pytest.mark.cluster
def test_the_commands_for_a_head_by_hand_run_when_they_are_pasted(tmp_path: Path) -> None:
    """On ports of their own, since other heads may run on this machine, and with a job that is over at once."""
    script = block()
    ports = free_ports(len(PORTS) + 1)
    for old, new in zip(PORTS, ports, strict=False):
        assert old in script
        script = script.replace(old, str(new))
    script = script.replace("submit run --users 2000000", "submit bounds --items 1000 --rated 30")
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # a short name, as sockets need it
        own = f"--temp-dir={folder} --num-cpus=2 --ray-client-server-port={ports[3]}"
        script = script.replace("ray start --head --block", f"ray start --head --block {own}")
        (tmp_path / "key").write_text(secrets.token_hex(32))
        (tmp_path / "work").mkdir()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "NO_PROXY": "127.0.0.1",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(tmp_path / "key"),
        }
        command = ["bash", "-c", f"set -m; {{ {script} }}; wait"]  # jobs are numbered, as where somebody types
        ended = subprocess.run(
            command, cwd=tmp_path / "work", env=environment, capture_output=True, text=True, check=False
        )
    assert (tmp_path / "work" / "result.json").is_file(), ended.stderr[-2000:]
    assert json.loads((tmp_path / "work" / "result.json").read_text())["bounds"]


# The Dockerfile copies what exists, installs what is pinned, and is of a Python that the project allows.


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


# Every command of the deploy page, of the manifests and of the launcher's file is one that blindrec and Ray know.


DEPLOY = ROOT / "deploy"
ENDS = {"|", "&&", ";", "&", ">", ">>", "||"}


def commands(text: str) -> Iterator[list[str]]:
    """The simple commands of lines of shell, without loops, assignments before them and redirections behind."""
    for line in re.sub(r"\$\((.*?)\)", r"; \1 ;", text).splitlines():
        words = shlex.shlex(line, posix=True, punctuation_chars="|&;>")
        words.whitespace_split = True
        simple: list[str] = []
        for word in [*words, ";"]:
            if word not in ENDS:
                simple.append(word)
                continue
            while simple and re.match(r"[A-Za-z_]+=|(do|done|for)$", simple[0]):
                simple.pop(0)
            if simple:
                yield simple
            simple = []


def page() -> str:
    return "\n".join(re.findall(r"```\n(.*?)```", (DEPLOY / "README.md").read_text(encoding="utf-8"), re.DOTALL))


def started() -> str:
    """What the launcher and a job run."""
    launcher = yaml.safe_load((DEPLOY / "launcher.yaml").read_text(encoding="utf-8"))
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text(encoding="utf-8"))
    return "\n".join(
        [*launcher["head_start_ray_commands"], *launcher["worker_start_ray_commands"], job["spec"]["entrypoint"]]
    )


def ray_line() -> Any:
    """Ray's command line, which takes a second to import."""
    from ray.scripts.scripts import cli  # noqa: PLC0415 (as said)

    return cli


ALL = [*commands(page()), *commands(started())]


def of(program: str) -> list[list[str]]:
    """What follows a program's name, wherever it is called."""
    return [words[1:] for words in ALL if words[0] == program]


def check(words: list[str]) -> None:
    """Parse a command of blindrec; raises what the command line raises."""
    name, tree = words[0], command_line()
    if name not in ("submit", "status", "watch", "fetch", "stop"):
        parsed(tree, words)
        return
    context = tree.commands[name].make_context(name, words[1:])
    if name == "submit":
        parsed(tree, context.args)


@pytest.mark.parametrize("words", of("blindrec"), ids=" ".join)
def test_a_command_of_blindrec_is_known(words: list[str]) -> None:
    check(words)


@pytest.mark.parametrize("words", of("ray"), ids=" ".join)
def test_a_command_of_ray_is_known(words: list[str]) -> None:
    command = ray_line()
    rest = list(words)
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    values = command.make_context(command.name, rest).params
    if entrypoint := values.get("entrypoint"):
        assert entrypoint[:3] == ("python", "-m", "scenarios")
        check(list(entrypoint[3:]))


def test_planted_faults_are_found() -> None:
    with pytest.raises(Exception, match="--userz"):
        check(["run", "--userz", "5"])
    with pytest.raises(Exception, match="--userz"):
        check(["submit", "run", "--userz", "5", "--address", "http://127.0.0.1:8265"])
    with pytest.raises(click.NoSuchOption):
        ray_line().commands["start"].make_context("start", ["--heads"])


def test_the_page_is_read_as_meant() -> None:
    assert list(commands("A=1 x --y 'a b' | z & # no\nj=$(k --l)")) == [["x", "--y", "a b"], ["z"], ["k", "--l"]]
    programs = {words[0] for words in ALL}
    assert {"blindrec", "ray", "kubectl", "helm", "docker", "kill", "export", "rm"} <= programs
    assert {words[0] for words in of("blindrec")} == {"run", "submit", "status", "watch", "fetch", "stop"}
    assert {words[0] for words in of("ray")} >= {"start", "stop", "up", "down", "dashboard", "job"}


def test_the_page_names_every_file() -> None:
    """That they exist see `test_documented_figures`, and `test_site` of links."""
    named = {word for words in ALL for word in words if word.startswith("deploy/")}
    assert {"deploy/launcher.yaml", "deploy/rayjob.yaml", "deploy/raycluster.yaml", "deploy/Dockerfile"} == named


def test_deploy_holds_no_code() -> None:
    assert {path.suffix for path in DEPLOY.iterdir()} <= {".md", ".yaml", ""}
