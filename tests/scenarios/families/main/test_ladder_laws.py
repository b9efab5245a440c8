"""On the rungs between nobody and a curator: sums of devices that answer one by one are those of the exact laws."""

from typing import Any

import numpy as np
import pytest
from evidence import counts_fit, normal_radius, size
from runs import here, small

from coordinator.protocol.arrays import Floats
from coordinator.protocol.law import BlockPeople
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.value_channels import PADDED
from scenarios.families.main.run import MainResult

USERS, ITEMS = size(20_000, 5000), 200


def ran(**changes: Any) -> MainResult:
    scenario = {"items": ITEMS, "rated": 12, "users": USERS, "like": "0.8,0.3", "seed": 11, "expected_answers": None}
    return here(small(**{**scenario, **changes}), workers=2)


def shares_liked(run: MainResult, padded: int) -> Floats:
    """The probability that an item is among a device's values, for each item."""
    people = BlockPeople.of(run.resolved.block, run.population.truth)
    return people.likers(lambda likes: np.minimum(1, padded / likes))


@pytest.mark.statistical
def test_shuffled_sets_have_the_counts_of_their_law() -> None:
    """Binomial, and normal all together, false alarm 1e-6 each; a twin whose shares are a seventh larger is caught."""
    run = ran(design="set", trust="shuffled")
    (ask,), answered = run.outcome.state.asked, run.statistic.answered
    sums, rates = run.statistic.sums[:ITEMS], subsets_of(ask.query).reports(ask.query)  # type: ignore[attr-defined] # of counts
    shares = shares_liked(run, int(ask.query.parameters[PADDED]))
    for factor, right in ((1.0, True), (8 / 7, False)):
        chances = rates.others + rates.contrast * factor * shares
        together = ((sums - answered * chances) / np.sqrt(answered * chances * (1 - chances))).sum()
        assert (counts_fit(sums, answered, chances) and abs(together) < normal_radius(ITEMS**0.5)) == right
