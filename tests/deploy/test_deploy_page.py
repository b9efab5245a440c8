"""Every command of the deploy page, of the manifests and of the launcher's file is one that blindrec and Ray know."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from scenarios.cli import command_line
from scenarios.cluster.job_request import parsed

ROOT = Path(__file__).parents[2]
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
    """That they exist see `test_documented_modules`, and `test_site` of links."""
    named = {word for words in ALL for word in words if word.startswith("deploy/")}
    assert {"deploy/launcher.yaml", "deploy/rayjob.yaml", "deploy/raycluster.yaml", "deploy/Dockerfile"} == named


def test_deploy_holds_no_code() -> None:
    assert {path.suffix for path in DEPLOY.iterdir()} <= {".md", ".yaml", ""}
