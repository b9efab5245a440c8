"""The exact channels of a bit and of a choice: within their epsilon, and as close to it as 64-bit coins allow."""

import importlib
import inspect
import itertools
import math
import pkgutil
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

import evidence
import numpy as np
import pytest
from evidence import examples, size
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

import coordinator.protocol
from coordinator.protocol import channels
from coordinator.protocol.channels import (
    COIN,
    BitChannel,
    ExactChannel,
    IndependentBits,
    Likelihood,
    LogRatio,
    MatrixChannel,
    UnaryChannel,
    bit_channel,
    independent_bits,
    matrix_channel,
    unary_channel,
)
from coordinator.protocol.errors import InputError
from coordinator.protocol.second_order.laplace import GridLaplace, grid_laplace
from coordinator.protocol.second_order.privunit import CapChannel, cap_channel
from coordinator.protocol.value_channels import (
    ChoiceChannel,
    KaryChannel,
    SubsetChannel,
    choice_channel,
    kary_channel,
    subset_channel,
)

EPSILONS = st.one_of(
    st.fractions(min_value=Fraction(1, 10**6), max_value=30, max_denominator=10**6),
    st.floats(min_value=1e-12, max_value=30).map(Fraction),
    st.integers(1, 10**6).map(lambda k: Fraction(k, 2**62)),
)


@settings(max_examples=examples(80))
@given(EPSILONS)
@example(Fraction(30))
@example(Fraction(1, 2**62))
@example(Fraction(1, 10**30))
def test_flips_are_rounded_towards_more_noise_and_by_less_than_one_coin(epsilon: Fraction) -> None:
    """Held against rational bounds on e**epsilon: the odds of truth are within, with one coin less not."""
    flips = bit_channel(epsilon).flips
    low, high = evidence.exp_bounds(epsilon)
    assert Fraction(COIN - flips, flips) <= high
    assert Fraction(COIN - flips + 1, flips - 1) > low
    assert flips == evidence.flips(epsilon)
    assert flips <= COIN // 2


CHOICES = st.integers(1, 7).flatmap(lambda power: st.tuples(st.just(1 << power), st.integers(1, (1 << power) - 1)))
"""Signed vectors, a power of two of them, and how many are kept."""


@settings(max_examples=examples(40))
@given(EPSILONS, CHOICES)
@example(Fraction(30), (128, 1))
@example(Fraction(30), (128, 64))
@example(Fraction(1, 10**30), (4, 2))
def test_a_choice_is_within_its_epsilon_and_not_by_one_coin_less(epsilon: Fraction, choices: tuple[int, int]) -> None:
    """Held against rational bounds on e**epsilon: the best are at most that many times as probable."""
    many, kept = choices
    channel = choice_channel(epsilon, choices=many, best_count=kept)
    low, high = evidence.exp_bounds(epsilon)
    best, other = channel.probabilities
    assert kept * best + (many - kept) * other == 1
    assert 0 < other <= best
    assert best <= high * other
    looser = ChoiceChannel(many, kept, channel.misses - 1).probabilities
    assert looser[0] > low * looser[1]
    assert channel.misses == evidence.misses(epsilon, kept, many - kept)


@pytest.mark.parametrize(("choices", "kept"), [(2, 0), (2, 2), (8, 8), (8, -1), (1, 1)])
def test_choices_that_leave_nothing_over_are_refused(choices: int, kept: int) -> None:
    with pytest.raises(InputError, match=f"^best_count is {kept}; give 1 to {choices - 1}, ") as caught:
        choice_channel(Fraction(1), choices=choices, best_count=kept)
    assert "\n" not in str(caught.value)


# Every channel that a release goes through, over all epsilons that it takes: exactly within what was asked.
Weights = list[int] | np.ndarray[Any, np.dtype[np.uint64]]
Odds = tuple[Weights, Weights]  # Largest and smallest weight of every release over everything private


def bit_odds(epsilon: Fraction) -> Odds:
    flips = bit_channel(epsilon).flips
    told = flips, channels.COIN - flips
    return [max(told)] * 2, [min(told)] * 2


def of_choice(choice: ChoiceChannel) -> Odds:
    best, other = choice.probabilities
    assert choice.best_count * best + (choice.choices - choice.best_count) * other == 1
    common = math.lcm(best.denominator, other.denominator)
    weights = int(best * common), int(other * common)
    return [max(weights)], [min(weights)]


def choice_odds(choices: int, kept: int) -> Callable[[Fraction], Odds]:
    return lambda epsilon: of_choice(choice_channel(epsilon, choices=choices, best_count=kept))


def kary_odds(values: int) -> Callable[[Fraction], Odds]:
    def odds(epsilon: Fraction) -> Odds:
        channel = kary_channel(epsilon, values=values)
        assert channel.same + (values - 1) * channel.other == channels.COIN
        return [channel.same], [channel.other]

    return odds


def cap_odds(dimension: int) -> Callable[[Fraction], Odds]:
    return lambda epsilon: of_choice(cap_channel(epsilon, dimension).choice)


def enumerated(rows: list[list[Fraction]], unit: int) -> Odds:
    """Every release's largest and smallest chance over all private sketches, in whole parts of ``unit``."""
    assert all(sum(row) == 1 for row in rows)
    columns = [[int(chance * unit) for chance in column] for column in zip(*rows, strict=True)]
    return [max(column) for column in columns], [min(column) for column in columns]


def taken(epsilon: Fraction) -> Fraction:
    """The odds of an epsilon that is taken; of others any."""
    return channels.odds_within(min(max(epsilon, TINY), Fraction(40)))


def unary_odds(epsilon: Fraction) -> Odds:
    """All sketches of three bits with at most one 1, and all releases."""
    half, zero = Fraction(1, 2), 1 / (taken(epsilon) + 1)
    channel = independent_bits(count=3, if_one=half, if_zero=zero, epsilon=epsilon, ones=1)
    sketches = np.concatenate([np.zeros((1, 3), np.int64), np.eye(3, dtype=np.int64)])
    return enumerated([channel.chances(sketch) for sketch in sketches], channels.COIN**3)


def one_of_four_odds(epsilon: Fraction) -> Odds:
    """All values, and all releases, of unary encoding."""
    channel = unary_channel(epsilon, values=4)
    return enumerated([channel.chances(np.array([value])) for value in range(4)], channels.COIN**4)


def subset_odds(values: int, padded: int, chosen: int) -> Callable[[Fraction], Odds]:
    """All sets, and all subsets that can be released."""

    def odds(epsilon: Fraction) -> Odds:
        channel = subset_channel(epsilon, values=values, padded=padded, subset_size=chosen)
        rows = [channel.chances(np.array(same)) for same in itertools.combinations(range(values), padded)]
        told = [place for place, chance in enumerate(rows[0]) if chance]
        unit = math.lcm(*{row[place].denominator for row in rows for place in told})
        return enumerated([[row[place] for place in told] for row in rows], unit)

    return odds


def matrix_odds(epsilon: Fraction) -> Odds:
    """Generalized randomized response of five values."""
    odds = taken(epsilon)
    rows = [[(odds if told == private else Fraction(1)) / (odds + 4) for told in range(5)] for private in range(5)]
    channel = matrix_channel(rows, epsilon)
    return enumerated([channel.chances(np.array([private])) for private in range(5)], channels.COIN)


def grid_odds(epsilon: Fraction) -> Odds:
    """From the table of thresholds that devices hold coins against, and nothing else; sizes in 2**-64."""
    channel = grid_laplace(epsilon)
    tails, steps = channel.at_least[::-1], channel.steps
    assert tails.size == channel.beyond + steps
    assert int(tails[-1]) > 0
    sizes = tails.copy()
    sizes[:-1] -= tails[1:]
    middle = np.array([2 * ((1 << 63) - int(tails[0]))], np.uint64)
    inside = np.concatenate([sizes[steps - 1 :: -1], middle, sizes[:-1]])  # noise -steps up to far beyond the range
    windows = sliding_window_view(inside, steps + 1)
    edge = tails[channel.beyond - 1 :]  # a release on the edge stands for all noise beyond it
    largest, smallest = windows.max(axis=1), windows.min(axis=1)
    return np.append(largest, edge.max()), np.append(smallest, edge.min())


class Channel(NamedTuple):
    """A channel with the range of epsilons that it takes."""

    of: type
    odds: Callable[[Fraction], Odds]
    smallest: Fraction
    largest: int
    short: Fraction  # By how much of epsilon it may fall short, where one coin is not more than that


TINY = Fraction(1, 10**1000)
MILLIONTH = Fraction(1, 10**6)
CHANNELS = {
    "bit": Channel(BitChannel, bit_odds, TINY, 30, MILLIONTH),
    "choice of 128": Channel(ChoiceChannel, choice_odds(128, 45), TINY, 30, MILLIONTH),
    "choice of 2 m": Channel(ChoiceChannel, choice_odds(16384, 1), TINY, 30, MILLIONTH),
    "choice of 6": Channel(ChoiceChannel, choice_odds(6, 2), Fraction(1, 10**15), 30, MILLIONTH),
    "one of 16": Channel(KaryChannel, kary_odds(16), TINY, 30, MILLIONTH),
    "one of 5": Channel(KaryChannel, kary_odds(5), Fraction(1, 10**15), 30, MILLIONTH),
    "unary": Channel(IndependentBits, unary_odds, TINY, 30, MILLIONTH),
    "one of four": Channel(UnaryChannel, one_of_four_odds, TINY, 30, MILLIONTH),
    "subset of six": Channel(SubsetChannel, subset_odds(6, 1, 2), Fraction(1, 10**12), 30, MILLIONTH),
    "set of seven": Channel(SubsetChannel, subset_odds(7, 3, 2), Fraction(1, 10**12), 30, MILLIONTH),
    "matrix": Channel(MatrixChannel, matrix_odds, Fraction(1, 10**12), 30, MILLIONTH),
    "cap": Channel(CapChannel, cap_odds(55), Fraction(1, 10**12), 30, MILLIONTH),
    "grid": Channel(GridLaplace, grid_odds, Fraction(1, 1000), 20, MILLIONTH),
}
SEVERAL_COINS = Fraction(1 << 16, channels.COIN)  # More than what one coin changes a log-ratio by, where it is small


def largest_of(odds: Odds) -> Fraction:
    """The largest ratio, exactly; floats only leave out those that are farther below than floats round."""
    most, least = odds
    ratios = np.array(most, np.float64) / np.array(least, np.float64)
    near = np.flatnonzero(ratios >= ratios.max() * (1 - 2e-15)).tolist()
    return max(Fraction(int(most[place]), int(least[place])) for place in near)


def holds(channel: Channel, epsilon: Fraction) -> None:
    """Compare in whole numbers with rational bounds on e**epsilon."""
    low, high = evidence.exp_bounds(epsilon)
    largest = largest_of(channel.odds(epsilon))
    assert largest <= low <= high, f"odds exceed epsilon {epsilon}"
    if epsilon > 1000 * SEVERAL_COINS:
        assert largest >= evidence.exp_bounds(epsilon * (1 - channel.short))[0] * (1 - SEVERAL_COINS)


def power_of(epsilon: Fraction, *, least: float) -> float:
    """Its logarithm to base 10, or ``least`` where it is less."""
    return max(math.log10(epsilon.numerator) - math.log10(epsilon.denominator), least)


def exponents(channel: Channel) -> st.SearchStrategy[Fraction]:
    """Epsilons of every order of magnitude that the channel takes."""
    ends = power_of(channel.smallest, least=-300), math.log10(channel.largest)
    powers = st.floats(*ends, exclude_min=True, exclude_max=True).map(lambda power: Fraction(10**power))
    return powers.filter(lambda epsilon: channel.smallest <= epsilon <= channel.largest)


def test_no_channel_is_forgotten() -> None:
    """Whatever in the protocol has an epsilon that is computed is in the list; a likelihood's is claimed."""
    prefix, found = coordinator.protocol.__name__, set()
    for module in pkgutil.walk_packages(coordinator.protocol.__path__, prefix + "."):
        for _, one in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if one.__module__.startswith(prefix) and isinstance(getattr(one, "epsilon", None), property):
                found.add(one)
    assert found - {Likelihood, ExactChannel} == {channel.of for channel in CHANNELS.values()}


@pytest.mark.parametrize("name", CHANNELS)
def test_the_ends_and_a_dense_range_between_are_within_epsilon(name: str) -> None:
    channel = CHANNELS[name]
    for epsilon in (channel.smallest, Fraction(channel.largest), Fraction(1, 200), Fraction(1, 100), Fraction(1, 3)):
        holds(channel, epsilon)
    low, high = power_of(channel.smallest, least=-25), math.log10(channel.largest)
    for power in np.linspace(low, high, size(42, 5))[1:-1].tolist():
        holds(channel, Fraction(round(10**power * 10**30), 10**30))


@pytest.mark.parametrize("name", CHANNELS)
def test_any_epsilon_that_is_taken_is_held(name: str) -> None:
    channel = CHANNELS[name]

    @settings(max_examples=examples(30), derandomize=True)
    @given(exponents(channel))
    @example(Fraction(1, 5))
    def any_epsilon(epsilon: Fraction) -> None:
        holds(channel, epsilon)

    any_epsilon()


@pytest.mark.parametrize("name", CHANNELS)
def test_other_epsilons_are_refused_in_one_line(name: str) -> None:
    for wrong in (Fraction(0), Fraction(-20), Fraction(31), Fraction(10**400)):
        with pytest.raises(InputError, match=r"^epsilon .*; (it must be above 0|lower it|raise it)") as caught:
            CHANNELS[name].odds(wrong)
        assert "\n" not in str(caught.value)


SMALL, SMALLER = Fraction(1, 10**21), Fraction(1, 10**25)
COARSE = [("choice of 6", SMALL), ("one of 5", SMALL), ("subset of six", SMALLER), ("matrix", SMALLER)]


@pytest.mark.parametrize(("name", "wrong"), [*COARSE, ("grid", Fraction(999, 10**6)), ("grid", TINY), ("cap", TINY)])
def test_too_small_for_the_coins_is_refused_with_the_remedy(name: str, wrong: Fraction) -> None:
    with pytest.raises(InputError, match=r"^epsilon \S+ of one .*; raise it"):
        CHANNELS[name].odds(wrong)


def test_the_odds_that_channels_are_built_with_never_exceed_e_to_the_epsilon() -> None:
    for epsilon in (TINY, Fraction(1, 10**74), Fraction(1, 10**60), Fraction(1, 3), Fraction(1), Fraction(30)):
        odds, (low, high) = channels.odds_within(epsilon), evidence.exp_bounds(epsilon)
        assert 1 <= odds <= high
        assert odds >= low * (1 - Fraction(1, 10**70))


@settings(max_examples=examples(60), derandomize=True)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.fractions(1, 1000, max_denominator=10**20)), max_size=3),
    st.fractions(0, 40, max_denominator=10**6).filter(bool),
)
def test_log_ratios_are_compared_as_rational_bounds_on_e_to_the_epsilon_say(
    factors: list[tuple[int, Fraction]], epsilon: Fraction
) -> None:
    largest = sum((LogRatio.of(ratio, many) for many, ratio in factors), start=LogRatio(()))
    ratio, bounds = math.prod((one**many for many, one in factors), start=Fraction(1)), evidence.exp_bounds(epsilon)
    assert largest.ratio == ratio
    assert largest.within(epsilon) == (ratio <= bounds[0])
    assert (ratio <= bounds[0]) != (ratio > bounds[1])
    assert largest.beyond(epsilon) == pytest.approx(math.log(ratio) - float(epsilon), rel=1e-9, abs=1e-12)
    assert LogRatio.of(1 / ratio) == LogRatio.of(ratio)


@pytest.mark.parametrize("digits", [20, 45, 90, 400])
def test_a_log_ratio_next_to_its_epsilon_is_decided_by_as_many_digits_as_it_takes(digits: int) -> None:
    with localcontext() as context:
        context.prec = digits
        near = Decimal(7).ln()
        below, above = (LogRatio.of(Fraction(7)).within(Fraction(one)) for one in (near.next_minus(), near.next_plus()))
    assert (below, above) == (False, True)
    infinite = LogRatio.of(None) + LogRatio.of(Fraction(2))
    assert (float(infinite), infinite.within(None), infinite.within(Fraction(99))) == (math.inf, True, False)
    assert LogRatio.of(None, 0) == LogRatio.of(Fraction(1), 7) == LogRatio(())


STATING: dict[str, Callable[[Fraction], Any]] = {
    "bit": bit_channel,
    "cap": lambda epsilon: cap_channel(epsilon, 55),
    "choice of 128": lambda epsilon: choice_channel(epsilon, choices=128, best_count=45),
    "grid": grid_laplace,
    "one of 5": lambda epsilon: kary_channel(epsilon, values=5),
    "one of four": lambda epsilon: unary_channel(epsilon, values=4),
    "set of seven": lambda epsilon: subset_channel(epsilon, values=7, padded=3, subset_size=2),
}


@pytest.mark.parametrize("name", STATING)
def test_what_channels_say_of_themselves_is_exact(name: str) -> None:
    for epsilon in (Fraction(7, 10), Fraction(13, 10), Fraction(23, 10)):
        largest = STATING[name](epsilon).log_ratio
        assert largest.ratio == largest_of(CHANNELS[name].odds(epsilon))
        assert largest.within(epsilon)
        assert not largest.within(epsilon - MILLIONTH)
