"""A submitted job against a submitted script that starts two empty actors, in pairs, on one head.

``python -m benchmarks.submitted [--pairs 3] [--users 2000000] [--json FILE]`` starts a head on free ports, and ends it.
Every job is submitted once before, so that files are sent and kernels compiled. Processor time is that of all
processes: the submitting command, the job, and what the head spends meanwhile.
"""

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from socket import create_server
from typing import Annotated

import psutil
import requests
import typer

from benchmarks.start_up import BARE, UNCACHED, in_turns, took

PATIENCE = 120.0  # Seconds that the head may take to start and to end
HERE = "127.0.0.1"


def main(
    pairs: Annotated[int, typer.Option(help="Runs of each job, in turns.")] = 3,
    users: Annotated[int, typer.Option(help="Devices of the run.")] = 2_000_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="File for every run.")] = None,
) -> None:
    """Measure both jobs in turns."""
    programs, key = Path(sys.executable).parent, secrets.token_hex(32)
    with tempfile.TemporaryDirectory() as working_dir, tempfile.NamedTemporaryFile("w") as token:
        token.write(key)
        token.flush()
        (Path(working_dir) / "bare.py").write_text(BARE, encoding="utf-8")
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("RAY_") and name != UNCACHED
        }
        environment = variables | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": token.name,
            "NO_PROXY": HERE,
        }
        with _head(programs, environment, key) as (head, url):
            bare = [str(programs / "ray"), "job", "submit", "--address", url, "--working-dir", working_dir]
            run = [sys.executable, "-m", "blindrec", "submit", "run", "--users", str(users), "--address", url]
            commands = {"bare script": [*bare, "--", "python", "bare.py"], f"run --users {users}": run}
            jobs = {
                name: partial(_took, head, command, Path(working_dir), environment)
                for name, command in commands.items()
            }
            in_turns(jobs, pairs, json_file)


def _took(
    head: psutil.Process, command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> dict[str, float]:
    """Run a command; what the head's processes spend meanwhile counts, too."""
    before = _spent(head)
    times = took(command, folder=folder, environment=environment)
    after = _spent(head)
    more = sum(spent - before[process] for process, spent in after.items() if process in before)
    return {**times, "processor": times["processor"] + more, "head": more}


def _spent(head: psutil.Process) -> dict[psutil.Process, float]:
    """Return the processor time of each of a head's processes."""
    spent = {}
    for process in [head, *head.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.Error:
            continue
        spent[process] = times.user + times.system
    return spent


@contextmanager
def _head(programs: Path, environment: Mapping[str, str], key: str) -> Iterator[tuple[psutil.Process, str]]:
    """Start a head with a dashboard on ports of its own; yield its process and its URL; end it."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(create_server((HERE, 0)))) for _ in range(4)]
        port, dashboard, client, agent = (one.getsockname()[1] for one in sockets)
    url = f"http://{HERE}:{dashboard}"
    # the folder's name is short, because paths of sockets have to be
    with tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True) as folder:
        command = [
            str(programs / "ray"), "start", "--head", "--block", f"--temp-dir={folder}", "--disable-usage-stats",
            f"--node-ip-address={HERE}", f"--dashboard-host={HERE}", f"--port={port}", f"--dashboard-port={dashboard}",
            f"--ray-client-server-port={client}", f"--dashboard-agent-listen-port={agent}",
        ]  # fmt: skip
        head = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for(url, head, key)
            yield psutil.Process(head.pid), url
        finally:
            head.terminate()
            head.wait(PATIENCE)


def _wait_for(url: str, head: subprocess.Popen[bytes], key: str) -> None:
    """Wait until a head takes jobs.

    Raises
    ------
    RuntimeError
        If it ends instead, or takes too long.
    """
    end = time.monotonic() + PATIENCE
    while head.poll() is None and time.monotonic() < end:
        with suppress(requests.RequestException):
            if requests.get(f"{url}/api/jobs/", headers={"Authorization": f"Bearer {key}"}, timeout=5).ok:
                return
        time.sleep(0.5)
    raise RuntimeError(f"the head at {url} does not answer; `ray start --head` may tell why")


if __name__ == "__main__":
    typer.run(main)
