"""Schedules: shares are exact, nobody's add up to more than the budget, and plans of a shuffler hold as a whole."""

import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.amplification import SetDesign, rough_set, subset_levels
from coordinator.protocol.arrays import Floats
from coordinator.protocol.composition import ShuffledRounds, plan_delta
from coordinator.protocol.errors import InputError
from coordinator.protocol.schedule import (
    NAMES,
    SCHEDULES,
    Horizon,
    Panel,
    Schedule,
    Stay,
    panels_of,
    schedule_of,
)
from coordinator.protocol.shuffled_plan import SharedRound, shuffled_plan
from coordinator.protocol.value_channels import subset_channel
from coordinator.server.ageing import DRIFT, AgedShares, Measurement, renewal

EVERY = [*SCHEDULES.values(), Stay(1), Stay(4), Stay(40)]
ONE, HALF = Fraction(1), Fraction(1, 2)


@given(
    schedule=st.sampled_from(EVERY),
    periods=st.integers(1, 24),
    alone=st.booleans(),
    renewal=st.fractions(0, 1, max_denominator=1000),
    data=st.data(),
)
def test_shares_of_everybody_are_exact_and_add_up_to_the_budget_at_most(
    schedule: Schedule, periods: int, alone: bool, renewal: Fraction, data: st.DataObject
) -> None:
    arrival = data.draw(st.integers(1, periods))
    panels = panels_of(schedule, arrival, Horizon(periods=periods, alone=alone, renewal=renewal))
    assert sum(panel.weight for panel in panels) == 1
    for panel in panels:
        assert all(type(share) is Fraction for share in panel.shares)
        assert not any(panel.shares[: arrival - 1])
        spent = sum(panel.shares)
        assert spent == 1 or (spent < 1 and (schedule in (Stay(4), Stay(40)) or schedule is SCHEDULES["split"]))


def test_with_renewal_1_front_rotates_or_splits_and_with_0_it_is_once() -> None:
    for alone, other in ((True, "rotate"), (False, "split")):
        horizon = Horizon(periods=12, alone=alone, renewal=ONE)
        assert panels_of(SCHEDULES["front"], 1, horizon) == panels_of(SCHEDULES[other], 1, horizon)
        horizon = Horizon(periods=12, alone=alone)
        (panel,) = panels_of(SCHEDULES["front"], 1, horizon)
        assert panel == panels_of(SCHEDULES["once"], 1, horizon)[0]


class Wrong(Schedule):
    """Returns whatever a test gives it."""

    def __init__(self, *panels: object) -> None:
        self.given = panels

    def panels(self, arrival: int, horizon: Horizon) -> tuple[Panel, ...]:
        return self.given  # type: ignore[return-value] # wrong on purpose


@pytest.mark.parametrize(
    ("panels", "words"),
    [
        ([Panel(weight=ONE, shares=(ONE, HALF))], "add up to 3/2"),
        ([Panel(weight=ONE, shares=(HALF, 0.5))], "no fraction"),  # type: ignore[arg-type] # wrong on purpose
        ([Panel(weight=ONE, shares=(ONE, -HALF))], "no fraction"),
        ([Panel(weight=ONE, shares=(ONE,))], "no share for each of 2"),
        ([Panel(weight=HALF, shares=(HALF, HALF))] * 3, "weights of panels add up to 3/2"),
        (["once"], "returns a tuple; return a tuple of panels"),
    ],
)
def test_a_wrong_schedule_is_refused(panels: list[object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        panels_of(Wrong(*panels), 1, Horizon(periods=2, alone=True))
    early = Panel(weight=ONE, shares=(HALF, HALF))
    with pytest.raises(InputError, match="before they arrive"):
        panels_of(Wrong(early), 2, Horizon(periods=2, alone=True))


def test_unknown_names_are_told_the_known_ones() -> None:
    assert schedule_of("stay:3") == Stay(3)
    for name in ("twice", "stay", "stay:0", "stay:x"):
        with pytest.raises(InputError, match="unknown") as error:
            schedule_of(name)
        assert all(one in str(error.value) for one in NAMES)


def plan(*history: SharedRound, epsilon: int = 1) -> dict[SharedRound, tuple[int, Fraction]]:
    designs = shuffled_plan(
        frozenset([tuple(sorted(history))]), items=2000, padded=20, epsilon=Fraction(epsilon), delta=1e-6
    )
    return {one: (design.subset_size, design.local_epsilon) for one, design in designs.items()}


def delta_of(designs: dict[SharedRound, tuple[int, Fraction]], history: tuple[SharedRound, ...], more: str) -> float:
    parts = [
        ShuffledRounds(subset_levels(2020, 20, designs[one][0]), designs[one][1] * Fraction(more), one.devices, count)
        for one, count in sorted(Counter(history).items())
    ]
    return plan_delta(parts, epsilon=1, delta=1e-6)


def test_a_plan_of_unequal_rounds_holds_as_a_whole_and_hardly_more() -> None:
    """Two per cent more local epsilon, about four of the budget, do not hold."""
    history = (SharedRound(5000, Fraction(1, 2)), *[SharedRound(5000, Fraction(1, 10))] * 5)
    designs = plan(*history)
    assert delta_of(designs, history, "1") <= 1e-6
    assert delta_of(designs, history, "1.02") > 1e-6
    larger = designs[SharedRound(5000, Fraction(1, 2))]
    assert larger[1] > designs[SharedRound(5000, Fraction(1, 10))][1]


def test_of_few_devices_shares_of_epsilon_are_left() -> None:
    history = tuple([SharedRound(3, Fraction(1, 4))] * 4)
    assert plan(*history)[history[0]][1] >= Fraction(1, 4)


def test_split_over_rotate_behind_a_shuffler() -> None:
    """Information of twelve split rounds over that of one whole round of a twelfth of the people (spec I 5)."""
    half = {"items": 9724, "padded": 20, "epsilon": Fraction(1), "delta": 1e-6}
    people = 10_000
    split = SharedRound(people, Fraction(1, 12))
    rotated = SharedRound(people // 12, ONE)
    of_split = shuffled_plan(frozenset([(split,) * 12]), **half)[split]
    of_rotated = shuffled_plan(frozenset([(rotated,)]), **half)[rotated]
    ratio = (people / variance(of_split)) / (people / 12 / variance(of_rotated))
    assert ratio == pytest.approx(12.1, abs=0.4)


def variance(design: SetDesign) -> float:
    """The variance of one report's estimate of an item that a tenth of the people like."""
    size, epsilon = design.subset_size, design.local_epsilon
    own, other = map(float, subset_channel(epsilon, values=9744, padded=20, subset_size=size).rates)
    rate = 0.1 * own + 0.9 * other
    return rate * (1 - rate) / (own - other) ** 2


def test_the_rule_of_thumb_is_that_of_best_sets() -> None:
    rough = rough_set(items=9724, padded=50, epsilon=2.0, devices=10_000, delta=1e-6)
    assert rough.subset_size == 2
    assert float(rough.local_epsilon) == pytest.approx(6.4, abs=0.7)


# Estimates that age: what a filter pools, forgets, restarts, and says of drift.


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


ITEMS, LIKES, SHARE = 9724, 20, 0.1  # Of MovieLens latest-small, likes of a set, and who likes the tenth item
WORTH = 0.234  # Standard error of that item's share, relative to it, at which a list is just worth 95 %


def relative_noise(reports: int, people: int, epsilon: float) -> float:
    """Of the tenth item's share where each sends so many reports behind a shuffler: coins, and who is asked."""
    each = SharedRound(people, Fraction(1, reports))
    histories = frozenset([(each,) * reports])
    design = shuffled_plan(histories, items=ITEMS, padded=LIKES, epsilon=Fraction(epsilon), delta=1e-6)[each]
    channel = subset_channel(design.local_epsilon, values=ITEMS + LIKES, padded=LIKES, subset_size=design.subset_size)
    named, other = map(float, channel.rates)
    coins = SHARE * named * (1 - named) + (1 - SHARE) * other * (1 - other)
    return math.sqrt((coins / (named - other) ** 2 / reports + SHARE * (1 - SHARE)) / people) / SHARE


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("reports", "epsilon", "people", "tolerance"),
    [
        (12, 1.0, 2016, 0.01),
        (52, 1.0, 1575, 0.01),
        (12, 4.0, 935, 0.015),
        # Of a single report the prototype's are fewer, as no size of reports has them with our certified epsilon
        (1, 1.0, 5650, 0.03),
        (1, 4.0, 4193, 0.01),
    ],
)
def test_people_for_the_noise_of_95_per_cent_are_the_prototypes(
    reports: int, epsilon: float, people: int, tolerance: float
) -> None:
    """Fewer than so many have more noise, by the tolerance, and more than so many less."""
    fewer, more = (round(people * (1 + way * tolerance)) for way in (-1, 1))
    assert relative_noise(reports, fewer, epsilon) > WORTH > relative_noise(reports, more, epsilon)
