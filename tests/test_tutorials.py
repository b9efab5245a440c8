"""The tutorials: each runs from a reader's empty folder, shows what its cells print, and says first what it gives."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from evidence import THOROUGH
from matplotlib import pyplot as plt

from benchmarks.notebooks import code_of, differences, outputs_of
from benchmarks.pages import ROOT, notebooks, text_of

ON_RAY = [ROOT / "docs" / "tutorials" / "your-own-policy.ipynb"]
MOST_WORDS = 2300


def read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


@pytest.mark.few(1)  # four seconds each
@pytest.mark.parametrize("path", [one for one in notebooks() if one not in ON_RAY], ids=lambda path: path.stem)
def test_a_tutorial_shows_what_its_cells_print(path: Path) -> None:
    if wrong := list(differences(path, quick=not THOROUGH)):
        pytest.fail("\n".join(wrong))  # whole, where an assertion would cut it


@pytest.mark.thorough  # ten seconds; test_own_on_ray asks by policies like its on Ray
@pytest.mark.cluster
@pytest.mark.parametrize("path", ON_RAY, ids=lambda path: path.stem)
def test_the_tutorial_on_ray_shows_what_its_cells_print(lent: None, path: Path) -> None:
    assert not list(differences(path, quick=not THOROUGH))


def test_a_tutorial_that_shows_something_else_is_found(tmp_path: Path) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "metadata": meta, "source": [source], "outputs": [{"text": ["2\n"]}]}
        for source, meta in (("print(1)", {"quick": ["1", "3"]}), ("1 + 1", {}), ("!blindrec bounds", {}), ("3", {}))
    ]
    path = tmp_path / "wrong.ipynb"
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    wrong = list(differences(path, quick=True))
    assert [line.split(" prints")[0] for line in wrong] == [f"wrong.ipynb: {cells[k]['source'][0]!r}" for k in (2, 3)]
    assert len(list(differences(path, quick=False))) == 3


@pytest.mark.usefixtures("headless")
def test_figures_that_were_open_before_are_no_cells() -> None:
    plt.figure()
    assert list(outputs_of(["1 + 1"])) == [[{"name": "stdout", "output_type": "stream", "text": ["2\n"]}]]


def test_tutorials_are_short_begin_with_what_they_give_and_can_be_read_aloud() -> None:
    words = 0
    for path in notebooks():
        prose = ["".join(cell["source"]) for cell in read(path)["cells"] if cell["cell_type"] == "markdown"]
        assert re.match(r"# [^\n]+\n\nAt the end you will have ", prose[0]), path
        words += sum(len(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split()) for text in prose)
    assert words <= MOST_WORDS


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
def test_a_tutorial_is_a_whole_notebook(path: Path) -> None:
    notebook = read(path)
    cells = code_of(notebook)
    assert notebook["nbformat"] == 4
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    figures = [cell for cell in cells if any("data" in one for one in cell["outputs"])]
    assert all(cell["metadata"]["alt"] for cell in figures)
    page = text_of(path, whole=True)
    assert page.count("<img ") == len(figures)
    texts = ["".join(one["text"]) for cell in cells for one in cell["outputs"] if "text" in one]
    assert all(f"```text\n{text}```" in page for text in texts)
