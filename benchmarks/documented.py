"""Figures that README and docs state: their commands, found in the text, and what they print, held against it.

`docs/figures.toml` lists every command and every program that these pages show. Those that end within seconds are run,
and the words around their figures are kept there as a template, ``the second after {answered:,}``: filled in with what
the command measured it must stand in the page. ``python -m benchmarks.documented`` (`make figures`) writes measured
figures into the pages.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

from scenarios import cli

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "figures.toml"
_BEGINS = r"(?:make demo\b|make bench\b|python -m benchmarks\b|python -c |blindrec [\w-]+(?=[\s`]|$))"
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_GAP = r"[\s│|*`]+"
_FIGURE = r"([\w.,+-]*\w)"
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")


class Shown(NamedTuple):
    """A command or a program of a page."""

    page: str
    text: str


def pages() -> list[str]:
    """Return README and the docs, as seen from the project's folder."""
    return ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))]


def read(page: str) -> str:
    """Return a page's text."""
    return (ROOT / page).read_text(encoding="utf-8")


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, in blocks and in the text; a bare ``blindrec run`` only names the command."""
    for block in _FENCED.findall(text):
        for line in block.splitlines():
            if re.match(_BEGINS, line) and (told := re.split(r"\s+#\s", line)[0].strip()):
                yield told
    for span in re.findall(rf"`({_BEGINS}[^`]*)`", _FENCED.sub("", text)):
        told = " ".join(span.split())
        if not re.fullmatch(r"blindrec [\w-]+", told):
            yield told


def programs(text: str) -> Iterator[str]:
    """Yield the programs of a page that print something."""
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    blocks += re.findall(r"^python - <<'END'\n(.*?)^END$", text, re.DOTALL | re.MULTILINE)
    yield from (block for block in blocks if "print(" in block)


def shown() -> list[Shown]:
    """Return all commands and programs of all pages."""
    return [Shown(page, one) for page in pages() for find in (commands, programs) for one in find(read(page))]


def table() -> dict[str, list[dict[str, Any]]]:
    """Return what `docs/figures.toml` lists."""
    listed: dict[str, list[dict[str, Any]]] = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return listed


def stands_for(entry: dict[str, Any], one: Shown) -> bool:
    """Return whether an entry of the table lists it: a command by its text, a program by one of its lines."""
    named = {*entry.get("commands", ()), entry.get("command")}
    return entry["page"] == one.page and (one.text in named or entry.get("program") in one.text.splitlines())


def listed_as(one: Shown) -> list[str]:
    """Return the kinds under which the table lists it."""
    return [kind for kind, entries in table().items() for entry in entries if stands_for(entry, one)]


def run(words: list[str]) -> dict[str, Any]:
    """Run a command of blindrec here and return its result."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main([*words, "--json", "-"])
    except SystemExit as ended:
        if ended.code:
            raise ValueError(f"blindrec {shlex.join(words)} ends with {ended.code}: {err.getvalue()}") from None
    result: dict[str, Any] = json.loads(out.getvalue())
    return result


def printed(program: str) -> str:
    """Run a program here and return what it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(program, "<page>", "exec"), {"__name__": "__main__"})  # our own pages'
    return out.getvalue()


@contextlib.contextmanager
def folder_of_pages() -> Iterator[None]:
    """Work in a folder that holds the modules that pages show, by their first line: ``# mypolicy.py``."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for page in pages():
            for block in re.findall(r"^```python\n(.*?)^```", read(page), re.DOTALL | re.MULTILINE):
                if named := re.match(r"# (\w+\.py)\n", block):
                    (Path(folder) / named[1]).write_text(block, encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            if folder in sys.path:
                sys.path.remove(folder)


def found(template: str, text: str) -> list[re.Match[str]]:
    """Return where a template stands in a page, whatever its figures, table lines and line ends."""
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
    """Tell what is wrong with the figures that a page states; nothing, if they are those of the result."""
    places, now = found(template, read(page)), measured(template, result)
    if len(places) != 1:
        return f"{page}: '{template}' stands there {len(places)} times, not once; mend docs/figures.toml or the page"
    if (stated := list(places[0].groups())) != now:
        return f"{page}: '{template}' of `{command}`: documented {', '.join(stated)}, measured {', '.join(now)}"
    return ""


def differing(page: str, template: str, output: str) -> str:
    """Tell what is wrong with figures that a page states of a program's output; ``{3}`` is its fourth number."""
    places, numbers = found(template, read(page)), [float(one.replace(",", "")) for one in _NUMBER.findall(output)]
    if len(places) != 1:
        return f"{page}: '{template}' stands there {len(places)} times, not once; mend docs/figures.toml or the page"
    wrong = []
    indices = [int(field) for _, field, _, _ in Formatter().parse(template) if field is not None]
    for stated, index in zip(places[0].groups(), indices, strict=True):
        plain = stated.replace(",", "").removeprefix("-")
        if f"{numbers[index]:.{len(plain.partition('.')[2])}f}".lstrip("0") != plain.lstrip("0"):
            wrong.append(f"documented {stated}, printed {numbers[index]}")
    return f"{page}: '{template}': {'; '.join(wrong)}" if wrong else ""


def refresh() -> None:
    """Write the figures of quick commands into their pages."""
    with folder_of_pages():
        for entry in table()["quick"]:
            result = run(shlex.split(entry.get("run", entry["command"]))[1:])
            for template in entry["says"]:
                text, now = read(entry["page"]), iter(measured(template, result))
                place = found(template, text)[0]
                new, end = "", place.start()
                for group in range(1, len(place.groups()) + 1):
                    new += text[end : place.start(group)] + next(now)
                    end = place.end(group)
                text = text[: place.start()] + new + text[end:]
                (ROOT / entry["page"]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh()
