"""Foreign mechanisms from a folder of one's own on Ray: by the command, with a helper package."""

from pathlib import Path

import mechanisms
import pytest
from runs import Command

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
HELPER = """
import numpy as np

def one_hot(item, liked, items):
    bits = np.zeros((item.size, 2 * items), np.uint8)
    rated = np.flatnonzero(item >= 0)
    bits[rated, item[rated] + items * ~liked[rated]] = 1
    return bits
"""
HELPED = """
import sketching.hot
from theirs.good import OUE

class Helped(OUE):
    def sketch(self, question, ratings, coins):
        return sketching.hot.one_hot(*ratings.random_item(coins.words()), question.items)
"""


@pytest.fixture
def folder(importable: Path) -> Path:
    """A folder of one's own: a package, and another one that it imports."""
    source = Path(mechanisms.__file__).read_text(encoding="utf-8")
    for package, files in (("theirs", {"good": source, "helped": HELPED}), ("sketching", {"hot": HELPER})):
        (importable / package).mkdir()
        for name, text in {"__init__": "", **files}.items():
            (importable / package / f"{name}.py").write_text(text, encoding="utf-8")
    return importable


def test_the_command_runs_it_on_ray_as_in_process(folder: Path, lent: None, blindrec: Command) -> None:
    """One class from a module of its package, with a package beside it that helps; Ray's workers find neither."""
    asked = ["--design", "theirs.helped:Helped", "--with", "sketching", "--items", "20", "--rated", "5"]
    run = ["run", *asked, "--users", "2000", "--json", "-"]
    near = blindrec(*run, "--backend", "inprocess").result
    far = blindrec(*run, "--backend", "ray", "--workers", "1", "--devices-per-actor", "1000").result
    assert far["releases_sha256"] == near["releases_sha256"]
    assert (far["mechanism"], far["actors"]) == (near["mechanism"], 2)
