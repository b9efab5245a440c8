"""Emulated statistics against devices: what is summed, one round's success, and the users of adaptive runs."""

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
from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.server.aggregation import aggregate
from coordinator.server.decoding.estimates import contrasts_of
from coordinator.server.design import PoolDesign
from coordinator.server.moments.blocks import BlockParameters, maxsense_moments
from coordinator.server.moments.emulation import Crowd, given_sensed
from coordinator.server.rounds.state import Ask, total
from coordinator.server.rounds.transcript import digest
from coordinator.server.statistics.scores import ScoreStatistic
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import populate
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.sweep.threshold import EmulatedPrefixes, Prefixes, emulate, emulated_devices, predicted_users
from scenarios.theory.emulation import Emulated

ROUNDS, USERS = 250, 2000


def signs(**changes: Any) -> Scenario:
    return small(**{"design": "sign", **changes})


def asked(scenario: Scenario, epsilon: float, *, centred: bool) -> Query:
    """A query about a pool of 25 of the 40 items; with centres as rounds after the first one have them."""
    design, pool = RunSpec(scenario).design, np.delete(np.arange(40, dtype=np.int32), np.arange(0, 30, 2))
    assert isinstance(design, PoolDesign)
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
    return np.array([scores_in(query, scores_of(aggregate(query, block))) for block in blocks], float)


def scores_in(query: Query, told: ScoreStatistic) -> Floats:
    """What is told about the pool's items: agreements, or scores around what the share of 1 explains."""
    scores: Floats = told.scores - told.answer_rate * told.sensed * (query.design == "maxsense")
    return scores[query.pool]


def emulated(scenario: Scenario, query: Query) -> Floats:
    devices = emulated_devices(populate(scenario))
    asks = [Ask(query=query, first=turn * USERS, stop=(turn + 1) * USERS) for turn in range(ROUNDS)]
    return np.array([scores_in(query, devices.ask(ask)[0]) for ask in asks], float)


def crowd_of(devices: Emulated, liked: Floats2) -> Crowd:
    return Crowd(likes=liked, class_shares=devices.class_shares, rated=devices.rated, users=USERS)


def expected_scores(scenario: Scenario, query: Query) -> tuple[Floats, Floats]:
    """Mean and variance of every item's agreements, or of its centred score, over rounds of `USERS` devices."""
    assert query.pool is not None
    devices = emulated_devices(populate(scenario))
    liked = devices.likes[:, query.pool]
    if query.design == "maxsense":
        sensing, (given, rate) = query.parameters["sensing"], given_sensed(query, crowd_of(devices, liked))
        spread = sensing * (1 - sensing) * rate * (1 - rate)
        return (USERS - 1) * sensing * (given - rate), np.full(given.size, USERS * spread)
    mean = np.zeros(liked.shape[1])
    for likes in liked:  # classes have equal shares
        contrast, offset = contrasts_of(query, rated=scenario.rated or 0, likes=likes)
        mean += (contrast * (2 * likes - 1) + offset) / len(liked)
    return USERS * (1 + mean) / 2, USERS * (1 - mean**2) / 4


def fits(scores: Floats, scenario: Scenario, query: Query) -> tuple[bool, bool, bool]:
    """Whether means, variances and covariances of scores, rounds by items, are those that exact moments tell."""
    mean, variance = expected_scores(scenario, query)
    scaled = (scores - mean) / np.sqrt(variance)
    effect = (mean - mean.mean() if query.design == "maxsense" else mean - USERS / 2) / np.sqrt(variance)
    each = np.abs(scaled.mean(axis=0)).max() < normal_radius(1 / math.sqrt(ROUNDS), comparisons=mean.size)
    along = effect @ scaled.mean(axis=0) / np.linalg.norm(effect)  # whether all are too strong, or too weak
    means = each and abs(along) < normal_radius(1 / math.sqrt(ROUNDS))
    return bool(means), variance_fits(scaled, 1.0), uncorrelated(scaled)


def uncorrelated(scaled: Floats) -> bool:
    """Whether pairs of items have correlation 0, all together and each: normal, and chi-square."""
    above = np.triu_indices(scaled.shape[1], 1)
    pairs = (scaled.T @ scaled / math.sqrt(len(scaled)))[above]
    return abs(pairs.sum()) < normal_radius(math.sqrt(pairs.size)) and variance_fits(pairs, 1.0)


WORLDS: dict[str, tuple[dict[str, Any], bool]] = {
    "plain": ({}, False),
    "classes": ({"like": "0.9,0.2;0.6,0.1"}, False),
    "vectors": ({"vectors": 8}, False),
    "centred": ({}, True),
    "both": ({"like": "0.9,0.2;0.6,0.1"}, True),
    "sets": ({"design": "maxsense"}, False),
    "sets, classes": ({"design": "maxsense", "like": "0.9,0.2;0.6,0.1"}, False),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", WORLDS)
def test_the_emulated_statistic_is_that_of_devices(name: str) -> None:
    """False alarm: one in a million for each of the means, variances and covariances of either.

    Twins: a larger epsilon, 1.2 times the variance, and noise that all items share, a thirtieth of their variance.
    """
    changes, centred = WORLDS[name]
    scenario = signs(users=ROUNDS * USERS, **changes)
    query, other = (asked(scenario, epsilon, centred=centred) for epsilon in (1, 1.4))
    for scores in (by_devices(scenario, query), emulated(scenario, query)):
        assert fits(scores, scenario, query) == (True, True, True)
        assert not fits(scores, scenario, other)[0]
        mean, variance = expected_scores(scenario, query)
        assert not fits(mean + (scores - mean) * 1.1, scenario, query)[1]
        shared = np.random.default_rng(0).normal(size=(ROUNDS, 1)) * np.sqrt(variance / 30)
        assert not fits(scores + shared, scenario, query)[2]


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
    assert (told.devices, told.answered, told.refused) == (100, 100, 0)
    assert digest(releases) == digest([])


def test_a_larger_emulated_population_holds_the_smaller_ones() -> None:
    grown, again = (EmulatedPrefixes(signs(users=10**6), block=50) for _ in range(2))
    told = [grown.statistic(blocks) for blocks in (4, 2, 4, 7)]
    assert [one.devices for one in told] == [200, 100, 200, 350]
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
    assert not same_mean(devices, moments(1.5))


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


def test_sets_about_all_items_have_the_planners_moments() -> None:
    """Two ways to the same numbers: by item, as emulated, and by cluster."""
    scenario = small(like="0.9,0.2;0.6,0.1", class_shares="0.3,0.7", cluster_shares="0.2,0.8")
    population = populate(scenario)
    assert population.truth is not None
    query = RunSpec(scenario).design.query(round_number=0, public_seed=derive(7, "public"), epsilon=Fraction(1))
    devices = emulated_devices(population)
    given, rate = given_sensed(query, crowd_of(devices, devices.likes))
    exact = maxsense_moments(
        BlockParameters(
            rated=5,
            like=np.array(scenario.like),
            class_shares=np.array([0.3, 0.7]),
            cluster_sizes=np.bincount(population.truth),
        ),
        sensing=query.parameters["sensing"],
        epsilon=1.0,
    )
    assert rate == pytest.approx(exact.answer_rate, rel=1e-9)
    np.testing.assert_allclose(given, exact.given_sensed[population.truth], rtol=1e-9)


def test_what_is_no_pool_design_is_not_emulated() -> None:
    scenario = small(design="pairwise")
    with pytest.raises(InputError, match="pairwise has no statistic that can be drawn"):
        emulated_devices(populate(scenario))
