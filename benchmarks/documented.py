"""What pages say that commands print, which tests hold against what they print.

A block of the kind ``text`` has lines, in their order, that the command or program before it prints; a page may leave
lines out. ``<!--accuracy:.2f-->0.95`` in a sentence is a figure: that key of the JSON result of the command before it,
in that format; ``rows.0.loss`` is a key of the first row. Commands without either take minutes, or need what a page
cannot have: they are only parsed. ``<!-- ran 2026-11-24 -->`` beside one of them says when its figures were measured.

``python -m benchmarks.documented`` (a part of `make figures`) writes figures into the sentences.
"""

import contextlib
import io
import json
import re
import shlex
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.pages import MODULE, ROOT, SHELL, command_of, folder_of_pages, lines_of, pages, read
from scenarios import cli

# Sybil finds such blocks, too. But it compares no figures in sentences and writes none, and its items share a page's
# namespace, which pytest's processes would tear apart.
DEMO = "blindrec demo --backend ray"
"""What ``make demo`` runs."""
_TOKEN = re.compile(
    r"^```(?P<kind>\w*)\n(?P<block>.*?)^```|`(?P<span>[^`]+)`"
    r"|<!--(?P<key>[\w.]+):?(?P<format>[^\s>-]*)-->(?P<figure>[\w.,+-]*\w)",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Claim:
    """A command or a program, and what a page says that it prints: lines of blocks, figures in sentences."""

    page: str
    program: str
    blocks: list[str] = field(default_factory=list)
    figures: list[re.Match[str]] = field(default_factory=list)


def claims_of(page: str, text: str) -> list[Claim]:
    """Return what a page claims, in its order."""
    claims = [Claim(page, "")]
    for token in _TOKEN.finditer(text):
        if token["key"]:
            claims[-1].figures.append(token)
        elif token["kind"] == "text":
            claims[-1].blocks.append(token["block"])
        elif program := _program(token):
            claims.append(Claim(page, program))
    return [claim for claim in claims if claim.blocks or claim.figures]


def _program(token: re.Match[str]) -> str:
    if token["span"]:
        return command_of(token["span"])
    if token["kind"] == "python" and not MODULE.match(token["block"]):
        return token["block"]
    return (["", *lines_of(token["block"])] if token["kind"] in SHELL else [""])[-1]


def claims() -> list[Claim]:
    """Return what all pages claim."""
    return [claim for page in pages() for claim in claims_of(page, read(page))]


def run(command: str) -> tuple[dict[str, Any], str]:
    """Run a command of blindrec here; return its result and what it prints."""
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.json"
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                cli.main([*shlex.split(command)[1:], "--json", str(file)])
        except SystemExit as ended:
            if ended.code:
                raise ValueError(f"{command} ends with {ended.code}: {err.getvalue()}") from None
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return result, out.getvalue()


def printed(program: str) -> str:
    """Run a program here and return what it prints: its text, or ``python FILE ...``."""
    out, before = io.StringIO(), sys.argv
    arguments = shlex.split(program) if program.startswith("python ") else ["python", "-"]
    script = program if arguments[1] == "-" else Path(arguments[1]).read_text(encoding="utf-8")
    try:
        sys.argv = arguments[1:]
        with contextlib.redirect_stdout(out):
            exec(compile(script, "<page>", "exec"), {"__name__": "__main__"})  # our own pages'
    finally:
        sys.argv = before
    return out.getvalue()


def outcome(program: str) -> tuple[dict[str, Any], str]:
    """Run what a page shows; return its result, if it has one, and what it prints."""
    command = DEMO if program == "make demo" else program
    return run(command) if command.startswith("blindrec ") else ({}, printed(command))


def measured(figure: re.Match[str], result: dict[str, Any]) -> str:
    """Return a figure as a result has it."""
    value: Any = result
    for key in figure["key"].split("."):
        value = value[int(key) if key.isdecimal() else key]
    return format(value, figure["format"])


def refresh() -> None:
    """Write the figures of sentences."""
    for claim in reversed(claims()):
        if claim.figures:
            with folder_of_pages():
                result, _ = outcome(claim.program)
            text = read(claim.page)
            for figure in reversed(claim.figures):
                text = text[: figure.start("figure")] + measured(figure, result) + text[figure.end("figure") :]
            (ROOT / claim.page).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    refresh()
