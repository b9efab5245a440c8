"""Binomial and hypergeometric masses and bracketed roots, held against SciPy's, which plans do without."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from coordinator.protocol.errors import InputError
from coordinator.server.moments.probabilities import binomial_mass, hypergeometric_masses, root_between


@pytest.mark.parametrize("many", [0, 1, 2, 15, 16, 17, 1000, 10**6, 10**12])
@pytest.mark.parametrize("chance", [0, 1e-9, 0.1, 0.5, 0.999, 1])
def test_binomial_masses_are_scipys(many: int, chance: float) -> None:
    around = many * chance + math.sqrt(many * chance * (1 - chance)) * np.linspace(-12, 12, 100)
    counts = np.concatenate(([-1, many + 1], np.unique(np.clip(np.rint(around), 0, many))))
    assert binomial_mass(counts, many, chance) == pytest.approx(stats.binom.pmf(counts, many, chance), rel=1e-8)


@pytest.mark.parametrize("urn", [(1, 0, 0), (9, 4, 3), (9, 8, 7), (10_000, 300, 2_000)])
def test_hypergeometric_masses_are_scipys(urn: tuple[int, int, int]) -> None:
    first, masses = hypergeometric_masses(*urn)
    assert masses == pytest.approx(stats.hypergeom.pmf(first + np.arange(masses.size), *urn), rel=1e-9)
    assert masses.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("width", [2e-12, 1e-4])
def test_roots_are_looked_for_where_scipy_looks_for_them(width: float) -> None:
    """The same numbers are tried in the same order, which makes plans the same."""
    generator, tried = np.random.default_rng(5), 0
    for steep, root, bend in generator.normal(size=(200, 3)).tolist():
        ours, theirs = list[float](), list[float]()

        def value(x: float, seen: list[float], steep: float = steep, root: float = root, bend: float = bend) -> float:
            seen.append(x)
            return math.tanh(steep * (x - root)) + 0.3 * math.sin(bend * x)

        low, high = root - 4, root + 3
        if value(low, []) * value(high, []) > 0:
            continue
        found = root_between(lambda x, seen=ours: value(x, seen), low, high, width=width)  # type: ignore[misc] # mypy infers no type of its default
        assert found == optimize.brentq(value, low, high, args=(theirs,), xtol=width)
        assert ours == theirs
        tried += 1
    assert tried > 100


def test_without_a_change_of_sign_there_is_no_root() -> None:
    with pytest.raises(InputError, match=r"is 1\.0 at 0 and 2\.0 at 1; its signs must differ"):
        root_between(lambda x: 1.0 + x, 0, 1)
    assert root_between(lambda x: x - 1, 0, 1) == 1
