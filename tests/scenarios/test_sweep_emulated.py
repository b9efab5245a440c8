"""Emulated sign sensing against devices: the statistic, one round's success, and the users of adaptive runs."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from runs import here, small
from scipy import stats
from statistical import FALSE_ALARM, normal_radius, variance_fits
from worlds import scores_of

from actors.device import Cohort
from coordinator.aggregation import aggregate
from coordinator.estimates import contrasts_of
from coordinator.pool_designs import SignSensing
from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query
from coordinator.server import Ask, total
from coordinator.transcript import digest
from scenarios.config import Scenario
from scenarios.emulation import Emulated
from scenarios.kinds import design_of
from scenarios.metrics import clustering_scores
from scenarios.populations import populate
from scenarios.sweep.emulated import EmulatedPrefixes, emulate, emulated_devices
from scenarios.sweep.prefixes import Prefixes
from scenarios.sweep.threshold import predicted_users

ROUNDS, USERS = 250, 2000


def signs(**changes: Any) -> Scenario:
    return small(design="sign", **changes)


def asked(scenario: Scenario, epsilon: float, *, centred: bool) -> Query:
    """A query about a pool of 25 of the 40 items; with centres as rounds after the first one have them."""
    design, pool = design_of(scenario), np.delete(np.arange(40, dtype=np.int32), np.arange(0, 30, 2))
    assert isinstance(design, SignSensing)
    expected = np.clip(levels_of(scenario)[pool] + np.linspace(-0.3, 0.3, 25), -1, 1) if centred else None
    return design.query(
        round_number=0, public_seed=derive(7, "public"), epsilon=Fraction(epsilon), pool=pool, expected=expected
    )


def levels_of(scenario: Scenario) -> Floats:
    """``2 b - 1`` of every item, averaged over user classes."""
    truth = populate(scenario).truth
    assert truth is not None
    levels: Floats = 2 * np.array(scenario.like).mean(axis=0)[truth] - 1
    return levels


def by_devices(scenario: Scenario, query: Query) -> Floats:
    population = populate(scenario)
    cohort = Cohort(population.ratings, derive(0, "devices"), 0, ROUNDS * USERS, query.epsilon)
    blocks = [cohort.answer(query, turn * USERS, (turn + 1) * USERS) for turn in range(ROUNDS)]
    return np.array([scores_of(aggregate(query, block)).scores[query.pool] for block in blocks], float)


def emulated(scenario: Scenario, query: Query) -> Floats:
    devices = emulated_devices(populate(scenario))
    asks = [Ask(query=query, first=turn * USERS, stop=(turn + 1) * USERS) for turn in range(ROUNDS)]
    return np.array([scores_of(devices.ask(ask)[0]).scores[query.pool] for ask in asks], float)


def fits(scores: Floats, scenario: Scenario, query: Query) -> tuple[bool, bool]:
    """Whether means and variances of agreements, rounds by items, are those that exact moments tell."""
    truth = populate(scenario).truth
    assert truth is not None
    mean = np.zeros(25)
    for likes in np.array(scenario.like)[:, truth[query.pool]]:  # classes have equal shares
        contrast, offset = contrasts_of(query, rated=scenario.rated or 0, likes=likes)
        mean += (contrast * (2 * likes - 1) + offset) / len(scenario.like)
    scaled = (scores - USERS * (1 + mean) / 2) / np.sqrt(USERS * (1 - mean**2) / 4)
    each = np.abs(scaled.mean(axis=0)).max() < normal_radius(1 / math.sqrt(ROUNDS), comparisons=mean.size)
    along = mean @ scaled.mean(axis=0) / np.linalg.norm(mean)  # whether all are too strong, or too weak
    means = each and abs(along) < normal_radius(1 / math.sqrt(ROUNDS))
    return bool(means), variance_fits(scaled, 1.0)


WORLDS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"like": "0.9,0.2;0.6,0.1"}, False),
    ({"vectors": 8}, False),
    ({}, True),
    ({"like": "0.9,0.2;0.6,0.1"}, True),
]


@pytest.mark.statistical
@pytest.mark.parametrize(("changes", "centred"), WORLDS, ids=["plain", "classes", "vectors", "centred", "both"])
def test_the_emulated_statistic_is_that_of_devices(changes: dict[str, Any], centred: bool) -> None:
    """False alarm: one in a million for each of the means and variances of either."""
    scenario = signs(users=ROUNDS * USERS, **changes)
    query, other = (asked(scenario, epsilon, centred=centred) for epsilon in (1, 1.4))
    for scores in (by_devices(scenario, query), emulated(scenario, query)):
        assert fits(scores, scenario, query) == (True, True)
        assert not fits(scores, scenario, other)[0]  # the twin: a larger epsilon
        wider = USERS / 2 + (scores - USERS / 2) * 1.1
        assert not fits(wider, scenario, query)[1]  # and 1.2 times the variance


def test_what_is_not_asked_about_stays_empty_and_nothing_is_released() -> None:
    scenario = signs(users=100)
    query = asked(scenario, 1, centred=False)
    statistic, releases = emulated_devices(populate(scenario)).ask(Ask(query=query, first=0, stop=100))
    told = scores_of(statistic)
    inside = np.zeros(40, np.bool_)
    inside[query.pool] = True
    assert (told.sensed == 100 * inside).all()
    assert (told.scores[inside] > 0).all()
    assert not told.scores[~inside].any()
    assert (told.asked, told.answered, told.refused) == (100, 100, 0)
    assert digest(releases) == digest([])


def test_a_larger_emulated_population_holds_the_smaller_ones() -> None:
    grown, again = (EmulatedPrefixes(signs(users=10**6), block=50) for _ in range(2))
    told = [grown.statistic(blocks) for blocks in (4, 2, 4, 7)]
    assert [one.asked for one in told] == [200, 100, 200, 350]
    assert np.array_equal(told[0].scores, told[2].scores)
    assert ((told[1].scores <= told[0].scores) & (told[0].scores <= told[3].scores)).all()
    for blocks in (7, 2):
        assert np.array_equal(again.statistic(blocks).scores, grown.statistic(blocks).scores)


def alike(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Fisher's exact test of two shares, successes and trials each, at the suite's false alarm."""
    table = np.array([[successes, count - successes] for successes, count in (one, other)])
    return float(stats.fisher_exact(table).pvalue) > FALSE_ALARM


@pytest.mark.statistical
def test_one_round_succeeds_as_often_by_devices_as_from_moments() -> None:
    """False alarm: one in a million; the twin has twice the users."""

    def emulated_share(users: int) -> tuple[int, int]:
        runs = [EmulatedPrefixes(signs(users=10**6, seed=seed, epsilon=4), block=users) for seed in range(80)]
        return sum(one.scores(1).exact for one in runs), 80

    users = round(predicted_users(signs(epsilon=4)) or 0)
    runs = [Prefixes(signs(users=users, seed=seed, epsilon=4)) for seed in range(60)]
    devices = sum(one.scores(users, "posterior").exact for one in runs), 60
    assert 0.2 < devices[0] / 60 < 0.8
    assert alike(devices, emulated_share(users))
    assert not alike(devices, emulated_share(2 * users))


def same_mean(one: list[int], other: list[int]) -> bool:
    """Welch's test of two means at a false alarm of one in ten thousand."""
    return float(stats.ttest_ind(one, other, equal_var=False).pvalue) > 1e-4


@pytest.mark.statistical
def test_adaptive_runs_ask_as_many_users_by_devices_as_from_moments() -> None:
    """False alarm: one in ten thousand; the twin is emulated under a larger epsilon."""

    def adaptive(seed: int, epsilon: float) -> Scenario:
        return signs(policy="eliminate", users=10**6, seed=seed, epsilon=epsilon, items=60, rated=20)

    def moments(epsilon: float) -> list[int]:
        return [emulate(populate(adaptive(seed, epsilon))).state.answers_asked for seed in range(9)]

    devices = [here(adaptive(seed, 1)).outcome.state.answers_asked for seed in range(9)]
    assert same_mean(devices, moments(1))
    assert not same_mean(devices, moments(1.3))


def test_an_emulated_run_learns_and_is_the_same_again() -> None:
    population = populate(signs(policy="eliminate", users=10**6, epsilon=4, seed=2))
    first, second = emulate(population), emulate(population)
    assert population.truth is not None
    assert clustering_scores(first.model.cluster, population.truth).exact
    assert first.posterior is not None
    assert first.posterior.decided(0.05).all()
    assert first.state.answers_asked == second.state.answers_asked < 10**6
    assert first.releases_sha256 == second.releases_sha256
    other = emulate(populate(signs(policy="eliminate", users=10**6, epsilon=4, seed=3)))
    assert not np.array_equal(scores_of(total(other.state)).scores, scores_of(total(first.state)).scores)


def test_emulation_is_of_signs_only() -> None:
    scenario = small()
    query = design_of(scenario).query(round_number=0, public_seed=derive(7, "public"), epsilon=Fraction(1))
    devices = Emulated(
        likes=np.full((1, 40), 0.5), class_shares=np.ones(1), rated=5, coins=np.random.default_rng(0)
    )
    with pytest.raises(ValueError, match="only sign sensing"):
        devices.ask(Ask(query=query, first=0, stop=10))
