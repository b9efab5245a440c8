"""README's picture, table and sentences of what recommendations are worth, and that page's tables: one command.

``python -m benchmarks.worth --small FOLDER --jester FILE`` measures MovieLens latest-small (the folder with ratings.csv
and movies.csv) and Jester by `blindrec compare`, and with ``--ladder FOLDER`` the rungs of the ladder of trust on
latest-small; it writes what was measured to docs/worth.json, and makes from that alone the pictures, the tables and the
sentences. Without files it only makes these anew. With ``--out FOLDER`` finished rows
are kept there, and the command goes on where it was stopped. ``--root`` is the project's folder to write to.
"""

import hashlib
import io
import json
import math
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import jinja2
import pandas as pd
import typer
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.pages import ROOT
from scenarios.backends.selection import InProcess, opened
from scenarios.log import console
from scenarios.show.drawing import draw_picture, styled
from scenarios.show.records import pictures_of
from scenarios.show.result_figures import compared_points, ladder_points
from scenarios.show.tables import short
from scenarios.studies.compare.comparison import comparison, show_rows
from scenarios.studies.compare.comparison_settings import Comparison
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
PICTURES = {"small": (PICTURE, compared_points), "ladder": (LADDER, ladder_points)}
"""Where each picture stands, and what gives its points."""
SMALL = 1e-3  # Numbers below it keep four digits
TITLES = {"small": "MovieLens latest-small", "ladder": "The ladder of trust", "jester": "Jester"}
WIDTH = 150  # Characters of a line of their tables
POINTS = "Points"  # Under this name the picture holds the digest of what is drawn in it
SENTENCES = """\
Where nobody is trusted, 95 % of what plain popularity is worth takes {{ people("local: set", 1) }} people at epsilon 1
and {{ people("local: set", 4) }} at epsilon 4 by the set mechanism, {{ people("local: pairs", 1) }} and
{{ people("local: pairs", 4) }} by pairs of items. Counts of likes by a curator, with Laplace noise, take
{{ people("curator: popularity", 1) }} people at epsilon 1.
With {{ short(10000 * file) }} people at epsilon 4 pairs have an NDCG of {{ ndcg("local: pairs", 4, 10000) }}, where
popularity without privacy has {{ ndcg("none: popularity") }}.
{{ (file * 0.2) | round | int }} people of the file who publish their ratings are worth
{{ ndcg("two-tier: EASE", public=0.2) }} with EASE; {{ "{:,}".format(1000 * file) }} private devices at epsilon 4 are
worth {{ ndcg("local: set", 4, 1000) }} by the set mechanism and {{ ndcg("local: pairs", 4, 1000) }} by pairs. Numbers
in brackets are intervals of 95 %. Every epsilon, the curator's too, is about one person's ratings replaced by any
others.
"""
"""How docs/explanation/worth.md reads latest-small's tables: each number with its mechanism and interval."""
ALL_TABLES = """\
What `python -m benchmarks.worth` measured, for [what is it worth?](worth.md), as `blindrec compare --details` prints
it."""
OF_LADDER = """\
![People who are needed against epsilon, a curve for each rung of the ladder of trust](docs/ladder.png)

| people for 95 % of plain popularity | delta | epsilon 0.5 | epsilon 1 | epsilon 2 | epsilon 4 |
|---|---|---|---|---|---|
{% for name in rungs -%}
| {{ name }} | {{ "%g" | format(reached(name, 1).delta or 0) }} |
{%- for epsilon in (0.5, 1, 2, 4) %} {{ needed(reached(name, epsilon)) }} |{% endfor %}
{% endfor %}
If the shuffler of {{ "{:,}".format(10 * file) }} people lies, epsilon {{ left("set (12 reports)") }} is left of 12
reports a device at epsilon 1, and {{ left("set (few likes)") }} of one, which takes
{{ people("shuffled: set (few likes)", 1) }} people.
Pairs of items, for lists of each device's own taste, gain most: with {{ "{:,}".format(100 * file) }} people their NDCG
is {{ ndcg("shuffled: pairs", 1, 100) }} under a shuffler, {{ ndcg("two-servers: pairs with EASE", 1, 100) }} with two
servers and {{ ndcg("local: pairs", 1, 100) }} locally; popularity without privacy has {{ ndcg("none: popularity") }}.
Brackets are intervals of 95 %. Replacing one person's ratings by others raises no chance p above
e^epsilon p + delta.
"""
"""README's table of the ladder's rungs, and what README says of it."""
OF_LIARS = """\
| likes that one liar is worth (share) | central epsilon |
{%- for times in (1, 10, 100, 1000) %} {{ "{:,}".format(times * file) }} |{% endfor %}
|---|---|---|---|---|---|
{% for name in lied_to -%}
| {{ name }} | 1 |{% for times in (1, 10, 100, 1000) %} {{ lied(row(name, 1, times)) }} |{% endfor %}
{% endfor -%}
"""
"""What one liar is worth, and the share of liars that lifts an unknown item to rank ten, by people."""
BLOCKS = {
    (PAGE, "small read"): ("small", SENTENCES),
    (README, "worth"): ("ladder", OF_LADDER),
    (LIARS, "ladder liars"): ("ladder", OF_LIARS),
}
"""What is made of which file, by its page and its name there."""
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


def _lied(row: Record) -> str:
    likes = row["liar_likes"]
    return f"{f'{likes:,.0f}' if likes >= 1000 else f'{likes:.3g}'} ({100 * row['liar_share']:.2g} %)"


def _names(record: Record) -> dict[str, Any]:
    """Return what templates call: rows by trust model and mechanism, epsilon and how many times the file's people."""
    file = int(record["people_in_file"])

    def match(rows: Iterable[Record], name: str, **key: Any) -> Record:
        trust_model, mechanism = name.split(": ")
        key |= {"trust_model": trust_model, "mechanism": mechanism, "features": False}
        return next(row for row in rows if key.items() <= row.items())

    def row(name: str, epsilon: float | None = None, times: int | None = None, **key: Any) -> Record:
        key |= {} if times is None else {"users": times * file}
        return match((row for row in record["rows"] if row["compared"]), name, epsilon=epsilon, **key)

    def reached(name: str, epsilon: float) -> Record:
        return match(record["people"], name, epsilon=epsilon)

    return {
        "file": file,
        "row": row,
        "reached": reached,
        "needed": needed,
        "short": short,
        "lied": _lied,
        "rungs": SHOWN_RUNGS,
        "lied_to": LIED_TO,
        "ndcg": lambda *name, **key: _interval(row(*name, **key)),
        "people": lambda *name: _in_words(reached(*name)),
        "left": lambda name: f"{row(f'shuffled: {name}', 1, 10)['epsilon_local']:.1f}",
    }


def blocks(data: Mapping[str, Record]) -> Iterator[tuple[str, str, str]]:
    """Yield page, name and text of all that is made from the data."""
    for (page, name), (file, template) in BLOCKS.items():
        if file in data:
            yield page, name, jinja2.Template(template).render(_names(data[file])).rstrip("\n")


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
            data[name] = measured(ratings, features, TARGET | FILES[name], (out or Path(folder)) / name)
    lines = json.dumps(data, indent=None, separators=(",", ":"), ensure_ascii=False)
    store.write_text(re.sub(r"(?<=[\[,])(?=\{\")", "\n", lines) + "\n", encoding="utf-8")
    write(json.loads(store.read_text(encoding="utf-8")), root)


if __name__ == "__main__":
    typer.run(main)
