"""Finding commands, programs, modules, sessions and printed output in the text of pages."""

import contextlib
import html
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
STATEMENTS = "docs/reference/papers.md"
"""A page that `benchmarks.papers` makes from JSON, whose commands its own test reads."""
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAMS = (
    r"(?:blindrec(?! \w+,)|make|python|ray|kubectl|sbatch|helm|docker|git|pip|pre-commit|mkdocs|cd|export|kill|rm|for"
    r"|find|\w+=\$\(\w+)[ \n]"
)
_BEGINS = r"(?:make [a-z-]+\b|python -m \w|python -c |find \. |blindrec [\w-]+(?=[\s`]|$))"
_MODULE = re.compile(r"# (\w+\.py)\n")
WRITTEN = re.compile(r"%%writefile (\S+)\n")
"""First line of a notebook's cell that writes a file."""


class Shown(NamedTuple):
    """A command, a program or anything else that a page shows."""

    page: str
    text: str


class Printed(NamedTuple):
    """A block that is neither a command nor code: output of a command before it, or a picture."""

    page: str
    commands: tuple[str, ...]
    text: str


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


def blocks(text: str, *kinds: str) -> Iterator[str]:
    """Yield the fenced blocks of these kinds, in order."""
    yield from (body for kind, body in _FENCED.findall(text) if kind in kinds)


def _lines(block: str) -> Iterator[str]:
    """Yield the commands of a block without comments; nothing if it has none."""
    if not re.match(_PROGRAMS, block):
        return
    for line in re.sub(r"<<'END'\n.*?^END$", "<<'END'", block, flags=re.DOTALL | re.MULTILINE).splitlines():
        if not line.endswith("<<'END'") and (command := re.split(r"(?:^|\s+)#\s", line)[0].strip()):
            yield command


def commands(text: str) -> Iterator[str]:
    """Yield the commands of a page, in blocks and in the text; a bare ``blindrec run`` only names the command."""
    for block in blocks(text, "", "sh", "bash", "console"):
        yield from _lines(block)
    for span in re.findall(rf"`({_BEGINS}[^`]*)`", _FENCED.sub("", text)):
        command = " ".join(span.split())
        if not re.fullmatch(r"blindrec [\w-]+", command):
            yield command


def programs(text: str) -> Iterator[str]:
    """Yield the programs of a page: its Python that is no module."""
    heredocs = re.findall(r"^python - <<'END'\n(.*?)^END$", text, re.DOTALL | re.MULTILINE)
    yield from (block for block in [*blocks(text, "python"), *heredocs] if not _MODULE.match(block))


def modules(text: str) -> Iterator[tuple[str, str]]:
    """Yield the modules of a page by the name in their first line: ``# mypolicy.py``."""
    for block in blocks(text, "python"):
        if named := _MODULE.match(block):
            yield named[1], block


def printed_blocks(page: str) -> Iterator[Printed]:
    """Yield blocks that are neither commands nor code, each with the commands of the last block before it."""
    last: tuple[str, ...] = ()
    for kind, body in _FENCED.findall(read(page)):
        if kind not in ("python", "pycon", "toml"):
            if commands_here := tuple(_lines(body)):
                last = commands_here
            elif not body.startswith("python - <<"):
                yield Printed(page, last, body)


def shown() -> list[Shown]:
    """Return all commands and programs of all pages."""
    return [Shown(page, one) for page in pages() for find in (commands, programs) for one in find(read(page))]


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
