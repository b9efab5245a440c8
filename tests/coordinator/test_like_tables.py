"""Tables of like rates given the guess: what rounds tell of them, and what they tell of items."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from statistical import normal_radius

from actors.device import Cohort
from coordinator.protocol.channels import bit_channel
from coordinator.server.anchor.anchor_queries import SENSING_LEVELS, AnchorSensing, Tables
from coordinator.server.anchor.like_tables import (
    CONTROL,
    CONTROL_PART,
    COUNT_UNIT,
    OPEN,
    STRAYED,
    InitialAnchors,
    RoundEstimates,
    TableFit,
    fit_tables,
    guess_tables,
    of_signs,
    passing,
    plain_tables,
    signal_of,
    turned_estimates,
    turned_tables,
    walk,
)
from coordinator.server.mechanisms import aggregate
from coordinator.server.rounds.state import AnchorRound
from coordinator.server.statistics.signs import AnchorStatistic

ITEMS, RATED, EPSILON = 40, 10, Fraction(2)
DESIGN = AnchorSensing(items=ITEMS, rated=RATED)
TABLE = np.array([[0.85, 0.2], [0.3, 0.7]])
NONE = np.zeros(0, np.int64)


def asked(tables: Tables) -> AnchorRound:
    """A round of these arrays that nobody has answered."""
    query = DESIGN.turned(tables, round_number=1, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    nobody = np.zeros(ITEMS, np.int64)
    none = AnchorStatistic(pairs=NONE, sensed=nobody, scores=nobody, ones=0, devices=0, answered=0, refused=0)
    return AnchorRound(query, none)


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
    world = worlds.world(items=ITEMS, rated=RATED, like=((0.9, 0.2), (0.3, 0.6)), shares=(0.5, 0.5))
    devices, one = 400_000, asked(always_first(12))
    cohort = Cohort(worlds.block_ratings(world, devices), worlds.SECRET, 0, devices, EPSILON)
    statistic = aggregate(one.query, cohort.answer(one.query, 0, devices))
    assert isinstance(statistic, AnchorStatistic)
    told = turned_estimates(AnchorRound(one.query, statistic), np.array([1.0, 0.0]), rated=RATED, control=CONTROL)
    likes = np.where(np.arange(ITEMS) % 2, 0.4, 0.6)
    wanted = told.offset + told.slopes[0] * likes
    gap = told.means - gain * wanted
    return float(abs((gap * wanted * told.users).sum()) / np.sqrt((wanted**2 * told.users).sum()))


@pytest.mark.statistical
def test_devices_agree_as_a_reading_says() -> None:
    """False alarm 1e-6."""
    assert strays() < normal_radius(1)


def test_a_reading_a_third_too_strong_is_noticed() -> None:
    assert strays(4 / 3) > normal_radius(1)


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


def tables_of(known: np.ndarray, decided: np.ndarray) -> Tables:
    return turned_tables(known, TABLE, np.array([0.5, 0.5]), decided, control=CONTROL, coins=np.random.default_rng(4))


def test_ratings_are_centred_and_controls_count_little() -> None:
    known = np.stack([np.linspace(0.1, 0.9, ITEMS), np.linspace(0.9, 0.1, ITEMS)], axis=1)
    decided = np.arange(ITEMS) % 4 == 0
    tables = tables_of(known, decided)
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


@pytest.mark.parametrize(
    ("kinds", "rated", "many"), [((2, 2), 40, 20), ((3, 3), 40, 36), ((2, 3), 20, 60), ((3, 2), 60, 36)]
)
def test_pools_grow_with_clusters_and_classes(kinds: tuple[int, int], rated: int, many: int) -> None:
    clusters, classes = kinds
    design = AnchorSensing(items=400, rated=rated, clusters=clusters, classes=classes)
    assert design.pool(worlds.PUBLIC).size == many


def test_a_round_may_ask_for_the_guess_alone() -> None:
    tables = tables_of(np.full((ITEMS, 2), 0.5), np.zeros(ITEMS, np.bool_))
    only = guess_tables(tables, 1)
    assert only.lean.tolist() == [-1, 1]
    assert not only.counts.any()
    assert only.guess is tables.guess


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
