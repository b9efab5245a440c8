"""The set mechanism: a device's likes, padded to a fixed number of values; it names a subset that meets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.set import padded_values
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.one_item import asked
from coordinator.protocol.subset_form import CHOSEN, PADDED
from coordinator.server.design import Decoding, LearnerOptions, World
from coordinator.server.frequency import FrequencyDesign, FrequencyHalf
from coordinator.server.grouped_sets import CountedGroup, CountedSet, groups_policy
from coordinator.server.mechanisms.pairs import SERVER as PAIRS
from coordinator.server.mechanisms.pairs import with_public
from coordinator.server.mechanisms.subset import Chosen, subset_rates
from coordinator.server.server_half import FIXED, GROUPS, ONE_ROUND, Settings

if TYPE_CHECKING:
    from coordinator.server.decoding.frequencies import Rates
    from coordinator.server.moments.frequencies import FrequencyMoments
    from coordinator.server.rounds.learner import Learner
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy


class SetSettings(Settings):
    """Settings of the set mechanism, beside those of subsets."""

    padded: Annotated[
        int, Field(ge=0, description="Set mechanism: values of every device's set, with dummies, 0 for the best [0].")
    ] = 0
    chosen: Chosen = 0
    counted_group: CountedGroup = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedSet(FrequencyDesign):
    """A report speaks for the values that it names, each of which may be one of several of the device's own.

    Source: Wang et al., *PrivSet* (2018); Wang et al., *Set-valued data publication with local privacy* (2020).

    Attributes
    ----------
    padded, chosen : int
        Values w of every device's set, and k in a release; 0 for as many as have the least noise, see
        `moments.sets.best_sizes`.
    """

    padded: int = 0
    chosen: int = 0

    name: ClassVar[str] = "set"

    def __post_init__(self) -> None:
        FrequencyDesign.__post_init__(self)
        for name, told in (("padded", self.padded), ("chosen", self.chosen)):
            if told > self.items:
                raise InputError(f"{name} is {told}; it must be at most the number of items, {self.items}")

    def parameters(self, values: int, epsilon: Epsilon) -> Mapping[str, float]:
        """Return the sizes of sets and subsets."""
        from coordinator.server.moments.sets import best_sizes

        own, many = best_sizes(values - 1, rated=self.rated, epsilon=epsilon, padded=self.padded, chosen=self.chosen)
        return {PADDED: own, CHOSEN: many}

    @staticmethod
    def reports(query: Query) -> Rates:
        """Return `subset_rates`."""
        return subset_rates(query)

    def line(self, query: Query) -> tuple[float, float]:
        """Return slope and offset of an item's expected estimate, as a function of how much users like it."""
        from coordinator.server.moments.frequencies import LIKED
        from coordinator.server.moments.sets import kept_share

        padded = int(query.parameters[PADDED])
        return kept_share(asked(query), items=self.items, rated=self.rated, likes=LIKED, padded=padded), 0.0


class SetHalf(FrequencyHalf):
    """The set mechanism on the server."""

    name = "set"
    title = "set mechanism"
    policies: ClassVar[tuple[str, ...]] = (ONE_ROUND, FIXED, GROUPS)
    all_policies_with = "set counted_group for groups"
    settings = SetSettings
    asking = LikedSet

    def policies_with(self, settings: Any) -> tuple[str, ...]:
        """Return the policies: with a counted group there are groups of devices, and one way of asking."""
        return (GROUPS,) if settings.counted_group else (ONE_ROUND, FIXED)

    def query_name(self, settings: Any) -> str:
        """Return the design of its queries: groups that are asked in turn are asked as those of pairs are."""
        return CountedSet.name if settings.counted_group else self.name

    def design(self, settings: Any, world: World) -> Any:
        """Return the set mechanism in a world; with a counted group that of two groups.

        Raises
        ------
        InputError
            If settings are outside their ranges there, or both the size of sets and a group that tells it are given.
        """
        told = settings.model_dump()
        if not told.pop("counted_group"):
            return LikedSet(items=world.items, rated=world.rated, **told)
        if told.pop("padded"):
            raise InputError(
                f"padded is {settings.padded}, but devices of counted_group {settings.counted_group:g} would tell it; "
                "give one of them"
            )
        return CountedSet(items=world.items, rated=world.rated, counted_group=settings.counted_group, **told)

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Policy:
        """Return the policy; groups are asked in turn."""
        return groups_policy(setting) if name == GROUPS else super().policy(name, setting, options)

    def learner(self, settings: Any, world: World, options: LearnerOptions) -> Learner:
        """Return the learner; what groups tell that are asked in turn is read as pairs' groups are."""
        return (PAIRS[0].learner if settings.counted_group else super().learner)(settings, world, options)

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the model, with popularity of devices and of people whose ratings are public."""
        return with_public(super().learn(statistic, queries, how), queries, how)

    def supports(self, query: Query, release: Release) -> Ints:
        """Return how many devices named each value, dummies behind the items."""
        from coordinator.server.statistics.columns import subset_counts

        return subset_counts(query, release, values=padded_values(query), chosen=int(query.parameters[CHOSEN]))

    def moments(self, settings: Settings, world: World) -> FrequencyMoments | None:
        """Return what one round about all items tells of each cluster."""
        from coordinator.server.moments.frequencies import FrequencyMoments
        from coordinator.server.moments.sets import kept_shares

        if world.block is None or (isinstance(settings, SetSettings) and settings.counted_group):
            return None
        query = self.design(settings, world).query(round_number=0, public_seed=bytes(16), epsilon=world.epsilon)
        level = kept_shares(world.block, int(query.parameters[PADDED]))
        return FrequencyMoments(level=level, variance=subset_rates(query).spread(level))


SERVER = (SetHalf(),)
