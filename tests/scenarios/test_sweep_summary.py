"""Summaries: intervals cover, planted exponents and ratios come back, what was not reached is told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statistical import FALSE_ALARM, clopper_pearson

from coordinator.protocol.arrays import Floats
from scenarios.report.intervals import median_interval, median_ranks, paired_ratio
from scenarios.sweep.grid import Grid, read_grid
from scenarios.sweep.threshold import Threshold, ThresholdKey, ThresholdMeasurement
from scenarios.sweep.users import bootstrap, settings_table, slope, summarize, thresholds


def planted(grid: Grid, power: float, *, ratio: float = 1.0, noise: float = 0.26, most: float = math.inf) -> Any:
    """Units whose thresholds are ``1000 N^power``, log-normal around it; the paper's are ``ratio`` times as large."""
    world = np.random.default_rng(5)
    units: dict[ThresholdKey, ThresholdMeasurement] = {}
    for seed in range(grid.seeds):
        for place, setting in enumerate(grid.settings):
            base = 1000 * (setting.items or 0) ** power * math.exp(noise * world.standard_normal())
            users = list[Threshold]()
            for decoder in grid.decoders_of(setting):
                size = round(base * (ratio if decoder == "paper" else 1))
                users.append(Threshold(decoder, "exact", size if size <= most else None))
                users.append(Threshold(decoder, "share", size // 2))
            units[ThresholdKey(place, seed)] = ThresholdMeasurement(thresholds=tuple(users), devices=7, seconds=0.5)
    return units


def small_grid(**more: Any) -> Grid:
    fit = {"x": "items", "per": ["items"], "expected": 1.0}
    table = {"items": [40, 80, 160], "rated": 5}
    return read_grid({"seeds": 12, "decoders": ["centred", "paper"], "grid": [table], "fit": [fit], **more})


@pytest.mark.parametrize(("count", "ranks"), [(1, (1, 1)), (5, (1, 5)), (6, (1, 6)), (9, (2, 8)), (20, (6, 15))])
def test_ranks_are_those_of_the_tables(count: int, ranks: tuple[int, int]) -> None:
    """The classical table of confidence limits for a median; below six values 95 % cannot be had."""
    low, high, level = median_ranks(count)
    assert (low, high) == ranks
    assert level == pytest.approx(max(0.0, 1 - 2 * stats.binom.cdf(low - 1, count, 0.5)))
    assert (level >= 0.95) == (count >= 6)


@pytest.mark.parametrize("count", [7, 20])
def test_intervals_cover_the_median_as_often_as_they_say(count: int) -> None:
    """Log-normal thresholds: the share of covering intervals fits the level (false alarm 1e-6 each)."""
    trials = 4000
    draws = np.exp(np.random.default_rng(1).standard_normal((trials, count)))
    low, high, level = median_ranks(count)
    ordered = np.sort(draws, axis=1)
    covered = int(((ordered[:, low - 1] <= 1) & (ordered[:, high - 1] >= 1)).sum())
    least, most = clopper_pearson(covered, trials, false_alarm=FALSE_ALARM)
    assert least <= level <= most
    narrower = int(((ordered[:, low] <= 1) & (ordered[:, high - 2] >= 1)).sum())
    assert level > clopper_pearson(narrower, trials, false_alarm=FALSE_ALARM)[1]


def test_the_median_is_the_population_that_half_of_the_seeds_succeed_at() -> None:
    told = median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0, 7.0, 8.0])
    assert (told["users"], told["low"], told["high"], told["seeds"], told["unreached"]) == (4, 1, 8, 8, 0)
    assert median_interval([3.0, 1.0, 2.0])["users"] == 2
    assert median_interval([3.0])["level"] == 0


def test_seeds_that_were_not_reached_count_as_larger_than_all() -> None:
    told = median_interval([math.nan, 1.0, 2.0, math.nan, 3.0, 4.0, 5.0, 6.0])
    assert (told["users"], told["low"], told["high"], told["unreached"]) == (4, 1, None, 2)
    none = median_interval([math.nan, math.nan, math.nan, 1.0])
    assert (none["users"], none["low"], none["unreached"]) == (None, 1, 3)


def test_a_planted_exponent_comes_back() -> None:
    """Power 2 over N is slope 1 after division by N; power 2.4 is told from it."""
    grid = small_grid()
    for power, covers in ((2.0, True), (2.4, False)):
        told = summarize(grid, thresholds(grid, planted(grid, power)))["fits"]
        exact = next(row for row in told if (row["decoder"], row["criterion"]) == ("centred", "exact"))
        assert exact["slope"] == pytest.approx(power - 1, abs=0.15)
        assert exact["low"] < exact["slope"] < exact["high"]
        assert (exact["covers"], exact["expected"], exact["settings"], exact["left_out"]) == (covers, 1.0, [0, 1, 2], 0)
    exactly = summarize(grid, thresholds(grid, planted(grid, 2.0, noise=0.0)))["fits"][0]
    assert [exactly[name] for name in ("slope", "low", "high")] == pytest.approx([1, 1, 1], abs=1e-3)


def test_settings_that_were_not_always_reached_are_left_out_of_fits() -> None:
    grid = small_grid()
    told = summarize(grid, thresholds(grid, planted(grid, 2.0, most=1000 * 160**2)))
    exact = next(row for row in told["fits"] if row["criterion"] == "exact")
    assert (exact["settings"], exact["left_out"]) == ([0, 1], 1)
    last = next(row for row in told["settings"] if (row["items"], row["criterion"]) == (160, "exact"))
    assert 0 < last["unreached"] < 12
    nothing = summarize(grid, thresholds(grid, planted(grid, 2.0, most=0)))
    assert {row["slope"] for row in nothing["fits"] if row["criterion"] == "exact"} == {None}
    assert {row["ratio"] for row in nothing["ratios"] if row["criterion"] == "exact"} == {None}


def _noisy(world: np.random.Generator, x: Floats, seeds: int) -> Floats:
    """Ordinates of slope 1 whose seeds share half of their variance over all settings."""
    shared = world.standard_normal((1, seeds)) * x[:, None]
    return x[:, None] + 0.2 * shared + 0.2 * world.standard_normal((x.size, seeds))


@pytest.mark.parametrize("seeds", [5, 20])
def test_slopes_are_covered(seeds: int) -> None:
    """95 % intervals of 400 planted fits, with seeds that are dependent over settings: 90 % or more cover.

    If the coverage were 95 %, fewer than 90 % of 400 would cover with probability below 1e-4; resampling settings by
    themselves, as if seeds were independent, covers in about four of five.
    """
    world, x = np.random.default_rng(3), np.log([1.0, 2.0, 4.0])
    found = [bootstrap(x, _noisy(world, x, seeds)) for _ in range(400)]
    assert sum(one is not None and one[0] <= 1 <= one[1] for one in found) >= 360


def test_a_slope_is_least_squares() -> None:
    x, y = np.log([1.0, 2.0, 4.0]), np.array([[0.0, 2.0], [1.0, 3.0], [5.0, 4.0]])
    assert slope(x, y) == pytest.approx(np.polyfit(np.repeat(x, 2), y.ravel(), 1)[0])
    assert bootstrap(x, y[:, :1]) is None


def test_paired_ratios() -> None:
    """Pairing takes out what seeds share: the interval of a constant ratio is a point."""
    grid = small_grid()
    told = summarize(grid, thresholds(grid, planted(grid, 2.0, ratio=1.8)))["ratios"]
    assert [(row["items"], row["criterion"]) for row in told[:2]] == [(40, "exact"), (40, "share")]
    for row in told:
        assert [row[name] for name in ("ratio", "low", "high")] == pytest.approx([1.8] * 3, rel=1e-3)
    world = np.random.default_rng(2)
    noisy = paired_ratio(np.exp(0.1 * world.standard_normal(10)), np.ones(10))
    mean = math.log(noisy["ratio"])
    assert math.log(noisy["high"]) - mean == pytest.approx(mean - math.log(noisy["low"]))
    half = paired_ratio(np.array([2.0, math.nan, 8.0]), np.array([1.0, 1.0, 1.0]))
    assert (half["ratio"], half["seeds"]) == (pytest.approx(4), 2)
    assert paired_ratio(np.array([2.0]), np.array([1.0]))["low"] is None


def test_tables_hold_every_seed_and_every_setting() -> None:
    grid = small_grid()
    table = thresholds(grid, planted(grid, 2.0, most=1000 * 160**2))
    assert len(table) == 12 * 3 * 2 * 2
    assert set(table["criterion"]) == {"exact", "share"}
    assert table["users"].isna().any()
    settings = settings_table(summarize(grid, table))
    assert len(settings) == 3 * 2 * 2
    assert settings["users"].dtype == np.float64
