"""The check of estimates by hand: where it begins to fail, and what it computes, without any run."""

from __future__ import annotations

import math
import re
from typing import Any

import foreign_mechanisms as foreign
import numpy as np
import pytest
from scipy.stats import t

from scenarios.scrutiny import server_checks
from scenarios.scrutiny.checks import Check
from scenarios.scrutiny.mechanism import subjects
from scenarios.scrutiny.verdicts import FAILED, HELD, UNCHECKED, Row

LEVEL = np.array([0.5, 0.5, -0.5, -0.5])
RADIUS = float(t.isf(1e-5 / 4, 19)) * math.sqrt(20 / 19) / math.sqrt(20)
"""Of a mean of 20 numbers, half of them 1 above it and half of them 1 below, at a quarter of the false alarm."""


def row(monkeypatch: pytest.MonkeyPatch, rise: float, spread: float = 1.0, give: float = 1.0) -> Row:
    """What is said of twenty runs in which values rise by ``rise``, give or take, and spread by ``spread``."""
    around = np.array([1.0, -1.0, 1.0, -1.0]) * math.sqrt(spread / 2)
    runs = ((around + LEVEL * (rise + sign * give), np.ones(4), LEVEL) for sign in [1, -1] * 10)
    monkeypatch.setattr(server_checks, "_estimates_of", lambda *_: next(runs))
    return Check("the check", "its meaning", server_checks.estimates).of(subjects(foreign.OUE())[-1])


@pytest.mark.parametrize(
    ("rise", "verdict"),
    [(1.002, HELD), (0.998, UNCHECKED), (0.0, UNCHECKED), (-0.998, UNCHECKED), (-1.002, FAILED)],
)
def test_values_must_rise_by_more_than_chance(monkeypatch: pytest.MonkeyPatch, rise: float, verdict: Any) -> None:
    found = row(monkeypatch, rise * RADIUS)
    assert found.verdict == verdict, found.told


def test_values_that_are_all_alike_tell_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row(monkeypatch, 0.0, give=0.0).verdict == UNCHECKED


@pytest.mark.parametrize(
    ("spread", "verdict"), [(2.24, HELD), (2.26, FAILED), (1 / 2.24, HELD), (1 / 2.26, FAILED), (1.0, HELD)]
)
def test_errors_are_right_up_to_a_factor_of_one_and_a_half(
    monkeypatch: pytest.MonkeyPatch, spread: float, verdict: Any
) -> None:
    found = row(monkeypatch, 9.0, spread)
    assert found.verdict == verdict, found.told
    numbers = [float(one) for one in re.findall(r"\d[\d.]*", found.told)]
    assert any(number == pytest.approx(math.sqrt(spread), abs=0.005) for number in numbers), found.told


def test_spread_is_taken_around_the_weighted_mean_of_each_cluster() -> None:
    value = np.array([0.0, 3.0, 5.0, 5.0, 8.0])
    error = np.array([1.0, math.sqrt(2), 1.0, 1.0, 1.0])
    level = np.array([1.0, 1.0, -1.0, -1.0, -1.0])
    assert server_checks._spread(value, error, level) == pytest.approx((1 + 4 / 2 + 1 + 1 + 4) / 3)
