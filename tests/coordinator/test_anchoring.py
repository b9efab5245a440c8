"""Anchor sensing's rounds: moments of turned signs, when pairs are asked again, and what a run learns and tells."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from answering import Devices
from statistical import normal_radius

from actors.device import Cohort
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.server.anchor import two_class
from coordinator.server.anchor.anchor_queries import AnchorSensing, history_of, spectral_start
from coordinator.server.anchor.policy import AnchorPolicy, RoundLearner, pairs_failed
from coordinator.server.anchor.two_class import DEVICES, TwoClasses, contrasts, round_estimates, two_class_tables
from coordinator.server.decoding.posterior import believe
from coordinator.server.mechanisms import aggregate
from coordinator.server.rounds.rounds import Outcome, Round, conduct
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import AnchorRound
from coordinator.server.statistics.signs import AnchorStatistic

ITEMS, RATED, USERS = 60, 20, 20_000
CROSSED = ((0.9, 0.1), (0.1, 0.9))
DESIGN = AnchorSensing(items=ITEMS, rated=RATED)
SETTING = Setting(design=DESIGN, epsilon=Fraction(2), public_seed=worlds.PUBLIC, confidence=0.9999)
LEARNER = TwoClasses(design=DESIGN, failure=SETTING.failure)


def cohort(users: int, like: tuple[tuple[float, ...], ...] = CROSSED) -> Cohort:
    world = worlds.world(items=ITEMS, rated=RATED, like=like, shares=(0.5, 0.5))
    return Cohort(worlds.block_ratings(world, users), worlds.SECRET, 0, users, SETTING.epsilon)


def run(users: int = USERS, earlier: tuple[Round, ...] = ()) -> tuple[Outcome, list[Round]]:
    kept: list[Round] = []
    learner = RoundLearner(clusters=2, anchors=LEARNER, confidence=SETTING.confidence)
    policy = AnchorPolicy(setting=SETTING, learner=LEARNER)
    devices = Devices(cohort(users))
    return conduct(
        policy, learner, devices, devices=users, budget=SETTING.epsilon, earlier=earlier, keep=kept.append
    ), kept


def test_a_run_decides_every_item_and_goes_on_as_if_never_interrupted() -> None:
    """A label may be wrong with probability 1e-4, the confidence."""
    outcome, rounds = run()
    wrong = np.abs(outcome.model.cluster - np.arange(ITEMS) % 2)
    assert set(wrong.tolist()) in ({0}, {1})
    assert outcome.posterior is not None
    assert outcome.posterior.decided(SETTING.failure).all()
    assert outcome.state.fresh < USERS
    assert not any(told.statistic.scores.flags.writeable for told in outcome.state.readings.anchors)
    kinds = [ask.query.design for ask in outcome.state.asked]
    assert kinds == sorted(kinds, reverse=True)  # pairs first
    for cut in (kinds.count("pair-signs"), len(kinds) - 2):
        again, more = run(earlier=tuple(rounds[:cut]))
        assert again.releases_sha256 == outcome.releases_sha256
        assert len(more) == len(rounds) - cut
        assert again.model.score.tobytes() == outcome.model.score.tobytes()


def test_a_run_that_ends_early_tells_that_nothing_is_decided() -> None:
    for users in (100, 1000):
        outcome, _ = run(users)
        assert outcome.posterior is not None
        assert not outcome.posterior.decided(SETTING.failure).any()
        assert outcome.posterior.doubt.min() >= 0.5


def doubts_once_more(users: int = USERS) -> float:
    """By what factor doubts change if all rounds are read once more with what they let the server expect."""
    outcome, _ = run(users)
    course = history_of(outcome.state.readings.anchors)
    belief = LEARNER.believe(course)
    first, *others = (round_estimates(one, belief.posterior.expected, rated=RATED) for one in course.turned)
    again = believe(sum(others, start=first), clusters=2, failure=SETTING.failure)
    return float(again.doubt.sum() / belief.posterior.doubt.sum())


def test_rounds_are_read_until_what_they_tell_no_longer_changes() -> None:
    assert 1 / 4 < doubts_once_more() < 4


def test_two_readings_promise_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins from levels that the first, which knew the pool alone, puts far too high."""
    monkeypatch.setattr(two_class, "READS", (DEVICES,) * 2)
    monkeypatch.setattr(two_class, "STEP", 1.0)
    assert doubts_once_more() > 16


def query_about(expected: np.ndarray, trust: float) -> Query:
    tables = two_class_tables(expected, trust * expected, np.resize(np.array([0, 10, 16], np.int32), ITEMS))
    return DESIGN.turned(tables, round_number=3, public_seed=worlds.PUBLIC, epsilon=Fraction(2))


def strays(share: float = 1.0) -> float:
    """Distance of all items' agreements along the truth from their moments, in standard errors; slopes are scaled."""
    truth = np.where(np.arange(ITEMS) % 2, -0.8, 0.8)
    believed = 0.9 * truth * np.where(np.arange(ITEMS) % 7, 1, -1)  # every seventh anchor is wrong
    query, devices = query_about(believed, 0.8), 400_000
    told = aggregate(query, cohort(devices).answer(query, 0, devices))
    assert isinstance(told, AnchorStatistic)
    slope, offset = contrasts(query, truth, rated=RATED, devices=1 << 17)
    sensed = told.sensed > 0
    wanted, precise = (slope * truth)[sensed], told.sensed[sensed]
    gap = (told.means - offset)[sensed] - share * wanted
    return float(abs((gap * wanted) @ precise) / np.sqrt((wanted**2) @ precise))


@pytest.mark.statistical
def test_turned_signs_agree_as_their_moments_say() -> None:
    """False alarm 1e-6; errors of the simulated moments are up to a third of the answers'."""
    assert strays() < normal_radius(1 + 1 / 3)


def test_slopes_a_seventh_too_large_are_noticed() -> None:
    assert strays(8 / 7) > normal_radius(1 + 1 / 3)


@pytest.mark.parametrize("name", ["clusters", "classes"])
def test_one_cluster_or_class_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 1.*anchor sensing tells 2 apart"):
        replace(DESIGN, **{name: 1})  # type: ignore[arg-type]


def told(kind: str, users: int, means: float = 0.0) -> AnchorRound:
    """A round of which nobody knows more than how many answered."""
    nothing = np.zeros(0, np.int64)
    if kind == "pairs":
        query = DESIGN.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2))
        pairs, items = np.full(20 * 19 // 2, users // 2), nothing
    else:
        query, pairs = query_about(np.full(ITEMS, 0.5), 0.5), nothing
        items = np.full(ITEMS, round(users * (1 + means) / 2))
    sensed = np.full(items.size, users)
    return AnchorRound(
        query,
        AnchorStatistic(pairs=pairs, sensed=sensed, scores=items, ones=0, devices=users, answered=users, refused=0),
    )


def test_turned_signs_before_pairs_that_are_asked_again_are_void() -> None:
    course = history_of([told("pairs", 100), told("pairs", 60), told("turned", 50), told("pairs", 80)])
    assert (course.paired_users, course.given_up, course.turned_users) == (240, 160, 0)
    later = history_of([*(told("pairs", 100), told("turned", 50), told("pairs", 80)), told("turned", 30)])
    assert (later.paired_users, later.given_up, later.turned_users) == (180, 100, 30)


@pytest.mark.parametrize(("users", "means", "again"), [(70, 0.0, False), (80, 0.0, True), (80_000, 0.02, False)])
def test_pairs_are_asked_again_where_turned_signs_tell_nothing(users: int, means: float, again: bool) -> None:
    course = history_of([told("pairs", 100), told("turned", users, means)])
    belief = LEARNER.believe(course)
    offset = contrasts(course.turned[0].query, belief.posterior.expected, rated=RATED)[1]
    level = told("turned", users, means + float(offset[1])) if means == 0 else course.turned[0]
    course = replace(course, turned=(level,))
    assert pairs_failed(course, LEARNER.believe(course)) == again


def test_the_start_finds_the_sides_of_planted_pairs() -> None:
    """Agreements are handed in as they are expected; noise of the pool's size hides a tenth of the strength."""
    course, side = history_of([told("pairs", 10_000)]), np.where(np.arange(20) % 3, 1, -1)
    one, other = np.triu_indices(20, 1)
    mixed = replace(course.pairs[0].statistic, pairs=5000 + 200 * side[one] * side[other])
    start = spectral_start(replace(course, pairs=(AnchorRound(course.pairs[0].query, mixed),)), rated=RATED)
    assert start.stands
    assert abs(np.sign(start.odds) @ side) == 20
    assert not spectral_start(course, rated=RATED).stands
