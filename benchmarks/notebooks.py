"""The tutorials, which are notebooks: running their cells in order, and comparing what they print.

No notebook server is needed for that, nor dozens of packages: a cell is Python, writes a file, or calls `blindrec`;
what it shows is what it prints, its last expression and its figures. ``python -m benchmarks.notebooks`` writes that
into the files, as `make figures` does; given names, into those.

A cell's metadata may have `quick`: where tests are to be short, what such a cell prints is not compared, and if `quick`
is a pair of texts, the first is replaced by the second.
"""

import ast
import base64
import contextlib
import io
import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from matplotlib import pyplot as plt

from benchmarks.pages import WRITTEN, folder_of_pages, notebooks
from scenarios import cli


def code_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source_of(cell: dict[str, Any], *, quick: bool = False) -> str:
    """Return what a cell runs."""
    source = "".join(cell["source"])
    if quick and (replaced := cell["metadata"].get("quick")):
        before, after = replaced
        assert before in source
        source = source.replace(before, after)
    return source


def outputs_of(cells: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Yield what each cell puts out: its text, then its figures."""
    names: dict[str, Any] = {"__name__": "__main__"}
    plt.switch_backend("agg")
    plt.close("all")  # what somebody else left open
    for number, cell in enumerate(cells, 1):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            _run(cell, f"<cell {number}>", names)
        text = out.getvalue().splitlines(keepends=True)
        yield [*([{"name": "stdout", "output_type": "stream", "text": text}] if text else []), *_figures()]


def _run(cell: str, name: str, names: dict[str, Any]) -> None:
    if written := WRITTEN.match(cell):
        Path(written[1]).write_text(f"{cell[written.end() :]}\n", encoding="utf-8")
        print(f"Writing {written[1]}")
    elif cell.startswith("!"):
        with contextlib.redirect_stderr(sys.stdout), contextlib.suppress(SystemExit):
            program, *arguments = shlex.split(cell.replace("\\\n", " ")[1:])
            assert program == "blindrec"
            cli.main(arguments)
    else:
        tree = ast.parse(cell)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), names)  # our own
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), names)
            if value is not None:
                print(repr(value))


def _figures() -> Iterator[dict[str, Any]]:
    for number in plt.get_fignums():
        file = io.BytesIO()
        plt.figure(number).savefig(file, format="png", dpi=80)
        data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": ["<Figure>"]}
        yield {"data": data, "metadata": {}, "output_type": "display_data"}
    plt.close("all")


def rerun(notebook: dict[str, Any], *, quick: bool) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Yield each code cell with what it puts out now."""
    cells = code_of(notebook)
    with folder_of_pages(filled=False):
        yield from zip(cells, outputs_of([source_of(cell, quick=quick) for cell in cells]), strict=True)


def differences(path: Path, *, quick: bool) -> Iterator[str]:
    """Yield what a notebook's cells put out that the file does not show: other text, other numbers of figures."""
    for cell, outputs in rerun(json.loads(path.read_text(encoding="utf-8")), quick=quick):
        # Pixels differ from one release of the plotting library to another
        now, before = ([output.get("text", "figure") for output in some] for some in (outputs, cell["outputs"]))
        if now != before and not (quick and "quick" in cell["metadata"]):
            yield f"{path.name}: {source_of(cell)!r} prints {now}, not {before}"


def refresh(paths: list[Path]) -> None:
    """Write what cells put out into the notebooks."""
    for path in paths:
        notebook = json.loads(path.read_text(encoding="utf-8"))
        for number, (cell, outputs) in enumerate(rerun(notebook, quick=False), 1):
            cell["outputs"], cell["execution_count"] = outputs, number
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    named = {Path(path).stem for path in sys.argv[1:]}
    if unknown := named - {path.stem for path in notebooks()}:
        sys.exit(f"no notebook is named {', '.join(sorted(unknown))}; name some of docs/tutorials, or none for all")
    refresh([path for path in notebooks() if not named or path.stem in named])
