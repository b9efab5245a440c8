"""Runs, commands and services as tests call them, and results of every family."""

import contextlib
import io
import json
import math
import socket
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import numpy as np
import pytest
from markupsafe import Markup
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.container import Container, ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from rich.console import Console

from actors.ratings import BlockRatings
from coordinator.protocol.arrays import Bits2, Bools2, Floats, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import KMEANS, LOCAL_PROMISE, POSTERIOR, World
from coordinator.protocol.messages import Query
from coordinator.protocol.rating_table import RowTable
from coordinator.protocol.trust_models import CURATOR, LOCAL, SHUFFLED, TWO_SERVERS
from coordinator.server.design import LearnerOptions
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.online.recommenders import PublicFacts
from coordinator.server.online.service import Pick, Served, by_sequence, serve
from coordinator.server.parts import learner_of
from coordinator.server.rounds.policies import Eliminate, Fixed
from coordinator.server.rounds.rounds import Outcome, QueryPlan
from coordinator.server.rounds.setting import Setting
from scenarios import cli
from scenarios.backends.selection import InProcess
from scenarios.backends.session import NoStore, Progress, RoundStore, silent
from scenarios.config.admission import admitted_for
from scenarios.config.resolve import ResolvedRun
from scenarios.config.scenario import Scenario
from scenarios.config.settings import Target
from scenarios.config.shuffled_account import ShuffledAccount
from scenarios.data.datasets import RatingTable
from scenarios.data.metrics import ClusteringScores, clustering_scores
from scenarios.data.rating_split import Split
from scenarios.families.main.main_job import MainJob
from scenarios.families.main.run import Job, MainResult, run, run_job
from scenarios.pages.page import report_of
from scenarios.store.manifest import FOLDER
from scenarios.store.record_log import RUN_FILE, UNITS
from scenarios.store.run_folder import claim_folder
from scenarios.studies.answer import Answer, AnswerInputs, Curve
from scenarios.studies.study import Study

# Small scenarios, runs in this process, and rating files: what the tests of the experimenter's side share.
CHECKED = {
    "NUMBA_BOUNDSCHECK": "1",
    "NUMBA_CPU_NAME": "generic",
    "NUMBA_CACHE_DIR": str(Path(__file__).parents[1] / "__pycache__" / "checked"),
}
"""Environment of processes whose compiled code checks bounds and is any processor's: compiling takes half a minute."""

Rating = tuple[int, int, float]  # User, item, rating
T = TypeVar("T")


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        value: dict[str, Any] = json.loads(self.out, parse_constant=pytest.fail)
        return value

    @property
    def words(self) -> str:
        """Standard output in one line: what is longer than a terminal's line goes on in the next one."""
        return " ".join(self.out.split())


Command = Callable[..., Ended]  # `blindrec` with arguments


def refused(command: Command, *arguments: object) -> str:
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
    assert value is not None
    return value


def sweep_into(folder: Path, *arguments: object) -> Path:
    """Run a sweep into a folder's ``out``, without pictures; the text that it shows stands beside it."""
    command = ["sweep", *arguments, "--backend", "inprocess", "--workers", 1, "--out", folder / "out"]
    with (folder / "shown.txt").open("w") as shown, redirect_stdout(shown), pytest.MonkeyPatch.context() as patch:
        patch.setattr("scenarios.studies.study.draw", lambda *_: None)  # most of the time
        with pytest.raises(SystemExit):
            cli.main([*map(str, command)])
    return folder / "out"


def result_in(out: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((out / "result.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    return result


def small(**changes: Any) -> Scenario:
    return Scenario.model_validate({"items": 40, "rated": 5, "users": 3001, **changes})


def of_file(path: Path, **changes: Any) -> Scenario:
    return Scenario.model_validate({"ratings": path, **changes})


def account_of(resolved: ResolvedRun) -> ShuffledAccount:
    assert isinstance(resolved.account, ShuffledAccount)
    return resolved.account


def here(
    scenario: Scenario, *, workers: int = 1, devices_per_actor: int | None = None, progress: Progress = silent
) -> MainResult:
    return run(scenario, InProcess(workers), devices_per_actor=devices_per_actor, progress=progress)


def labels_of(finished: MainResult) -> ClusteringScores:
    return clustering_scores(finished.outcome.model.cluster, present(finished.population.truth))


def alike(one: MainResult, other: MainResult) -> bool:
    """Whether digest, rounds, sums, model and advice of two runs are equal to the last bit."""

    def parts(run: MainResult) -> list[Any]:
        model, sums = run.outcome.model, [getattr(run.statistic, part.name) for part in fields(run.statistic)]
        return [run.outcome.releases_sha256, *sums, model.cluster, model.score, model.error, run.advice]

    return one.outcome.state.asked == other.outcome.state.asked and all(map(np.array_equal, parts(one), parts(other)))


def claim(out: Path, scenario: Scenario, repeat: int = 1) -> None:
    claim_folder(out, MainJob().mark(scenario, repeat))


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
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def lines_of_units(out: Path) -> list[str]:
    """All finished units as they are stored, in the order in which they were finished."""
    with closing(sqlite3.connect(out / FOLDER / RUN_FILE.name)) as tool:
        return [unit for (unit,) in tool.execute(f"SELECT unit FROM {UNITS} ORDER BY position")]


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.create_server(("127.0.0.1", 0)))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def holds_within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Whether a condition comes true before the time is up: for what other processes do, never for speed."""
    end = time.monotonic() + seconds
    while not (held := condition()) and time.monotonic() < end:
        time.sleep(0.1)
    return held


# Services of voters and of a client whose votes and likes are written down.
Rows = Sequence[Sequence[int]]


class Written:
    """Voters and a client whose votes and likes are written down; ``addresses`` are the voters that take part."""

    def __init__(self, votes: Rows, likes: Rows, addresses: Sequence[int] | None = None) -> None:
        self.votes: Bits2 = np.array(votes, np.uint8).reshape(len(votes), -1)
        self.likes: Bools2 = np.array(likes, np.bool_)
        self.addresses = np.array(range(self.votes.shape[1]) if addresses is None else addresses, np.int32)
        self.ballots: list[tuple[int, int, list[int]]] = []

    def enter(self, service: Service) -> Indices:
        return self.addresses

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        self.ballots.append((ballot.first, ballot.stop, electors.tolist()))
        return self.votes[ballot.first : ballot.stop][:, np.searchsorted(self.addresses, electors)]

    def offer(self, client: int, round_number: int, chosen: int) -> bool:
        return bool(self.likes[round_number, chosen])


def liking(objects: int, *liked: Sequence[int]) -> list[list[int]]:
    return [[int(k in row) for k in range(objects)] for row in liked]


def served(name: str, written: Written, pick: Pick | Sequence[int], **told: Any) -> Served:
    rounds, objects = written.likes.shape
    promise = PublicFacts(**{"rounds": rounds, "objects": objects, **told})
    announced = Service(client=0, recommender=name, rounds=rounds, objects=objects, epsilon=None)
    drawn = pick if callable(pick) else by_sequence(np.array(pick, np.uint8))
    return serve(announced, promise, written, drawn)


# What a picture must keep so that it can be read: labelled axes, no text on text, no interval on an interval.
NEAR = 2.0  # Pixels between two intervals at which they cannot be told apart any more


def faults(figure: Figure) -> Iterator[str]:
    """Yield a line for everything about a figure that cannot be read."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call] # the library's own
    for axes in (one for one in figure.axes if one.axison):
        for name, told in (("x", axes.get_xlabel()), ("y", axes.get_ylabel())):
            names = [tick.get_text() for tick in axes.get_yticklabels()] if name == "y" else []
            if not told and not any(word.isalpha() for text in names for word in text):
                yield f"axis {name} of panel {axes.get_title()!r} has no label"
        yield from _bars(axes.containers)
    texts = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    page = Bbox.from_bounds(-1, -1, *(side + 2 for side in canvas.get_width_height()))
    for told, box in texts:
        if not (page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1):
            yield f"text {told!r} leaves the figure"
    for (one, box), (other, beside) in combinations(texts, 2):
        if Bbox.intersection(box.padded(-1), beside.padded(-1)) is not None:
            yield f"text {one!r} lies on {other!r}"


def _texts(figure: Figure) -> Iterator[Text]:
    hidden = {*_hidden(figure)}
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and id(text) not in hidden:
            yield text


def _hidden(figure: Figure) -> Iterator[int]:
    """Yield texts that are never drawn: of ticks beyond an axis, and of panels that are switched off."""
    for axes in figure.axes:
        if not axes.axison:
            yield from (id(text) for text in axes.findobj(Text))
        for axis in (axes.xaxis, axes.yaxis):
            drawn = axis._update_ticks()  # type: ignore[union-attr] # there is no public way
            far = [tick for tick in (*axis.majorTicks, *axis.minorTicks) if tick not in drawn]
            yield from (id(text) for tick in far for text in (tick.label1, tick.label2))


def _bars(containers: Iterable[Container]) -> Iterator[str]:
    """Yield where an interval lies on another one's."""
    boxes = [
        (str(container.get_label()), box)
        for container in containers
        if isinstance(container, ErrorbarContainer)
        for lines in container.lines[2]
        for box in _boxes(lines)
    ]
    for (one, box), (other, beside) in combinations(boxes, 2):
        if Bbox.intersection(box.padded(NEAR / 2), beside.padded(NEAR / 2)) is not None:
            yield f"an interval of {one!r} lies on one of {other!r}"


def _boxes(lines: LineCollection) -> Iterator[Bbox]:
    for segment in lines.get_segments():
        ends = lines.get_transform().transform(segment)
        if abs(ends[0] - ends[1]).max() > 1:
            yield Bbox(ends)


def result(command: Command, *arguments: object) -> dict[str, Any]:
    ended = command(*arguments, "--json", "-")
    assert ended.code == 0, ended.err
    return ended.result


# What lasts of a result: what two runs of the same scenario have in common.
PROVENANCE = {"command", "ended"}  # What a folder says of where it comes from


def lasting(value: Any, without: Set[str]) -> Any:
    """A result without some of its values, wherever they stand in it."""
    if isinstance(value, dict):
        return {name: lasting(one, without) for name, one in value.items() if name not in without}
    return [lasting(one, without) for one in value] if isinstance(value, list) else value


# The smallest sweep: squares of numbers, for tests of what keeps sweeps.
class Number(NamedTuple):
    unit: int


@dataclass(frozen=True)
class Square:
    found: int


def _squared(square: Callable[[int], int], number: int) -> Square:
    return Square(square(number))


def squares_of(numbers: Iterable[int], square: Callable[[int], int], content: dict[str, Any]) -> Study[Number, Square]:
    units = {Number(number): partial(_squared, square, number) for number in numbers}
    return Study(
        content=content,
        key=Number,
        measurement=Square,
        units=lambda _: units,
        result=lambda found: {"squares": [one.found for one in found.values()]},
        show=lambda console, result, title: console.print(title, result),
    )


# Runs of custom mechanisms in a small world, without the command line.

ITEMS, RATED, USERS = 20, 5, 20_000
EPSILON = Fraction(2)
SECRET = bytes(range(16))
WORLD = World(items=ITEMS, rated=RATED, users=USERS, clusters=2, epsilon=EPSILON)
LIKE = np.array([[0.9, 0.1]])
RATINGS = BlockRatings(
    users=USERS, rated_items=RATED, like=LIKE, class_shares=np.ones(1), clusters=(np.arange(ITEMS) % 2).astype(np.int32)
)
TRUE = 2 * LIKE[0, RATINGS.clusters] - 1


def job(
    mechanism: Mechanism,
    *,
    rounds: int = 2,
    adaptive: bool = False,
    each: int | None = None,
    workers: int = 2,
    kept: RoundStore | None = None,
) -> Job:
    own, _ = admitted_for(mechanism, WORLD, epsilon=EPSILON)
    design = adapter(own).design(WORLD)
    setting = Setting(design=design, epsilon=EPSILON, public_seed=bytes(16))
    decoder = POSTERIOR if adaptive else KMEANS
    policy = Eliminate(setting=setting) if adaptive else Fixed(setting=setting, rounds=rounds)
    learner = learner_of(adapter(own), WORLD, LearnerOptions(decoder=decoder))
    return Job(
        ratings=RATINGS,
        secret=SECRET,
        plan=QueryPlan(policy=policy, learner=learner, devices=USERS, budget=EPSILON),
        layout=plan_layout(devices=USERS, workers=workers, devices_per_actor=each),
        rounds=kept or NoStore(),
    )


def first_query(mechanism: Mechanism, *, pool: list[int] | None = None) -> tuple[Any, Query]:
    design = adapter(admitted_for(mechanism, WORLD, epsilon=EPSILON)[0]).design(WORLD)
    some = None if pool is None else np.array(pool, np.int32)
    return design, design.query(round_number=0, public_seed=bytes(16), epsilon=EPSILON, pool=some)


def outcome(of: Job, workers: int = 2) -> Outcome:
    return run_job(of, InProcess(workers), advised=0, top=1, progress=lambda _: None).outcome


# Results of every family, made once: folders of runs and a comparison, records of the golden results, audits.
GOLDEN = Path(__file__).parents[1] / "golden" / "golden.json"
RECORDS = {
    "two-tier, pmc": "pmc",
    "two-tier, laplace": "laplace",
    "two-tier, none": "silent",
    "online, clients and a budget": "online",
    "online, plurality": "plurality",
    "pairwise, equal, public, centred": "pairwise",
    "item-query": "item-query",
    "sweep, users": "users",
    "sweep, adaptive": "adaptive",
    "sweep, two-tier": "tiers",
    "plan": "plan",
    "plan, ratings, worth": "forecast",
    "data, people enough for a forecast": "crowd",
    "data": "data",
}
"""Golden results, and the names of their files."""
FAMILIES = {
    "run": "run",
    "compare": "compare",
    "pmc": "two-tier",
    "online": "online",
    "adaptive": "sweep",
    "plan": "plan",
    "data": "data",
    "leak": "audit",
}
"""Of each family a file, and the family's name."""
ATTACK = {"name": "one", "meaning": "this or that", "times": 1, "claimed": 1.0, "measured": 0.98, "plays": 50000}
AUDIT = {
    "design": "sign",
    "guarantee": LOCAL_PROMISE,
    "claimed": 1.0,
    "exact": 1.0,
    "measured": 0.98,
    "confidence": 0.99,
}
AUDIT |= {
    "confidence": 0.99,
    "held": True,
    "failures": [],
    "attacks": [{**ATTACK, "right": 0.7303, "right_at_most": 0.7310585786}],
}
LEAK = {**AUDIT, "measured": 1.25, "held": False, "failures": ["attack one measured at least 1.25, claimed are 1"]}
FEW = ["--like-from", "4", "--neighbours", "5", "--rank", "3", "--ridge", "5", "--top", "20", "--likes", "8"]


def undrawn_report(paths: Sequence[Path]) -> str:
    """A report with empty pictures, for tests that look at none: drawing them is most of the time that a page takes."""
    with patch("scenarios.pages.page.inline", lambda *_: Markup("<svg></svg>")):
        return report_of(paths)


def command(*arguments: object) -> None:
    said = io.StringIO()
    quiet = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said)
    undrawn = patch("scenarios.studies.study.draw")  # a report draws its figures itself
    with quiet[0], quiet[1], undrawn, pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    assert not ended.value.code, said.getvalue()


def made(folder: Path) -> list[Path]:
    here = ["--backend", "inprocess"]
    block = ["--items", 12, "--rated", 4, "--epsilon", 3, "--users", 600]
    command("run", *block, "--repeat", 2, *here, "--out", folder / "run")
    ratings = write_movielens(folder / "ratings.csv", planted_ratings(users=40, items=30, each=12))
    command("run", "--ratings", ratings, "--users", 500, "--epsilon", 2, *here, "--out", folder / "copies")
    models = ["--trust-models", "none,curator,local", "--mechanisms", "popularity,set", "--epsilon", "2,inf"]
    command("compare", ratings, *FEW, *models, *here, "--scale", "1,5", "--seeds", 3, "--out", folder / "compare")
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    for name, file in RECORDS.items():
        record = golden[name].get("result", golden[name])
        for of in {"rows", "people"} & record.keys():  # which golden results hold as columns
            if columns := record[of]:
                record[of] = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        (folder / f"{file}.json").write_text(json.dumps(record), encoding="utf-8")
    audits = {"audit": AUDIT, "leak": LEAK, "audits": {"held": False, "audits": [AUDIT, {**LEAK, "exact": "inf"}]}}
    for name, record in audits.items():
        (folder / f"{name}.json").write_text(json.dumps(record), encoding="utf-8")
    files = [folder / f"{name}.json" for name in (*RECORDS.values(), *audits)]
    return [folder / "run", folder / "copies", folder / "compare", *files]


# Answers made of curves with known worth: three splits whose intervals have a given reach.

BEST = np.full((3, 5), 0.2)
FILE = {LOCAL: 0.0, SHUFFLED: 0.0, TWO_SERVERS: 0.0, CURATOR: 0.0}


def worth(mean: float, reach: float = 0.0) -> Floats:
    """Three splits whose Student's interval has that reach, among everybody and among four samples of people."""
    step = reach * math.sqrt(3) / 4.302652729749464
    return np.repeat(np.array([[mean - step], [mean], [mean + step]]), 5, axis=1)


def curve(
    rung: str,
    by_people: Mapping[int, Any],
    *,
    mechanism: str = "set",
    epsilon: float | None = 1.0,
    device: float | None = None,
    unguaranteed: Sequence[int] = (),
) -> Curve:
    by_people = {
        people: value if isinstance(value, np.ndarray) else worth(value) for people, value in by_people.items()
    }
    return Curve(
        rung=rung,
        mechanism=mechanism,
        epsilon=epsilon,
        worth=by_people,
        delta=dict.fromkeys(by_people, 0.0 if rung == LOCAL else 1e-6),
        device_epsilon=dict.fromkeys(by_people, device),
        unguaranteed=frozenset(unguaranteed),
    )


def answer(*curves: Curve, share: float = 0.9, of: Target = "best", **changes: Any) -> Answer:
    about: dict[str, Any] = {
        "file": "made.csv",
        "people": 1000,
        "items": 50,
        "best": BEST,
        "best_name": "EASE",
        "popularity": BEST / 2,
    }
    about |= {"file_error": FILE, "volunteers": 0.01, "curves": curves}
    return AnswerInputs(**about | changes).answer(share=share, of=of)
