"""What users and folders name is opened in one way, which has an end, and memory is looked at before it is taken."""

import ast
import ctypes
import errno
import os
import re
import resource
import subprocess
import sys
import zipfile
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import psutil
import pytest
import worlds
from mechanisms import Array, Works
from rich.console import Console
from runs import Command, refused
from worlds import in_world

from actors.device import Cohort
from blindrec import InProcess, run
from coordinator.protocol import limits
from coordinator.protocol.arrays import Floats
from coordinator.protocol.channels import independent_bits
from coordinator.protocol.custom import Catalogue, CoinsBlock, Question, RatingsBlock, Tally
from coordinator.protocol.errors import BlindrecError, InputError, ReadError
from coordinator.protocol.limits import memory_left, read_whole, require_memory, return_unused
from coordinator.protocol.mechanisms.oracles import Oue
from scenarios.config import files
from scenarios.config.files import json_object, read_file, read_table
from scenarios.config.scenario import Scenario
from scenarios.config.signals import disk_is_full
from scenarios.data.datasets import read_ratings
from scenarios.families.main.main_job import MainJob
from scenarios.show.columns import Column
from scenarios.show.tables import show
from scenarios.store.record_log import Codec, from_row


class Wide(Works):
    """Asks each device for so many bits that nobody could hold them."""

    wide: int = 1 << 31

    def query(self, catalogue: Catalogue) -> Question:
        return Question(bits=self.wide)

    def channel(self, question: Question) -> Any:
        return independent_bits(count=question.bits, if_one=0.5, if_zero=0.3, epsilon=question.epsilon, ones=1)

    def sketch(self, question: Question, ratings: RatingsBlock, coins: CoinsBlock) -> Array:
        return np.zeros((len(ratings.devices), question.bits), np.uint8)

    def estimate(self, question: Question, tally: Tally) -> tuple[Floats, Floats]:
        return np.zeros(question.items), np.ones(question.items)


ROOT = Path(__file__).parent.parent
ROOMS = ("actors", "blindrec", "coordinator", "scenarios")
READERS = {
    "read_text", "read_bytes", "open", "read_csv", "read_parquet", "load", "loadtxt", "genfromtxt",
    "fromfile", "memmap", "ZipFile", "ParquetFile", "gzip", "json_normalize",
}  # fmt: skip
"""Names by which files are opened; `json.loads` and the like read what is in memory already."""
ALLOWED = {
    "coordinator/protocol/limits.py": "the way itself, and the system's own files about memory",
    "scenarios/config/files.py": "the same, for what is text, JSON, TOML, packed or a table",
    "scenarios/data/packed_files.py": "a file of data, by `open_regular` and `open_member`",
    "scenarios/data/readers.py": "Parquet and text of a file that `open_data` opened",
    "scenarios/data/text_records.py": "the same",
    "scenarios/data/side_tables.py": "the same",
    "actors/database.py": "synchronizes folders, and reads by `open_regular`",
    "scenarios/store/whole_files.py": "locks a folder, and writes files",
    "scenarios/backends/on_ray.py": "opens the null device to write",
    "scenarios/commands/entrance.py": "opens the null device to write",
    "scenarios/config/identity.py": "modules that Python has imported, or would",
    "scenarios/config/mechanism_settings.py": "blindrec's own modules",
    "coordinator/__init__.py": "blindrec's own modules",
    "scenarios/commands/job_commands.py": "the system's list of locks",
    "scenarios/job.py": "the result that this process has just written",
    "scenarios/cluster/job_log.py": "packs regular files of a finished folder, and unpacks into a new one",
}
"""Modules that open something, and what."""
CALLED = re.compile(rf"\b({'|'.join(sorted(READERS))})\b[\s)]*\(")


def opened_in(text: str) -> set[str]:
    """Names of readers that a module calls."""
    if not CALLED.search(text):  # few have one, and to parse all takes seconds
        return set()
    calls = (node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    names = {one.attr if isinstance(one, ast.Attribute) else getattr(one, "id", "") for one in calls}
    return names & READERS


def test_nothing_else_opens_files() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if (names := opened_in(path.read_text(encoding="utf-8")))
    }
    strange = {path: names for path, names in found.items() if path not in ALLOWED}
    assert not strange, "open these by scenarios.config.files, or say in ALLOWED why not"
    assert found.keys() == ALLOWED.keys(), "modules in ALLOWED that open nothing any more"


def test_what_the_rule_looks_for_would_be_found() -> None:
    assert opened_in("Path(a).read_text()\npd.read_csv(b)\nwith open(c) as d: pass") == {
        "read_text",
        "read_csv",
        "open",
    }


@pytest.mark.parametrize("kind", ["pipe", "device", "endless", "folder", "large"])
def test_what_has_no_end_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "given"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "large":
        path.write_bytes(b"x" * 101)
    path = {"device": Path("/dev/zero"), "endless": Path("/proc/self/mem")}.get(kind, path)
    with pytest.raises(OSError, match=r".") as caught:
        read_whole(path, 100)
    assert caught.value.strerror
    with pytest.raises(InputError, match=f"{path} (cannot be read|is a pipe)"):
        read_file(path, "file", "name another", 100)


def test_a_file_that_cannot_be_read_is_no_full_disk() -> None:
    """`/proc/self/mem` fails with EIO, which of a file that is written says that the disk takes no more."""
    with pytest.raises(ReadError) as caught:
        read_file(Path("/proc/self/mem"), "file", "name another", 100)
    assert isinstance(caught.value.__context__, OSError)
    assert caught.value.__context__.errno == errno.EIO
    assert not disk_is_full(caught.value)
    assert disk_is_full(OSError(errno.EIO, "as written"))


def test_such_ratings_are_bad_input(blindrec: Command) -> None:
    flags = ["--backend", "inprocess", "--users", "100"]
    assert "cannot be read" in refused(blindrec, "run", "--ratings", "/proc/self/mem", *flags)


def lead_to(place: Path, target: str) -> None:
    """Put something without an end at a place of a folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if target == "pipe":
        os.mkfifo(place)
    else:
        place.symlink_to(target)


@pytest.mark.parametrize("target", ["/dev/zero", "pipe", "/proc/self/mem"])
@pytest.mark.parametrize(
    ("command", "name"),
    [
        *((command, "result.json") for command in ("status", "watch", "resume", "report")),
        *((command, "rounds/scenario.json") for command in ("status", "watch", "resume")),
        *((command, "rounds/progress.json") for command in ("status", "watch")),
    ],
)
def test_folders_with_what_has_no_end(command: str, name: str, target: str, blindrec: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (out / "rounds").mkdir(parents=True)
    if name != "rounds/scenario.json":
        MainJob().mark(Scenario(items=20, rated=5, users=100), 1).write(out)
    lead_to(out / name, target)
    extra: dict[str, list[object]] = {"report": ["--out", tmp_path / "a.html"], "resume": ["--backend", "inprocess"]}
    assert re.search("cannot be read|is a pipe", refused(blindrec, command, out, *extra.get(command, [])))


def test_escape_sequences_of_a_folder_are_written_out(blindrec: Command, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"users": "\\u001b[31mred", "rounds": 3}', encoding="utf-8")
    said = blindrec("status", tmp_path)
    assert said.code == 0
    assert "\x1b" not in said.out
    assert "\\x1b[31mred" in said.out


def test_words_of_a_result_are_neither_escapes_nor_markup(capsys: pytest.CaptureFixture[str]) -> None:
    show(Console(width=100), {"design": "\x1b[31m[/red]"}, "title", [Column(name="design", label="design")])
    assert r"\x1b[31m[/red]" in capsys.readouterr().out


class Cgroups(NamedTuple):
    """A container's files about memory: its lines of /proc/self/cgroup, and what stands in each."""

    lines: str
    files: dict[str, str]


@pytest.mark.parametrize(
    "groups",
    [
        Cgroups(
            "0::/a/b\n",
            {
                "a/memory.max": "1000000",
                "a/memory.current": "800000",
                "a/memory.stat": "inactive_file 100000\n",
                "a/b/memory.max": "max",
                "a/b/memory.current": "1",
            },
        ),
        Cgroups(
            "4:memory:/box\n",
            {
                "memory/memory.limit_in_bytes": "1000000",
                "memory/memory.usage_in_bytes": "800000",
                "memory/memory.stat": "total_inactive_file 100000\n",
            },
        ),
    ],
    ids=["v2", "v1, as a container sees it"],
)  # fmt: skip
def test_what_a_container_may_take_is_left(groups: Cgroups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cgroup").write_text(groups.lines)
    for name, content in groups.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(limits, "GROUPS", tmp_path)
    monkeypatch.setattr(limits, "OF_PROCESS", tmp_path / "cgroup")
    assert memory_left() == 300_000


def test_what_a_process_may_take_is_what_is_left() -> None:
    limit = 3 << 30
    script = "from coordinator.protocol.limits import memory_left; print(memory_left())"

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    said = subprocess.run(
        [sys.executable, "-c", script], preexec_fn=lower, capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 0 < int(said.stdout) < limit


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this system's memory is not glibc's")
def test_what_is_freed_in_pieces_is_given_back() -> None:
    pieces = [bytes(50_000) for _ in range(4_000)]
    few = pieces[::100]  # between which all others are freed
    del pieces
    before = psutil.Process().memory_info().rss
    return_unused()
    assert len(few) == 40
    assert before - psutil.Process().memory_info().rss > 100_000_000


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with 100 MB left."""
    for module in (limits, files):
        monkeypatch.setattr(module, "memory_left", lambda: 100 << 20)
    monkeypatch.setattr("scenarios.data.packed_files.memory_left", lambda: 100 << 20)


def test_more_than_is_left_is_refused(little: None) -> None:
    require_memory(99 << 20, "this", "do that")
    with pytest.raises(InputError, match=r"^this takes about 200 MB of memory, and 100 MB are left; do that$"):
        require_memory(200 << 20, "this", "do that")


def ratings_zip(path: Path, lines: int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("ratings.csv", "w") as file:
        file.write(b"user,item,rating\n")
        for _ in range(lines // 100_000):
            file.write(b"1,2,3\n" * 100_000)
    return path


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    bomb = ratings_zip(tmp_path / "bomb.zip", 12_000_000)
    with pytest.raises(InputError, match=r"unpacks from .* kB to 68\.7 MB, as no real file does"):
        read_ratings(bomb)


def test_ratings_that_do_not_fit_are_refused_before_they_are_read(tmp_path: Path, little: None) -> None:
    path = ratings_zip(tmp_path / "ratings.zip", 2_000_000)
    with pytest.raises(InputError, match=r"with 2,000,001 lines, takes about 202\.2 MB of memory, and 100 MB are left"):
        read_ratings(path)
    table = pd.DataFrame({"user": np.zeros(2_000_000, np.int32), "item": 1, "rating": 3.0})
    table.to_parquet(tmp_path / "ratings.parquet")
    with pytest.raises(InputError, match=r"with 2,000,000 rows, takes about .* and 100 MB are left"):
        read_ratings(tmp_path / "ratings.parquet")


def test_an_array_is_as_long_as_its_shape_says() -> None:
    row = ("{}", '{"one": ["<i8", [2, 3]]}', np.arange(6).tobytes())
    codec: Codec[dict[str, Any]] = Codec(
        noun="", number=len, encode=lambda _: ({}, {}), decode=lambda _, arrays: arrays, require_booked=lambda *_: None
    )
    arrays = from_row(codec, row)
    assert arrays["one"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["one"].flags.writeable
    for layout in ('["<i8", [9, 3]]', '["<i8", [-1, 3]]', '["<i8", [99999999999, 3]]', '["|O", [2, 3]]', '["x", [6]]'):
        with pytest.raises((ValueError, TypeError)):
            from_row(codec, ("{}", f'{{"one": {layout}}}', row[2]))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": {"b/c": [1, "\\ud800"]}}', r"holds at '/a/b~1c/1' half of a surrogate pair"),
        (b'{"a": [1' + b"0" * 400 + b"]}", r"holds at '/a/0' a number beyond 64 bits"),
        (b'{"a": 1e999}', r"holds at '/a' a number beyond 64 bits"),
        (b'{"a": NaN}', r"NaN is no number of JSON"),
        (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", r"more than 40 deep"),
        (b"[" * 100_000, r"nested too deep"),
        (b"[1]", r"no object of names"),
    ],
)
def test_json_that_nobody_can_compute_with(content: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        json_object(content, "it", "do that")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_damaged_tables_are_one_line(name: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    path = tmp_path / name
    table.to_parquet(path) if name.endswith("parquet") else table.to_csv(path, index=False)
    assert read_table(path, "do that")["a"].tolist() == [1.0, 2.0]
    whole, draw = path.read_bytes(), np.random.default_rng(0)
    for _ in range(150):
        place = int(draw.integers(len(whole)))
        path.write_bytes(whole[:place] + draw.bytes(int(draw.integers(9))) + whole[place + int(draw.integers(9)) :])
        try:
            read_table(path, "do that")
        except InputError as error:
            assert str(error).count("\n") == 0  # noqa: PT017 (many files are as good as before)


def test_a_round_that_does_not_fit_is_refused_before_anybody_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the server's side, and by a device that is asked all the same: nothing is sketched, nothing is charged."""
    monkeypatch.setattr(limits, "memory_left", lambda: 8 << 30)
    scenario = Scenario(design=Wide(), items=20, rated=5, users=300, epsilon=2)
    with pytest.raises(BlindrecError, match=r"for 2,147,483,648 bits a device takes about [\d,.]+ [GT]B of memory"):
        run(scenario, InProcess(1), progress=False)
    narrow = scenario.model_copy(update={"settings": Wide(wide=1 << 12)})
    monkeypatch.setattr(limits, "memory_left", lambda: 1 << 20)
    monkeypatch.setattr(limits, "_ALWAYS", 0)
    with pytest.raises(BlindrecError, match=r"4,096 bits a device, takes about 4.8 MB of memory, and 1 MB are left"):
        run(narrow, InProcess(1), progress=False)
    monkeypatch.setattr(limits, "memory_left", lambda: 1 << 10)
    cohort = Cohort(worlds.block_ratings(worlds.world(items=12, rated=4)), worlds.SECRET, 0, 4096, Fraction(1))
    query = in_world(Oue, items=12, rated=4).query(round_number=0, public_seed=bytes(16), epsilon=Fraction(1))
    with pytest.raises(InputError, match=r"13 bits a device, takes about .* and 1 kB are left"):
        cohort.answer(query, 0, 4096)
    assert cohort.ledger.spent(0) == 0
