"""Small scenarios, runs in this process, and rating files: what the tests of the experimenter's side share."""

import io
import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest
from rich.console import Console

from actors.durable_log import files_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import RowTable
from scenarios import cli
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Progress, silent
from scenarios.config.scenario import Scenario
from scenarios.data.datasets import RatingTable
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.rating_split import Split
from scenarios.experiment.experiment import Record, write_folder
from scenarios.families.main.main_job import MainJob
from scenarios.families.main.main_seed import record, tables_of
from scenarios.families.main.run import MainResult, run
from scenarios.store.manifest import FOLDER
from scenarios.store.record_log import UNIT, UNITS
from scenarios.store.run_folder import claim_folder

CHECKED = {
    "NUMBA_BOUNDSCHECK": "1",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CACHE_DIR": str(Path(__file__).parent / "__pycache__" / "checked"),
}
"""Environment of processes whose compiled code checks bounds and is any processor's: compiling takes half a minute."""

Rating = tuple[int, int, float]  # User, item, rating
T = TypeVar("T")


class Ended(NamedTuple):
    """What a command left: exit code, standard output and standard error."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """Standard output as the one strict JSON value that it must be."""
        value: dict[str, Any] = json.loads(self.out, parse_constant=pytest.fail)
        return value

    @property
    def words(self) -> str:
        """Standard output in one line: what is longer than a terminal's line goes on in the next one."""
        return " ".join(self.out.split())


Command = Callable[..., Ended]  # `blindrec` with arguments


def refused(command: Command, *arguments: object) -> str:
    """The one line that a command is refused with."""
    ended = command(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("blindrec: ")
    assert ended.err.endswith("\n")
    assert ended.err.count("\n") == 1
    return ended.err.removeprefix("blindrec: ")


def printed(show: Callable[[Console], object], width: int = 80) -> str:
    """What is shown on paper of a width."""
    sheet = io.StringIO()
    show(Console(file=sheet, width=width, color_system=None))
    return sheet.getvalue()


def line_of(call: Callable[[], object]) -> str:
    """The one line that a call from Python is refused with."""
    with pytest.raises(InputError) as refusal:
        call()
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@contextmanager
def complains(*words: str) -> Iterator[None]:
    """An `InputError` of one line with these words."""
    with pytest.raises(InputError) as raised:
        yield
    line = str(raised.value)
    assert "\n" not in line
    assert all(word in line for word in words), line


def present(value: T | None) -> T:
    """A value that there is."""
    assert value is not None
    return value


def sweep_into(folder: Path, *arguments: object) -> Path:
    """Run a sweep into a folder's ``out``; the text that it shows stands beside it."""
    command = ["sweep", *arguments, "--backend", "inprocess", "--workers", 1, "--out", folder / "out"]
    with (folder / "shown.txt").open("w") as shown, redirect_stdout(shown), pytest.raises(SystemExit):
        cli.main([*map(str, command)])
    return folder / "out"


def result_in(out: Path) -> dict[str, Any]:
    """The result that a folder holds, in strict JSON."""
    result: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    return result


def small(**changes: Any) -> Scenario:
    """A block model that runs in milliseconds."""
    return Scenario.model_validate({"items": 40, "rated": 5, "users": 3001, **changes})


def of_file(path: Path, **changes: Any) -> Scenario:
    """A file of ratings."""
    return Scenario.model_validate({"ratings": path, **changes})


def here(
    scenario: Scenario, *, workers: int = 1, devices_per_actor: int | None = None, progress: Progress = silent
) -> MainResult:
    """A run in this process."""
    return run(scenario, InProcess(workers), devices_per_actor=devices_per_actor, progress=progress)


def labels_of(finished: MainResult) -> ClusteringScores:
    """How right a run's labels are."""
    return clustering_scores(finished.outcome.model.cluster, present(finished.population.truth))


def alike(one: MainResult, other: MainResult) -> bool:
    """Whether digest, rounds, sums, model and advice of two runs are equal to the last bit."""

    def parts(run: MainResult) -> list[Any]:
        model, sums = run.outcome.model, [getattr(run.statistic, part.name) for part in fields(run.statistic)]
        return [run.outcome.releases_sha256, *sums, model.cluster, model.score, model.error, run.advice]

    return one.outcome.state.asked == other.outcome.state.asked and all(map(np.array_equal, parts(one), parts(other)))


def claim(out: Path, scenario: Scenario, repeat: int = 1) -> None:
    """Make a folder a run's own."""
    claim_folder(out, MainJob().mark(scenario, repeat))


def write_run(out: Path, finished: MainResult) -> dict[str, Any]:
    """Write the folder of a run that is over; return its result."""
    result = record(finished)
    tables = partial(tables_of, finished)
    write_folder(out, Record(values=result, scenario=finished.scenario.again(), tables=tables))
    return result


def planted_ratings(*, users: int, items: int, each: int, seed: int = 0) -> list[Rating]:
    """Ratings in a mixed order: users like (4, 5) the first half of the items and not (1 to 3) the rest, mostly."""
    world = np.random.default_rng(seed)
    rows = [
        (user, int(item), float(world.choice([4, 5] if (item < items // 2) == (world.random() < 0.9) else [1, 2, 3])))
        for user in range(users)
        for item in world.choice(items, size=each, replace=False)
    ]
    return [rows[place] for place in world.permutation(len(rows))]


def likes(choices: Iterable[Iterable[int]]) -> list[Rating]:
    """Ratings of 5 for what users like, one user after the other."""
    return [(user, int(item), 5.0) for user, items in enumerate(choices) for item in items]


def write_movielens(path: Path, rows: Iterable[Rating]) -> Path:
    """Write MovieLens' ``ratings.csv``; users and items are numbered from 1, as there."""
    lines = [f"{user + 1},{item + 1},{rating},964982703\n" for user, item, rating in rows]
    path.write_text("userId,movieId,rating,timestamp\n" + "".join(lines), encoding="utf-8")
    return path


def rating_table(rows: Sequence[Mapping[int, float]], items: int = 9) -> RatingTable:
    """Ratings by item of users one after the other, with made-up names."""
    ordered = [sorted(row.items()) for row in rows]
    return RatingTable(
        starts=np.cumsum([0, *map(len, rows)]),
        items=np.array([item for row in ordered for item, _ in row], np.int32),
        values=np.array([value for row in ordered for _, value in row], np.float64),
        count=items,
        user_labels=np.array([f"u{user}" for user in range(len(rows))], np.object_),
        item_labels=np.array([f"i{item}" for item in range(items)], np.object_),
        source="test",
    )


def split_of(rows: Sequence[Sequence[tuple[int, bool]]], held: Sequence[Sequence[int]], items: int) -> Split:
    """A split of users who rated (item, liked), with these held-out items."""
    train = rating_table([dict(row) for row in rows], items)
    return Split(
        train=train,
        likes=train.values > 0,
        holdout=RowTable(
            starts=np.cumsum([0, *map(len, held)]),
            items=np.array([item for row in held for item in row], np.int32),
            values=None,
            count=items,
        ),
        test=train.block(0, 0),
    )


def tree(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def files_of_units(out: Path) -> list[Path]:
    """The files in which a sweep's folder keeps finished units, in order."""
    return files_of(out / FOLDER / UNITS, UNIT)


def lines_of_units(out: Path) -> list[str]:
    """The lines of all finished units, in the order in which they were finished."""
    return [line for path in files_of_units(out) for line in path.read_text().splitlines()[1:]]


def free_ports(count: int) -> list[int]:
    """Ports where nothing listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true before the time is up: for what other processes do, never for speed."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return held
