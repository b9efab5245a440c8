"""Directions of taste: what stands out of noise is found, shrunk as far as it is wrong, and applied to own ratings."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import worlds
from statistical import normal_radius

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import Tastes, likely, powers
from coordinator.protocol.messages import Model
from coordinator.server.decoding.pair_model import agreed, likeness, subspace, tastes_of_pairs
from coordinator.server.decoding.threads import one_thread

ITEMS = 60
PLANTED = np.linalg.qr(np.random.default_rng(0).standard_normal((ITEMS, 2)))[0]


def matrices(noise: float, strengths: Floats, many: int) -> list[Floats2]:
    """Planted directions of such strengths, and symmetric noise with a diagonal of 0."""
    coins, found = np.random.default_rng(1), []
    for _ in range(many):
        upper = np.triu(coins.standard_normal((ITEMS, ITEMS)) * noise, 1)
        found.append((PLANTED * strengths) @ PLANTED.T + upper + upper.T)
    return found


def test_without_noise_a_subspace_is_exact() -> None:
    found = subspace(matrices(0, np.array([3.0, 1.0]), 1)[0], 0)
    assert found.strengths == pytest.approx([3, 1])
    assert found.overlaps == pytest.approx([1, 1])
    assert likeness(found.vectors, PLANTED) == pytest.approx(1)
    assert likeness(found.vectors[:, :1], PLANTED) == pytest.approx(0.5)
    assert not found.directions(0).any()
    v = found.directions(0.5)
    assert v @ v.T * 0.5 == pytest.approx((PLANTED * [3.0, 1.0]) @ PLANTED.T)


@pytest.mark.statistical
def test_strengths_and_overlaps_are_those_of_the_planted_direction() -> None:
    """Means over 200 matrices: false alarm 1e-6 and 3 % for a finite matrix; a twin that is told half the noise fails.

    A direction of strength s, in units of sigma sqrt(M), is seen at s + 1 / s with an overlap of 1 - 1 / s^2.
    """
    noise, drawn = 0.1, matrices(0.1, np.array([2.0 * 0.1 * math.sqrt(ITEMS), 0.0]), 200)

    def doubt(told: float) -> tuple[float, float]:
        with one_thread():
            found = [subspace(one, told) for one in drawn]
        strengths = np.array([one.strengths[0] for one in found]) / (2 * noise * math.sqrt(ITEMS)) - 1
        overlaps = np.array([one.overlaps[0] - (one.vectors[:, 0] @ PLANTED[:, 0]) ** 2 for one in found])
        return tuple(
            (abs(float(one.mean())) - 0.03) / (float(one.std()) / math.sqrt(len(drawn)))  # type: ignore[return-value]
            for one in (strengths, overlaps)
        )

    radius = normal_radius(1.0, comparisons=2)
    assert max(doubt(noise)) < radius
    assert min(doubt(noise / 2)) > radius


def test_noise_alone_has_no_direction_and_pairs_become_a_matrix() -> None:
    found = subspace(matrices(0.1, np.zeros(2), 1)[0], 0.11)
    assert found.vectors.shape == (ITEMS, 0)
    matrix, noise = agreed(np.array([75, 50, 25]), 100, 3)
    assert matrix.tolist() == [[0, 0.5, 0], [0.5, 0, -0.5], [0, -0.5, 0]]
    assert noise == 0.1


def test_directions_of_a_pool_say_nothing_of_other_items() -> None:
    pool = np.array([1, 3], np.int32)
    told = subspace(np.array([[0.0, 0.25], [0.25, 0.0]]), 0)
    found = tastes_of_pairs(pool, told, 0.25, rated=np.array([0.0, 0.5, 0.5, 2.0]), liked=np.array([-1, 0, 0.5, 1.0]))
    assert np.abs(found.vectors[:, 0]) == pytest.approx([0, math.sqrt(0.5), 0, math.sqrt(0.5)], abs=1e-6)
    assert found.rated == pytest.approx([1e-5, 0.5, 0.5, 0.99], abs=1e-6)
    assert found.liked == pytest.approx([-0.99, 0, 0.5, 0.99], abs=1e-6)


def test_powers_expect_as_many_ratings_as_a_device_has() -> None:
    rated, numbers = np.array([0.9, 0.5, 0.2, 0.1]), np.array([3, 1, 2, 1, 4, 0])
    found = powers(rated, numbers)
    assert (rated ** found[:, None]).sum(axis=1)[:4] == pytest.approx(numbers[:4])
    assert found[4:] == pytest.approx([0, 8], abs=1e-6)


def test_a_device_likes_what_goes_with_its_own_likes() -> None:
    """Ridge regression by hand, on a device that rated as much as the average and on one that rated nothing."""
    vectors = np.array([[1.0], [1.0], [-1.0], [0.0]])
    tastes = Tastes(rated=np.full(4, 0.5), liked=np.array([0.5, 0.0, 0.0, 0.0]), vectors=vectors, ridge=2.0)
    one, nothing = likely(tastes, worlds.likes([{0: True, 3: False}, {}], 4))
    taste = 0.5 / (1 + 2.0)  # its rating, 0.5 above the mean, on the direction
    assert one == pytest.approx(0.5 * (1 + np.array([0.5 + taste, taste, -taste, 0])) / 2)
    assert nothing == pytest.approx(0.5**8 * np.array([0.75, 0.5, 0.5, 0.5]), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"rated": np.zeros(3)}, "shares of tastes"),
        ({"liked": np.ones(3)}, "mean ratings of tastes"),
        ({"liked": np.zeros(2)}, "mean ratings of tastes"),
        ({"vectors": np.zeros((2, 1))}, "directions of tastes"),
        ({"vectors": np.full((3, 1), np.nan)}, "directions of tastes"),
        ({"vectors": np.zeros((3, 65))}, "64 at most"),
        ({"ridge": 0.0}, "ridge"),
    ],
)
def test_tastes_that_do_not_fit_are_refused(changes: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"rated": np.full(3, 0.5), "liked": np.zeros(3), "vectors": np.zeros((3, 1)), "ridge": 1.0}
    zeros = {"cluster": np.zeros(4, np.int32), "score": np.zeros(4), "error": np.ones(4), "clusters": 1}
    with pytest.raises(InputError, match=line):
        Tastes(**{**good, **changes})
    with pytest.raises(InputError, match="tastes of a model"):
        replace(Model(**zeros), tastes=Tastes(**good))  # type: ignore[arg-type]
