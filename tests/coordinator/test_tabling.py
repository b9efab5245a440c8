"""Rounds of anchor sensing for K classes and L clusters: what a run learns, how it begins, and when it begins again."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, permutations

import numpy as np
import pytest
import worlds
from answering import Devices

from actors.device import Cohort
from coordinator.protocol.errors import InputError
from coordinator.server.anchor.anchor_queries import AnchorSensing, history_of
from coordinator.server.anchor.like_tables import TableLearner, asks_guess
from coordinator.server.anchor.policy import TRIALS, RoundLearner, TablePolicy, learner_for, tables_failed
from coordinator.server.rounds.rounds import Outcome, Round, conduct
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import AnchorRound
from coordinator.server.statistics.signs import AnchorStatistic

ITEMS, RATED, EPSILON = 48, 24, Fraction(3)
SURE = 0.9999
"""Confidence of the runs, so that a wrong item is no chance that a seed has."""
WEAK = ((0.9, 0.25), (0.2, 0.7))
OWN = ((0.9, 0.1, 0.1), (0.1, 0.9, 0.1), (0.1, 0.1, 0.9))


def run(
    like: tuple[tuple[float, ...], ...], shares: tuple[float, ...], *, how: str, users: int, earlier: list[Round]
) -> tuple[Outcome, list[Round]]:
    many = len(like)
    design = AnchorSensing(items=ITEMS, rated=RATED, clusters=many, classes=many, learner=how)
    setting = Setting(design=design, epsilon=EPSILON, public_seed=worlds.PUBLIC, clusters=many, confidence=SURE)
    anchors = learner_for(design, setting.failure)
    assert isinstance(anchors, TableLearner)
    cohort = Cohort(
        worlds.block_ratings(worlds.world(items=ITEMS, rated=RATED, like=like, shares=shares), users),
        worlds.SECRET,
        0,
        users,
        EPSILON,
    )
    kept: list[Round] = []
    learner = RoundLearner(clusters=many, anchors=anchors)
    policy = TablePolicy(setting=setting, learner=anchors)
    devices = Devices(cohort)
    found = conduct(policy, learner, devices, devices=users, budget=EPSILON, earlier=tuple(earlier), keep=kept.append)
    return found, kept


def wrong(outcome: Outcome, clusters: int) -> int:
    """Items in a wrong cluster, however clusters are called."""
    truth = np.arange(ITEMS) % clusters
    names = (np.array(names) for names in permutations(range(clusters)))
    return min(int((one[outcome.model.cluster] != truth).sum()) for one in names)


@pytest.mark.parametrize(
    ("like", "shares", "how"),
    [(WEAK, (0.35, 0.65), "mixed"), (OWN, (0.4, 0.3, 0.3), "tables")],
)
def test_a_run_decides_every_item_knowing_nothing_of_like_rates(
    like: tuple[tuple[float, ...], ...], shares: tuple[float, ...], how: str
) -> None:
    outcome, _ = run(like, shares, how=how, users=300_000, earlier=[])
    assert wrong(outcome, len(like)) == 0
    assert outcome.posterior is not None
    assert outcome.posterior.decided(0.05).all()
    assert outcome.state.fresh < 300_000
    kinds = [AnchorRound(one.query, one.statistic) for one in outcome.state.readings.anchors]
    assert kinds[0].plain == (how == "mixed")
    turned = [asks_guess(told) for told in kinds if told.turned and not told.plain]
    if len(like) > 2:
        assert all(one or other for one, other in pairwise(turned[:8]))  # each of the first rounds knows its shares


def test_a_resumed_run_asks_what_it_would_have_asked() -> None:
    outcome, rounds = run(WEAK, (0.5, 0.5), how="tables", users=40_000, earlier=[])
    again, more = run(WEAK, (0.5, 0.5), how="tables", users=40_000, earlier=rounds[: len(rounds) - 3])
    assert again.releases_sha256 == outcome.releases_sha256
    assert len(more) == 3
    assert again.model.score.tobytes() == outcome.model.score.tobytes()


def test_a_run_that_ends_early_decides_nothing() -> None:
    outcome, _ = run(WEAK, (0.5, 0.5), how="tables", users=600, earlier=[])
    assert outcome.posterior is not None
    assert not outcome.posterior.decided(0.05).any()


def test_turned_signs_that_tell_nothing_are_given_up_in_the_round_that_passes_a_trial() -> None:
    design = AnchorSensing(items=ITEMS, rated=RATED, learner="tables")
    learner = TableLearner(design=design, failure=0.05)
    nothing, common = np.zeros(0, np.int64), {"public_seed": worlds.PUBLIC, "epsilon": EPSILON}
    users = 1000

    def round_of(query: object, **held: object) -> AnchorRound:
        none = AnchorStatistic(
            pairs=nothing, sensed=nothing, scores=nothing, ones=0, devices=users, answered=users, refused=0
        )
        return AnchorRound(query, replace(none, **held))  # type: ignore[arg-type]

    pairs = round_of(design.query(round_number=0, **common), pairs=np.full(20 * 19 // 2, users // 2))  # type: ignore[arg-type]
    belief = learner.believe(history_of([pairs]))
    query = learner.ask(belief, round_number=1, public_seed=worlds.PUBLIC, epsilon=EPSILON)
    even = np.full(ITEMS, users // 2)
    turned = round_of(query, sensed=2 * even, scores=even)
    course = history_of([*([pairs] * 2), turned])  # 1000 users, half of those of pairs
    belief = learner.believe(course)
    assert belief.evidence < TRIALS[0][1]
    assert tables_failed(course, belief, 0.0)
    assert not tables_failed(course, replace(belief, evidence=TRIALS[0][1]), 0.0)
    late = history_of([*([pairs] * 2), *([turned] * 4)])  # twice those of pairs: past all trials
    assert not tables_failed(late, learner.believe(late), 0.0)


def test_mirrored_classes_are_two() -> None:
    with pytest.raises(InputError, match="not 3 and 3; choose tables"):
        learner_for(AnchorSensing(items=ITEMS, rated=RATED, clusters=3, classes=3, learner="mirrored"), 0.05)
