"""Emulated sums of anchor sensing have the distribution of what real devices' releases add up to."""

import functools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from anchored import pair_query, turned_query
from scipy import stats
from statistical import FALSE_ALARM

from actors.device import Cohort
from benchmarks.anchor_tables import Crowd
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.mechanisms.anchor import LEVELS, SENSED
from coordinator.protocol.messages import Query
from coordinator.server.mechanisms import aggregate
from coordinator.server.statistics.signs import AnchorStatistic

pytestmark = pytest.mark.thorough  # a benchmark's crowd, which takes ten seconds to compile
ITEMS, USERS, EPSILON = 24, 200_000, Fraction(3)
LIKE, SHARES = np.array([[0.95, 0.1], [0.1, 0.9], [0.6, 0.4]]), np.array([0.5, 0.3, 0.2])
CROWD: dict[str, Any] = {"items": ITEMS, "rated": 18, "like": LIKE, "shares": SHARES, "seed": 1}
PAIRS = replace(pair_query([1, 4, 8, 20], items=ITEMS), epsilon=EPSILON)
TURNED = replace(turned_query(3, ITEMS, 16, np.random.default_rng(2)), epsilon=EPSILON)
BOTH = pytest.mark.parametrize("query", [PAIRS, TURNED], ids=["pairs", "turned"])


@functools.cache
def devices() -> Cohort:
    """Real ones, whose items are in the crowd's clusters."""
    world = worlds.world(items=ITEMS, rated=CROWD["rated"], like=LIKE.tolist(), shares=SHARES.tolist())
    ratings = replace(worlds.block_ratings(world, USERS), clusters=Crowd(**CROWD).cluster.astype(np.int32))
    return Cohort(ratings, worlds.SECRET, 0, USERS, None)


def fits(query: Query, *, emulated: Query | None = None, **crowd: Any) -> bool:
    """Whether a crowd's sums are those that devices' releases to a query add up to: three chi-squares, one alarm.

    A device's ``H_i S`` over what it senses have the covariance ``diag(q) - m m^T``, where q is how often it senses an
    item, and m are their means. That is at most ``diag(q)``, and the chi-square at most that of independent ones.
    """
    ours = aggregate(query, devices().answer(query, 0, USERS))
    theirs = Crowd(**{**CROWD, **crowd}).answer(emulated or query, USERS)
    assert isinstance(ours, AnchorStatistic)
    share = query.arrays[SENSED] / query.parameters[LEVELS] if SENSED in query.arrays else np.zeros(0)
    found = [
        (2 * ours.pairs, 2 * theirs.pairs, np.ones(ours.pairs.size)),
        (2 * ours.scores - ours.sensed, 2 * theirs.scores - theirs.sensed, share),
        (ours.sensed, theirs.sensed, share * (1 - share)),
        (np.array([2 * ours.ones]), np.array([2 * theirs.ones]), np.full(1, float(share.size > 0))),
    ]
    return all(agree(*one, false_alarm=FALSE_ALARM / 3) for one in found if one[2].any())


def agree(ours: Ints, theirs: Ints, variances: Floats, *, false_alarm: float) -> bool:
    """Whether sums agree to which a device adds at most these variances; what has none must be the same."""
    some, off = variances > 0, ours - theirs
    total = float((np.square(off[some]) / (2 * USERS * variances[some])).sum())
    return not off[~some].any() and total < float(stats.chi2.isf(false_alarm, some.sum()))


@BOTH
@pytest.mark.statistical
def test_emulated_sums_are_those_of_devices(query: Query) -> None:
    """False alarm 1e-6 each: sums of 200,000 devices are normal."""
    assert fits(query)


@BOTH
@pytest.mark.parametrize(
    "wrong",
    [
        {"emulated": Fraction(23, 10)},  # a contrast a tenth smaller
        {"like": LIKE - np.array([[0.1, 0], [0, 0], [0, 0]])},
        {"rated": 16},
    ],
    ids=["contrast", "like rate", "rated"],
)
def test_a_slightly_wrong_crowd_is_noticed(wrong: dict[str, Any], query: Query) -> None:
    noisier = {"emulated": replace(query, epsilon=wrong["emulated"])} if "emulated" in wrong else {}
    assert not fits(query, **{**wrong, **noisier})


def test_wrong_shares_of_classes_are_noticed() -> None:
    """Pairs of one cluster and of two tell little of them; guesses do."""
    assert not fits(TURNED, shares=np.array([0.4, 0.4, 0.2]))


def test_items_sensed_a_little_more_often_are_noticed() -> None:
    told = TURNED.arrays[SENSED]
    more = replace(TURNED, arrays={**TURNED.arrays, SENSED: told + (told == 7)})
    assert not fits(TURNED, emulated=more)
