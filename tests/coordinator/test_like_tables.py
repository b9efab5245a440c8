"""Anchor sensing: its tables of like rates, and runs of its policies from the first pair to the last decided item."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from evidence import normal_radius, sample
from worlds import Devices, conduct

from actors.device import Cohort
from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.anchor import SENSING_LEVELS, AnchorSensing, Tables
from coordinator.protocol.messages import Query
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.server.aggregation import aggregate
from coordinator.server.anchor.like_tables import (
    CONTROL,
    CONTROL_PART,
    COUNT_UNIT,
    RoundEstimates,
    TableFit,
    fit_tables,
    passing,
    turned_estimates,
    turned_tables,
)
from coordinator.server.anchor.policy import (
    RoundLearner,
    contrasts,
    learner_for,
    two_class_tables,
)
from coordinator.server.parts import policy_of
from coordinator.server.rounds.policies import PolicyOptions
from coordinator.server.rounds.rounds import Outcome, Round
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import AnchorRound

ITEMS, RATED, EPSILON = 40, 10, Fraction(2)
DESIGN = AnchorSensing(items=ITEMS, rated=RATED)
TABLE = np.array([[0.85, 0.2], [0.3, 0.7]])
Rows = Sequence[Sequence[float]]


def answered(query: Query, users: int, **counts: Ints) -> AnchorRound:
    """A round that so many users answered, of which no other counts than these are known."""
    known = dict.fromkeys(("pairs", "sensed", "scores"), np.zeros(0, np.int64)) | counts
    return AnchorRound(query, AnchorStatistic(**known, ones=0, devices=users, answered=users, refused=0))


def cohort_of(design: AnchorSensing, like: Rows, shares: Sequence[float], users: int, epsilon: Epsilon) -> Cohort:
    world = worlds.world(items=design.items, rated=design.rated, like=like, shares=shares)
    return Cohort(worlds.block_ratings(world, users), worlds.SECRET, 0, users, epsilon)


def run(
    setting: Setting, like: Rows, shares: Sequence[float], users: int, earlier: Sequence[Round] = ()
) -> tuple[Outcome, list[Round]]:
    assert isinstance(setting.design, AnchorSensing)
    policy = policy_of("anchor", setting, PolicyOptions(devices=users))
    learner = RoundLearner(clusters=setting.clusters, anchors=learner_for(setting.design, setting.failure))
    devices, kept = Devices(cohort_of(setting.design, like, shares, users, setting.epsilon)), list[Round]()
    budget = setting.epsilon
    return conduct(policy, learner, devices, devices=users, budget=budget, earlier=earlier, keep=kept.append), kept


def asked(tables: Tables) -> AnchorRound:
    """A round of these arrays that nobody has answered."""
    query = DESIGN.turned(tables, round_number=1, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    return answered(query, 0, sensed=np.zeros(ITEMS, np.int64), scores=np.zeros(ITEMS, np.int64))


def always_first(levels: int = 16) -> Tables:
    """Everybody guesses class 0, and items count differently."""
    counts = np.zeros((4, ITEMS), np.int32)
    counts[1], counts[0] = 30 + np.arange(ITEMS) % 3, -30 - np.arange(ITEMS) % 3
    return Tables(
        prior=np.array([9, 0], np.int32),
        guess=np.zeros((4, ITEMS), np.int32),
        counts=counts,
        lean=np.zeros(2, np.int32),
        sensed=np.full(ITEMS, levels, np.int32),
    )


def test_sums_pass_as_enumeration_has_it() -> None:
    """Three other ratings, each of an item at random that is sensed half the time: all 3^3 cases of two sizes."""
    tables = always_first(8)
    counts = np.tile(np.array([-2, 1, 2, -1], np.int32)[:, None], ITEMS)
    found = passing(asked(replace(tables, counts=counts)).query, rated=4)[0:2, 0]
    values = {0: 0.5, 1: 0.125, -1: 0.125, 2: 0.125, -2: 0.125}  # a like or a dislike, each at even odds
    cases = [(a + b + c, values[a] * values[b] * values[c]) for a in values for b in values for c in values]
    own = [sum(p * (np.sign(v + rest)) for rest, p in cases) for v in (-2, 1)]
    assert found == pytest.approx(own, abs=1e-12)


def strays(*gains: float) -> list[float]:
    """Distance of the agreements along what is expected of them, in standard errors; expectations are scaled."""
    devices, one = 400_000, asked(always_first(12))
    cohort = cohort_of(DESIGN, ((0.9, 0.2), (0.3, 0.6)), (0.5, 0.5), devices, EPSILON)
    statistic = aggregate(one.query, cohort.answer(one.query, 0, devices))
    assert isinstance(statistic, AnchorStatistic)
    told = turned_estimates(AnchorRound(one.query, statistic), np.array([1.0, 0.0]), rated=RATED, control=CONTROL)
    likes = np.where(np.arange(ITEMS) % 2, 0.4, 0.6)
    wanted = told.offset + told.slopes[0] * likes
    gaps = [told.means - gain * wanted for gain in gains]
    return [float(abs((gap * wanted * told.users).sum()) / np.sqrt((wanted**2 * told.users).sum())) for gap in gaps]


@pytest.mark.statistical
def test_devices_agree_as_a_reading_says() -> None:
    """False alarm 1e-6; the twin, a reading a fifth too strong, is noticed."""
    right, wrong = strays(1.0, 1.2)
    assert right < normal_radius(1) < wrong


def rounds_of(
    coins: np.random.Generator, *, items: int = 200, rounds: int = 8, moves: float = 0.0, devices: float = 20_000
) -> list[RoundEstimates]:
    """Rounds whose means follow a table that moves, with normal noise; clusters take turns."""
    cluster, found = np.arange(items) % 2, []
    for number in range(rounds):
        slopes = coins.normal(0.02, 0.01, (2, items)) * np.array([[1.0], [-1.0]]) ** (coins.random(items) < 0.7)
        users = np.full(items, float(devices))
        offset = -slopes.sum(axis=0) / 2
        table = TABLE + moves * number * np.array([[1, -1], [-1, 1]])
        means = offset + np.einsum("ki,ki->i", slopes, table[:, cluster]) + coins.normal(size=items) / np.sqrt(users)
        nobody = np.zeros(items, np.bool_)
        found.append(RoundEstimates(means=means, users=users, slopes=slopes, offset=offset, controls=nobody))
    return found


def fitted(readings: list[RoundEstimates]) -> TableFit:
    start = np.clip(TABLE + 0.1 * np.array([[-1, 1], [1, -1]]), 0.1, 0.9)
    return fit_tables(readings, start, np.zeros((readings[0].means.size, 2)))


@pytest.mark.statistical
def test_tables_are_found_within_their_errors_and_items_with_them() -> None:
    """Distances from the truth over a fit's errors: 32 normal numbers, false alarm 1e-6; the twin's stands still."""
    fit = fitted(rounds_of(np.random.default_rng(1), moves=0.01, devices=400_000))
    for moves, right in ((0.01, True), (0.0, False)):
        truth = TABLE + moves * np.arange(8)[:, None, None] * np.array([[1, -1], [-1, 1]])
        off = (fit.tables - truth).transpose(2, 0, 1) / np.sqrt(np.diagonal(fit.errors, axis1=2, axis2=3))
        assert (np.abs(off).max() < normal_radius(1, comparisons=32)) == right
    assert np.sqrt(fit.errors[0, :, 0, 0]).max() < 0.1
    assert (fit.clusters.argmax(axis=1) == np.arange(200) % 2).all()


def test_a_table_that_is_not_tied_where_it_moves_is_missed() -> None:
    """The same rounds, read as if their table had stayed: it lies outside of its errors."""
    readings = rounds_of(np.random.default_rng(1), moves=0.04)
    late = fitted(readings[:1] * 8).tables[-1] - (TABLE + 0.04 * 7 * np.array([[1, -1], [-1, 1]]))
    assert np.abs(late).max() > 0.1


def test_ratings_are_centred_and_controls_count_little() -> None:
    known = np.stack([np.linspace(0.1, 0.9, ITEMS), np.linspace(0.9, 0.1, ITEMS)], axis=1)
    decided = np.arange(ITEMS) % 4 == 0
    shares, coins = np.array([0.5, 0.5]), np.random.default_rng(4)
    tables = turned_tables(known, TABLE, shares, decided, control=CONTROL, coins=coins)
    rates = TABLE @ known.T
    centre = rates * tables.counts[1::2] + (1 - rates) * tables.counts[0::2]
    turned = ~decided & (np.abs(centre) < 1).all(axis=0)
    assert turned.sum() >= 25  # the others are probes
    assert (np.abs(tables.counts[:, decided]) == COUNT_UNIT // CONTROL_PART).all()
    assert (tables.sensed[decided] == CONTROL).all()
    apart = np.abs(rates[0] - rates[1])[~decided]  # the more an item says of the class, the less it is sensed
    assert (np.diff(tables.sensed[~decided][np.argsort(apart)]) <= 0).all()
    assert tables.sensed[~decided].min() < 8 < tables.sensed[~decided].max() == SENSING_LEVELS
    assert tables.counts[1, turned].min() > 0 > tables.counts[3, turned].max()  # class 1 is turned
    assert (tables.guess[1::2] < 0).all()


TABLED_ITEMS, TABLED_RATED, TABLED_EPSILON = 48, 24, Fraction(3)
SURE = 0.9999  # Confidence of the runs, so that a wrong item is no chance that a seed has
WEAK = ((0.9, 0.25), (0.2, 0.7))


def tabled(many: int = 2, how: str = "tables") -> Setting:
    """So many classes and clusters, and tables that are measured."""
    design = AnchorSensing(items=TABLED_ITEMS, rated=TABLED_RATED, clusters=many, classes=many, learner=how)
    return Setting(design=design, epsilon=TABLED_EPSILON, public_seed=worlds.PUBLIC, clusters=many, confidence=SURE)


def test_mirrored_classes_are_two() -> None:
    with pytest.raises(InputError, match="not 3 and 3; choose tables"):
        learner_for(
            AnchorSensing(items=TABLED_ITEMS, rated=TABLED_RATED, clusters=3, classes=3, learner="mirrored"), 0.05
        )


ANCHOR_ITEMS, ANCHOR_RATED, USERS = 60, 20, 20_000
CROSSED = ((0.9, 0.1), (0.1, 0.9))
ANCHOR_DESIGN = AnchorSensing(items=ANCHOR_ITEMS, rated=ANCHOR_RATED)
SETTING = Setting(design=ANCHOR_DESIGN, epsilon=Fraction(2), public_seed=worlds.PUBLIC, confidence=0.9999)


@pytest.mark.parametrize(
    ("setting", "like", "users"),
    [
        (SETTING, CROSSED, USERS),
        pytest.param(tabled(), WEAK, 40_000, marks=pytest.mark.thorough),  # the same loop, and four times as long
    ],
)
def test_a_run_decides_every_item_and_goes_on_as_if_never_interrupted(setting: Setting, like: Rows, users: int) -> None:
    """A label may be wrong with probability 1e-4, the confidence."""
    outcome, rounds = run(setting, like, (0.5, 0.5), users)
    wrong = np.abs(outcome.model.cluster - np.arange(setting.design.items) % 2)
    assert set(wrong.tolist()) in ({0}, {1})
    assert outcome.posterior is not None
    assert outcome.posterior.decided(setting.failure).all()
    assert outcome.state.fresh < users
    assert not any(told.statistic.scores.flags.writeable for told in outcome.state.readings.anchors)
    kinds = [ask.query.design for ask in outcome.state.asked]
    assert kinds == sorted(kinds, reverse=True)  # pairs first
    for cut in sample((kinds.count("pair-signs"), len(kinds) - 2), 1):
        again, more = run(setting, like, (0.5, 0.5), users, rounds[:cut])
        assert again.releases_sha256 == outcome.releases_sha256
        assert len(more) == len(rounds) - cut
        assert again.model.score.tobytes() == outcome.model.score.tobytes()


@pytest.mark.parametrize(
    ("setting", "like", "users"), [(tabled(), WEAK, 600), (SETTING, CROSSED, 100), (SETTING, CROSSED, 1000)]
)
def test_a_run_that_ends_early_tells_that_nothing_is_decided(setting: Setting, like: Rows, users: int) -> None:
    outcome, _ = run(setting, like, (0.5, 0.5), users)
    assert outcome.posterior is not None
    assert not outcome.posterior.decided(0.05).any()
    assert outcome.posterior.doubt.min() >= 0.5


def query_about(expected: np.ndarray, trust: float) -> Query:
    tables = two_class_tables(expected, trust * expected, np.resize(np.array([0, 10, 16], np.int32), ANCHOR_ITEMS))
    return ANCHOR_DESIGN.turned(tables, round_number=3, public_seed=worlds.PUBLIC, epsilon=Fraction(2))


def anchor_strays(*shares: float) -> list[float]:
    """Distance of all items' agreements along the truth from their moments, in standard errors; slopes are scaled."""
    truth = np.where(np.arange(ANCHOR_ITEMS) % 2, -0.8, 0.8)
    believed = 0.9 * truth * np.where(np.arange(ANCHOR_ITEMS) % 7, 1, -1)  # every seventh anchor is wrong
    query, devices = query_about(believed, 0.8), 400_000
    cohort = cohort_of(ANCHOR_DESIGN, CROSSED, (0.5, 0.5), devices, SETTING.epsilon)
    told = aggregate(query, cohort.answer(query, 0, devices))
    assert isinstance(told, AnchorStatistic)
    slope, offset = contrasts(query, truth, rated=ANCHOR_RATED, devices=1 << 17)
    sensed = told.sensed > 0
    wanted, precise = (slope * truth)[sensed], told.sensed[sensed]
    gaps = [(told.means - offset)[sensed] - share * wanted for share in shares]
    return [float(abs((gap * wanted) @ precise) / np.sqrt((wanted**2) @ precise)) for gap in gaps]


@pytest.mark.statistical
def test_turned_signs_agree_as_their_moments_say() -> None:
    """False alarm 1e-6; errors of the simulated moments are up to a third of the answers'.

    The twin, slopes a twentieth too large, is noticed.
    """
    right, wrong = anchor_strays(1.0, 1.05)
    assert right < normal_radius(math.hypot(1, 1 / 3)) < wrong


@pytest.mark.parametrize("name", ["clusters", "classes"])
def test_one_cluster_or_class_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 1.*anchor sensing tells 2 apart"):
        replace(ANCHOR_DESIGN, **{name: 1})  # type: ignore[arg-type]
