"""The pages of the project, and the commands, modules and sessions in them."""

import contextlib
import html
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
STATEMENTS = "docs/reference/papers.md"
"""A page that `benchmarks.papers` makes from JSON, whose commands its own test reads."""
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAMS = (
    r"(?:blindrec(?! \w+,)|make|python|ray|kubectl|sbatch|helm|docker|pip|export|kill|rm|for|cd|\w+=\$\(\w+)[ \n]"
)
SHELL = ("", "sh", "bash")
"""Kinds of blocks whose lines may be commands."""
_BEGINS = r"(?:make [a-z-]+\b|python -m \w|python -c |find \. |blindrec [\w-]+(?=[\s`]|$))"
MODULE = re.compile(r"# (\w+\.py)\n")
WRITTEN = re.compile(r"%%writefile (\S+)\n")
"""First line of a notebook's cell that writes a file."""


def pages() -> list[str]:
    """Return the paths of all pages, relative to the project's folder."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    pages += [path for room in ("deploy", "docs", "examples") for path in (ROOT / room).rglob("*.md")]
    pages += notebooks()
    pages += [path for room in ("benchmarks", "coordinator", "scenarios") for path in (ROOT / room).rglob("ADDING.md")]
    return sorted({path.relative_to(ROOT).as_posix() for path in pages} - {STATEMENTS})


def notebooks() -> list[Path]:
    """Return all tutorials that are notebooks."""
    return sorted((ROOT / "docs" / "tutorials").glob("*.ipynb"))


def read(page: str) -> str:
    """Return a page's text; of a notebook without what its cells run, which `benchmarks.notebooks` looks after."""
    return text_of(ROOT / page)


def text_of(path: Path, *, whole: bool = False) -> str:
    """Return a page's text; a notebook as Markdown: its prose and the files that it writes, or the whole of it."""
    text = path.read_text(encoding="utf-8")
    return text if path.suffix != ".ipynb" else "\n\n".join(_cells(json.loads(text)["cells"], whole=whole)) + "\n"


def _cells(cells: list[dict[str, Any]], *, whole: bool) -> Iterator[str]:
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield source
        elif written := WRITTEN.match(source):
            kind = {"py": "python"}.get(suffix := written[1].rpartition(".")[2], suffix)
            yield f"```{kind}\n# {written[1]}\n{source[written.end() :]}\n```"
        elif whole:
            yield f"```sh\n{source[1:]}\n```" if source.startswith("!") else f"```python\n{source}\n```"
        for output in cell.get("outputs", ()) if whole else ():
            if "text" in output:
                yield f"```text\n{''.join(output['text'])}```"
            else:
                alt = html.escape(cell["metadata"]["alt"])
                yield f'<img alt="{alt}" src="data:image/png;base64,{output["data"]["image/png"].strip()}">'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, a line for each row."""
    lines = [head, ["---"] * len(head), *([" ".join(cell.split()).replace("|", r"\|") for cell in row] for row in rows)]
    first, rule, *rest = (" | ".join(line) for line in lines)
    return "\n".join([f"| {first} |", f"|{rule.replace(' ', '')}|", *(f"| {line} |" for line in rest)])


def blocks(text: str, *kinds: str) -> Iterator[str]:
    """Yield the fenced blocks of these kinds, in order."""
    yield from (body for kind, body in _FENCED.findall(text) if kind in kinds)


def lines_of(block: str) -> list[str]:
    """Return the commands of a block without comments; none if it is something else."""
    if not re.match(_PROGRAMS, block):
        return []
    lines = (re.split(r"(?:^|\s+)#\s", line)[0].strip() for line in block.splitlines())
    return [line for line in lines if line]


def command_of(span: str) -> str:
    """Return the command in a span of code; a bare ``blindrec run`` only names one."""
    command = " ".join(span.split())
    return command if re.match(_BEGINS, span) and not re.fullmatch(r"blindrec [\w-]+", command) else ""


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, in blocks and in the text."""
    for block in blocks(text, *SHELL):
        yield from lines_of(block)
    yield from filter(None, map(command_of, re.findall(r"`([^`]+)`", _FENCED.sub("", text))))


def modules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of a page by the name in their first line: ``# mypolicy.py``."""
    for block in blocks(text, "python"):
        if named := MODULE.match(block):
            yield named[1], block


@contextlib.contextmanager
def folder_of_pages(*, filled: bool = True) -> Iterator[None]:
    """Work in a temporary folder, by default with the modules that pages show and those of `examples`."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for page in pages() if filled else ():
            for name, block in modules(read(page)):
                (Path(folder) / name).write_text(block, encoding="utf-8")
        for example in (ROOT / "examples").glob("*.py") if filled else ():
            (Path(folder) / example.name).write_text(example.read_text(encoding="utf-8"), encoding="utf-8")
        os.chdir(folder)
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            os.chdir(before)
            sys.path.remove(folder)
            for name, module in list(sys.modules.items()):  # the next folder has other files with these names
                if Path(getattr(module, "__file__", None) or "/").parent == Path(folder):
                    del sys.modules[name]
