"""What an attacker sees of a row of a comparison, and the best test of it: from a run's own queries and noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import as_float, parse_epsilon
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.sets import TOGETHER
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import SIDES
from coordinator.protocol.shared_vector import CHANGES, DEVIATION, HONEST
from coordinator.protocol.trust_models import CURATOR, LOCAL, TWO_SERVERS
from coordinator.protocol.value_channels import PADDED, KaryChannel, SubsetChannel
from coordinator.server.rounds.state import Ask
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import LikesFold, judge_likes
from scenarios.studies.answer import right_at_most
from scenarios.studies.compare.advisors import pair_design
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.risk.by_law import LawOfOthers, ShuffledByLaw, SumsByLaw
from scenarios.studies.compare.risk.histories import MOST_PEOPLE, OTHERS, BestTest, Games, Histories, Scope, play
from scenarios.studies.compare.risk.report_tests import KeptPairsTest, ReportTest, SensedBit, SignBit, SubsetTest
from scenarios.studies.compare.risk.sum_tests import (
    CoordinateNoise,
    GaussianNoise,
    KeptPairsSum,
    LaplaceNoise,
    LikesSum,
)
from scenarios.studies.compare.row import Row, RowRequest
from scenarios.studies.compare.rows.trusted import (
    PAIRS_WITH_EASE,
    gaussian_noise,
    item_change,
    laplace_noise,
    pair_noises,
)
from scenarios.studies.compare.rows.trusted import SumNoise as CuratorNoise
from scenarios.studies.compare.run_row import RunRow, asks_of
from scenarios.studies.compare.worlds import FileWorld, matrix_of, table_of, versions_of
from scenarios.studies.rates import GameRate, How, ViewName, ViewRisk


@dataclass(frozen=True, slots=True)
class RowView:
    """An attacker's view of a row, and its best test; None where only the bound is known."""

    name: ViewName
    how: How
    epsilon: float | None  # Of the bound [nats]; None where nothing is left
    delta: float
    attack: BestTest | None = None
    law: LawOfOthers | None = None  # In its place, of an attacker who knows others by their law alone

    def risk(self, games: Games, neighbours: str) -> ViewRisk:
        """Play both games against the view."""
        bound = right_at_most(self.epsilon, self.delta, neighbours=neighbours)
        if self.attack is None:
            return ViewRisk(view=self.name, how=self.how, bound=bound, delta=self.delta)
        guesses = play(self.attack, games) if self.law is None else self.law.guesses(games)
        worst = self.attack.worst
        return ViewRisk(
            view=self.name,
            how=self.how,
            bound=bound,
            delta=self.delta,
            worst=worst,
            like=GameRate.of(guesses.like, worst),
            whose=GameRate.of(guesses.whose.mean(axis=1), worst),
        )


def whole_world(table: RatingTable, like_from: float | None) -> FileWorld:
    """Return the world of a file of which nothing is held out."""
    train = table.valued(judge_likes(table, like_from))
    liked = train.where(train.values).valued(None)
    nothing = liked.where(np.zeros(liked.items.size, np.bool_))
    return FileWorld(fold=LikesFold(train=train, liked=liked, holdout=nothing), matrix=matrix_of(liked), features=None)


def views_of(row: Row, world: FileWorld, request: RowRequest, games: Games) -> list[RowView]:
    """Return the views of a row: while trust holds, by law of all others where that is known, and if trust fails."""
    assert request.epsilon is not None  # rows without noise have no risk but all
    epsilon, delta = as_float(request.epsilon), row.delta(request.settings, request.users) or 0.0
    if row.trust_model == CURATOR:
        attack = _curator_attack(row, world, request)
        return _with_law([RowView("holds", _how(attack), epsilon, delta, attack)], games, request.users)
    asks = asks_of(row.sampled(world, request)) if isinstance(row, RunRow) and row.has_law else ()
    if row.trust_model == TWO_SERVERS:
        attack = _servers_attack([ask.query for ask in asks], world)
        return _with_law([RowView("holds", _how(attack), epsilon, delta, attack)], games, request.users)
    if row.trust_model == LOCAL:
        attack = _report_attack(asks, world)
        return [RowView("holds", _how(attack), epsilon, 0.0, attack)]
    mixed, alone = _report_attack(asks, world, shuffled=True), _report_attack(asks, world)
    locals_of = [as_float(ask.query.epsilon) for ask in asks]
    local = None if not asks else max(locals_of) if _is_of_groups(asks) else sum(locals_of)
    how: How = "bound" if mixed is None else "certified"
    views = _with_law([RowView("holds", how, epsilon, delta, mixed)], games, request.users)
    return [*views, RowView("lies", _how(alone), local, 0.0, alone)]


def _is_of_groups(asks: Sequence[Ask]) -> bool:
    """Return whether every device was asked once at most."""
    return all(ask.first >= before.stop for before, ask in pairwise(asks))


def _how(attack: BestTest | None) -> How:
    if attack is None:
        return "bound"
    if isinstance(attack, KeptPairsSum) or (isinstance(attack, ReportTest) and len(attack.tests) > 1):
        return "told"
    return "simulated" if isinstance(attack, LikesSum) else "exact"


def _with_law(views: list[RowView], games: Games, users: int) -> list[RowView]:
    """Add the view of an attacker who knows all others by their law alone."""
    (view,) = views
    law: LawOfOthers | None = None
    match view.attack:
        case LikesSum(noise=GaussianNoise(deviation=deviation), most=most):
            law = SumsByLaw(games, deviation=deviation, most=most, users=users)
        case ReportTest(tests=(SubsetTest() as test,)):
            law = ShuffledByLaw(games, test)
    return views if law is None else [view, replace(view, name="by law", how="about", law=law)]


def _curator_attack(row: Row, world: FileWorld, request: RowRequest) -> BestTest | None:
    """Return the attack on a curator's noisy sums."""
    settings = request.settings
    if row.mechanism == PAIRS_WITH_EASE:
        of_items, of_pairs = pair_noises(request, world.items)
        design = pair_design(settings, world.items)
        scopes = Scope(), Scope(most_liked(world, design.top))
        return KeptPairsSum(LikesSum(_sum_noise(of_items), design.device_likes), _sum_noise(of_pairs), scopes)
    if row.approximate:
        most = min(settings.likes, world.items)
        deviation = gaussian_noise(request.epsilon, item_change(most, settings.relation), request.delta)
        return LikesSum(GaussianNoise(deviation), most)
    noise = laplace_noise(request.epsilon, settings.curated, settings.relation)
    return LikesSum(LaplaceNoise(noise.rate), settings.curated)


def most_liked(world: FileWorld, count: int) -> Indices:
    """Return the items that most people like, ascending: those whose pairs are asked about, as if no noise chose them.

    A choice by noisy counts has fewer of a person's likes among them.
    """
    return np.sort(np.argsort(-world.popularity, kind="stable")[:count]).astype(np.int32)


def _scope(query: Query, world: FileWorld) -> Scope:
    return Scope(None if query.pool is None else most_liked(world, query.pool.size))


def _sum_noise(noise: CuratorNoise) -> CoordinateNoise:
    return GaussianNoise(noise.deviation) if noise.rate is None else LaplaceNoise(noise.rate)


def _servers_attack(queries: Sequence[Query], world: FileWorld) -> BestTest | None:
    """Return the attack of one of two servers, who knows its own noise: the other's dose is left."""
    if not queries or any(query.parameters[HONEST] for query in queries):
        return None
    noises = [_noise_of(query) for query in queries]
    likes = LikesSum(noises[0], int(queries[0].parameters[PADDED]))
    if len(queries) == 1:
        return likes
    return KeptPairsSum(likes, noises[1], (Scope(), _scope(queries[1], world)))


def _noise_of(query: Query) -> CoordinateNoise:
    values = query.parameters
    return (
        GaussianNoise(values[DEVIATION])
        if values[DEVIATION]
        else LaplaceNoise(as_float(query.epsilon) / values[CHANGES])
    )


def _report_attack(asks: Sequence[Ask], world: FileWorld, *, shuffled: bool = False) -> BestTest | None:
    """Return the attack on a device's report, in whichever of several groups it is; None where it is not known."""
    if not asks or not _is_of_groups(asks):
        return None
    first, total = asks[0].query, asks[-1].stop
    if first.design == "maxsense" and len(asks) == 1 and first.pool is None and not shuffled:
        return SensedBit(first.epsilon, first.parameters["sensing"], first.items)
    if first.design == "sign" and len(asks) == 1 and first.parameters["vectors"] == 1 and not shuffled:
        return None if first.centres is not None else SignBit(first.epsilon)
    tests = [_subset_test(ask.query, ask.stop - ask.first if shuffled else 0) for ask in asks]
    exact = tuple(test for test in tests if test is not None)
    if len(exact) < len(tests):
        return None
    shares = tuple((ask.stop - ask.first) / total for ask in asks)
    return ReportTest(shares, exact, tuple(_scope(ask.query, world) for ask in asks))


def _subset_test(query: Query, devices: int) -> SubsetTest | KeptPairsTest | None:
    """Return the test of a query about values of a device's own likes; None for other queries."""
    if query.parameters.get(SIDES) != 1 or query.parameters.get(TOGETHER, 1) == 0:
        return None
    channel = mechanism_of(query.design).channel(query)
    if isinstance(channel, KaryChannel):
        return SubsetTest(channel.values, 1, 1, channel.same / channel.other, devices)
    if not isinstance(channel, SubsetChannel):
        return None
    test = SubsetTest.of(channel, devices)
    pairs = query.parameters.get(TOGETHER) == 2
    return KeptPairsTest(test, int(query.parameters[PADDED])) if pairs else test


@lru_cache(maxsize=1)
def _played(settings: Comparison, size: tuple[int, int], *_: tuple[int, ...]) -> tuple[FileWorld, Games]:
    table, (most, others) = table_of(settings), size
    histories = Histories.of_table(table, settings.liked_from)
    return whole_world(table, settings.liked_from), Games.of(histories, settings.seed, most=most, others=others)


def row_risk(
    settings: Comparison, row: Row, epsilon: str, users: int, *, size: tuple[int, int] = (MOST_PEOPLE, OTHERS)
) -> tuple[ViewRisk, ...]:
    """Return what the best tests of a row reach with so many people; nothing of it is about a split.

    ``size``: people who are attacked at most, and others each is told from; of fewer than all no view is by law.
    """
    # What the games depend on, so that all rows share them
    shared = settings.model_copy(
        update=dict.fromkeys(("trust_models", "epsilon", "design", "scale"), ()) | {"mechanisms": None, "people": None}
    )
    world, games = _played(shared, size, versions_of(settings))
    request = RowRequest(settings=settings, epsilon=parse_epsilon(epsilon), users=users, seed=settings.seed)
    views = views_of(row, world, request, games)
    whole = size == (MOST_PEOPLE, OTHERS)
    risks = [view.risk(games, row.neighbours(settings)) for view in views if whole or view.name != "by law"]
    # Who knows others by their law alone is right no more often than who knows them, whatever a normal law says of few
    return tuple(risk.at_most(risks[0]) if risk.view == "by law" else risk for risk in risks)
