"""Who is missing follows from a device's own coin: as often as said, whatever it rated, the same when asked again."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import statistical
import worlds

from actors.absence import PRESENT, Absence
from actors.device import Cohort
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.maxsense import MaxSense

USERS = 40_000
QUERY = MaxSense(items=40, rated=5).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(1))
HALF = Absence(dropout=0.3, stragglers=0.5, delay=20, deadline=10)


def cohort(like: str, absence: Absence = HALF, first: int = 0, stop: int = USERS) -> Cohort:
    """Devices of a world."""
    row = tuple(float(part) for part in like.split(","))
    world = worlds.world(items=40, rated=5, like=(row,))
    return Cohort(worlds.block_ratings(world, USERS), worlds.SECRET, first, stop, None, absence=absence)


def test_the_share_that_is_missing() -> None:
    assert pytest.approx(0.3 + 0.7 * 0.5 * math.exp(-0.5)) == HALF.missing
    assert Absence(dropout=0.1, stragglers=1.0).missing == 0.1
    assert PRESENT.missing == 0


@pytest.mark.statistical
def test_as_many_are_missing_as_said() -> None:
    """False-alarm probability 1e-6; the twin: a tenth more stragglers would be noticed."""
    answered = int(cohort("0.9,0.1").answer(QUERY, 0, USERS).answered_mask().sum())
    assert statistical.rate_fits(answered, USERS, 1 - HALF.missing)
    wrong = Absence(dropout=0.3, stragglers=0.6, delay=20, deadline=10)
    assert not statistical.rate_fits(answered, USERS, 1 - wrong.missing)


def test_silence_tells_nothing_of_ratings_and_is_repeated() -> None:
    """The same devices are silent whatever they rated, in any cohort, and however often they are asked."""
    one = cohort("0.9,0.1")
    release = one.answer(QUERY, 0, USERS)
    assert one.answer(QUERY, 0, USERS) == release
    mask = release.answered_mask()
    assert np.array_equal(cohort("0.1,0.1").answer(QUERY, 0, USERS).answered_mask(), mask)
    part = cohort("0.9,0.1", first=1000, stop=3000).answer(QUERY, 1000, 3000)
    assert np.array_equal(part.answered_mask(), mask[1000:3000])
    assert np.array_equal(part.unpacked(), release.unpacked()[1000:3000])
    assert not release.unpacked()[~mask].any()


def test_who_is_missing_counts_as_asked_and_not_as_answering() -> None:
    statistic = aggregate(QUERY, cohort("0.9,0.1").answer(QUERY, 0, USERS))
    assert (statistic.devices, statistic.refused) == (USERS, 0)
    assert statistic.missing == USERS - statistic.answered > USERS * 0.4


def test_another_query_meets_other_coins() -> None:
    other = MaxSense(items=40, rated=5).query(round_number=1, public_seed=worlds.PUBLIC, epsilon=Fraction(1))
    devices = cohort("0.9,0.1")
    masks = [devices.answer(query, 0, USERS).answered_mask() for query in (QUERY, other)]
    assert 0.1 < np.mean(masks[0] != masks[1]) < 0.6
