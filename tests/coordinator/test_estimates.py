"""Signs of devices are read without bias, and where nothing was told no estimate is made of it."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from reference import World
from statistical import normal_radius
from worlds import in_world

from actors.device import Cohort
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.decoding.estimates import read_sets, read_signs
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.sign_moments import optimal_best_count
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.server.aggregation import aggregate

EPSILON = Fraction(4)
CLASSES = worlds.world(items=20, rated=8, like=((0.9, 0.2), (0.6, 0.05)), shares=(0.3, 0.7))
ONE_CLASS = worlds.world(items=40, rated=10, like=((0.9, 0.1),))
POOLS = {"all": range(20), "some": range(2, 20, 3), "one": [5]}


def answers(of: World, query: Query, *, blocks: int, each: int) -> Iterator[ScoreStatistic]:
    """Statistics of one block of devices after the other."""
    cohort = Cohort(worlds.block_ratings(of), worlds.SECRET, 0, blocks * each, None)
    for block in range(blocks):
        yield worlds.scores_of(aggregate(query, cohort.answer(query, block * each, (block + 1) * each)))


def liked(of: World) -> Floats:
    """``2 b - 1`` of every item, averaged over user classes."""
    mean: Floats = 2 * np.array(of.shares) @ np.array(of.like) - 1
    return mean[list(of.clusters)]


def asked(pool: str, vectors: int) -> Query:
    size = len(POOLS[pool])
    kept = optimal_best_count(size, items=20, rated=8, vectors=vectors, epsilon=EPSILON)
    return worlds.sign_query(list(POOLS[pool]), items=20, vectors=vectors, kept=kept, epsilon=EPSILON)


@pytest.mark.statistical
@pytest.mark.parametrize("vectors", [1, 4])
@pytest.mark.parametrize("pool", POOLS)
def test_signs_are_read_without_bias(pool: str, vectors: int) -> None:
    """Slope of estimates against ``2 b - 1``, two user classes, 300,000 devices; normal, false alarm 1e-6.

    Twin: read as if users had rated 9 items instead of 8, the slope is refused.
    """
    query, truth = asked(pool, vectors), liked(CLASSES)
    statistic = next(answers(CLASSES, query, blocks=1, each=300_000))
    for rated, right in ((8, True), (9, False)):
        found = read_signs(query, statistic, rated=rated)
        assert ((found.information > 0) == np.isin(np.arange(20), POOLS[pool])).all()
        power = float((found.information * truth**2).sum())
        slope = float((found.weighted * truth).sum()) / power
        assert (abs(slope - 1) <= normal_radius(power**-0.5)) == right


@pytest.mark.statistical
@pytest.mark.parametrize("pool", [40, 12, 2, 1])
def test_signs_of_centred_ratings_are_read_without_bias(pool: int) -> None:
    """Means of either cluster, one user class, centres at what is true, 300,000 devices; normal, false alarm 1e-6.

    Twin: read as if each rating had been counted from 10 steps higher, one of them is refused.
    """
    centres = np.rint(32 * liked(ONE_CLASS)[:pool]).astype(np.int32)
    query = worlds.sign_query(range(pool), items=40, epsilon=EPSILON, centres=centres.tolist())
    statistic = next(answers(ONE_CLASS, query, blocks=1, each=300_000))
    for shift, right in ((0, True), (10, False)):
        found = read_signs(replace(query, centres=np.clip(centres + shift, -32, 32)), statistic, rated=10)
        strayed = []
        for first in range(min(pool, 2)):
            power = found.information[first:pool:2].sum()
            mean = found.weighted[first:pool:2].sum() / power
            strayed.append(abs(mean - liked(ONE_CLASS)[first]) * power**0.5)
        assert (max(strayed) <= normal_radius(1.0, comparisons=2)) == right


def sets_about(items: int, rated: int, pool: int, epsilon: Epsilon) -> Query:
    first = (items - pool) // 4 * 2  # even: items of both clusters in turn, as `expected_statistic` has them
    places = np.arange(first, first + pool, dtype=np.int32)
    return in_world(MaxSense, items=items, rated=rated).query(
        round_number=0, public_seed=worlds.PUBLIC, epsilon=epsilon, pool=places
    )


@pytest.mark.parametrize("told", [0, 50])
def test_statistics_that_tell_nothing(told: int) -> None:
    """Nobody answered; everybody answered 1, or 0; everything was sensed: no estimate, and no warning either."""
    alike = [(pool, told // 2, ones) for pool, ones in itertools.product((40, 16, 1), (0, told))]
    for pool, senses, ones in (*alike, (16, told, told // 2)):
        sensed, scores = np.full(40, senses), np.full(40, ones // 2)
        plain = ScoreStatistic(sensed=sensed, scores=scores, devices=50, answered=told, refused=0, ones=ones)
        estimate = read_sets(sets_about(40, 10, pool, EPSILON), plain, rated=10)
        assert not estimate.information.any()
        assert not estimate.value.any()
    nothing = read_signs(asked("some", 1), replace(worlds.empty_statistic(20), devices=9, refused=9), rated=8)
    assert (nothing.information == 0).all()
    assert (nothing.value == 0).all()
    assert np.isinf(nothing.error).all()
