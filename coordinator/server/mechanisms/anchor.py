"""Anchor sensing: pairs of a few items first, then items turned by the guess of a device's class. Ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, cast

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.anchor import MOST_CLASSES
from coordinator.protocol.messages import Query, Release
from coordinator.server.design import LearnerOptions, World
from coordinator.server.server_half import ANCHOR, POSTERIOR, ServerHalf, Settings

if TYPE_CHECKING:
    from coordinator.protocol.moments.sign_moments import AnchorMoments
    from coordinator.protocol.statistics.signs import AnchorStatistic
    from coordinator.server.anchor.anchor_queries import AnchorSensing
    from coordinator.server.anchor.policy import RoundLearner
    from coordinator.server.rounds.policies import PolicyOptions
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy


class AnchorSettings(Settings):
    """Settings of anchor sensing; none of them looks at the ratings."""

    pool_items: int = Field(
        default=0,
        ge=0,
        description="Anchor sensing: items whose pairs are asked about first, 0 for what suits N / w and L [0].",
    )
    classes: int = Field(
        default=0, ge=0, le=MOST_CLASSES, description="Anchor sensing: user classes K, 0 for as many as clusters [0]."
    )
    learner: Literal["auto", "mirrored", "tables", "mixed"] = Field(
        default="auto",
        description="Anchor sensing: mirrored (two opposite classes), tables (any), mixed (tables, after first "
        "order where it tells), or auto: mirrored for two of each, else tables [auto].",
    )


class AnchorHalf(ServerHalf):
    """Anchor sensing on the server."""

    name = "anchor"
    title = "anchor sensing"
    settings = AnchorSettings
    decoders = (POSTERIOR,)
    policies: ClassVar[tuple[str, ...]] = (ANCHOR,)
    learns_all = True
    paired = True
    groups = ("turned",)

    @property
    def asks(self) -> tuple[str, ...]:
        return ("pair-signs", self.name)

    def query_name(self, settings: Settings) -> str:
        return "pair-signs"

    def design(self, settings: AnchorSettings, world: World) -> AnchorSensing:
        from coordinator.server.anchor.anchor_queries import AnchorSensing

        if world.rated < 2:
            raise InputError(
                f"rated is {world.rated}; anchor sensing begins with pairs of ratings and needs at least 2"
            )
        return AnchorSensing(
            items=world.items,
            rated=world.rated,
            clusters=world.clusters,
            pool_items=settings.pool_items,
            classes=settings.classes or max(2, world.clusters),
            learner=settings.learner,
        )

    def policy(self, name: str, setting: Setting, options: PolicyOptions) -> Policy:
        from coordinator.server.anchor.like_tables import TableLearner
        from coordinator.server.anchor.policy import AnchorPolicy, TablePolicy, learner_for

        learner = learner_for(cast("AnchorSensing", setting.design), setting.failure)
        if isinstance(learner, TableLearner):
            return TablePolicy(setting=setting, learner=learner)
        return AnchorPolicy(setting=setting, learner=learner)

    def users_to_learn(self, name: str, setting: Setting) -> float:
        from coordinator.server.anchor.policy import users_of_anchors

        return users_of_anchors(setting)

    def learner(self, settings: AnchorSettings, world: World, options: LearnerOptions) -> RoundLearner:
        from coordinator.server.anchor.policy import RoundLearner, learner_for

        anchors = learner_for(self.design(settings, world), 1 - options.confidence)
        return RoundLearner(anchors=anchors, clusters=world.clusters)

    def aggregate(self, query: Query, release: Release) -> AnchorStatistic:
        from coordinator.protocol.statistics.signs import aggregate_anchor

        return aggregate_anchor(query, release)

    def moments(self, settings: Settings, world: World) -> AnchorMoments | None:
        from coordinator.protocol.moments.sign_moments import AnchorMoments

        return None if world.block is None else AnchorMoments(ratings=2 * world.block.like - 1)


SERVER = (AnchorHalf(),)
