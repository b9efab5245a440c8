"""Noise of sums: its laws, what they keep, and that it follows from a seed and a coordinate alone."""

import math
import tracemalloc
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from evidence import chi_square_fits, size, variance_fits
from scipy import stats
from scipy.special import ive

from coordinator.protocol import noise as noise_module
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.checked import MOST_ITEMS
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.noise import (
    NoiseLaw,
    discrete_gaussian,
    discrete_laplace,
    dummies_delta,
    gaussian_delta,
    gaussian_deviation,
    least_dummies,
    normal_draws,
    polya_share,
    skellam_delta,
    skellam_deviation,
    skellam_share,
)
from coordinator.protocol.shared_vector import noise_deviation, noise_scale

SEED = derive(38, "noise of a test")
DRAWS = 400_000
TINY = Fraction(1, 10**400)  # Less than any float


def laplace(values: Ints, ratio: float) -> Floats:
    return np.asarray((1 - ratio) / (1 + ratio) * ratio ** np.abs(values), np.float64)


def gaussian(values: Ints, deviation: float) -> Floats:
    every = np.arange(-math.ceil(15 * deviation) - 5, math.ceil(15 * deviation) + 6)
    normal = np.exp(-np.square(every / deviation) / 2).sum()
    return np.asarray(np.exp(-np.square(values / deviation) / 2) / normal, np.float64)


def polya(values: Ints, ratio: float, shape: float) -> Floats:
    one = stats.nbinom.pmf(np.arange(values.max() + 1), shape, 1 - ratio)
    return np.asarray(np.convolve(one, one[::-1]), np.float64)


def skellam(values: Ints, variance: float) -> Floats:
    return np.asarray(ive(np.abs(values), variance), np.float64)


def fits(noise: Ints, values: Ints, chances: Floats) -> bool:
    """Chi-square over the values that are expected at least twenty times, and all others together; 1e-6."""
    common = chances * noise.size >= 20
    counts = np.array([np.count_nonzero(noise == value) for value in values[common]])
    rest = 1 - chances[common].sum()
    if rest * noise.size < 5:  # too few for a cell of their own
        return chi_square_fits(counts, chances[common])
    return chi_square_fits([*counts, noise.size - counts.sum()], [*chances[common], rest])


# Laws.

LAWS = [
    (discrete_laplace(Fraction(1), sensitivity=4), lambda values: laplace(values, math.exp(-0.25))),
    (discrete_laplace(2, sensitivity=1), lambda values: laplace(values, math.exp(-2))),
    (discrete_gaussian(3.7), lambda values: gaussian(values, 3.7)),
    (discrete_gaussian(0.4), lambda values: gaussian(values, 0.4)),
    (polya_share(1, sensitivity=2, honest=5), lambda values: polya(values, math.exp(-0.5), 0.2)),
    (skellam_share(6.0, honest=4), lambda values: skellam(values, 9.0)),
    (skellam_share(5.0, honest=1), lambda values: skellam(values, 25.0)),
]


@pytest.mark.parametrize(("law", "chances"), LAWS)
def test_a_law_is_that_of_its_formula(law: NoiseLaw, chances: object) -> None:
    values, exact = law.probabilities()
    assert np.allclose(exact, chances(values), rtol=1e-10, atol=1e-30)  # type: ignore[operator] # a function
    assert exact.sum() == pytest.approx(1, abs=1e-12)
    assert np.allclose(exact, exact[::-1], rtol=1e-9, atol=1e-36)
    assert law.deviation == pytest.approx(math.sqrt(float(exact @ np.square(values))), rel=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize("law", [law for law, _ in LAWS])
def test_draws_follow_their_law(law: NoiseLaw) -> None:
    """Chi-square over 400,000 draws, false alarm 1e-6 each."""
    assert fits(law.draw(SEED, 0, DRAWS), *law.probabilities())


@pytest.mark.parametrize(
    ("law", "twin"),
    [
        (discrete_laplace(1, sensitivity=4), discrete_laplace(1.03, sensitivity=4)),
        (discrete_gaussian(3.7), discrete_gaussian(3.8)),
        (polya_share(1, sensitivity=2, honest=5), polya_share(1, sensitivity=2, honest=6)),
        (skellam_share(6.0, honest=4), skellam_share(6.1, honest=4)),
    ],
)
def test_draws_of_a_law_that_is_slightly_wrong_do_not(law: NoiseLaw, twin: NoiseLaw) -> None:
    assert not fits(twin.draw(SEED, 0, DRAWS), *law.probabilities())


@pytest.mark.parametrize(
    ("share", "many", "whole"),
    [
        (polya_share(1, sensitivity=2, honest=8), 8, lambda near: laplace(near, math.exp(-0.5))),
        (skellam_share(6.0, honest=4), 4, lambda near: skellam(near, 36.0)),
    ],
)
def test_shares_add_up_exactly(share: NoiseLaw, many: int, whole: Callable[[Ints], Floats]) -> None:
    total, near = np.array([1.0]), np.arange(-40, 41)
    for _ in range(many):
        total = np.convolve(total, share.probabilities()[1])
    assert np.allclose(total[total.size // 2 + near], whole(near), rtol=1e-9)


# Coins.


@pytest.mark.parametrize("law", [discrete_laplace(1, sensitivity=4), polya_share(1, sensitivity=2, honest=5)])
def test_blocks_never_change_a_coordinates_noise(law: NoiseLaw) -> None:
    whole = law.draw(SEED, 0, 1000)
    parts = [law.draw(SEED, first, stop - first) for first, stop in ((0, 1), (1, 400), (400, 400), (400, 1000))]
    assert np.array_equal(whole, np.concatenate(parts))
    assert not np.array_equal(whole, law.draw(derive(SEED, "another"), 0, 1000))


def test_noise_is_the_same_for_ever() -> None:
    """Noise is keyed: another release of blindrec draws the same."""
    seed = bytes(range(16))
    assert discrete_laplace(1, sensitivity=20).draw(seed, 0, 8).tolist() == [43, -15, 66, 10, 29, -41, 2, 2]
    assert discrete_gaussian(10.0).draw(seed, 5, 3).tolist() == [-15, 1, 1]


def test_where_the_upper_half_of_a_coin_does_not_decide_the_lower_one_does() -> None:
    """A law whose thresholds share the upper half of the coin of coordinate 3, around its lower half."""
    seed = derive(SEED, "noise")
    upper = device_streams(as_words(derive(seed, "upper halves")), 3, 1)[0]
    lower = device_streams(as_words(derive(seed, "lower halves")), 3, 1)[0]
    one = np.uint64(1)
    for thresholds, expected in (
        ([lower - one, lower, lower + one], 2),
        ([lower + one, lower + one], 0),
        ([lower - one, lower - one], 2),
    ):
        low = np.array(thresholds, np.uint64)
        law = NoiseLaw(10, np.full(low.size, upper, np.uint64), low)
        assert law.draw(SEED, 3, 1)[0] == 10 + expected


def test_every_coin_is_somebodys() -> None:
    law = discrete_laplace(1, sensitivity=4)
    marks = [int(high) << 64 | int(low) for high, low in zip(law.high, law.low, strict=True)]
    assert marks == sorted(marks)
    assert marks[-1] < 2**128
    coins = [after - before for before, after in pairwise(marks)]
    middle = len(coins) // 2
    ratios = [coins[place] / coins[place + 1] for place in range(middle + 1, middle + 100)]
    assert ratios == pytest.approx([math.exp(0.25)] * len(ratios), rel=1e-12)


# What noise keeps.


@pytest.mark.parametrize(
    ("epsilon", "changes", "deviation"),
    [
        *((0.5, 10, 25.481), (1, 10, 13.360), (1, 50, 29.873), (1, 100, 42.247), (2, 100, 22.305), (4, 100, 11.935)),
        *((0.1, 16, 145.22), (25, 16, 1.03830)),  # far above and below the root of the changes, where it is looked for
    ],
)
def test_gaussian_noise_has_the_deviation_of_the_table(epsilon: float, changes: int, deviation: float) -> None:
    result = gaussian_deviation(changes=changes, epsilon=epsilon, delta=1e-6)
    assert result == pytest.approx(deviation, rel=1e-4)
    assert gaussian_delta(result, changes=changes, epsilon=epsilon) <= 1e-6
    assert gaussian_delta(result * 0.9999, changes=changes, epsilon=epsilon) > 1e-6


@pytest.mark.parametrize(("epsilon", "changes", "devices"), [(1, 100, False), (4, 20, False), (1, 6, True)])
def test_a_dose_is_the_first_step_of_its_grid_that_keeps_delta(epsilon: int, changes: int, *, devices: bool) -> None:
    least = (skellam_deviation if devices else gaussian_deviation)(changes=changes, epsilon=epsilon, delta=1e-6)
    step = 2.0 ** math.floor(math.log2(least)) / 4096
    assert noise_scale(Fraction(epsilon), 1e-6, changes, devices=devices) == step * math.ceil(least / step)
    assert (
        noise_scale(None, 1e-6, changes, devices=devices)
        == noise_scale(Fraction(epsilon), 0.0, changes, devices=devices)
        == 0
    )


@pytest.mark.parametrize(("epsilon", "changes"), [(Fraction(1), 4), (Fraction(1, 10), 7), (Fraction(30), 1)])
def test_all_noise_of_a_sum_has_the_deviation_of_its_parts(epsilon: Fraction, changes: int) -> None:
    """Two doses of servers, or shares of devices; of a law without Gaussians the closed form is the law's own."""
    one = discrete_laplace(epsilon, sensitivity=changes).deviation
    for honest, answered, doses in ((0, 50, 2), (40, 50, 1.25)):
        exact = [math.sqrt(doses) * one, math.sqrt(doses) * 3.5]
        terms = [
            noise_deviation(epsilon, changes, deviation, honest=honest, answered=answered) for deviation in (0.0, 3.5)
        ]
        assert terms == pytest.approx(exact, rel=1e-9)
    assert noise_deviation(Fraction(2000), 1, 0.0, honest=0, answered=1) == 0
    assert noise_deviation(None, 1, 0.0, honest=0, answered=1) == 0


def enumerated(one: Sequence[Floats], other: Sequence[Floats], epsilon: float) -> float:
    """The larger delta of two laws of independent coordinates, over everything that can be seen."""
    laws = []
    for coordinates in (one, other):
        law = np.array([1.0])
        for chances in coordinates:
            law = np.multiply.outer(law, chances).ravel()
        laws.append(law)
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) for p, q in (laws, laws[::-1]))


@pytest.mark.parametrize(("deviation", "epsilon"), [(1.0, 0.5), (1.5, 1.0), (0.6, 2.0)])
@pytest.mark.parametrize("signs", [(1,), (1, 1), (1, -1)])
def test_gaussian_and_skellam_deltas_are_those_of_an_enumeration(
    deviation: float, epsilon: float, signs: tuple[int, ...]
) -> None:
    values = np.arange(-25, 26)
    for law, delta in (
        (gaussian(values, deviation), gaussian_delta(deviation, changes=len(signs), epsilon=epsilon)),
        (skellam(values, deviation**2), skellam_delta(deviation, changes=len(signs), epsilon=epsilon)),
    ):
        truth = enumerated([law] * len(signs), [np.roll(law, sign) for sign in signs], epsilon)
        assert truth * (1 - 1e-9) <= delta <= 1.01 * truth


@pytest.mark.parametrize(("coins", "rate", "epsilon"), [(8, 0.5, 0.5), (30, 0.2, 1.0), (25, 0.4, 1.5)])
@pytest.mark.parametrize("likes", [1, 2])
def test_deltas_of_dummies_are_those_of_an_enumeration(coins: int, rate: float, epsilon: float, likes: int) -> None:
    law = np.append(stats.binom.pmf(np.arange(coins + 1), coins, rate), 0)
    more = np.roll(law, 1)
    truth = enumerated([law] * likes + [more] * likes, [more] * likes + [law] * likes, epsilon)
    delta = dummies_delta(coins, rate, likes=likes, epsilon=epsilon)
    assert truth * (1 - 1e-9) <= delta <= 1.03 * truth + 2 * likes * min(rate, 1 - rate) ** coins


def test_skellam_noise_is_hardly_more_than_gaussian() -> None:
    deviation = skellam_deviation(changes=100, epsilon=1, delta=1e-6)
    assert 42.247 < deviation < 42.29 * 1.001
    assert skellam_delta(deviation, changes=100, epsilon=1) <= 1e-6


@pytest.mark.parametrize(
    ("devices", "coins", "rate", "per_device"),
    [(1900, 4, 0.379, 14_750), (10**4, 1, 0.233, 2269), (10**5, 1, 0.0182, 177), (10**6, 1, 0.00179, 17.4)],
)
def test_dummies_are_those_of_the_table(devices: int, coins: int, rate: float, per_device: float) -> None:
    """Which rounded losses up, and asked for up to half a per cent more."""
    dummies = least_dummies(devices=devices, likes=50, epsilon=1, delta=1e-6)
    assert dummies.coins == coins
    assert dummies.rate == pytest.approx(rate, rel=6e-3)
    assert dummies.per_item * 9724 == pytest.approx(per_device, rel=6e-3)
    total = devices * coins
    assert math.sqrt(total * dummies.rate * (1 - dummies.rate)) == pytest.approx(42.3, abs=0.06)
    assert dummies_delta(total, dummies.rate, likes=50, epsilon=1) <= 1e-6
    assert dummies_delta(total, dummies.rate * 0.995, likes=50, epsilon=1) > 1e-6


def test_a_tiny_delta_does_not_drown_in_rounding() -> None:
    deviation = gaussian_deviation(changes=10, epsilon=1, delta=1e-15)
    assert gaussian_deviation(changes=10, epsilon=1, delta=1e-12) < deviation < 40
    assert skellam_deviation(changes=10, epsilon=1, delta=1e-15) == pytest.approx(deviation, rel=0.02)


WIDEST = size(100_000, 10_000)  # A deviation
FAR: list[tuple[Callable[..., float], float, dict[str, Any]]] = [
    (gaussian_delta, 0.125, {"changes": 1}),
    (gaussian_delta, 0.125, {"changes": MOST_ITEMS}),
    (gaussian_delta, float(WIDEST), {"changes": 1}),
    (gaussian_delta, float(WIDEST), {"changes": MOST_ITEMS}),
    (skellam_delta, 0.125, {"changes": 1}),
    (skellam_delta, float(WIDEST), {"changes": MOST_ITEMS}),
    (partial(dummies_delta, 1), 5e-324, {"likes": 1}),
    (partial(dummies_delta, 1000), 5e-324, {"likes": 1}),
    (partial(dummies_delta, 1000), 0.5, {"likes": MOST_ITEMS}),
    (partial(dummies_delta, 10**10), 1 - 2.0**-53, {"likes": 1}),
]


@pytest.mark.few(4)
@pytest.mark.parametrize(("delta", "noise", "options"), FAR)
def test_a_delta_of_whatever_a_query_may_say_ends_in_little_memory(
    delta: Callable[..., float], noise: float, options: dict[str, Any]
) -> None:
    """A device and a server compute it of what they are sent; it falls in epsilon, however small or large."""
    tracemalloc.start()
    deltas = [delta(noise, **options, epsilon=epsilon) for epsilon in (TINY, 1.0, 800.0, 1 / TINY)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 1 >= deltas[0] >= deltas[1] >= deltas[2] >= deltas[3] >= 0
    assert peak < size(400_000_000, 100_000_000)


@pytest.mark.parametrize("deviation", [0.15, 1.0, 30.0])
def test_losses_of_skellam_noise_are_those_of_bessel_functions(deviation: float) -> None:
    """And they are right where no library's function is: those of 1e5 are a normal law's but for a part in 1e9."""
    falls = noise_module._bessel_falls(deviation**2, 500)[:40]
    law = ive(np.arange(41), deviation**2)
    assert falls == pytest.approx(np.log(law[:-1] / law[1:]), rel=1e-9)
    wide = noise_module._bessel_falls(1e10, 1000)
    assert wide == pytest.approx((np.arange(1000) + 0.5) / 1e10, rel=1e-9)


# What is refused.


NO_CHANCE = "give a number between 0 and 1"
CALLS: list[tuple[Callable[[Any], object], str, list[Any]]] = [
    (lambda epsilon: discrete_laplace(epsilon, sensitivity=1), "epsilon.* is", [0, -1.0, math.inf]),
    (lambda epsilon: gaussian_delta(1.0, changes=1, epsilon=epsilon), "epsilon.* is", [0, -1.0, math.inf]),
    (lambda epsilon: dummies_delta(10, 0.5, likes=1, epsilon=epsilon), "epsilon.* is", [0, -1.0, math.inf]),
    (lambda delta: gaussian_deviation(changes=1, epsilon=1, delta=delta), NO_CHANCE, [0.0, 1.0, 1, math.nan]),
    (lambda delta: least_dummies(devices=9, likes=1, epsilon=1, delta=delta), NO_CHANCE, [0.0, 1.0, 1, math.nan]),
    (discrete_gaussian, "deviation of noise is", [0.0, 5e-324, 0.07, -1.0, math.nan, math.inf, 1]),
    (lambda deviation: gaussian_delta(deviation, changes=1, epsilon=1), "deviation of noise is", [5e-324, 0.12]),
    (lambda coins: dummies_delta(coins, 0.5, likes=1, epsilon=1), "dummies of an item deviate by", [1 << 48]),
    (lambda epsilon: discrete_laplace(epsilon, sensitivity=2), "sensitivity 2 give at most 60", [61, 10**400]),
    (lambda deviation: skellam_share(deviation, honest=1), "deviation of noise is", [0.0, -1.0, math.nan, math.inf, 1]),
    (lambda sensitivity: discrete_laplace(1, sensitivity=sensitivity), "L1 sensitivity is 0", [0]),
    (lambda honest: polya_share(1, sensitivity=1, honest=honest), "devices whose noise suffices is 0", [0]),
    (lambda changes: gaussian_delta(1.0, changes=changes, epsilon=1), "coordinates that change is 0", [0]),
    (lambda coins: dummies_delta(coins, 0.5, likes=1, epsilon=1), "dummies of an item is 0", [0]),
    (lambda rate: dummies_delta(10, rate, likes=1, epsilon=1), "rate of dummies is", [0.0, 1.0, -0.1, math.nan]),
    (lambda first: discrete_gaussian(1.0).draw(SEED, first, 5), "first coordinate of noise is -1", [-1]),
]


@pytest.mark.parametrize(("call", "message", "wrong"), CALLS)
def test_what_makes_no_noise_is_refused(call: Callable[[Any], object], message: str, wrong: list[Any]) -> None:
    for value in wrong:
        with pytest.raises(InputError, match=message):
            call(value)


def test_sums_that_are_too_many_stand_on_a_grid_that_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a deviation of the sum losses are put on a grid: delta is no smaller, and hardly larger."""
    exact = [gaussian_delta(sigma, changes=420, epsilon=1) for sigma in (80.0, 95.0)]
    monkeypatch.setattr(noise_module, "_SUMMED", 1000)
    coarse = [gaussian_delta(sigma, changes=420, epsilon=1) for sigma in (80.0, 95.0)]
    assert all(one <= other <= 1.02 * one for one, other in zip(exact, coarse, strict=True))
    monkeypatch.undo()
    wide = gaussian_deviation(changes=420, epsilon=Fraction(1, 100), delta=1e-6)
    assert wide == pytest.approx(math.sqrt(420) * 306.4, rel=2e-3)


def test_noise_of_too_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise_module, "MOST_NOISE_VALUES", 1000)
    with pytest.raises(InputError, match="noise has more than 1000 values; raise epsilon"):
        discrete_laplace(Fraction(1, 10), sensitivity=100)
    with pytest.raises(InputError, match="needs noise of deviation above 100000; raise epsilon"):
        gaussian_deviation(changes=10**6, epsilon=1e-5, delta=1e-6)


@pytest.mark.statistical
def test_draws_are_normal_and_those_of_a_textbook() -> None:
    """By Kolmogorov and Smirnov, and by variance, false alarm 1e-6 each; twins are shifted by .03, or 3 % wider."""
    draws = normal_draws(bytes(16), 100_000)
    assert stats.kstest(draws, "norm").pvalue > 1e-6 > stats.kstest(draws + 0.03, "norm").pvalue
    assert variance_fits(draws, 1.0)
    assert not variance_fits(1.03 * draws, 1.0)
    radius, turn = (
        (device_streams(as_words(derive(bytes(16), name)), 0, 1000) + 0.5) / 2.0**64
        for name in ("radius of noise", "angle of noise")
    )
    expected = np.sqrt(-2 * np.log(radius)) * np.cos(2 * np.pi * turn)
    np.testing.assert_allclose(normal_draws(bytes(16), 1000), expected, rtol=1e-12, atol=1e-13)
