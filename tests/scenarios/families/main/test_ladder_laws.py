"""On the rungs between nobody and a curator: sums of devices that answer one by one are those of the exact laws."""

from typing import Any

import numpy as np
from evidence import size
from runs import here, small

from coordinator.protocol.arrays import Floats
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.value_channels import PADDED
from scenarios.families.main.run import MainResult

USERS, ITEMS = size(20_000, 5000), 200
FALSE_ALARM = ITEMS * 6.4e-5  # That some count of honest devices is 4 deviations off, by its normal law


def ran(**changes: Any) -> MainResult:
    scenario = {"items": ITEMS, "rated": 12, "users": USERS, "like": "0.8,0.3", "seed": 11, "expected_answers": None}
    return here(small(**{**scenario, **changes}), workers=2)


def shares_liked(run: MainResult, padded: int) -> Floats:
    """The probability that an item is among a device's values, for each item."""
    people = BlockPeople.of(run.resolved.block, run.population.truth)
    return people.likers(lambda likes: np.minimum(1, padded / likes))


def deviations(run: MainResult, shares: Floats) -> Floats:
    """By how many standard deviations each item's count of a shuffled run is off, if values have these shares."""
    (ask,), sums = run.outcome.state.asked, run.statistic.sums  # type: ignore[attr-defined] # of counts
    rates = subsets_of(ask.query).reports(ask.query)
    chances = rates.others + rates.contrast * shares
    answered = run.statistic.answered
    off: Floats = (sums[:ITEMS] - answered * chances) / np.sqrt(answered * chances * (1 - chances))
    return off


def test_shuffled_sets_have_the_counts_of_their_law() -> None:
    """A twin whose shares are a fifth larger is caught; false alarm `FALSE_ALARM`."""
    run = ran(design="set", trust="shuffled")
    padded = int(run.outcome.state.asked[0].query.parameters[PADDED])
    shares = shares_liked(run, padded)
    assert np.mean(np.abs(deviations(run, shares)) < 4) >= 0.999
    assert abs(deviations(run, shares).sum()) < 5 * np.sqrt(ITEMS)
    assert abs(deviations(run, 1.2 * shares).sum()) > 5 * np.sqrt(ITEMS)
