"""The deploy page's commands for a head by hand, pasted as they stand: they wait for the head, and end it."""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from runs import free_ports, present

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
