"""Estimates that age: what a filter pools, forgets, restarts, and says of drift."""

import math

import numpy as np
import pytest

from coordinator.protocol.arrays import Floats
from coordinator.server.ageing import DRIFT, AgedShares, Measurement, renewal


def measured(values: Floats, variance: float) -> Measurement:
    return Measurement(values, lambda shares: np.full(shares.shape, variance))


def walks(items: int, periods: int, step: float, seed: int) -> tuple[Floats, Floats]:
    """True shares by period, and what was measured of them under a variance of 1e-6."""
    coins = np.random.default_rng(seed)
    start = 0.05 + 0.1 * coins.random(items)
    shares = start + np.cumsum(step * coins.normal(size=(periods, items)), axis=0)
    return shares, shares + 1e-3 * coins.normal(size=shares.shape)


def test_without_drift_it_pools_and_with_an_infinite_one_it_takes_the_latest() -> None:
    values = np.array([np.linspace(0.1, 0.2, 60) + shift for shift in (0.0, 0.02, 0.07)])
    pooled, latest = (AgedShares.unknown((60,), start=0.15, drift=drift) for drift in (0.0, math.inf))
    for row in values:
        pooled, latest = (state.after([measured(row, 1e-9)]) for state in (pooled, latest))
    assert pooled.mean == pytest.approx(values.mean(axis=0), abs=1e-6)
    assert np.array_equal(latest.mean, values[-1])  # equal counts stay equal, and earlier ones do not order them


def test_groups_of_a_period_are_weighted_by_their_variances_whatever_their_order() -> None:
    one, other = measured(np.full(60, 0.1) + np.arange(60) / 1000, 1e-4), measured(np.full(60, 0.3), 3e-4)
    state = AgedShares.unknown((60,), start=0.1, drift=0.0)
    first, second = state.after([one, other]), state.after([other, one])
    np.testing.assert_allclose(first.mean, second.mean)
    together = 0.75 * one.values + 0.25 * other.values
    assert np.corrcoef(first.mean, together)[0, 1] == pytest.approx(1)


def test_the_gain_is_the_best_one_for_a_known_drift() -> None:
    """Error of the filter over five seeds: least at the true drift, and 1.25 times larger or more at a tenth of it."""
    errors = {}
    for factor in (0.1, 1.0, 10.0):
        total = 0.0
        for seed in range(5):
            shares, values = walks(400, 40, 1e-3, seed)
            tenth = np.sort(shares[0])[-10]
            state = AgedShares.unknown((400,), start=0.1, drift=factor * 1e-3 / tenth)
            for period in range(40):
                state = state.after([measured(values[period], 1e-6)])
            total += float(((state.mean - shares[-1]) ** 2).mean())
        errors[factor] = total
    assert errors[1.0] < min(errors[10.0], errors[0.1] / 1.25)


@pytest.mark.parametrize(("step", "found"), [(5e-3, 0.5), (1e-2, 1.0)])
def test_drift_is_estimated_from_changes(step: float, found: float) -> None:
    """Steps of a known size: the estimate of their deviation is within a fifth; of twice that it is not."""
    _, values = walks(400, 12, step, 1)
    state = AgedShares.unknown((400,), start=0.1, drift=None)
    for row in values:
        state = state.after([measured(row, 1e-6)])
    estimate = math.sqrt(float(state._step().squeeze()))
    assert estimate == pytest.approx(1e-2 * found, rel=0.2)
    assert estimate != pytest.approx(2e-2 * found, rel=0.2)


def test_where_changes_say_nothing_drift_stays_near_its_prior() -> None:
    coins = np.random.default_rng(3)
    state = AgedShares.unknown((400,), start=0.1, drift=None)
    for _ in range(6):
        state = state.after([measured(0.1 + coins.normal(size=400), 1.0)])
    tenth = np.sort(state.mean)[-10]
    assert math.sqrt(float(state._step().squeeze())) == pytest.approx(DRIFT * tenth, rel=0.5)


def test_new_items_start_again_and_a_silent_period_only_ages() -> None:
    state = AgedShares.unknown((60,), start=0.02, drift=0.1)
    assert state.after([]) is state
    assert state.renewed(np.ones(60, np.bool_)) is state
    state = state.after([measured(np.linspace(0.0, 0.2, 60), 1e-6)])
    new = np.arange(60) == 7
    renewed = state.renewed(new)
    assert (renewed.mean[7], renewed.variance[7]) == (0.02, pytest.approx(float(state.spread[0])))  # type: ignore[index] # measured
    np.testing.assert_array_equal(renewed.mean[~new], state.mean[~new])
    silent = state.after([])
    np.testing.assert_array_equal(silent.mean, state.mean)
    assert (silent.variance > state.variance).all()  # type: ignore[operator] # both are measured


def test_several_worlds_are_filtered_as_each_alone() -> None:
    values = np.random.default_rng(0).random((3, 2, 60)) / 5
    both, single = (AgedShares.unknown(shape, start=0.1, drift=None) for shape in ((2, 60), (1, 60)))
    for row in values:
        both, single = both.after([measured(row, 1e-3)]), single.after([measured(row[1:], 1e-3)])
    np.testing.assert_allclose(both.mean[1:], single.mean)


def test_what_wears_off() -> None:
    assert renewal(0.1, 0.0, 0.234) == pytest.approx(0.1544, abs=1e-4)
    assert renewal(0.1, 0.02, 0.234) == pytest.approx(0.24)
    assert (renewal(0.0, 0.0, 0.2), renewal(math.inf, 0.0, 0.2), renewal(0.1, 0.5, 0.2)) == (0, 1, 1)
