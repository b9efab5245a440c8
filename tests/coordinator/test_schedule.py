"""Schedules: shares are exact, nobody's add up to more than the budget, and plans of a shuffler hold as a whole."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.amplification import SetDesign, rough_set, subset_levels
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
