"""README's picture, table and sentences of what recommendations are worth, and that page's tables: one command.

``python -m benchmarks.worth --small FOLDER --jester FILE`` measures MovieLens latest-small (the folder with ratings.csv
and movies.csv) and Jester by `blindrec compare`, and with ``--ladder FOLDER`` the rungs of the ladder of trust on
latest-small; it writes what was measured to docs/worth.json, and makes from that alone the pictures, the tables and the
sentences. Without files it only makes these anew. With ``--out FOLDER`` finished rows
are kept there, and the command goes on where it was stopped. ``--quick`` measures little, to see that all works;
``--root`` is the project's folder to write to.
"""

import hashlib
import io
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.pages import ROOT, table
from scenarios.backends.selection import InProcess, opened
from scenarios.log import console
from scenarios.show.drawing import draw_picture, styled
from scenarios.show.records import pictures_of
from scenarios.show.result_figures import compared_points, ladder_points
from scenarios.show.tables import short
from scenarios.studies.compare.comparison import comparison, show_rows
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.scoring import SERVED
from scenarios.studies.compare.summary import needed
from scenarios.studies.study import run_study

DATA, PICTURE, PAGE, README = "docs/worth.json", "docs/worth.png", "docs/explanation/worth.md", "README.md"
LADDER, LIARS = "docs/ladder.png", "docs/explanation/lying.md"
FILES: dict[str, dict[str, Any]] = {
    "small": {"like_from": 4.0, "epsilon": "1,2,4,inf", "scale": "1,10,100,1000,10000", "seeds": 5, "devices": 0}
    | {"trust_models": "none,curator,two-tier,local,coordinator", "mechanisms": "all", "public": "0.01,0.05,0.2"},
    "ladder": {"like_from": 4.0, "epsilon": "0.5,1,2,4", "scale": "1,10,100,1000,10000", "seeds": 5, "devices": 0}
    | {
        "trust_models": "ladder",
        "mechanisms": "popularity,popularity (Gaussian),popularity (Laplace),pairs with EASE,subset,set,"
        "set (few likes),set (12 reports),ones,pairs",
    },
    "jester": {"rank": 8, "epsilon": "0.5,1,2,4", "trust_models": "none,curator,local", "seeds": 3, "devices": 0}
    | {"mechanisms": "all", "scale": "1,10,100,1000"},
}
TARGET: dict[str, Any] = {"worth": 0.95, "of": "popularity"}
"""What is measured of each file."""
QUICK = {"epsilon": "1,4", "scale": "1,100,1000", "seeds": 3, "devices": 0}
SLOW = ("trace norm", "PMC", "PMD")  # Rows that take most of the time; `--quick` leaves them out
_ALWAYS = "trust_model mechanism features epsilon users public compared delta ndcg ndcg_low ndcg_high"
KEPT = f"{_ALWAYS} simulated seeds hit_rate recall coverage".split()
OF_RUNGS = f"{_ALWAYS} neighbours epsilon_local messages liar_likes liar_share".split()
"""What is kept of a row."""
SHOWN_RUNGS = (
    *("curator: popularity (Gaussian)", "two-servers: popularity"),
    *("shuffled: set (12 reports)", "local: set"),
)
"""Rows of README's table."""
LIED_TO = ("curator: popularity", "two-servers: popularity", "shuffled: set", "shuffled: ones", "local: set")
"""Rows of the table of liars, all with sets of up to 50 likes but the curator's, of 10."""
SHOWN = ("set", "pairs")  # Local rows of the sentences that read latest-small's tables
PICTURES = {"small": (PICTURE, compared_points), "ladder": (LADDER, ladder_points)}
"""Where each picture stands, and what gives its points."""
SMALL = 1e-3  # Numbers below it keep four digits
TITLES = {"small": "MovieLens latest-small", "ladder": "The ladder of trust", "jester": "Jester"}
WIDTH = 150  # Characters of a line of their tables
POINTS = "Points"  # Under this name the picture holds the digest of what is drawn in it
SENTENCES = """\
Where nobody is trusted, 95 % of what plain popularity is worth takes {sets} people at epsilon {low} and {more_sets} at
epsilon {high} by the set mechanism, {pairs} and {more_pairs} by pairs of items. {curator}
With {most} people at epsilon {high} pairs have an NDCG of {best}, where popularity without privacy has {plain}.
{public} people of the file who publish their ratings are worth {tier} with EASE; {many} private devices at epsilon
{high} are worth {singles} by the set mechanism and {both} by pairs. Numbers in brackets are intervals of 95 %. Every
epsilon, the curator's too, is about one person's ratings replaced by any others."""
"""How docs/explanation/worth.md reads latest-small's tables: each number with its mechanism and interval."""
ALL_TABLES = """\
What `python -m benchmarks.worth` measured, for [what is it worth?](worth.md), as `blindrec compare --details` prints
it."""
RUNG_SENTENCES = """\
If the shuffler lies, epsilon {left_reports} is left of 12 reports of a device at epsilon 1. With one report of each it
takes {shuffled} people, and {left_shuffled} is left.
Pairs of items, for lists of each device's own taste, gain most: with {many} people their NDCG is {mixed}
under a shuffler, {both} with two servers and {alone} locally; popularity
without privacy has {plain}. Brackets are intervals of 95 %; epsilon is about one person's
ratings replaced by any others, and fails with probability delta."""
"""What README says of the rungs of the ladder."""
Record = Mapping[str, Any]


def measured(path: Path, features: Path | None, options: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Measure a file, and return of its result what is shown."""
    study = comparison({"ratings": path, "features": features, **options})
    result = run_study(study, opened(InProcess()), out, console()).result
    of_rungs = result["trust_models"] == result["rungs"]
    rows = [{name: _short(row[name]) for name in (OF_RUNGS if of_rungs else KEPT)} for row in result["rows"]]
    names = ["ratings", "people_in_file", "items", "split_by", "held_out", "like_from", "people", "coordinator"]
    names += ["trust_models", "rungs", "neighbours", "delta"] if of_rungs else []
    settings: Comparison = study.settings
    return {**{name: result[name] for name in names}, "devices": settings.devices, "rows": rows}


def _fast() -> list[str]:
    return [*dict.fromkeys(row.mechanism for row in registered_rows().values() if row.mechanism not in SLOW), *SERVED]


def _short(value: Any) -> Any:
    if not isinstance(value, float) or not value:
        return value
    return round(value, max(4, 3 - math.floor(math.log10(abs(value)))) if abs(value) < SMALL else 4)


def drawn_of(record: Record) -> dict[str, Any]:
    """Return what the picture shows of a result: no panel for those who spend no epsilon."""
    return {**record, "rows": [row for row in record["rows"] if row["epsilon"] != "inf"], "coordinator": None}


def digest(points: pd.DataFrame) -> str:
    """Return the digest of a picture's points."""
    return hashlib.sha256(points.to_csv(index=False).encode()).hexdigest()


def draw(record: Record, path: Path) -> None:
    """Draw the first picture of a result, with the digest of its points in it."""
    picture = pictures_of("compare", drawn_of(record))[0]
    assert picture.points is not None  # it has some
    figure = Figure()
    draw_picture(picture, figure)
    with styled():
        figure.savefig(path, metadata={POINTS: digest(picture.points)})


def _worth(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def _interval(row: Record) -> str:
    return f"{_worth(row['ndcg'])} [{_worth(row['ndcg_low'])}, {_worth(row['ndcg_high'])}]"


def _in_words(row: Record) -> str:
    text = needed(row)
    return {">": "more than", "<": "fewer than"}.get(text[0], text[0]) + text[1:]


def _epsilon(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _name(row: Record) -> str:
    return f"{row['trust_model']}: {row['mechanism']}"


Cells = Iterable[tuple[tuple[str, ...], Any, str]]  # How a line begins, the column's value, and the cell


def crossed(head: Sequence[str], columns: Mapping[Any, str], cells: Cells) -> str:
    """Return a table with a line for each beginning, and a column for each value."""
    lines: dict[tuple[str, ...], dict[Any, str]] = {}
    for begin, column, cell in cells:
        lines.setdefault(begin, {})[column] = cell
    rows = ([*begin, *(line.get(column, "") for column in columns)] for begin, line in lines.items())
    return table([*head, *columns.values()], rows)


def _lied(row: Record) -> str:
    likes = row["liar_likes"]
    return f"{f'{likes:,.0f}' if likes >= 1000 else f'{likes:.3g}'} ({100 * row['liar_share']:.2g} %)"


def _times(ours: Record, other: Record) -> str:
    """Return how many times more people one row takes than another, with an interval if both have one."""
    if None in (ours["users"], other["users"]):
        return ""
    ratio, between = ours["users"] / other["users"], ""
    if None not in [row[f"users_{end}"] for row in (ours, other) for end in ("low", "high")]:
        reach = math.hypot(*(math.log(row["users_high"] / row["users_low"]) / 2 for row in (ours, other)))
        ends = (float(f"{ratio * math.exp(way * reach):.2g}") for way in (-1, 1))
        between = f" [{', '.join(f'{end:g}' for end in ends)}]"
    return f"some {float(f'{ratio:.1g}'):g}{between} times fewer"


class Tables:
    """The sentences of one file's result."""

    def __init__(self, record: Record) -> None:
        self.record, self.people = record, int(record["people_in_file"])
        self.rows = [row for row in record["rows"] if row["compared"]]

    def _of(self, model: str) -> list[Record]:
        return [row for row in self.rows if row["trust_model"] == model and not row["features"]]

    def _people(self, trust_model: str, mechanism: str, epsilon: Any) -> Record:
        key = {"trust_model": trust_model, "mechanism": mechanism, "epsilon": epsilon, "features": False}
        return next(row for row in self.record["people"] if key.items() <= row.items())

    def _row(self, trust_model: str, mechanism: str, **key: Any) -> Record:
        key |= {"trust_model": trust_model, "mechanism": mechanism, "features": False}
        return next(row for row in self.rows if key.items() <= row.items())

    def sentences(self) -> str:
        """Return what README says beside the picture, each number with its mechanism and interval."""
        finite = sorted({row["epsilon"] for row in self._of("local") if row["epsilon"] != "inf"})
        low, high = finite[0], finite[-1]
        users = [row["users"] for row in self._of("local")]
        many, most = max(count for count in users if count <= 1000 * self.people), max(users)
        (sets, more_sets), (pairs, more_pairs) = (
            [_in_words(self._people("local", name, epsilon)) for epsilon in (low, high)] for name in SHOWN
        )
        share = max(row["public"] for row in self._of("two-tier"))
        tier, plain = self._row("two-tier", "EASE", public=share), self._row("none", "popularity")
        singles, both = (self._row("local", name, epsilon=high, users=many) for name in SHOWN)
        best = self._row("local", "pairs", epsilon=high, users=most)
        return SENTENCES.format(
            sets=sets,
            more_sets=more_sets,
            pairs=pairs,
            more_pairs=more_pairs,
            low=_epsilon(low),
            high=_epsilon(high),
            curator=self._fewer(low),
            most=short(most),
            best=_interval(best),
            plain=_interval(plain),
            public=round(share * self.people),
            tier=_interval(tier),
            many=f"{many:,}",
            singles=_interval(singles),
            both=_interval(both),
        )

    def _fewer(self, epsilon: Any) -> str:
        """Say how many times fewer people a curator's noisy counts take than the set mechanism."""
        ours, other = self._people("local", "set", epsilon), self._people("curator", "popularity", epsilon)
        people = _in_words(other)
        text = f"Counts of likes by a curator, with Laplace noise, take {people} people at epsilon {_epsilon(epsilon)}"
        times = "" if ours["at_most"] or other["at_most"] else _times(ours, other)
        return f"{text}, {times} than the set mechanism." if times else f"{text}."


class Rungs(Tables):
    """The tables and sentences of the ladder of trust."""

    def people_needed(self) -> str:
        """Return README's table: how many people reach 95 % of plain popularity, with delta of each row."""
        rows = [row for row in self.record["people"] if _name(row) in SHOWN_RUNGS]
        cells = (((_name(row), f"{row['delta'] or 0:g}"), row["epsilon"], needed(row)) for row in rows)
        epsilons = {row["epsilon"]: f"epsilon {_epsilon(row['epsilon'])}" for row in rows}
        return crossed(["people for 95 % of plain popularity", "delta"], epsilons, cells)

    def liars(self) -> str:
        """Return what one liar is worth, and the share of liars that lifts an unknown item to rank ten, by people."""
        rows = [row for row in self.rows if _name(row) in LIED_TO and row["users"] <= 1000 * self.people]
        rows = sorted((row for row in rows if row["epsilon"] == 1), key=lambda row: LIED_TO.index(_name(row)))
        people = {users: f"{users:,}" for users in sorted({row["users"] for row in rows})}
        cells = (((_name(row), _epsilon(row["epsilon"])), row["users"], _lied(row)) for row in rows)
        return crossed(["likes that one liar is worth (share)", "central epsilon"], people, cells)

    def of_rungs(self) -> str:
        """Return what README says beside the picture of the ladder."""
        one_report = "set (few likes)"
        names = {"reports": "set (12 reports)", "shuffled": one_report}
        left = {
            name: self._row("shuffled", row, epsilon=1.0, users=10 * self.people)["epsilon_local"]
            for name, row in names.items()
        }
        pairs = {
            "mixed": ("shuffled", "pairs"),
            "both": ("two-servers", "pairs with EASE"),
            "alone": ("local", "pairs"),
        }
        many = 100 * self.people
        return RUNG_SENTENCES.format(
            many=f"{many:,}",
            shuffled=_in_words(self._people("shuffled", one_report, 1.0)),
            plain=_interval(self._row("none", "popularity")),
            **{name: _interval(self._row(*row, epsilon=1.0, users=many)) for name, row in pairs.items()},
            **{f"left_{name}": f"{nats:.1f}" for name, nats in left.items()},
        )


def blocks(data: Mapping[str, Record]) -> Iterator[tuple[str, str, str]]:
    """Yield page, name and text of all that is made from the data."""
    if "small" in data:
        yield PAGE, "small read", Tables(data["small"]).sentences()
    if "ladder" in data:
        rungs = Rungs(data["ladder"])
        picture = "![People who are needed against epsilon, a curve for each rung of the ladder of trust]"
        yield README, "worth", f"{picture}({LADDER})\n\n{rungs.people_needed()}\n\n{rungs.of_rungs()}"
        yield LIARS, "ladder liars", rungs.liars()


def tables_page(data: Mapping[str, Record]) -> str:
    """Return the page of all tables, which the site makes when it is built."""
    parts = [f"# Tables of the comparison\n\n{ALL_TABLES}"]
    for name, title in TITLES.items():
        rows = [{**dict.fromkeys((*KEPT, *OF_RUNGS, "constant")), **row} for row in data[name]["rows"]]
        sheet = io.StringIO()
        shown = {"remarks": [], **data[name], "rows": rows}
        show_rows(Console(file=sheet, width=WIDTH, color_system=None), shown, title)
        parts.append(f"## {title}\n\n```text\n{sheet.getvalue()}```")
    return "\n\n".join(parts) + "\n"


def replaced(text: str, name: str, block: str) -> str:
    """Return a page with a block between its marks."""
    marks = f"<!-- worth: {name} -->", "<!-- end -->"
    pattern = f"{re.escape(marks[0])}\n.*?{re.escape(marks[1])}"
    if len(re.findall(pattern, text, re.DOTALL)) != 1:
        raise ValueError(f"the page has no block or several blocks between {marks[0]} and {marks[1]}; give it one")
    return re.sub(pattern, lambda _: f"{marks[0]}\n{block}\n{marks[1]}", text, flags=re.DOTALL)


def differing(data: Mapping[str, Record], root: Path = ROOT) -> list[str]:
    """Return what a page or the picture has that the data does not say."""
    wrong = []
    for page, name, block in blocks(data):
        text = (root / page).read_text(encoding="utf-8")
        if replaced(text, name, block) != text:
            wrong.append(f"{page}: block {name}")
    for name, (picture, points) in PICTURES.items():
        if name in data and digest(points(drawn_of(data[name]))).encode() not in (root / picture).read_bytes():
            wrong.append(picture)
    return wrong


def write(data: Mapping[str, Record], root: Path) -> None:
    """Write the picture, the tables and the sentences."""
    for page, name, block in blocks(data):
        path = root / page
        path.write_text(replaced(path.read_text(encoding="utf-8"), name, block), encoding="utf-8")
    for name, (picture, _) in PICTURES.items():
        if name in data:
            draw(data[name], root / picture)


def main(
    small: Annotated[Path | None, typer.Option(help="Folder of MovieLens latest-small.")] = None,
    jester: Annotated[Path | None, typer.Option(help="Jester's archive.")] = None,
    ladder: Annotated[Path | None, typer.Option(help="Folder of MovieLens latest-small: the ladder of trust.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to keep finished rows in.")] = None,
    root: Annotated[Path, typer.Option(help="The project's folder.")] = ROOT,
    *,
    quick: Annotated[bool, typer.Option(help="Measure little.")] = False,
) -> None:
    """Measure what is named, and make everything from the data."""
    store = root / DATA
    data = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {}
    files: dict[str, tuple[Path, Path | None]] = {}
    files |= {"small": (small / "ratings.csv", small / "movies.csv")} if small else {}
    files |= {"ladder": (ladder / "ratings.csv", None)} if ladder else {}
    files |= {"jester": (jester, None)} if jester else {}
    with tempfile.TemporaryDirectory() as folder:
        for name, (ratings, features) in files.items():
            options = TARGET | FILES[name] | (QUICK | {"mechanisms": _fast()} if quick else {})
            data[name] = measured(ratings, features, options, (out or Path(folder)) / name)
    lines = json.dumps(data, indent=None, separators=(",", ":"), ensure_ascii=False)
    store.write_text(re.sub(r"(?<=[\[,])(?=\{\")", "\n", lines) + "\n", encoding="utf-8")
    write(json.loads(store.read_text(encoding="utf-8")), root)


if __name__ == "__main__":
    typer.run(main)
