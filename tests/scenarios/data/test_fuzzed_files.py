"""Files that nobody means, mutated or of another kind: one short line, exit code 2, no trace, no hang."""

import io
import json
import os
import random
import zipfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from evidence import size
from faults import begin_no_run, fault, ratings_file
from runs import Command, refused

from scenarios.families.online.online_scenario import Online, OnlineScenario
from scenarios.families.two_tier.two_tier_scenario import TwoTier
from scenarios.store.manifest import KINDS, ONLINE, SWEEP, TWO_TIER, Manifest
from scenarios.store.run_folder import manifest_of
from scenarios.studies.sweep.sweeps import load_sweep

TOMLS = {
    "scenario": 'items = 20\nrated = 5\nusers = 100\nlike = [[0.9, 0.1]]\nepsilon = "1/2"\ndesign = "maxsense"\n',
    "online": 'recommender = "p-rec"\nrounds = 5\nvoters = 16\npeers = 2\nbudget = "inf"\n',
    "world": "objects = 2\nvotes = [[0, 0, 1], [0, 1, 0]]\nlikes = [[0], [0, 1]]\n",
    "grid": 'seeds = 2\n[base]\ndesign = "maxsense"\nrated = 30\n[[grid]]\nitems = [250, 500]\n[[fit]]\nx = "items"\n',
}
BEGINS = {
    "scenario": ["run", "{file}", "--backend", "inprocess"],
    "online": ["online", "{file}", "--backend", "inprocess"],
    "world": ["online", "--world", "{file}", "--backend", "inprocess"],
    "grid": ["sweep", "sample-complexity", "{file}", "--backend", "inprocess", "--out", "swept"],
}
VALUES = (
    "-1", "0", "nan", "-inf", "1e400", "9" * 19, "9" * 5000, "0x" + "f" * 5000, "true", '""', "[]", "[[]]", "{}",
    "[1, 'a']", '"' + "x" * 100_000 + '"', '"a\\u0000b"', "1979-05-27", "[" * 50 + "]" * 50, "[" * 3000 + "]" * 3000,
    "'''", "\x00", "{a = {b = 1}}", "5",
)  # fmt: skip
KEYS = ("ratings", "columns", "world", "policy", "questions", "class_shares", "decoders", "probe")
STRANGE_KEYS = ("x" * 100_000, '"\\u0000"')
MUTANTS = size(90, 24)


def mutated(draw: random.Random, text: bytes) -> bytes:
    """The bytes with some cut out, doubled, or changed."""
    begin = draw.randrange(len(text))
    end = min(len(text), begin + draw.choice((1, 1, 2, 8, 64)))
    strange = (b"\xff", b"\n", b"\0", b",", b'"', b"9" * 400)
    return text[:begin] + draw.choice((b"", text[begin:end] * 2, draw.randbytes(end - begin), *strange)) + text[end:]


def check_all(blindrec: Command, file: Path, contents: Iterable[bytes], *commands: list[str]) -> None:
    """Commands that are given a file's contents, in turns, end as they should."""
    faults = []
    for number, content in enumerate(contents):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        if told := fault(blindrec, commands[number % len(commands)]):
            faults.append(f"{content[:300]!r}: {told}")
    assert not faults, "\n".join(faults)


def tomls(kind: str, draw: random.Random) -> Iterator[bytes]:
    """A file with another value, another key, or other bytes."""
    lines = TOMLS[kind].splitlines()
    for number, line in enumerate(lines):
        if "=" in line:
            for value in draw.sample(VALUES, 8):
                changed = [*lines[:number], f"{line.split('=')[0]}= {value}", *lines[number + 1 :]]
                yield "\n".join(changed).encode()
    for key in (*KEYS, *STRANGE_KEYS):
        yield f"{key} = {draw.choice(VALUES)}\n{TOMLS[kind]}".encode()
    for _ in range(MUTANTS // 3):
        yield mutated(draw, TOMLS[kind].encode())


@pytest.mark.parametrize("kind", TOMLS)
def test_toml_that_nobody_means(kind: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_no_run(monkeypatch, tmp_path)
    file = tmp_path / "given.toml"
    command = [word.replace("{file}", str(file)) for word in BEGINS[kind]]
    check_all(blindrec, file, tomls(kind, random.Random(kind)), command)


def as_text(folder: Path) -> bytes:
    return ratings_file(folder).read_bytes()


def as_movielens(_: Path) -> bytes:
    return b"".join(b"%d::%d::%d::0\n" % (user, item, 1 + user % 5) for user in range(9) for item in range(4))


def as_jester(_: Path) -> bytes:
    return b"".join(b"2," + b",".join(b"1.5" if joke < 2 else b"99" for joke in range(100)) + b"\n" for _ in range(5))


def as_parquet(_: Path) -> bytes:
    target = io.BytesIO()
    columns = {"user": [1, 1, 2, 2], "item": [1, 2, 1, 3], "rating": [1.0, 5.0, 3.0, 4.0]}
    pyarrow.parquet.write_table(pa.table(columns), target)
    return target.getvalue()


def as_zip(folder: Path) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ml/ratings.csv", as_text(folder))
    return target.getvalue()


@pytest.mark.parametrize("make", [as_text, as_movielens, as_jester, as_parquet, as_zip])
def test_ratings_that_nobody_means(
    make: Callable[[Path], bytes], blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_no_run(monkeypatch, tmp_path)
    whole, draw = make(tmp_path), random.Random(make.__name__)
    file, mutants = tmp_path / "given", (mutated(draw, whole) for _ in range(MUTANTS))
    run = ["run", "--ratings", str(file), "--backend", "inprocess"]
    check_all(blindrec, file, mutants, run, ["data", str(file)])


WRONG: tuple[object, ...] = (
    None, 0, -1, 1.5, 1 << 70, True, "", "x" * 100_000, "a\0b", [], {}, [[]], {"a": 1}, "../../x", float("inf"),
    float("nan"),
)  # fmt: skip


def jsons(held: dict[str, object], draw: random.Random) -> Iterator[bytes]:
    """Another value in one place, or other bytes."""
    for name in held:
        for value in draw.sample(WRONG, 8):
            yield json.dumps({**held, name: value}).encode()
    scenario = dict(held["scenario"]) if isinstance(held["scenario"], dict) else {}
    for name in scenario:
        for value in draw.sample(WRONG, 6):
            yield json.dumps({**held, "scenario": {**scenario, name: value}}).encode()
    whole = json.dumps(held).encode()
    yield from (mutated(draw, whole) for _ in range(MUTANTS))
    yield from (b"[" * 100_000, b"9" * 5000, b"null", b"[]", b'"x"', b"\xff", b"")


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", KINDS)
def test_folders_nobody_resumes(kind: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_no_run(monkeypatch, tmp_path)
    mark, grid = tmp_path / "kept" / "rounds" / "scenario.json", tmp_path / "grid.toml"
    grid.write_text(TOMLS["grid"])
    begins = ["sweep", "sample-complexity", "grid.toml", "--out"] if kind == SWEEP else ["resume"]
    begins += ["kept", "--backend", "inprocess"]
    mark.parent.mkdir(parents=True)
    {
        "run": Manifest(scenario={"items": 20, "rated": 5, "users": 100}, source_sha256=None, code_sha256=""),
        "online": manifest_of(ONLINE, OnlineScenario(rounds=5, voters=16, seed=3), *Online.files, repeat=2),
        "two-tier": manifest_of(TWO_TIER, TwoTier(planted=(60, 30, 900), rank=2)),
        "sweep": Manifest(kind=SWEEP, scenario=load_sweep(str(grid)).content, source_sha256=None, code_sha256=""),
    }[kind].write(tmp_path / "kept")
    held = json.loads(mark.read_text())
    assert "a run would begin" in refused(blindrec, *begins)
    check_all(blindrec, mark, jsons(held, random.Random(14)), begins)


EVERYWHERE = [
    ["data", "{file}"],
    ["run", "{file}", "--backend", "inprocess"],
    ["run", "--ratings", "{file}", "--backend", "inprocess", "--out", "out"],
    ["plan", "--ratings", "{file}"],
    ["online", "--ratings", "{file}", "--backend", "inprocess"],
    ["online", "--world", "{file}", "--backend", "inprocess"],
    ["two-tier", "--ratings", "{file}", "--backend", "inprocess"],
    ["sweep", "sample-complexity", "{file}", "--backend", "inprocess", "--out", "swept"],
    ["sweep", "online", "--ratings", "{file}", "--backend", "inprocess", "--out", "served"],
    ["sweep", "two-tier", "--ratings", "{file}", "--backend", "inprocess", "--out", "tiers"],
    ["resume", "{file}", "--backend", "inprocess"],
    ["bounds", "--items", "100", "--rated", "5", "--json", "{file}"],
    ["run", "--users", "100", "--backend", "inprocess", "--out", "{file}"],
    ["submit", "run", "{file}"],
]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "long", "below a file", "long in pieces"])
def test_what_is_no_file_is_refused_by_every_command(
    kind: str, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_no_run(monkeypatch, tmp_path)
    file = tmp_path / "given.toml"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "folder":
            file.mkdir()
        case "loop":
            file.symlink_to(file)
        case _:
            names = {"device": "/dev/null", "long": "x" * 5000, "long in pieces": "/".join(["x" * 200] * 30)}
            file = ratings_file(tmp_path) / "ratings.csv" if kind == "below a file" else tmp_path / names[kind]
    calls = [[word.replace("{file}", str(file)) for word in words] for words in EVERYWHERE]
    faults = [told for one in calls if (told := fault(blindrec, one))]
    assert not faults, "\n".join(faults)
