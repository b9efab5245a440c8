"""Notebooks in `examples`: running their code cells in order in one namespace, and comparing what they print.

No notebook server is needed for that: a cell is Python, and what it shows is what it prints and its last expression.
``python -m benchmarks.notebooks`` writes what cells print into the files (`make figures` does, too).
"""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.pages import ROOT, folder_of_pages


def notebooks() -> list[Path]:
    """Return all notebooks of `examples`."""
    return sorted((ROOT / "examples").glob("*.ipynb"))


def outputs_of(cells: list[str]) -> Iterator[str]:
    """Yield what each cell prints, its last expression included where that is not None."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(cells):
        tree, out = ast.parse(cell), io.StringIO()
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        with contextlib.redirect_stdout(out):
            exec(compile(tree, f"<cell {number}>", "exec"), names)  # our own
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
                if value is not None:
                    print(repr(value))
        yield out.getvalue()


def code_of(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str:
    """Return the text that a notebook shows below a code cell."""
    return "".join("".join(one["text"]) for one in cell["outputs"])


def refresh() -> None:
    """Write what cells print into the notebooks."""
    for path in notebooks():
        notebook = json.loads(path.read_text(encoding="utf-8"))
        cells = code_of(notebook)
        with folder_of_pages():
            outputs = list(outputs_of(["".join(cell["source"]) for cell in cells]))
        for cell, text in zip(cells, outputs, strict=True):
            stream = {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}
            cell["outputs"] = [stream] if text else []
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    refresh()
