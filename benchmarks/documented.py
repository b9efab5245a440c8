"""Checking figures that pages state against the output of the commands beside them.

`docs/figures.toml` lists every command and every program that the pages show. Those that end within seconds are run.
Their output must contain the tables that the page shows. The file also holds templates of sentences with figures, such
as ``the second after {answered:,}``; filled in with what the command measured, they must occur in the page. ``python -m
benchmarks.documented`` (`make figures`) writes measured figures into the pages, and the tables that JSON files have.
"""

import contextlib
import io
import json
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from string import Formatter
from typing import Any

from benchmarks import measured as tables
from benchmarks import notebooks, pages
from benchmarks.pages import ROOT, Shown, folder_of_pages, printed_blocks, read
from scenarios import cli

TABLE = ROOT / "docs" / "figures.toml"
_GAP = r"[\s│|*`]+"
_FIGURE = r"([\w.,+-]*\w)"
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")


def table() -> dict[str, list[dict[str, Any]]]:
    """Return the content of `docs/figures.toml`."""
    listed: dict[str, list[dict[str, Any]]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return listed


def stands_for(entry: dict[str, Any], one: Shown) -> bool:
    """Return whether an entry lists a command (by its text) or a program (by one of its lines)."""
    named = {*entry.get("commands", ()), entry.get("command")}
    return entry["page"] == one.page and (one.text in named or entry.get("program") in one.text.splitlines())


def listed_as(one: Shown) -> list[str]:
    """Return the kinds under which the file lists it."""
    return [kind for kind, entries in table().items() for entry in entries if stands_for(entry, one)]


def run(words: list[str]) -> tuple[dict[str, Any], str]:
    """Run a command of blindrec here; return its result and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main([*words, "--json", str(file)])
        except SystemExit as ended:
            if ended.code:
                raise ValueError(f"blindrec {shlex.join(words)} ends with {ended.code}: {err.getvalue()}") from None
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result, out.getvalue()


def untrue(entry: dict[str, Any], output: str) -> list[str]:
    """Return lines of the tables below an entry's command that the command does not print."""
    tables = [one.text for one in printed_blocks(entry["page"]) if entry.get("command") in one.commands]
    pictures = [one["begins"] for one in table()["picture"] if one["page"] == entry["page"]]
    return [
        f"{entry['page']}: `{entry['command']}` does not print {line!r}"
        for text in tables
        if not text.strip().startswith(tuple(pictures))
        for line in strangers(text, output, entry.get("varies", ()))
    ]


def run_entry(entry: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Run the quick command of an entry, where its files lie; see `run`."""
    for name, text in entry.get("files", {}).items():
        Path(name).write_text(text, encoding="utf-8")
    return run(shlex.split(entry.get("run", entry["command"]))[1:])


def printed(program: str) -> str:
    """Run a program here and return what it prints: its text, or ``python -c TEXT`` or ``python FILE ...``."""
    out, before = io.StringIO(), sys.argv
    words = shlex.split(program) if program.startswith("python ") else ["python", "-c", program]
    script = words[2] if words[1] == "-c" else Path(words[1]).read_text(encoding="utf-8")
    try:
        sys.argv = words[1:]
        with contextlib.redirect_stdout(out):
            exec(compile(script, "<page>", "exec"), {"__name__": "__main__"})  # our own pages'
    finally:
        sys.argv = before
    return out.getvalue()


def matches_of(template: str, text: str) -> list[re.Match[str]]:
    """Find a template in a page, with any figures, table lines and line ends."""
    parts = []
    for literal, field, _, _ in Formatter().parse(template):
        parts.append(_GAP.join(re.escape(word) for word in re.split(r"\s+", literal)))
        if field is not None:
            parts.append(_FIGURE)
    return list(re.finditer("".join(parts), text))


def measured(template: str, result: dict[str, Any]) -> list[str]:
    """Return the figures of a template as a result has them."""
    form = Formatter()
    return [
        form.format_field(form.get_field(field, (), result)[0], how or "")
        for _, field, how, _ in form.parse(template)
        if field is not None
    ]


def compare(page: str, command: str, template: str, result: dict[str, Any]) -> str:
    """Return what is wrong with the figures that a page takes from a result, or an empty text."""
    places, now = matches_of(template, read(page)), measured(template, result)
    if len(places) != 1:
        return f"{page}: '{template}' stands there {len(places)} times, not once; mend docs/figures.toml or the page"
    if (stated := list(places[0].groups())) != now:
        return f"{page}: '{template}' of `{command}`: documented {', '.join(stated)}, measured {', '.join(now)}"
    return ""


def differing(page: str, template: str, output: str) -> str:
    """Return what is wrong with the figures that a page takes from a program's output; ``{3}`` is its fourth number."""
    places, numbers = matches_of(template, read(page)), [float(one.replace(",", "")) for one in _NUMBER.findall(output)]
    if len(places) != 1:
        return f"{page}: '{template}' stands there {len(places)} times, not once; mend docs/figures.toml or the page"
    wrong = []
    indices = [int(field) for _, field, _, _ in Formatter().parse(template) if field is not None]
    for stated, index in zip(places[0].groups(), indices, strict=True):
        plain = stated.replace(",", "").removeprefix("-")
        if f"{numbers[index]:.{len(plain.partition('.')[2])}f}".lstrip("0") != plain.lstrip("0"):
            wrong.append(f"documented {stated}, printed {numbers[index]}")
    return f"{page}: '{template}': {'; '.join(wrong)}" if wrong else ""


def strangers(block: str, output: str, varies: Sequence[str] = ()) -> list[str]:
    """Return the lines of a printed block that a command does not print, in this order; rows may be left out.

    Rows that begin as one of ``varies`` depend on the machine, and are not compared.
    """
    now, lost = iter([_words(line) for line in output.splitlines()]), []
    for line in block.splitlines():
        words = _words(line)
        if words and not words.startswith(tuple(varies)) and words not in now:
            lost.append(line)
    return lost


def _words(line: str) -> str:
    """Return a line without the characters that draw a table."""
    return " ".join(re.sub("[─━│┃┌┐└┘├┤┬┴┼┏┓┗┛┡┩╇]", " ", line).split())


def refresh() -> None:
    """Write the figures of quick commands into their pages."""
    with folder_of_pages():
        for entry in table()["quick"]:
            result, _ = run_entry(entry)
            for template in entry.get("says", ()):
                text, now = read(entry["page"]), iter(measured(template, result))
                place = matches_of(template, text)[0]
                new, end = "", place.start()
                for group in range(1, len(place.groups()) + 1):
                    new += text[end : place.start(group)] + next(now)
                    end = place.end(group)
                text = text[: place.start()] + new + text[end:]
                (ROOT / entry["page"]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh()
    notebooks.refresh(pages.notebooks())
    tables.write()
    from benchmarks import papers  # it runs commands as this module does

    papers.write()
