"""Composition: the published figures, exact laws that no bound may lie below, and another library's accountant."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from evidence import variance_fits
from scipy.linalg import toeplitz

from coordinator.protocol.amplification import AnyRandomizer, FiniteChannel, TwoLevels, one_bit_levels, subset_levels
from coordinator.protocol.composition import (
    ShuffledRounds,
    composed_delta,
    gaussian_delta_at,
    gaussian_distance,
    gaussian_epsilon,
    keeps_histories,
    keeps_plan,
    largest_plan_epsilon,
    largest_pure_epsilon,
    longest,
    plan_delta,
    plan_epsilon,
    privacy_loss,
    pure_delta,
    pure_epsilon,
    summed_epsilon,
)
from coordinator.protocol.counters import (
    CounterNoise,
    carried_noise,
    counter_deviation,
    counter_distance,
    counter_noise,
    root_coefficients,
    standings_variance,
)
from coordinator.protocol.errors import InputError
from coordinator.protocol.noise import gaussian_deviation
from coordinator.protocol.summed_plan import SumRound, keeps_sums

DELTA = 1e-6
ITEMS, OWN = 9724, 20
PLANS = [(10**4, 17, 3.737), (10**5, 8, 5.658), (1000, 28, 2.193)]  # devices, values named, local epsilon of 12 rounds


def set_of(named: int) -> TwoLevels:
    return subset_levels(ITEMS + OWN, OWN, named)


def test_gaussian_sums_add_up_by_squares() -> None:
    """Twelve months of epsilon 1 are 3.904, a year of days 31.0; months of .264 are 1."""
    mu = gaussian_distance(1, DELTA)
    assert mu == pytest.approx(0.23670, abs=1e-5)
    assert gaussian_epsilon(mu * math.sqrt(12), DELTA) == pytest.approx(3.9041, abs=1e-3)
    assert gaussian_epsilon(mu * math.sqrt(365), DELTA) == pytest.approx(31.040, abs=2e-3)
    assert gaussian_epsilon(mu / math.sqrt(12), DELTA) == pytest.approx(0.264, abs=1e-3)
    # Noise of whole numbers, exactly: it keeps what normal laws keep at such deviations
    deviation = gaussian_deviation(changes=40, epsilon=1, delta=DELTA)
    assert summed_epsilon({deviation: 40}, delta=DELTA) == pytest.approx(1, abs=1e-4)
    assert summed_epsilon({deviation: 12 * 40}, delta=DELTA) == pytest.approx(3.904, abs=2e-3)


def test_local_answers_compose_as_randomized_response() -> None:
    assert pure_epsilon(1, 365, DELTA) == pytest.approx(244.634, abs=0.01)
    assert pure_epsilon(1, 52, DELTA) == pytest.approx(49.153, abs=1e-3)
    assert pure_epsilon(Fraction(1, 3), 12, 0.0) == 4.0
    assert float(largest_pure_epsilon(epsilon=1, rounds=12, delta=DELTA)) == pytest.approx(0.0835, abs=1e-4)
    assert largest_pure_epsilon(epsilon=1, rounds=12, delta=0.0) == Fraction(1, 12)
    for rounds in range(2, 20):  # rounded, they still hold
        local = float(largest_pure_epsilon(epsilon=1, rounds=rounds, delta=DELTA))
        assert pure_delta(local, rounds, 1.0) <= DELTA < pure_delta(local * (1 + 1e-6), rounds, 1.0)
    # By enumeration of all answers
    law = {bits: math.prod(math.e if bit else 1 for bit in bits) for bits in product((0, 1), repeat=4)}
    mass = sum(law.values())
    exact = sum(max(p - math.exp(0.7) * law[tuple(1 - b for b in bits)], 0) for bits, p in law.items()) / mass
    assert exact <= pure_delta(1.0, 4, 0.7) <= exact * (1 + 1e-8)


@pytest.mark.parametrize(("devices", "named", "local"), PLANS)
def test_a_plan_of_shuffled_months_is_certified_as_a_whole(devices: int, named: int, local: float) -> None:
    largest = largest_plan_epsilon(set_of(named), epsilon=1, rounds=12, devices=devices, delta=DELTA)
    assert float(largest) == pytest.approx(local, abs=0.01)
    plan = [ShuffledRounds(set_of(named), largest, devices, 12)]
    assert plan_delta(plan, epsilon=1, delta=DELTA) <= DELTA
    assert 0.995 <= plan_epsilon(plan, delta=DELTA) <= 1
    assert keeps_plan(plan[0], Fraction(1), DELTA)
    more = ShuffledRounds(set_of(named), largest + Fraction(2, 1000), devices, 12)
    assert not keeps_plan(more, Fraction(1), DELTA), "the power twin: two thousandths more are too much"


def test_whoever_answers_most_is_certified_and_so_is_who_answers_elsewhere() -> None:
    """Two rounds hold one, and once is no part of another round; of equal histories one is enough."""
    assert set(longest([(1,), (1, 1), (2,), (2, 1), (3,)])) == {(1, 1), (2, 1), (3,)}
    bits = ShuffledRounds(one_bit_levels(), Fraction(1), 1000)
    between = Fraction(0.9 * plan_epsilon([replace(bits, rounds=2)], delta=1e-6))
    assert keeps_histories(frozenset({(bits,)}), between, 1e-6)
    assert not keeps_histories(frozenset({(bits,), (bits, bits)}), between, 1e-6)


def test_bits_lie_between_what_ten_devices_give_away_and_four_fifths_more() -> None:
    """The server sees the numbers of ones of three rounds, and knows the nine others' bits, all 0."""
    plan = [ShuffledRounds(one_bit_levels(), Fraction(1), 10, 3)]
    e = math.e
    others = np.array([math.comb(9, k) * e ** (9 - k) for k in range(10)]) / (1 + e) ** 9
    one = (e * np.append(0, others) + np.append(others, 0)) / (1 + e)
    other = (np.append(0, others) + e * np.append(others, 0)) / (1 + e)
    p, q = (np.einsum("i,j,k->ijk", law, law, law) for law in (one, other))
    exact = max(np.maximum(p - math.exp(0.5) * q, 0).sum(), np.maximum(q - math.exp(0.5) * p, 0).sum())
    assert exact == pytest.approx(0.0904, abs=1e-3)
    assert exact <= plan_delta(plan, epsilon=Fraction(1, 2), delta=0.1) < 0.126


def test_one_round_is_what_its_own_bound_says_and_unequal_ones_compose_in_any_order() -> None:
    single = [ShuffledRounds(subset_levels(ITEMS + 50, 50, 10), Fraction(4), 10**4)]
    assert 0.3420 <= plan_epsilon(single, delta=DELTA) <= 0.3430
    first, second = ShuffledRounds(set_of(17), Fraction(3), 10**4, 6), ShuffledRounds(set_of(8), Fraction(4), 10**5, 6)
    mixed = plan_epsilon([first, second], delta=DELTA)
    assert mixed == pytest.approx(plan_epsilon([second, first], delta=DELTA), rel=1e-5)
    alone = [plan_epsilon([ShuffledRounds(part.bound, part.local_epsilon, part.devices, 12)], delta=DELTA)
             for part in (first, second)]  # fmt: skip
    assert min(alone) < mixed < max(alone)


@pytest.mark.parametrize(
    "bound",
    [AnyRandomizer(), FiniteChannel(((0.6, 0.2, 0.2), (0.2, 0.6, 0.2), (0.2, 0.2, 0.6)))],
    ids=["any", "matrix"],
)
def test_every_bound_composes(bound: AnyRandomizer | FiniteChannel) -> None:
    """And by far less than it adds up to."""
    once, often = (plan_epsilon([ShuffledRounds(bound, 1.0986, 10**4, rounds)], delta=DELTA) for rounds in (1, 16))
    assert 3.5 * once < often < 6 * once


def test_what_lies_beyond_a_grid_counts_as_revealed() -> None:
    """Of normal laws at a distance of 1, on a grid that ends where a hundredth is left."""
    loss = privacy_loss(lambda epsilon: gaussian_delta_at(1.0, epsilon), 0.1, 1e-2)
    assert loss.chances.sum() + loss.revealed == pytest.approx(1)
    for epsilon in np.linspace(0, 4, 41).tolist():
        assert composed_delta([(loss, 1)], epsilon) >= max(gaussian_delta_at(1.0, epsilon), loss.revealed)
    assert 1e-3 < loss.revealed < 1e-2


def test_laplace_noise_of_rounds_adds_up_and_goes_with_no_other() -> None:
    halves = frozenset({(SumRound(0.0, 2, Fraction(1, 2)), SumRound(0.0, 2, Fraction(1, 2)))})
    assert keeps_sums(halves, Fraction(1), 0.0, devices=False)
    assert not keeps_sums(halves, Fraction(999, 1000), 0.0, devices=False)
    mixed = frozenset({(SumRound(0.0, 2, Fraction(1, 2)), SumRound(1e6, 2, Fraction(1, 2)))})
    assert not keeps_sums(mixed, Fraction(1), 1e-6, devices=False)


def test_a_loss_on_a_grid_is_nowhere_below_the_profile_that_it_is_made_of() -> None:
    """Of randomized response, whose profile is known and whose loss lies between two places of the grid."""
    local, grid = 1.0, 0.3
    profile = [pure_delta(local, 1, j * grid) for j in range(8)]
    loss = privacy_loss(lambda epsilon: pure_delta(local, 1, epsilon), grid, 1e-12)
    assert loss.chances.sum() + loss.revealed >= 1
    for place, delta in enumerate(profile):
        assert delta <= composed_delta([(loss, 1)], place * grid) <= delta + 1e-7
    for epsilon in (0.1, 0.5, 1.1):
        assert composed_delta([(loss, 1)], epsilon) >= pure_delta(local, 1, epsilon)
    for epsilon in (0.5, 2.0):  # composed it is above the exact one, too
        assert (
            pure_delta(local, 4, epsilon) <= composed_delta([(loss, 4)], epsilon) <= 1.3 * pure_delta(local, 4, epsilon)
        )


def test_dp_accounting_composes_the_same_profile_to_the_same_epsilon() -> None:
    accounting = pytest.importorskip("dp_accounting.pld", reason="dp-accounting is not installed; see its extra")
    pmf, distribution = accounting.pld_pmf, accounting.privacy_loss_distribution
    part = ShuffledRounds(set_of(17), Fraction(3737, 1000), 10**4)
    grid = 0.01
    places = np.arange(-70, 71)
    above = {int(j): part.delta(j * grid) if j else part.bound.delta(0.0, 3.737, 10**4) for j in places if j >= 0}
    below = {-j: (delta - 1) * math.exp(-j * grid) + 1 for j, delta in above.items()}
    deltas = [(below | above)[int(j)] for j in places]
    law = pmf.create_pmf_pessimistic_connect_dots(grid, places, np.array(deltas))
    theirs = distribution.PrivacyLossDistribution(law).self_compose(12).get_epsilon_for_delta(DELTA)
    ours = plan_epsilon([ShuffledRounds(part.bound, part.local_epsilon, part.devices, 12)], delta=DELTA)
    assert ours == pytest.approx(theirs, abs=2e-3)  # grids differ
    loss = privacy_loss(lambda epsilon: above[round(epsilon / grid)], grid, 1e-13)
    assert composed_delta([(loss, 12)], theirs * (1 + 1e-6)) == pytest.approx(DELTA, rel=2e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pure_epsilon(1, 0, DELTA), "number of rounds is 0"),
        (lambda: pure_epsilon(math.inf, 2, DELTA), "the local epsilon is inf"),
        (lambda: gaussian_distance(1, 1.5), "delta is 1.5"),
        (lambda: largest_plan_epsilon(set_of(17), epsilon=1, rounds=12, devices=1000, delta=0.01), "above 1 / 1000"),
    ],
)
def test_bad_numbers_are_refused_in_a_line(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        call()  # type: ignore[operator]
    assert "\n" not in str(error.value)


# Counters: their noise beside the published factors, by simulation, and privacy's distance by its matrix.


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
    """Spec I 6: 20,000 counters, chi-square, 1e-6; twins have 5 % more, and noise of their own each month."""
    coins, nothing = np.random.default_rng(1), np.zeros(20_000, np.bool_)
    noise = CounterNoise(12, discount, 1.0, np.ones(20_000, np.int64))
    expected, stated = counter_noise(12, discount), []
    for deviation in expected:
        noise, drawn = noise.next_period(coins, nothing)
        stated.append(np.sqrt(noise.variance[0]))
        assert variance_fits(drawn, deviation**2, false_alarm=1e-6 / 12)
        assert not variance_fits(drawn, (1.05 * deviation) ** 2, false_alarm=1e-6 / 12)
    np.testing.assert_allclose(stated, expected)
    assert not variance_fits(drawn, np.square(expected).sum())


@pytest.mark.statistical
def test_a_server_carries_its_noise_on_from_period_to_period() -> None:
    """Spec I 6, as above, of what one server adds to sums, 1e-6; the twin's sums have noise of their own."""
    seeds, deviation = [bytes([number] * 16) for number in range(12)], 20.0
    standings, alone = np.zeros((2, 20_000))
    for period in range(1, 13):
        standings = standings + carried_noise(seeds[:period], deviation, 20_000)
        alone = alone + carried_noise(seeds[period - 1 : period], deviation, 20_000)
        stated = np.sqrt(standings_variance(period, deviation))
        assert variance_fits(standings, stated**2, false_alarm=1e-6 / 12)
        assert stated == pytest.approx(deviation * counter_noise(12)[period - 1] / counter_noise(12)[0], rel=1e-3)
    assert not variance_fits(alone, stated**2)


def test_twelve_periods_keep_their_promise_and_a_thirteenth_would_not() -> None:
    """Of 40 entries that change: the distance of the whole matrix's columns, by their products."""
    deviation = counter_deviation(12, 40, Fraction(1), 1e-6)
    root = np.tril(toeplitz(root_coefficients(12)))
    assert counter_distance(12, 40, deviation) == pytest.approx(np.sqrt(40 * (root.T @ root).max()) / deviation)
    assert counter_distance(12, 40, deviation) == pytest.approx(gaussian_distance(1, 1e-6), rel=3e-4)
    assert gaussian_delta_at(counter_distance(12, 40, deviation), 1.0) <= 1e-6
    assert gaussian_delta_at(counter_distance(13, 40, deviation), 1.0) > 1.02e-6


def test_a_counter_of_a_new_item_starts_with_it() -> None:
    coins = np.random.default_rng(2)
    noise = CounterNoise(4, 1.0, 1.0, np.ones(2, np.int64))
    for new in ([False, False], [False, False], [False, True]):
        noise, drawn = noise.next_period(coins, np.array(new))
    first = np.sqrt(np.sum(root_coefficients(4) ** 2))
    assert np.sqrt(noise.variance) == pytest.approx([counter_noise(4)[2], first])
    assert drawn[1] == pytest.approx(noise.draws[-1][1])
