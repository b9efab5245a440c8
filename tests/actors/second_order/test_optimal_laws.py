"""What PMC and PMD minimise, by linear programming over all laws on small grids."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import reference
from scipy.optimize import linprog

from actors.second_order.mechanisms.paper import greedy_swaps, shuffle
from coordinator.protocol.arrays import Floats, Floats2


def second_moment_cost(points: Floats2, residual: Floats) -> Floats:
    """``|uu^T - r'r'^T|_F^2`` at every point."""
    return np.asarray(
        np.square(np.square(points).sum(axis=1)) - 2 * np.square(points @ residual) + float(residual @ residual) ** 2
    )


@pytest.mark.parametrize(
    ("residual", "steps"),
    [
        ((1.0, 3.0), 3),
        ((1.0, -2.0), 4),
        ((2.0, 1.0, -3.0), 2),
        ((0.5, 2.5, 0.0), 2),
        ((1.0, -1.0, 2.0, 4.0), 1),
    ],
)
def test_theorem_4_2_is_the_linear_programs_optimum(residual: tuple[float, ...], steps: int) -> None:
    """Over laws with mean 0 and one variance v, free, on a grid that holds +-h: h z and -h z, half each."""
    mine = np.array(residual)
    m, h = mine.size, np.abs(mine).mean()
    points = np.array(list(itertools.product(np.arange(-steps, steps + 1) * h, repeat=m)))
    moments = np.vstack([np.ones(len(points)), points.T, np.square(points).T])
    free = np.r_[0.0, np.zeros(m), -np.ones(m)]
    found = linprog(
        np.r_[second_moment_cost(points, mine), 0.0],
        A_eq=np.c_[moments, free],
        b_eq=np.r_[1.0, np.zeros(2 * m)],
        bounds=[(0, None)] * (len(points) + 1),
    )
    assert found.x is not None
    closed = float(mine @ mine) ** 2 - np.abs(mine).sum() ** 4 / m**2
    assert found.fun == pytest.approx(closed, abs=1e-7)
    signs = np.sign(mine) * h
    support = points[found.x[:-1] > 1e-9]
    assert found.x[-1] == pytest.approx(h**2)
    decided = mine != 0
    assert all(abs(float(point[decided] @ signs[decided])) == pytest.approx(h**2 * decided.sum()) for point in support)
    law = second_moment_cost(np.array([signs, -signs]), mine).mean()
    assert law == pytest.approx(closed) or not decided.all()


def families(values: Floats2, residual: Floats) -> float:
    """The least objective of all families of K vectors that are permutations at every item, by trying them."""
    m, many = values.shape
    best = np.inf
    for rest in itertools.product(itertools.permutations(range(many)), repeat=m - 1):
        held = np.array([values[0], *(values[j + 1][list(order)] for j, order in enumerate(rest))]).T
        best = min(best, float(second_moment_cost(held, residual).mean()))
    return best


def of_greedy(values: Floats2, residual: Floats, seed: int) -> float:
    order, norms, products = np.empty(values.shape, np.uint8), np.empty(values.shape[1]), np.empty(values.shape[1])
    shuffle(np.uint64(reference.draw(7, seed)), order)
    greedy_swaps(values, residual, order, norms, products, 3, 5)
    held = np.take_along_axis(values, order.astype(np.intp), axis=1).T
    return float(second_moment_cost(held, residual).mean())


@pytest.mark.parametrize(("m", "many"), [(2, 3), (3, 2), (3, 3), (4, 2), (5, 2), (4, 3)])
def test_the_best_family_is_the_best_law_and_greedy_finds_it(m: int, many: int) -> None:
    """Over all laws on S^m with uniform marginals; six cases, no theorem."""
    world = np.random.default_rng([m, many])
    scale, mean = np.arange(1.0, many + 1), world.normal((many + 1) / 2, 0.3, m)
    values = scale[None, :] - mean[:, None]
    residual = world.normal(0, 1, m)
    points = np.array(list(itertools.product(scale, repeat=m))) - mean
    shares = np.vstack([np.isclose(points[:, j], values[j, k]) for j in range(m) for k in range(many)]).astype(float)
    law = linprog(second_moment_cost(points, residual), A_eq=shares, b_eq=np.full(m * many, 1 / many), bounds=(0, None))
    best = families(values, residual)
    assert best == pytest.approx(law.fun, rel=1e-7)
    assert min(of_greedy(values, residual, seed) for seed in range(50)) == pytest.approx(best, rel=1e-9)
