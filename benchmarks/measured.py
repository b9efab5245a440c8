"""Measured tables: docs/measured.json has every one, with the command that measured it and the day, and pages show it.

``python -m benchmarks.measured`` makes from docs/worth.json the tables and pictures of pages; the site makes its page
of measured tables, and a CSV of each, from docs/measured.json. After a command was run again, ``python -m
benchmarks.measured NAME FILE`` takes the rows of a table from a file, a CSV or what the command printed with a Markdown
table in it, and writes the day.
"""

import csv
import io
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import worth
from benchmarks.pages import ROOT, table

DATA = "docs/measured.json"
INTRODUCTION = """\
# Measured tables

Each with the command that measured it and the day; rows and columns say what changes between runs."""
IN_PAGES = dict.fromkeys(("years-in-a-made-world", "by-years-of-latest-small"), "README.md")
"""Tables that a page shows, and does not only link to."""
Tables = dict[str, dict[str, Any]]


def measured_tables(root: Path = ROOT) -> Tables:
    """Return every table by its name: command or why there is none, perhaps more, day, columns, rows."""
    tables: Tables = json.loads((root / DATA).read_text(encoding="utf-8"))
    return tables


def text(tables: Tables) -> str:
    """Return the JSON of tables, a line for each row."""
    entries = []
    for name, entry in tables.items():
        lines = [f"    {json.dumps(key)}: {_line(value)}" for key, value in entry.items() if key != "rows"]
        rows = ",\n      ".join(map(_line, entry["rows"]))
        entries.append(f"  {json.dumps(name)}: {{\n" + ",\n".join([*lines, f'    "rows": [\n      {rows}]']) + "}")
    return "{\n" + ",\n".join(entries) + "\n}\n"


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def csv_of(entry: dict[str, Any]) -> str:
    """Return a table as a CSV."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows([entry["columns"], *entry["rows"]])
    return lines.getvalue()


def page(tables: Tables) -> str:
    """Return the page of all tables, which the site makes when it is built."""
    parts = [INTRODUCTION]
    for name, entry in tables.items():
        how = f"`{entry['command']}`" if "command" in entry else entry["why"]
        also = f" ({entry['also']})" if "also" in entry else ""
        also += f", a program of commit {entry['commit']}" if "commit" in entry else ""
        title = name.replace("-", " ").capitalize()
        for proper in ("Jester", "MaxSense", "MovieLens"):
            title = re.sub(proper, proper, title, flags=re.IGNORECASE)
        parts.append(f"## {title}\n\n{how}{also}, {entry['ran']}")
        parts[-1] += f', <a href="../measured/{name}.csv" download>as a CSV</a>'
        head, *rows = [[_escaped(cell) for cell in row] for row in (entry["columns"], *entry["rows"])]
        parts.append(table(head, rows))
    return "\n\n".join(parts) + "\n"


def _escaped(cell: str) -> str:
    return cell.replace("*", r"\*")


def rows_in(output: str) -> list[list[str]]:
    """Return the rows of a Markdown table in a text, or of a CSV; the first one is the head."""
    lines = [line.strip()[1:-1].split("|") for line in output.splitlines() if line.strip().startswith("|")]
    rows = lines or list(csv.reader(output.splitlines()))
    return [[cell.strip() for cell in row] for row in rows if set("".join(row)) - set("-: ")]


def measured_anew(name: str, file: Path, command: str | None, root: Path) -> None:
    """Take the rows of a table from a file, and write the day."""
    tables = measured_tables(root)
    entry = tables.get(name, {}) | ({"command": command} if command else {})
    if "command" not in entry:
        raise SystemExit(f"{name} is no measured table of {DATA}; write what measured a new one: --command 'COMMAND'")
    columns, *rows = rows_in(file.read_text(encoding="utf-8"))
    tables[name] = {**entry, "ran": datetime.now(UTC).date().isoformat(), "columns": columns, "rows": rows}
    (root / DATA).write_text(text(tables), encoding="utf-8")


def in_page(text: str, tables: Tables, name: str) -> str:
    """Return a page with a measured table between its marks."""
    return worth.replaced(text, name, table(tables[name]["columns"], tables[name]["rows"]))


def write(root: Path = ROOT) -> None:
    """Make tables and pictures of pages from their JSON files."""
    for name, place in IN_PAGES.items():
        path = root / place
        path.write_text(in_page(path.read_text(encoding="utf-8"), measured_tables(root), name), encoding="utf-8")
    data = json.loads((root / worth.DATA).read_text(encoding="utf-8"))
    if worth.differing(data, root):
        worth.write(data, root)


def main(
    name: Annotated[str | None, typer.Argument(help="A table of docs/measured.json, also a new one.")] = None,
    file: Annotated[Path | None, typer.Argument(help="What its command printed, or a CSV.")] = None,
    command: Annotated[str | None, typer.Option(help="The command, of a new table or instead of the old one.")] = None,
    root: Annotated[Path, typer.Option(help="The project's folder.")] = ROOT,
) -> None:
    """Make every table of pages, after the rows of one were measured again if a name and a file are given."""
    if name is not None:
        if file is None:
            raise SystemExit(f"{name} is given without a file; give what its command printed, or a CSV")
        measured_anew(name, file, command, root)
    write(root)


if __name__ == "__main__":
    typer.run(main)
