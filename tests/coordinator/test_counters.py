"""Counters: their noise beside the published factors, by simulation, and privacy's distance by its matrix."""

import numpy as np
import pytest
from scipy.linalg import toeplitz

from coordinator.protocol.counters import CounterNoise, counter_noise, root_coefficients


def test_the_noise_at_the_end_is_the_prototypes() -> None:
    """Spec I 6, and in month 1."""
    ends = [counter_noise(periods)[-1] for periods in (12, 24, 240)]
    assert ends == pytest.approx([1.8507, 2.0746, 2.8105], abs=1e-4)
    assert counter_noise(2000, 0.9)[-1] == pytest.approx(1.4518, abs=1e-4)
    assert counter_noise(2000, 0.8)[-1] == pytest.approx(1.270, abs=1e-3)
    assert counter_noise(12)[0] == pytest.approx(1.360, abs=1e-3)


def test_the_root_of_discounted_sums_is_their_root() -> None:
    root = np.tril(toeplitz(root_coefficients(12, 0.9)))
    np.testing.assert_allclose(root @ root, np.tril(toeplitz(0.9 ** np.arange(12))), atol=1e-12)
    assert (root.T @ root >= 0).all(), "an item in both of two histories brings them nearer"


@pytest.mark.statistical
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_every_month_has_its_deviation(discount: float) -> None:
    """Spec I 6: 20,000 counters, within 2 %, four standard errors (1 in 1,000); with independent noise it is not."""
    coins, nothing = np.random.default_rng(1), np.zeros(20_000, np.bool_)
    noise = CounterNoise(12, discount, 1.0, np.ones(20_000, np.int64))
    deviations, stated = [], []
    for _ in range(12):
        noise, drawn = noise.next_period(coins, nothing)
        deviations.append(drawn.std())
        stated.append(np.sqrt(noise.variance[0]))
    expected = counter_noise(12, discount)
    np.testing.assert_allclose(deviations, expected, rtol=0.02)
    np.testing.assert_allclose(stated, expected)
    assert not np.allclose(np.sqrt(np.cumsum(expected**2)), expected, rtol=0.02)


def test_a_counter_of_a_new_item_starts_with_it() -> None:
    coins = np.random.default_rng(2)
    noise = CounterNoise(4, 1.0, 1.0, np.ones(2, np.int64))
    for new in ([False, False], [False, False], [False, True]):
        noise, drawn = noise.next_period(coins, np.array(new))
    first = np.sqrt(np.sum(root_coefficients(4) ** 2))
    assert np.sqrt(noise.variance) == pytest.approx([counter_noise(4)[2], first])
    assert drawn[1] == pytest.approx(noise.draws[-1][1])
