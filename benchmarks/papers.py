"""The page of the papers' statements, docs/reference/papers.md, made from docs/papers.json.

``python -m benchmarks.papers`` makes the page; with ``--measure`` it first runs every command whose figure is read from
its JSON (by the template ``value``), and with ``--sweeps FOLDER`` it reads the constants of Theorems 8 and 16 from what
the sweeps `pairwise-rich` and `multi-maxsense-items` wrote into folders of these names there. What other commands
measured is written by hand, with the day and the table of docs/measured.json.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import documented
from benchmarks.pages import ROOT, STATEMENTS, folder_of_pages, table
from scenarios.log import console
from scenarios.theory.sufficient_users import delta_min

DATA = "docs/papers.json"
Statement = dict[str, str]
VERDICTS = {
    "yes": ("holds", "hold"),
    "mended": ("holds as mended", "hold as mended"),
    "part": ("holds in part", "hold in part"),
    "no": ("does not hold", "do not hold"),
    "open": ("open", "is open"),
    "": ("no command", "have no command"),
}
"""What a statement's ``holds`` means, of it and of several."""
INTRODUCTION = """\
# Statements of the papers

Of {} statements: {}. Made by `python -m benchmarks.papers` from `docs/papers.json`, which has the day of each figure;
brackets are intervals of 95 %, ± standard errors over seeds. A bound holds where nothing that we measured contradicts
it; as mended: after the change that stands beside it. t is tanh(eps / 2)."""
CONSTANTS = """\
## Constants

c of Theorem 8 (everything rated, eps 1) and of Theorem 16 (w 20, eps 2): two clusters with likes .9 and .1, the paper's
decoder, all labels right in half of twenty runs."""


def recorded(root: Path = ROOT) -> dict[str, Any]:
    """Return what docs/papers.json has: statements by paper, where the papers err, and constants."""
    record: dict[str, Any] = json.loads((root / DATA).read_text(encoding="utf-8"))
    return record


def statements(record: dict[str, Any]) -> Iterator[Statement]:
    """Yield all statements."""
    for rows in record["papers"].values():
        yield from rows


def text(record: dict[str, Any]) -> str:
    """Return the JSON, a line for each statement."""

    def rows_text(name: str, rows: list[Any], margin: str) -> str:
        lines = f",\n{margin} ".join(json.dumps(row, ensure_ascii=False) for row in rows)
        return f"{margin}{json.dumps(name, ensure_ascii=False)}: [\n{margin} {lines}]"

    papers = ",\n".join(rows_text(name, rows, "  ") for name, rows in record["papers"].items())
    rest = ",\n".join(rows_text(name, record[name], " ") for name in ("errors", "constants"))
    return f'{{\n "papers": {{\n{papers}}},\n{rest}\n}}\n'


@cache
def _result(command: str) -> dict[str, Any]:
    with folder_of_pages():
        return documented.run(command)[0]


def measured(row: Statement) -> str:
    """Return what a statement's command measures, as its template says it."""
    return row["value"].format(**_result(row["command"]))


def constants(sweeps: Path) -> Iterator[dict[str, Any]]:
    """Yield the constant c of Theorems 8 and 16, of all labels right in half of the runs, for each number of items."""
    gap = delta_min(like=[[0.9, 0.1]])
    for theorem, grid in (("8", "pairwise-rich"), ("16", "multi-maxsense-items")):
        result = json.loads((sweeps / grid / "result.json").read_text(encoding="utf-8"))
        for row in result["settings"]:
            if row["criterion"] == "exact" and row["decoder"] == "paper":
                items = row["items"]
                unit = items * math.log(items)
                if theorem == "16":
                    unit *= items / (row["epsilon"] * gap**2 * row["rated"])
                figures = {name: round(row[name] / unit, 3) for name in ("users", "low", "high")}
                yield {"theorem": theorem, "items": items, **figures}


def page(record: dict[str, Any]) -> str:
    """Return the page."""
    every = Counter(row["holds"] for row in statements(record))
    counts = ", ".join(f"{every[name]} {several}" for name, (_, several) in VERDICTS.items())
    head = ("statement", "shown by", "paper", "measured", "result")
    parts = [INTRODUCTION.format(every.total(), counts)]
    for paper, rows in record["papers"].items():
        parts += [f"## {paper}", table(head, map(_cells, rows))]
    rows = [
        (f"Theorem {constant['theorem']}", f"{constant['items']}", _interval(constant))
        for constant in record["constants"]
    ]
    parts += [CONSTANTS, table(("", "N", "c"), rows)]
    parts.append("## Where the papers err\n\n" + "\n".join(f"- {error}" for error in record["errors"]))
    return "\n\n".join(parts) + "\n"


def _interval(constant: dict[str, Any]) -> str:
    return f"{constant['users']:.3g} [{constant['low']:.3g}, {constant['high']:.3g}]"


def _cells(row: Statement) -> list[str]:
    how = f"`{row['command']}`" if "command" in row else row.get("why") or f"test `{row['test'].partition('::')[2]}`"
    verdict = VERDICTS[row["holds"]][0] + (f": {row['note']}" if "note" in row else "")
    cells = (f"{row['no']}: {row['says']}", row.get("paper", ""), row.get("measured", ""), verdict)
    says, paper, figure, verdict = (cell.replace("*", r"\*") for cell in cells)
    return [says, how, paper, figure, verdict]


def write(root: Path = ROOT) -> None:
    """Make the page from the JSON file."""
    (root / STATEMENTS).write_text(page(recorded(root)), encoding="utf-8")


def main(
    *,
    measure: Annotated[
        bool, typer.Option(help="Run all commands whose figure is read from their JSON: minutes.")
    ] = False,
    sweeps: Annotated[Path | None, typer.Option(help="Folder with the folders of both sweeps.")] = None,
) -> None:
    """Make the page, perhaps after measuring."""
    record = recorded()
    for row in statements(record) if measure else ():
        if "value" in row and (figure := measured(row)) != row.get("measured"):
            console().print(f"{row['no']}: {row.get('measured')} -> {figure}", highlight=False)
            row |= {"measured": figure, "ran": datetime.now(UTC).date().isoformat()}
    if sweeps is not None:
        record["constants"] = list(constants(sweeps))
    (ROOT / DATA).write_text(text(record), encoding="utf-8")
    write()


if __name__ == "__main__":
    typer.run(main)
