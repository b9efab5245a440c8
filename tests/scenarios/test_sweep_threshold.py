"""Thresholds: prefixes are runs bit for bit, bisection finds planted crossings, and asks few devices twice."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import here, of_file, planted_ratings, small, write_movielens

from coordinator.server.statistics.statistic import Statistic
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import liked_share
from scenarios.given.config import Scenario
from scenarios.run.job import Result
from scenarios.run.popularity import top_share
from scenarios.sweep import threshold
from scenarios.sweep.threshold import (
    STEP,
    Prefixes,
    ThresholdMeasurement,
    ThresholdUnit,
    adapts,
    crossing,
    guess,
    measure_threshold,
    predicted_users,
    succeeds,
)

SCENARIOS = [
    small(users=5000, seed=3),
    small(users=5000, seed=3, like="0.9,0.1;0.1,0.6", epsilon="inf"),
    small(users=5000, seed=4, design="pairwise", agreement="equal"),
    small(users=5000, seed=5, decoder="posterior"),
    small(users=5000, seed=6, design="sign"),
    small(users=5000, seed=7, design="sign", vectors=4),
]


def equal(one: Statistic, other: Statistic) -> bool:
    """Whether two statistics are the same, number by number."""
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
    )


def run_with(scenario: Scenario, users: int, **changes: Any) -> Result:
    return here(scenario.model_copy(update={"users": users, **changes}))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.design)
def test_a_prefix_is_a_run_bit_for_bit(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold, "BLOCK", 600)
    grown = Prefixes(scenario)
    for users in (1000, 4999, 1, 2500, 1000, 1001, 5000):
        finished = run_with(scenario, users)
        assert equal(grown.statistic(users), finished.statistic)
        assert not equal(grown.statistic(users), run_with(scenario, users, seed=9).statistic)
        truth = finished.population.truth
        assert truth is not None
        assert grown.scores(users, scenario.decoder) == clustering_scores(finished.outcome.model.cluster, truth)


def test_a_larger_population_asks_new_devices_only_and_the_same_one_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold, "BLOCK", 100)
    grown = Prefixes(small(users=5000))
    for users, asked in ((2000, 2000), (3000, 3000), (3000, 3000), (2050, 3050)):
        grown.statistic(users)
        assert grown.simulated == asked
    grown.statistic(1000)
    assert 3050 <= grown.simulated < 3050 + 1000 * (threshold.APART - 1) + 100


def test_little_memory_costs_devices_and_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold, "KEEP_BYTES", 1)
    monkeypatch.setattr(threshold, "FEWEST_KEPT", 2)
    monkeypatch.setattr(threshold, "BLOCK", 100)
    poor, scenario = Prefixes(small(users=5000)), small(users=5000)
    for users in (4000, 2000, 3000, 1000):
        assert equal(poor.statistic(users), run_with(scenario, users).statistic)
    assert poor.simulated == 4000 + 2000 + 3000 + 1000  # of two places nobody has one, and the largest the other


@given(
    at=st.integers(1, 10**7),
    start=st.integers(1, 10**8),
    resolution=st.sampled_from([1e-4, 0.02, 0.3]),
)
def test_a_planted_threshold_is_found(at: int, start: int, resolution: float) -> None:
    asked: list[int] = []

    def success(users: int) -> bool:
        asked.append(users)
        return users >= at

    found = crossing(success, start=start, most=10**8, resolution=resolution)
    assert found is not None
    assert at <= found <= at + max(1, resolution * at)
    assert found in asked
    assert len(asked) <= abs(math.log(start / at, STEP)) + math.log2(STEP * at + 2) + 3
    assert max(asked) <= max(start, math.ceil(at * STEP))


def test_without_any_tolerance_it_is_the_smallest_one() -> None:
    assert [crossing(lambda users: users >= 37, start=s, most=99, resolution=1e-9) for s in (1, 36, 37, 99)] == [37] * 4
    assert crossing(lambda users: users > 0, start=50, most=99, resolution=1e-9) == 1


def test_what_is_not_reached_is_none_and_nobody_beyond_the_most_is_asked() -> None:
    asked: list[int] = []

    def never(users: int) -> bool:
        asked.append(users)
        return False

    assert crossing(never, start=10, most=1000, resolution=0.02) is None
    assert max(asked) == 1000
    assert crossing(lambda users: users >= 1000, start=10**9, most=1000, resolution=0.02) == 1000


def test_success_that_comes_and_goes_is_cut_where_it_begins() -> None:
    """Below 900 never, above 1100 always, in between for even numbers: some crossing in between is found."""
    found = crossing(
        lambda users: users > 1100 or (users >= 900 and users % 2 == 0), start=64, most=10**6, resolution=1e-9
    )
    assert found is not None
    assert 900 <= found <= 1101


def users_of(found: ThresholdMeasurement) -> dict[tuple[str, str], int | None]:
    return {(one.decoder, one.criterion): one.users for one in found.thresholds}


def unit(scenario: Scenario, **changes: Any) -> ThresholdUnit:
    values: dict[str, Any] = {"decoders": ("centred", "paper"), "share": 0.9, "resolution": 0.02, "start": 3000}
    return ThresholdUnit(scenario=scenario, **{**values, **changes})


@pytest.mark.parametrize(
    ("scenario", "decoders"),
    [
        (small(users=10**6, epsilon=2, seed=5), ("centred", "paper")),
        (small(users=10**6, epsilon=2, seed=5, design="pairs", pair_items=20), ("k-means",)),
    ],
    ids=["prefixes", "groups, whose sizes change with the users"],
)
def test_a_unit_finds_what_bisection_over_whole_runs_finds(scenario: Scenario, decoders: tuple[str, ...]) -> None:
    found = measure_threshold(unit(scenario, decoders=decoders))
    assert set(users_of(found)) == {(d, c) for d in decoders for c in ("exact", "share")}
    for (decoder, criterion), users in users_of(found).items():

        def right(size: int, decoder: str = decoder, criterion: str = criterion) -> bool:
            finished = run_with(scenario, size, decoder=decoder)
            truth = finished.population.truth
            assert truth is not None
            return succeeds(clustering_scores(finished.outcome.model.cluster, truth), criterion, 0.9)

        assert users == crossing(right, start=3000, most=10**6, resolution=0.02)
    sizes = [users or 0 for users in users_of(found).values()]
    assert 0 < min(sizes) < max(sizes) <= found.devices


def test_a_unit_that_is_not_reached() -> None:
    found = measure_threshold(unit(small(users=50, seed=1)))
    assert set(users_of(found).values()) == {None}
    assert found.devices == 50


def test_a_policy_that_stops_by_itself_has_no_prefixes_but_a_number_of_answers() -> None:
    scenario = small(design="item-query", users=10**6, seed=3, like="1,0")
    finished = here(scenario)
    found = measure_threshold(unit(scenario, decoders=("shares",)))
    assert set(users_of(found).values()) == {finished.statistic.answered}
    assert 0 < finished.statistic.answered < 10**6
    assert set(
        users_of(measure_threshold(unit(scenario.model_copy(update={"users": 30}), decoders=("shares",)))).values()
    ) == {None}
    with pytest.raises(ValueError, match="no prefixes"):
        Prefixes(scenario)


@pytest.mark.parametrize("design", ["maxsense", "sign"])
def test_a_policy_that_eliminates_has_a_number_of_answers_too(design: str) -> None:
    scenario = small(design=design, policy="eliminate", users=10**6, epsilon=4, seed=3)
    found, asked = (
        measure_threshold(unit(scenario, decoders=("posterior",))),
        here(scenario).outcome.state.answers_asked,
    )
    assert users_of(found)["posterior", "share"] == asked
    assert found.devices == asked < 10**6
    assert adapts(scenario)
    assert not adapts(small(design=design))
    assert adapts(small(design=design, policy="mine:Policy"))


def test_where_to_start() -> None:
    standard = Scenario(items=1000, rated=30)
    assert predicted_users(standard) == pytest.approx(6.8e6, rel=0.02)
    assert predicted_users(standard.model_copy(update={"decoder": "paper"})) == pytest.approx(12.3e6, rel=0.02)
    assert predicted_users(small(like="0.9,0.1;0.1,0.9")) is None
    assert predicted_users(small(clusters=3)) is None
    assert guess(standard) == round(predicted_users(standard) or 0)


def test_a_list_of_a_file_is_found_as_bisection_over_runs_finds_it(tmp_path: Path) -> None:
    """The first devices of the most are those of a run with as many, once everybody in the file is among them."""
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=20, items=120, each=40))
    scenario = of_file(file, users=40_000, epsilon=4, seed=1)
    found = measure_threshold(unit(scenario, decoders=("centred",), criteria=("top",), share=0.8, start=4000))

    def listed(size: int) -> bool:
        finished = run_with(scenario, size)
        return top_share(finished.outcome.model.score, liked_share(finished.population)) >= 0.8

    users = users_of(found)["centred", "top"]
    assert users is not None
    assert users > 1000
    assert users_of(found) == {("centred", "top"): crossing(listed, start=4000, most=40_000, resolution=0.02)}
    with pytest.raises(ValueError, match="no truth to compare labels with"):
        Prefixes(scenario).scores(100, "centred")
    assert guess(scenario.model_copy(update={"items": 120})) == round(4 * 120 * math.log(120))


def test_a_list_is_looked_for_where_a_policy_stops() -> None:
    scenario = small(design="sign", policy="eliminate", users=10**6, epsilon=4, seed=3)
    found = measure_threshold(unit(scenario, decoders=("posterior",), criteria=("share", "top")))
    assert users_of(found)["posterior", "top"] == users_of(found)["posterior", "share"] == found.devices  # all 40 items
