"""Privacy parameters are read exactly, refused in one line, and add up without rounding."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.budget import add, as_float, as_json, parse_epsilon, within
from coordinator.protocol.errors import InputError

POSITIVE = st.fractions(min_value=Fraction(1, 10**9), max_value=100)
REFUSED = [
    *(
        "0",
        0,
        0.0,
        "-0",
        -1,
        "-1/3",
        "0/5",
        "1/0",
        "-inf",
        -math.inf,
        "nan",
        math.nan,
        "sNaN",
        "1/nan",
        "inf/2",
        "1/inf",
    ),
    *("", " ", "one", "1,5", "1/2/3", "0x10", "1 2", "--1", "1/-2", None, True, False, [1]),
]
MAYBE = st.one_of(st.none(), POSITIVE)


@pytest.mark.parametrize(
    ("given_value", "exact"),
    [
        ("1", Fraction(1)),
        (1, Fraction(1)),
        (1.0, Fraction(1)),
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        ("1/3", Fraction(1, 3)),
        (Fraction(2, 6), Fraction(1, 3)),
        ("  2.50 ", Fraction(5, 2)),
        ("1e-3", Fraction(1, 1000)),
        ("2E1", Fraction(20)),
        (1e-300, Fraction(1, 10**300)),
        ("inf", None),
        ("Infinity", None),
        ("INF", None),
        (math.inf, None),
    ],
)
def test_values_are_read_exactly(given_value: object, exact: Fraction | None) -> None:
    assert parse_epsilon(given_value) == exact


@pytest.mark.parametrize("value", REFUSED)
def test_what_is_no_privacy_parameter_is_refused_in_one_line(value: object) -> None:
    with pytest.raises(InputError) as caught:
        parse_epsilon(value, "budget")
    text = str(caught.value)
    assert text.startswith("budget is ")
    assert str(value).strip() in text
    assert "\n" not in text
    assert "above 0" in text


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_float_is_the_decimal_it_prints(value: float) -> None:
    exact = parse_epsilon(value)
    assert exact == Fraction(repr(value))
    assert as_float(exact) == value


@given(POSITIVE, st.integers(1, 60))
def test_equal_shares_sum_to_the_whole(epsilon: Fraction, count: int) -> None:
    total: Fraction | None = Fraction(0)
    for _ in range(count):
        total = add(total, epsilon / count)
    assert total == epsilon
    assert within(total, epsilon)
    assert not within(add(total, Fraction(1, 10**50)), epsilon)


@given(MAYBE, MAYBE)
def test_infinity_absorbs_and_is_within_itself_only(one: Fraction | None, other: Fraction | None) -> None:
    assert add(one, other) == add(other, one)
    assert as_float(add(one, other)) == pytest.approx(as_float(one) + as_float(other))
    exact = (one is None, one or Fraction(0)) <= (other is None, other or Fraction(0))
    assert within(one, other) == (exact or other is None)


def test_results_show_a_number_or_inf() -> None:
    assert as_json(Fraction(1, 2)) == 0.5
    assert as_json(None) == "inf"
    assert as_float(None) == math.inf
