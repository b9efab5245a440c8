"""The one place where golden results touch the project: its command line, its queries and its devices."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from scenarios import cli

if TYPE_CHECKING:
    from scenarios.backends.on_ray import OnRay

HERE = Path(__file__).parent
GRID = """seeds = 3
decoders = ["centred", "paper"]
[base]
rated = 5
[[grid]]
items = [12, 16]
epsilon = [4]
[[grid]]
items = 12
design = "pairwise"
epsilon = 4
[[fit]]
x = "items"
where = {design = "maxsense"}
expected = 2
"""
WORLD = """objects = 2
votes = [[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 0], [0, 0, 0, 1], [1, 0, 1, 1]]
likes = [[0], [0, 1], [1], [0], [1]]
"""
USERS, ITEMS = 60, 14
WIDE_USERS, WIDE_ITEMS, CROWD = 90, 32, 600
WITHOUT_BACKEND = ("bounds", "data", "plan", "adversary", "audit", "check")


def lay_out(folder: Path) -> None:
    """Write the files that command lines name into a folder, which they are to be run in."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "grid.toml").write_text(GRID, encoding="utf-8")
    (folder / "world.toml").write_text(WORLD, encoding="utf-8")
    (folder / "ratings.csv").write_text("userId,movieId,rating,timestamp\n" + "".join(_ratings()), encoding="utf-8")
    for name, users in (("wide.csv", WIDE_USERS), ("crowd.csv", CROWD)):
        (folder / name).write_text("userId,movieId,rating,timestamp\n" + "".join(_wide(users)), encoding="utf-8")
    words = [
        f"{item + 1},Film {item + 1} ({1980 + item}),{'odd|' * (item % 2)}{'abcd'[item % 4]}\n"
        for item in range(WIDE_ITEMS)
    ]
    (folder / "features.csv").write_text("movieId,title,genres\n" + "".join(words), encoding="utf-8")
    people = [f"{user + 1},{('north', 'south')[user % 2]}\n" for user in range(WIDE_USERS)]
    (folder / "people.csv").write_text("userId,region\n" + "".join(people), encoding="utf-8")
    shutil.copy(HERE / "golden_policy.py", folder)


def _ratings() -> Iterator[str]:
    """Yield rows of a file of ratings by arithmetic alone: most users like one half of the items, some rate few."""
    for user in range(USERS):
        for item in range(ITEMS):
            coin = (7919 * (user + 1) * (item + 3) + 104729 * (user + item)) % 101
            if coin < (8 if user % 9 == 0 else 72) or (user + item) % 7 == 0:
                liked = (item < ITEMS // 2) == (coin % 10 < 8)
                yield f"{user + 1},{item + 1},{4 + coin % 2 if liked else 1 + coin % 3},964982703\n"


def _wide(users: int) -> Iterator[str]:
    """Yield rows of a file whose first items are rated most, with times; every fifth user rates few."""
    for user in range(users):
        for item in range(WIDE_ITEMS):
            coin = (7919 * (user + 1) * (item + 3) + 104729 * (user + item)) % 101
            if coin < (70 if user % 5 else 20) - item:
                liked = item % 4 < 2 if user % 3 == 0 else (item % 4 < 2) == (coin % 10 < 8)
                day = (7 * user + 3 * item) % 50
                yield f"{user + 1},{item + 1},{4 + coin % 2 if liked else 1 + coin % 3},{964982703 + 86400 * day}\n"


def told(command: str, folder: Path, backend: str) -> dict[str, Any]:
    """Run a command line in this process, in a folder that `lay_out` has laid out; return all that it tells."""
    words = [*shlex.split(command), "--json", "-"]
    if words[0] not in WITHOUT_BACKEND:
        words += ["--backend", backend]
    if words[0] == "run":
        words += ["--out", "out"]
    code, out, err = _run(words, folder)
    if not out:
        raise AssertionError(f"blindrec {command} told nothing and ended with {code}: {err}")
    found = {"command": command, "exit": code, "result": json.loads(out)}
    if words[0] in {"compare", "data", "plan"}:  # columns, each on one line
        for name in {"rows", "who_pays", "people"} & set(found["result"]):
            rows: list[dict[str, Any]] = found["result"][name]
            found["result"][name] = {key: [row[key] for row in rows] for key in (rows or [{}])[0]}
    if words[0] == "run":
        for name in ("rounds", "items"):
            found[name] = pd.read_parquet(folder / "out" / f"{name}.parquet").to_dict("list")
    return found


def _run(words: list[str], folder: Path) -> tuple[int, str, str]:
    """Return exit code, standard output and standard error."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    told = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
    undrawn = patch("scenarios.studies.study.draw")  # no figure is golden
    # small matrices gain nothing by threads
    with contextlib.chdir(folder), told[0], told[1], undrawn, threadpool_limits(1):
        try:
            cli.main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def share(session: OnRay, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let command lines use a Ray instance that is there instead of starting their own."""

    @contextlib.contextmanager
    def shared(**_: object) -> Iterator[OnRay]:
        yield session

    monkeypatch.setattr("scenarios.backends.ray_instance.on_ray", shared)
