"""Thresholds: prefixes are runs bit for bit, bisection finds planted crossings, emulated statistics are devices'."""

import math
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import normal_radius, variance_fits
from hypothesis import given
from hypothesis import strategies as st
from runs import here, labels_of, of_file, planted_ratings, present, small, write_movielens
from worlds import scores_of

from actors.device import Cohort
from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import contrasts_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import InWorld
from coordinator.protocol.mechanisms.maxsense import given_sensed
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import BlockParameters, maxsense_moments
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.state import Ask
from coordinator.server.rounds.transcript import digest
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import liked_share, populate
from scenarios.families.main.run import MainResult
from scenarios.families.main.run_scores import top_share
from scenarios.studies.sweep import threshold
from scenarios.studies.sweep.threshold import BisectionRange, EmulatedPrefixes, Prefixes
from scenarios.theory.draws import Drawn

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


def run_with(scenario: Scenario, users: int, **changes: Any) -> MainResult:
    return here(scenario.model_copy(update={"users": users, **changes}))


@pytest.mark.few(3)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.design)
def test_a_prefix_is_a_run_bit_for_bit(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threshold, "BLOCK", 600)
    grown = Prefixes(scenario)
    for users in (1000, 4999, 1, 2500, 1000, 1001, 5000):
        finished = run_with(scenario, users)
        assert equal(grown.statistic(users), finished.statistic)
        assert not equal(grown.statistic(users), run_with(scenario, users, seed=9).statistic)
        assert grown.scores(users, scenario.decoder) == labels_of(finished)


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


@given(at=st.integers(1, 10**7), start=st.integers(1, 10**8), resolution=st.sampled_from([1e-4, 0.02, 0.3]))
def test_a_planted_threshold_is_found(at: int, start: int, resolution: float) -> None:
    asked: list[int] = []

    def success(users: int) -> bool:
        asked.append(users)
        return users >= at

    least = present(BisectionRange(start=start, most=10**8, resolution=resolution).crossing(success))
    assert at <= least <= at + max(1, resolution * at)
    assert least in asked
    assert len(asked) <= abs(math.log(start / at, threshold.STEP)) + math.log2(threshold.STEP * at + 2) + 3
    assert max(asked) <= max(start, math.ceil(at * threshold.STEP))


def test_without_any_tolerance_it_is_the_smallest_one() -> None:
    searches = [BisectionRange(start=start, most=99, resolution=1e-9) for start in (1, 36, 37, 99)]
    assert [one.crossing(lambda users: users >= 37) for one in searches] == [37] * 4
    assert [one.crossing(lambda users: users > 0) for one in searches] == [1] * 4


def test_what_is_not_reached_is_none_and_nobody_beyond_the_most_is_asked() -> None:
    asked: list[int] = []

    def never(users: int) -> bool:
        asked.append(users)
        return False

    assert BisectionRange(start=10, most=1000, resolution=0.02).crossing(never) is None
    assert max(asked) == 1000
    assert BisectionRange(start=10**9, most=1000, resolution=0.02).crossing(lambda users: users >= 1000) == 1000


def test_success_that_comes_and_goes_is_cut_where_it_begins() -> None:
    """Below 900 never, above 1100 always, in between for even numbers: some crossing in between is found."""
    search = BisectionRange(start=64, most=10**6, resolution=1e-9)
    found = present(search.crossing(lambda users: users > 1100 or (users >= 900 and users % 2 == 0)))
    assert 900 <= found <= 1101


def users_of(found: dict[str, Any]) -> dict[tuple[str, str], int | None]:
    return {(one["decoder"], one["criterion"]): one["users"] for one in found["thresholds"]}


def measured(scenario: Scenario, **changes: Any) -> dict[str, Any]:
    values: dict[str, Any] = {"decoders": ("centred", "paper"), "share": 0.9, "resolution": 0.02, "start": 3000}
    return threshold.measure_threshold(scenario, **{**values, **changes})


@pytest.mark.parametrize(
    ("scenario", "decoders"),
    [
        (small(users=10**6, epsilon=2, seed=5), ("centred", "paper")),
        (small(users=10**6, epsilon=2, seed=5, design="pairs", pair_items=20), ("k-means",)),
    ],
    ids=["prefixes", "groups, whose sizes change with the users"],
)
def test_a_unit_finds_what_bisection_over_whole_runs_finds(scenario: Scenario, decoders: tuple[str, ...]) -> None:
    measurement = measured(scenario, decoders=decoders, resolution=0.1, probes=(700, 1500)[: len(decoders)])
    assert set(users_of(measurement)) == {(d, c) for d in decoders for c in ("exact", "share")}
    assert measurement["accuracies"] == {
        decoder: labels_of(run_with(scenario, size, decoder=decoder)).accuracy
        for decoder, size in zip(decoders, (700, 1500), strict=False)
    }
    for (decoder, criterion), users in users_of(measurement).items():

        def right(size: int, decoder: str = decoder, criterion: str = criterion) -> bool:
            scores = labels_of(run_with(scenario, size, decoder=decoder))
            return scores.exact if criterion == "exact" else scores.accuracy >= 0.9

        assert users == BisectionRange(start=3000, most=10**6, resolution=0.1).crossing(right)
    sizes = [users or 0 for users in users_of(measurement).values()]
    assert 0 < min(sizes) < max(sizes) <= measurement["devices"]


@pytest.mark.parametrize("design", ["totals", "pair-totals"])
def test_two_servers_add_up_whole_rounds_alone(design: str) -> None:
    """Nobody gets the shares of the first devices of a round; a run for each number of users shows the threshold."""
    scenario = small(users=2400, epsilon=8, seed=5, design=design)
    users = users_of(measured(scenario, decoders=("totals",), resolution=1.0, start=300))
    assert None not in users.values()


def test_a_unit_that_is_not_reached() -> None:
    found = measured(small(users=50, seed=1))
    assert set(users_of(found).values()) == {None}
    assert found["devices"] == 50


def test_a_policy_that_stops_by_itself_has_no_prefixes_but_a_number_of_answers() -> None:
    scenario = small(design="item-query", users=10**6, seed=3, like="1,0")
    answered = here(scenario).statistic.answered
    assert set(users_of(measured(scenario, decoders=("shares",))).values()) == {answered}
    assert 0 < answered < 10**6
    assert set(users_of(measured(scenario.model_copy(update={"users": 30}), decoders=("shares",))).values()) == {None}
    with pytest.raises(ValueError, match="no prefixes"):
        Prefixes(scenario)


@pytest.mark.parametrize("design", ["maxsense", "sign"])
def test_a_policy_that_eliminates_has_a_number_of_answers_too(design: str) -> None:
    scenario = small(design=design, policy="eliminate", users=10**6, epsilon=4, seed=3)
    found, asked = measured(scenario, decoders=("posterior",)), here(scenario).outcome.state.answers_asked
    assert users_of(found)["posterior", "share"] == asked
    assert found["devices"] == asked < 10**6
    assert threshold.adapts(scenario)
    assert not threshold.adapts(small(design=design))
    assert threshold.adapts(small(design=design, policy="mine:Policy"))


def test_where_to_start() -> None:
    standard = Scenario(items=1000, rated=30)
    assert threshold.predicted_users(standard) == pytest.approx(6.8e6, rel=0.02)
    paper = standard.model_copy(update={"decoder": "paper"})
    assert threshold.predicted_users(paper) == pytest.approx(12.3e6, rel=0.02)
    assert threshold.predicted_users(small(like="0.9,0.1;0.1,0.9")) is None
    assert threshold.predicted_users(small(clusters=3)) is None
    assert threshold.guess(standard) == round(threshold.predicted_users(standard) or 0)


def test_a_list_of_a_file_is_found_as_bisection_over_runs_finds_it(tmp_path: Path) -> None:
    """The first devices of the most are those of a run with as many, once everybody in the file is among them."""
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=20, items=120, each=40))
    scenario = of_file(file, users=40_000, epsilon=4, seed=1)
    found = measured(scenario, decoders=("centred",), criteria=("top",), share=0.8, start=4000)

    def listed(size: int) -> bool:
        finished = run_with(scenario, size)
        return top_share(finished.outcome.model.score, liked_share(finished.population)) >= 0.8

    users = BisectionRange(start=4000, most=40_000, resolution=0.02).crossing(listed)
    assert users_of(found) == {("centred", "top"): users}
    assert (users or 0) > 1000
    with pytest.raises(ValueError, match="no truth to compare labels with"):
        Prefixes(scenario).scores(100, "centred")
    assert threshold.guess(scenario.model_copy(update={"items": 120})) == round(4 * 120 * math.log(120))


def test_a_list_is_looked_for_where_a_policy_stops() -> None:
    scenario = small(design="sign", policy="eliminate", users=10**6, epsilon=4, seed=3)
    found = measured(scenario, decoders=("posterior",), criteria=("share", "top"))
    assert (
        users_of(found)["posterior", "top"] == users_of(found)["posterior", "share"] == found["devices"]
    )  # all 40 items


ROUNDS, USERS = 250, 2000


def signs(**changes: Any) -> Scenario:
    return small(**{"design": "sign", **changes})


def asked(scenario: Scenario, epsilon: float, *, centred: bool) -> Query:
    """A query about a pool of 25 of the 40 items; with centres as rounds after the first one have them."""
    design, pool = resolve(scenario).design, np.delete(np.arange(40, dtype=np.int32), np.arange(0, 30, 2))
    assert isinstance(design, InWorld)
    expected = np.clip(levels_of(scenario)[pool] + np.linspace(-0.3, 0.3, 25), -1, 1) if centred else None
    return design.query(
        round_number=0, public_seed=derive(7, "public"), epsilon=Fraction(epsilon), pool=pool, expected=expected
    )


def levels_of(scenario: Scenario) -> Floats:
    """``2 b - 1`` of every item, averaged over user classes."""
    truth = present(populate(scenario).truth)
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


def drawn(scenario: Scenario) -> Drawn:
    return threshold.emulated_devices(populate(scenario), resolve(scenario))


def emulated(scenario: Scenario, query: Query) -> Floats:
    devices = drawn(scenario)
    asks = [Ask(query=query, first=turn * USERS, stop=(turn + 1) * USERS) for turn in range(ROUNDS)]
    return np.array([scores_in(query, scores_of(devices.ask(ask)[0])) for ask in asks], float)


def expected_scores(scenario: Scenario, query: Query) -> tuple[Floats, Floats]:
    """Mean and variance of every item's agreements, or of its centred score, over rounds of `USERS` devices."""
    people = drawn(scenario).people
    liked = [likes for _, likes in people.among(present(query.pool)).classes]
    if query.design == "maxsense":
        sensing, (given, rate) = query.parameters["sensing"], given_sensed(query, people)
        spread = sensing * (1 - sensing) * rate * (1 - rate)
        return (USERS - 1) * sensing * (given - rate), np.full(given.size, USERS * spread)
    mean = np.zeros(liked[0].size)
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
    """Whether items have correlation 0, all together, by their sum, and each pair: chi-square."""
    above = np.triu_indices(scaled.shape[1], 1)
    pairs = (scaled.T @ scaled / math.sqrt(len(scaled)))[above]
    together = variance_fits(scaled.sum(axis=1), scaled.shape[1])
    return together and variance_fits(pairs, 1.0, false_alarm=1e-8)  # 1e-6: pairs of one item widen the law by 9 %


WORLDS: dict[str, tuple[dict[str, Any], bool]] = {
    "vectors": ({"vectors": 8}, False),
    "both": ({"like": "0.9,0.2;0.6,0.1"}, True),  # classes and centres
    "sets": ({"design": "maxsense"}, False),
    "sets, classes": ({"design": "maxsense", "like": "0.9,0.2;0.6,0.1"}, False),
}


@pytest.mark.statistical
@pytest.mark.parametrize(  # those two have all that the others have, but for vectors
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name not in ("both", "sets"))) for name in WORLDS]
)
def test_the_emulated_statistic_is_that_of_devices(name: str) -> None:
    """False alarm: two in a million for each of the means, variances and covariances of either.

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


def test_what_is_not_asked_about_stays_empty_nothing_is_released_and_no_other_design_is_emulated() -> None:
    scenario = signs(users=100)
    query = asked(scenario, 1, centred=False)
    statistic, releases = drawn(scenario).ask(Ask(query=query, first=0, stop=100))
    told = scores_of(statistic)
    inside = np.zeros(40, np.bool_)
    inside[query.pool] = True
    assert (told.sensed == 100 * inside).all()
    assert (told.scores[inside] > 0).all()
    assert not told.scores[~inside].any()
    assert (told.devices, told.answered, told.refused) == (100, 100, 0)
    assert digest(releases) == digest([])
    with pytest.raises(InputError, match="pairwise has no statistic that can be drawn"):
        drawn(small(design="pairwise"))


def test_a_larger_emulated_population_holds_the_smaller_ones() -> None:
    grown, again = (EmulatedPrefixes(signs(users=10**6), block=50) for _ in range(2))
    told = [scores_of(grown.statistic(blocks)) for blocks in (4, 2, 4, 7)]
    assert [one.devices for one in told] == [200, 100, 200, 350]
    assert np.array_equal(told[0].scores, told[2].scores)
    assert ((told[1].scores <= told[0].scores) & (told[0].scores <= told[3].scores)).all()
    for blocks in (7, 2):
        assert np.array_equal(scores_of(again.statistic(blocks)).scores, scores_of(grown.statistic(blocks)).scores)


def test_sets_about_all_items_have_the_planners_moments() -> None:
    """Two ways to the same numbers: by item, as emulated, and by cluster."""
    scenario = small(like="0.9,0.2;0.6,0.1", class_shares="0.3,0.7", cluster_shares="0.2,0.8")
    population = populate(scenario)
    assert population.truth is not None
    query = resolve(scenario).design.query(round_number=0, public_seed=derive(7, "public"), epsilon=Fraction(1))
    given, rate = given_sensed(query, drawn(scenario).people)
    shares, sizes = np.array([0.3, 0.7]), np.bincount(population.truth)
    block = BlockParameters(rated=5, like=np.array(scenario.like), class_shares=shares, cluster_sizes=sizes)
    exact = maxsense_moments(block, sensing=query.parameters["sensing"], epsilon=1.0)
    assert rate == pytest.approx(exact.answer_rate, rel=1e-9)
    np.testing.assert_allclose(given, exact.given_sensed[population.truth], rtol=1e-9)
