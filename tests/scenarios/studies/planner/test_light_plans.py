"""What plans compute by themselves so as to load neither SciPy's optimizers nor its statistics is what SciPy tells."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from scenarios.data.metrics import best_matching

PLAN = """
import sys
from scenarios.cli import main
sys.argv = ["blindrec", "plan", "--items", "4000", "--rated", "120"]  # too many for pairs to be emulated
try:
    main()
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("shape", [(2, 2), (2, 1), (3, 3), (4, 2)])
def test_matchings_are_scipys_ties_and_near_ties_among_them(shape: tuple[int, int]) -> None:
    """A tie that is broken otherwise moves a plan's users by one."""
    generator = np.random.default_rng(2)
    whole = generator.integers(0, 4, (200, *shape))
    broken = 0.1 * whole + generator.choice([0, 1e-17, 1e-16], (200, *shape))
    for worth in (*whole, *broken, *generator.random((200, *shape))):
        ours, theirs = best_matching(worth), linear_sum_assignment(worth, maximize=True)
        assert [part.tolist() for part in ours] == [part.tolist() for part in theirs]


def test_no_number_is_matched_by_nothing() -> None:
    with pytest.raises(ValueError, match="invalid numeric entries"):
        best_matching(np.array([[1.0, np.nan], [0.0, 1.0]]))


def test_a_plan_that_emulates_no_pairs_loads_neither_optimizers_nor_statistics() -> None:
    said = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True)
    assert "recommended: " in said.stdout
    loaded = set(said.stderr.split())
    assert "scipy.special" in loaded
    assert not loaded & {"scipy.optimize", "scipy.stats", "pandas", "sklearn", "ray"}
