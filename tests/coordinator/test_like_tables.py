"""Anchor sensing: its tables of like rates, and runs of its policies from the first pair to the last decided item."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from faults import Devices
from statistical import normal_radius

from actors.device import Cohort
from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.decoding.posterior import believe
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.anchor import SENSING_LEVELS, AnchorSensing, Tables
from coordinator.protocol.messages import Query
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.server.aggregation import aggregate
from coordinator.server.anchor import policy as two_class
from coordinator.server.anchor.anchor_queries import history_of, spectral_start
from coordinator.server.anchor.like_tables import (
    CONTROL,
    CONTROL_PART,
    COUNT_UNIT,
    OPEN,
    STRAYED,
    InitialAnchors,
    RoundEstimates,
    TableFit,
    TableLearner,
    fit_tables,
    of_signs,
    passing,
    plain_tables,
    signal_of,
    turned_estimates,
    turned_tables,
    walk,
)
from coordinator.server.anchor.policy import (
    DEVICES,
    TRIALS,
    RoundLearner,
    TwoClasses,
    contrasts,
    learner_for,
    pairs_failed,
    round_estimates,
    tables_failed,
    two_class_tables,
)
from coordinator.server.parts import policy_of
from coordinator.server.rounds.policies import PolicyOptions
from coordinator.server.rounds.rounds import Outcome, Round, conduct
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
    """A run of the policy that goes with a setting's design, and its rounds."""
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


def strays(gain: float = 1.0) -> float:
    """Distance of the agreements along what is expected of them, in standard errors; the expectation is scaled."""
    devices, one = 400_000, asked(always_first(12))
    cohort = cohort_of(DESIGN, ((0.9, 0.2), (0.3, 0.6)), (0.5, 0.5), devices, EPSILON)
    statistic = aggregate(one.query, cohort.answer(one.query, 0, devices))
    assert isinstance(statistic, AnchorStatistic)
    told = turned_estimates(AnchorRound(one.query, statistic), np.array([1.0, 0.0]), rated=RATED, control=CONTROL)
    likes = np.where(np.arange(ITEMS) % 2, 0.4, 0.6)
    wanted = told.offset + told.slopes[0] * likes
    gap = told.means - gain * wanted
    return float(abs((gap * wanted * told.users).sum()) / np.sqrt((wanted**2 * told.users).sum()))


@pytest.mark.statistical
def test_devices_agree_as_a_reading_says() -> None:
    """False alarm 1e-6; the twin, a reading a third too strong, is noticed."""
    assert strays() < normal_radius(1) < strays(4 / 3)


def rounds_of(
    coins: np.random.Generator, *, items: int = 200, rounds: int = 8, moves: float = 0.0
) -> list[RoundEstimates]:
    """Rounds whose means follow a table that moves, with normal noise; clusters take turns."""
    cluster, found = np.arange(items) % 2, []
    for number in range(rounds):
        slopes = coins.normal(0.02, 0.01, (2, items)) * np.array([[1.0], [-1.0]]) ** (coins.random(items) < 0.7)
        users = np.full(items, 20_000.0)
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
    """Distances from the truth over a fit's errors: 32 normal numbers, false alarm below 1e-6 (Bonferroni)."""
    fit = fitted(rounds_of(np.random.default_rng(1), moves=0.01))
    truth = TABLE + 0.01 * np.arange(8)[:, None, None] * np.array([[1, -1], [-1, 1]])
    off = [
        (fit.tables[r, :, c] - truth[r, :, c]) / np.sqrt(np.diag(fit.errors[c, r])) for r in range(8) for c in (0, 1)
    ]
    assert np.abs(off).max() < normal_radius(1, comparisons=32)
    assert np.sqrt(fit.errors[0, :, 0, 0]).max() < 0.1
    assert (fit.clusters.argmax(axis=1) == np.arange(200) % 2).all()


def test_a_table_that_is_not_tied_where_it_moves_is_missed() -> None:
    """The same rounds, read as if their table had stayed: it lies outside of its errors."""
    readings = rounds_of(np.random.default_rng(1), moves=0.04)
    late = fitted(readings[:1] * 8).tables[-1] - (TABLE + 0.04 * 7 * np.array([[1, -1], [-1, 1]]))
    assert np.abs(late).max() > 0.1


def test_errors_of_tables_make_items_less_sure() -> None:
    """Where a table is hardly measured, even many answers leave a doubt that its own error decides."""
    coins = np.random.default_rng(2)
    few = rounds_of(coins, items=6, rounds=1)
    fit = fitted(few)
    off = few[0].means - few[0].offset
    told = -few[0].users[:, None] * (off[:, None] - np.einsum("ki,kc->ic", few[0].slopes, fit.tables[0])) ** 2 / 2
    naive = np.abs(told[:, 0] - told[:, 1])
    kept = np.abs(np.diff(np.log(np.maximum(fit.clusters, 1e-300)), axis=1))[:, 0]
    assert (kept < naive + 0.5).all()
    assert kept.sum() < 0.9 * naive.sum()


def test_controls_that_disagree_are_told() -> None:
    readings = rounds_of(np.random.default_rng(3))
    controls = np.arange(200) < 50
    usual = replace(readings[-1], controls=controls)
    shifted = replace(usual, means=usual.means + np.where(controls, 3 / np.sqrt(usual.users), 0.0))
    fit = fitted(readings)
    assert fit.strays(usual, 7) < STRAYED < fit.strays(shifted, 7)
    assert fit.strays(readings[-1], 7) == 0


def test_a_walk_follows_what_is_measured_and_stays_where_nothing_is() -> None:
    found = walk(np.array([0.5, 0.9]), np.array([1e-6, 1e-6]), [1, 3], 6, start=0.2, tie=0.02)
    assert found[[1, 3]] == pytest.approx([0.5, 0.9], abs=1e-3)
    assert found[2] == pytest.approx(0.7, abs=1e-3)
    assert found[4:] == pytest.approx([0.9, 0.9], abs=1e-3)
    assert 0.2 < found[0] <= 0.5


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


def test_of_three_classes_the_fewer_items_are_known_the_more_of_them_serve_the_guess() -> None:
    """A pool of three that alone is known is hardly sensed, unknown items always; all that are known alike, often."""
    likes, items = np.full((3, 3), 0.1) + 0.8 * np.eye(3), np.eye(3)

    def sensed(known: np.ndarray) -> np.ndarray:
        none, coins = np.zeros(len(known), np.bool_), np.random.default_rng(4)
        return turned_tables(known, likes, np.full(3, 1 / 3), none, control=CONTROL, coins=coins).sensed

    alone = sensed(np.vstack([items, np.full((30, 3), 1 / 3)]))
    assert alone[:3].max() <= 1
    assert (alone[3:] == SENSING_LEVELS).all()
    assert (sensed(np.tile(items, (10, 1))) == round(SENSING_LEVELS * OPEN)).all()


def test_tables_of_a_start_are_less_far_apart_than_its_like_rates() -> None:
    """Nobody guesses right always; where all of a large pool is known, nearly so."""
    known = np.repeat(np.eye(2), 20, axis=0)
    first = InitialAnchors(pool=np.arange(40, dtype=np.int32), clusters=known, likes=TABLE, stands=True)
    apart = [float(np.ptp(first.tables(items=items, rated=30), axis=0).sum()) for items in (2000, 200, 40)]
    assert 0 < apart[0] < apart[1] < apart[2] <= float(np.ptp(TABLE, axis=0).sum())
    assert apart[2] > 0.95 * float(np.ptp(TABLE, axis=0).sum())


def test_first_order_signs_alone_may_be_a_start() -> None:
    """Means are handed in without noise: 0.3 and -0.5 by turns."""
    pool = np.arange(20, dtype=np.int32)
    one = asked(plain_tables(pool, ITEMS, 16))
    assert one.plain
    ratings, users = np.where(pool % 2, -0.5, 0.3), 40_000
    gain = turned_estimates(one, np.ones(1), rated=RATED, control=0).slopes[0][:20] / 2
    assert gain[0] == pytest.approx(0.246 * RATED / ITEMS * bit_channel(EPSILON).contrast, rel=0.6)
    scores, sensed = np.zeros((2, ITEMS), np.int64)
    sensed[:20], scores[:20] = users, np.rint(users * (1 + gain * ratings) / 2)
    told = AnchorRound(one.query, replace(one.statistic, sensed=sensed, scores=scores, devices=users, answered=users))
    assert signal_of((told,), rated=RATED)[0] == pytest.approx(ratings, abs=0.01)
    start = of_signs((told,), rated=RATED)
    assert start.stands
    assert (start.clusters.argmax(axis=1) == pool % 2).all()
    assert 2 * start.likes[0] - 1 == pytest.approx([0.3, -0.5], abs=0.02)


TABLED_ITEMS, TABLED_RATED, TABLED_EPSILON = 48, 24, Fraction(3)
SURE = 0.9999  # Confidence of the runs, so that a wrong item is no chance that a seed has
WEAK = ((0.9, 0.25), (0.2, 0.7))


def tabled(many: int = 2, how: str = "tables") -> Setting:
    """So many classes and clusters, and tables that are measured."""
    design = AnchorSensing(items=TABLED_ITEMS, rated=TABLED_RATED, clusters=many, classes=many, learner=how)
    return Setting(design=design, epsilon=TABLED_EPSILON, public_seed=worlds.PUBLIC, clusters=many, confidence=SURE)


@pytest.mark.thorough  # by default a run of two classes goes on, below
def test_a_resumed_run_asks_what_it_would_have_asked() -> None:
    outcome, rounds = run(tabled(), WEAK, (0.5, 0.5), 40_000)
    again, more = run(tabled(), WEAK, (0.5, 0.5), 40_000, rounds[: len(rounds) - 3])
    assert again.releases_sha256 == outcome.releases_sha256
    assert len(more) == 3
    assert again.model.score.tobytes() == outcome.model.score.tobytes()


def test_turned_signs_that_tell_nothing_are_given_up_in_the_round_that_passes_a_trial() -> None:
    design, users = AnchorSensing(items=TABLED_ITEMS, rated=TABLED_RATED, learner="tables"), 1000
    learner = TableLearner(design=design, failure=0.05)
    query = design.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=TABLED_EPSILON)
    pairs = answered(query, users, pairs=np.full(20 * 19 // 2, users // 2))
    belief = learner.believe(history_of([pairs]))
    query = learner.ask(belief, round_number=1, public_seed=worlds.PUBLIC, epsilon=TABLED_EPSILON)
    even = np.full(TABLED_ITEMS, users // 2)
    turned = answered(query, users, sensed=2 * even, scores=even)
    course = history_of([*([pairs] * 2), turned])  # 1000 users, half of those of pairs
    belief = learner.believe(course)
    assert belief.evidence < TRIALS[0][1]
    assert tables_failed(course, belief, 0.0)
    assert not tables_failed(course, replace(belief, evidence=TRIALS[0][1]), 0.0)
    late = history_of([*([pairs] * 2), *([turned] * 4)])  # twice those of pairs: past all trials
    assert not tables_failed(late, learner.believe(late), 0.0)


def test_mirrored_classes_are_two() -> None:
    with pytest.raises(InputError, match="not 3 and 3; choose tables"):
        learner_for(
            AnchorSensing(items=TABLED_ITEMS, rated=TABLED_RATED, clusters=3, classes=3, learner="mirrored"), 0.05
        )


ANCHOR_ITEMS, ANCHOR_RATED, USERS = 60, 20, 20_000
CROSSED = ((0.9, 0.1), (0.1, 0.9))
ANCHOR_DESIGN = AnchorSensing(items=ANCHOR_ITEMS, rated=ANCHOR_RATED)
SETTING = Setting(design=ANCHOR_DESIGN, epsilon=Fraction(2), public_seed=worlds.PUBLIC, confidence=0.9999)
LEARNER = TwoClasses(design=ANCHOR_DESIGN, failure=SETTING.failure)


def test_a_run_decides_every_item_and_goes_on_as_if_never_interrupted() -> None:
    """A label may be wrong with probability 1e-4, the confidence."""
    outcome, rounds = run(SETTING, CROSSED, (0.5, 0.5), USERS)
    wrong = np.abs(outcome.model.cluster - np.arange(ANCHOR_ITEMS) % 2)
    assert set(wrong.tolist()) in ({0}, {1})
    assert outcome.posterior is not None
    assert outcome.posterior.decided(SETTING.failure).all()
    assert outcome.state.fresh < USERS
    assert not any(told.statistic.scores.flags.writeable for told in outcome.state.readings.anchors)
    kinds = [ask.query.design for ask in outcome.state.asked]
    assert kinds == sorted(kinds, reverse=True)  # pairs first
    for cut in (kinds.count("pair-signs"), len(kinds) - 2):
        again, more = run(SETTING, CROSSED, (0.5, 0.5), USERS, rounds[:cut])
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


def doubts_once_more(users: int = USERS) -> float:
    """By what factor doubts change if all rounds are read once more with what they let the server expect."""
    outcome, _ = run(SETTING, CROSSED, (0.5, 0.5), users)
    course = history_of(outcome.state.readings.anchors)
    belief = LEARNER.believe(course)
    first, *others = (round_estimates(one, belief.posterior.expected, rated=ANCHOR_RATED) for one in course.turned)
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
    tables = two_class_tables(expected, trust * expected, np.resize(np.array([0, 10, 16], np.int32), ANCHOR_ITEMS))
    return ANCHOR_DESIGN.turned(tables, round_number=3, public_seed=worlds.PUBLIC, epsilon=Fraction(2))


def anchor_strays(share: float = 1.0) -> float:
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
    gap = (told.means - offset)[sensed] - share * wanted
    return float(abs((gap * wanted) @ precise) / np.sqrt((wanted**2) @ precise))


@pytest.mark.statistical
def test_turned_signs_agree_as_their_moments_say() -> None:
    """False alarm 1e-6; errors of the simulated moments are up to a third of the answers'.

    The twin, slopes a seventh too large, is noticed.
    """
    assert anchor_strays() < normal_radius(1 + 1 / 3) < anchor_strays(8 / 7)


@pytest.mark.parametrize("name", ["clusters", "classes"])
def test_one_cluster_or_class_is_refused(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} is 1.*anchor sensing tells 2 apart"):
        replace(ANCHOR_DESIGN, **{name: 1})  # type: ignore[arg-type]


def told(kind: str, users: int, means: float = 0.0) -> AnchorRound:
    """A round of which nobody knows more than how many answered."""
    if kind == "pairs":
        query = ANCHOR_DESIGN.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2))
        return answered(query, users, pairs=np.full(20 * 19 // 2, users // 2))
    scores = np.full(ANCHOR_ITEMS, round(users * (1 + means) / 2))
    sensed = np.full(ANCHOR_ITEMS, users)
    return answered(query_about(np.full(ANCHOR_ITEMS, 0.5), 0.5), users, sensed=sensed, scores=scores)


def test_turned_signs_before_pairs_that_are_asked_again_are_void() -> None:
    course = history_of([told("pairs", 100), told("pairs", 60), told("turned", 50), told("pairs", 80)])
    assert (course.paired_users, course.given_up, course.turned_users) == (240, 160, 0)
    later = history_of([*(told("pairs", 100), told("turned", 50), told("pairs", 80)), told("turned", 30)])
    assert (later.paired_users, later.given_up, later.turned_users) == (180, 100, 30)


@pytest.mark.parametrize(("users", "means", "again"), [(70, 0.0, False), (80, 0.0, True), (80_000, 0.02, False)])
def test_pairs_are_asked_again_where_turned_signs_tell_nothing(users: int, means: float, again: bool) -> None:
    course = history_of([told("pairs", 100), told("turned", users, means)])
    belief = LEARNER.believe(course)
    offset = contrasts(course.turned[0].query, belief.posterior.expected, rated=ANCHOR_RATED)[1]
    level = told("turned", users, means + float(offset[1])) if means == 0 else course.turned[0]
    course = replace(course, turned=(level,))
    assert pairs_failed(course, LEARNER.believe(course)) == again


def test_the_start_finds_the_sides_of_planted_pairs() -> None:
    """Agreements are handed in as they are expected; noise of the pool's size hides a tenth of the strength."""
    course, side = history_of([told("pairs", 10_000)]), np.where(np.arange(20) % 3, 1, -1)
    one, other = np.triu_indices(20, 1)
    mixed = replace(course.pairs[0].statistic, pairs=5000 + 200 * side[one] * side[other])
    start = spectral_start(replace(course, pairs=(AnchorRound(course.pairs[0].query, mixed),)), rated=ANCHOR_RATED)
    assert start.stands
    assert abs(np.sign(start.odds) @ side) == 20
    assert not spectral_start(course, rated=ANCHOR_RATED).stands
