"""Pairs of liked items by the set mechanism: which items go together, for lists of each device's own taste.

A first group of devices names its likes among all items, a second one among the most liked of them, a third one pairs
of these; if it is asked for, some tell before how many items they like. Every device answers one question under its
whole epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field

from coordinator.protocol.mechanisms.pairs import MOST_ITEMS, MOST_LIKES, Pairs, together
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.one_item import pool_of
from coordinator.protocol.subset_form import CHOSEN, PADDED
from coordinator.server.design import Decoding, World
from coordinator.server.frequency import KMEANS
from coordinator.server.grouped_sets import CountedGroup, Groups, groups_policy
from coordinator.server.liked_pairs import LikedPairs
from coordinator.server.mechanisms.subset import Chosen, subset_rates
from coordinator.server.server_half import GROUPS, ServerHalf, Settings

if TYPE_CHECKING:
    from coordinator.server.moments.frequencies import FrequencyMoments
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.statistics.groups import GroupStatistic


class PairsSettings(Settings):
    """Settings of pairs; none of them looks at the ratings."""

    pair_items: Annotated[
        int, Field(ge=2, le=MOST_ITEMS, description="Pairs: items whose pairs are asked about, the most liked [200].")
    ] = 200
    pair_likes: Annotated[
        int,
        Field(ge=0, le=MOST_LIKES, description="Pairs: likes that a device keeps, 0 for half of rated, 2 to 20 [0]."),
    ] = 0
    chosen: Chosen = 0
    first_group: Annotated[
        float, Field(gt=0, lt=1, description="Pairs: share of devices that rank all items [0.2].")
    ] = 0.2
    second_group: Annotated[
        float, Field(gt=0, lt=1, description="Pairs: share of devices that tell how many like the most liked [0.15].")
    ] = 0.15
    counted_group: CountedGroup = 0.0


class PairsHalf(ServerHalf):
    """Pairs of liked items on the server."""

    name = "pairs"
    title = "pairs of liked items"
    settings = PairsSettings
    decoders = (KMEANS,)
    policies: ClassVar[tuple[str, ...]] = (GROUPS,)
    ranks = True
    groups = ("items", "numbers")

    def design(self, settings: Settings, world: World) -> LikedPairs:
        """Return pairs of liked items in a world."""
        return LikedPairs(items=world.items, rated=world.rated, **settings.model_dump())

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Groups:
        """Return the only policy: groups that are asked in turn."""
        return groups_policy(setting)

    def aggregate(self, query: Query, release: Release) -> GroupStatistic:
        """Return how many devices named each item or pair, as the counts of the group that was asked."""
        from coordinator.server.statistics.columns import subset_counts
        from coordinator.server.statistics.frequencies import counted
        from coordinator.server.statistics.groups import of_group

        chosen = int(query.parameters[CHOSEN])
        counts = subset_counts(query, release, values=Pairs().values(query), chosen=chosen)
        return of_group(group_of(query), counted(query, release, counts))

    def learn(self, statistic: GroupStatistic, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the items' popularity by the first group, clustered, and what the other groups tell of pairs.

        If rounds are missing, because a policy failed or there are too few devices, nothing is told of pairs; if
        nobody ranked items, all are alike.
        """
        from coordinator.server.decoding.frequencies import popularity
        from coordinator.server.decoding.line import kmeans_on_line
        from coordinator.server.decoding.pair_model import from_counts
        from coordinator.server.decoding.threads import one_thread
        from coordinator.server.statistics.groups import PAIRED

        asked = {group_of(query): query for query in queries if together(query)}
        told = {group: (subset_rates(query), statistic.of(group)) for group, query in asked.items()}
        if not told:
            return unknown(queries[0].items, how.clusters)
        (first, (rates, counts)), *_ = told.items()
        value, error = popularity(asked[first], rates, counts)
        near = None
        if PAIRED in told:
            *_, (liked, shared), (pairs, paired) = told.values()
            with one_thread():
                near = from_counts(
                    pool_of(asked[PAIRED]),
                    (liked, shared.sums, shared.answered),
                    (pairs, paired.sums, paired.answered),
                )
        cluster = kmeans_on_line(value, how.clusters)
        model = Model(cluster=cluster, score=value, error=error, clusters=how.clusters, near=near)
        return with_public(model, queries, how)

    def moments(self, settings: Settings, world: World) -> FrequencyMoments | None:
        """Return what the group that ranks all items tells of each cluster; clusters follow from it alone."""
        from coordinator.server.moments.frequencies import FrequencyMoments
        from coordinator.server.moments.sets import kept_shares

        if world.block is None or (isinstance(settings, PairsSettings) and settings.counted_group):
            return None
        design = self.design(settings, world)
        query = design.of_items(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level = kept_shares(world.block, int(query.parameters[PADDED]))
        return FrequencyMoments(level=level, variance=subset_rates(query).spread(level) / design.ranking)


def with_public(model: Model, queries: Sequence[Query], how: Decoding) -> Model:
    """Return a model of devices' sets, with popularity weighed with that of people whose ratings are public."""
    return model if how.public is None else how.public.weighed(model, int(queries[-1].parameters[PADDED]))


def unknown(items: int, clusters: int) -> Model:
    """Return the model of a server that nobody told which items are liked: any share of devices is possible."""
    import numpy as np

    from coordinator.server.decoding.line import kmeans_on_line

    score = np.zeros(items)
    return Model(cluster=kmeans_on_line(score, clusters), score=score, error=np.ones(items), clusters=clusters)


def group_of(query: Query) -> str:
    """Return which group of devices a query is for."""
    from coordinator.server.statistics.groups import PAIRED, RANKED, SHARED, SIZED, SIZED_TOP

    if together(query) == 2:
        return PAIRED
    if together(query) == 0:
        return SIZED if query.pool is None else SIZED_TOP
    return RANKED if query.pool is None else SHARED


SERVER = (PairsHalf(),)
