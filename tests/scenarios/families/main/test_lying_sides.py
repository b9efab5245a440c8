"""Liars where clusters have no order: whom anchor sensing's liars turn, when, and how labels are scored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from scenarios.backends.selection import InProcess
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate, settled
from scenarios.families.main.liars_plan import collusion_of
from scenarios.families.main.run import run
from scenarios.families.main.score import lying_scores

CROSSED: dict[str, Any] = {"design": "anchor", "items": 60, "rated": 20, "like": ((0.9, 0.1), (0.1, 0.9)), "epsilon": 2}


def plotted(**given: Any) -> Any:
    return collusion_of(settled(populate(Scenario(**CROSSED, users=1000, **given))))


@pytest.mark.parametrize(("attack", "many"), [("untargeted", 10), ("input:7", 7), ("input-late:30", 30), ("early", 30)])
def test_items_of_both_clusters_should_change_sides_though_all_are_liked_equally_often(attack: str, many: int) -> None:
    plot = plotted(malicious=0.2, attack=attack)
    population = populate(Scenario(**CROSSED, users=1000))
    assert (plot.truth == np.where(population.truth == 0, 1, -1)).all()
    moved = plot.wishes != 0
    assert (plot.wishes[moved] == -plot.truth[moved]).all()
    assert moved.sum() == many
    assert set(plot.wishes[moved].tolist()) == {-1, 1}
    assert np.flatnonzero(plot.shares).tolist() == ([20] if attack == "early" else list(range(61)))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"attack": "promote:3"}, "no cluster of anchor is the more liked one; choose untargeted"),
        ({"attack": "late:3"}, "not worked out for anchor; choose one of untargeted"),
        ({"attack": "input:31"}, "only 30 items can change sides"),
        ({"attack": "early", "pool_items": 60}, "all rounds are about 60 items"),
    ],
)
def test_what_makes_no_sense_without_an_order_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        plotted(malicious=0.2, **given)


def test_wrong_labels_are_those_that_were_turned_whichever_cluster_is_called_the_first() -> None:
    """A fifth of the devices turns about ten items; here the learner calls the second cluster the first."""
    ran_sides = run(Scenario(**CROSSED, users=20_000, malicious=0.2, seed=3), InProcess(1))
    told = lying_scores(ran_sides)
    assert 7 <= told["labels_wrong"] <= 12
    assert np.count_nonzero(ran_sides.outcome.model.cluster != ran_sides.population.truth) == 60 - told["labels_wrong"]
    assert told["decided_wrong"] == told["labels_wrong"]
    assert not told["all_right"]
    predicted = ("promoted_rank", "labels_wrong_predicted", "tipping_share")
    assert all(told[name] is None for name in predicted)
