"""Announced models: on the public grid, in an order and with signs that no library chooses, and as good as before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from completions import complete_many, features_of, fitted, planted

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.rounding import BITS, on_grid, round_up, significant, step_of
from coordinator.server.completion.batches import VECTOR_BITS, announced, canonical, gridded
from coordinator.server.completion.fitting import Fitting

NOISE = 1e-13
"""More than libraries differ by, as a share of the largest entry."""


def vectors_of(seed: int, *, items: int = 300, rank: int = 8) -> Floats2:
    """V as it is fitted: orthogonal columns, longest first."""
    columns = np.linalg.qr(np.random.default_rng(seed).standard_normal((items, rank)))[0]
    return np.ascontiguousarray(columns * np.sqrt(np.linspace(40.0, 4.0, rank)))


def other_library(vectors: Floats2, seed: int, noise: float = NOISE) -> Floats2:
    """The same model as another library might give it: other signs, another order, other last bits."""
    coins = np.random.default_rng([seed, 1])
    turned = vectors[:, coins.permutation(vectors.shape[1])] * coins.choice([-1.0, 1.0], vectors.shape[1])
    found: Floats2 = turned + noise * np.abs(vectors).max() * coins.uniform(-1, 1, vectors.shape)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_another_library_announces_the_same_model(seed: int) -> None:
    """An entry crosses with probability 1e-13 / 2 over a step of 2^-16 at least: 2e-4 for all 2,400 of 20 models."""
    vectors = vectors_of(seed)
    told = canonical(vectors)
    assert canonical(other_library(vectors, seed)).tobytes() == told.tobytes()
    assert canonical(other_library(vectors, seed, noise=1e-5)).tobytes() != told.tobytes()
    assert on_grid(other_library(vectors, seed)).tobytes() != on_grid(vectors).tobytes()


def test_order_and_signs_follow_from_the_rounded_numbers() -> None:
    told = canonical(vectors_of(3))
    assert (np.diff(np.square(told).sum(axis=0)) <= 0).all()
    assert (told[np.abs(told).argmax(axis=0), range(told.shape[1])] > 0).all()
    alike = np.array([[0.0, 0.5, -0.5], [0.5, 0.0, 0.5], [0.0, 0.0, 0.0]])
    ties = [canonical(alike[:, [k, k - 1, k - 2]] * signs) for k in range(3) for signs in ([1, 1, 1], [-1, 1, -1])]
    assert len({one.tobytes() for one in ties}) == 1
    assert canonical(np.zeros((4, 2))).tobytes() == np.zeros((4, 2)).tobytes()
    assert canonical(np.zeros((4, 0))).shape == (4, 0)


def test_every_announced_number_is_on_the_grid_and_stays_there() -> None:
    of = planted(40, 60, rank=2, share=0.5)
    model = announced(fitted(of, Fitting(rank=4, kappa=0.7, weighted=True), 5), of.crowd())
    features = model.features
    assert features.mean_degree is not None
    for values, bits in ((features.vectors, VECTOR_BITS), (features.mean, BITS)):
        steps = values / step_of(float(np.abs(values).max()), bits)
        assert (steps == np.rint(steps)).all()
        assert 2 ** (bits - 1) <= np.abs(steps).max() <= 2**bits
    for one in (features.kappa, features.common_h, features.mean_degree):
        assert one > 0
        assert significant(one) == one
    assert gridded(features).digest == features.digest
    assert announced(model, of.crowd()).features.digest == features.digest
    for name in ("kappa", "mean_degree", "common_h"):
        nudged = replace(features, **{name: np.nextafter(getattr(features, name), np.inf)})
        assert nudged.digest != features.digest
        if name != "common_h":  # computed anew
            assert gridded(nudged).digest == features.digest


def test_the_grid_costs_nothing_that_shows() -> None:
    """Completed ratings move by far less than ratings are apart, and by more with a grid that is too coarse."""
    of = planted(40, 60, rank=2, share=0.5)
    before = fitted(of, Fitting(rank=4, kappa=0.7), 20).features
    exact = complete_many(before, of.starts, of.items, of.values)
    assert np.abs(complete_many(gridded(before), of.starts, of.items, of.values) - exact).max() < 5e-4
    coarse = replace(before, vectors=on_grid(before.vectors, 6))
    assert np.abs(complete_many(coarse, of.starts, of.items, of.values) - exact).max() > 1e-2


def test_what_is_exactly_nothing_stays_nothing() -> None:
    """An item that no public user rated has V = 0, not minus 0: its residual is exactly 0 and gets a fair coin."""
    vectors = vectors_of(0)
    vectors[7] = 0.0
    vectors[8] = -1e-9
    told = gridded(features_of(vectors, np.full(300, 3.0))).vectors
    assert not told[[7, 8]].any()
    assert not np.signbit(told[[7, 8]]).any()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(number: float) -> None:
    vectors = vectors_of(0)
    vectors[7, 0] = number
    with pytest.raises(InputError, match="vectors of a model: some are no numbers"):
        gridded(features_of(vectors, np.full(300, 3.0)))
    with pytest.raises(InputError, match="no place on a grid"):
        significant(number)


@pytest.mark.parametrize(("number", "up"), [(0.2, 1), (1.0, 1), (255.4, 256), (257.0, 258), (1e6, 1_003_520)])
def test_users_are_rounded_up_to_eight_bits(number: float, up: int) -> None:
    assert round_up(number) == up
    assert round_up(float(up)) == up
