"""The server's parts by their names: the policy that asks, and the learner that reads the answers."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from coordinator.protocol import mechanism as names
from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.mechanism import ANCHOR, ELIMINATE, POSTERIOR, Decoding, InWorld, Mechanism, World
from coordinator.protocol.mechanisms.anchor import Anchor, AnchorSensing
from coordinator.protocol.mechanisms.totals import LikedPairTotals
from coordinator.protocol.short_adapter import CustomAdapter
from coordinator.protocol.trust_models import CURATOR
from coordinator.server.anchor.like_tables import TableLearner
from coordinator.server.anchor.policy import AnchorPolicy, RoundLearner, TablePolicy, learner_for, users_of_anchors
from coordinator.server.design import LearnerOptions
from coordinator.server.rounds import policies
from coordinator.server.rounds.group_policies import ChoiceAndPairs, UntilLearned, groups_policy
from coordinator.server.rounds.learner import Learner, PosteriorLearner, SumLearner
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Policy


def policy_of(  # noqa: PLR0911 (a line for each policy)
    name: str, setting: Setting, options: policies.PolicyOptions
) -> Policy:
    """Return a policy by name, one that the setting's mechanism can follow.

    An InputError says where ``options``, what else the run says of its policy, contradict it.
    """
    match name:
        case names.FIXED:
            return policies.fixed(setting, options)
        case names.ELIMINATE:
            return policies.eliminate(setting, options)
        case names.ITEM_BY_ITEM:
            return policies.ItemByItem(setting=setting)
        case names.GROUPS:
            return groups_policy(setting)
        case names.TWO_ROUNDS:
            design = cast("LikedPairTotals", setting.design)  # no other mechanism has this policy
            return ChoiceAndPairs(design=design, epsilon=setting.epsilon, public_seed=setting.public_seed)
        case names.UNTIL_LEARNED:
            return UntilLearned(design=cast("InWorld", setting.design), public_seed=setting.public_seed)
        case names.ANCHOR:
            learner = learner_for(cast("AnchorSensing", setting.design), setting.failure)
            if isinstance(learner, TableLearner):
                return TablePolicy(setting=setting, learner=learner)
            return AnchorPolicy(setting=setting, learner=learner)
    return policies.OneRound(
        design=setting.design,
        epsilon=setting.epsilon,
        public_seed=setting.public_seed,
        own_questions=setting.own_questions,
    )


def users_to_learn(name: str, setting: Setting) -> float | None:
    """Return about how many users a policy's rounds ask in all; None where its rounds are not foreseen."""
    if name == ANCHOR:
        return users_of_anchors(setting)
    return policies.users_of_elimination(setting) if name == ELIMINATE else None


def learner_of(mechanism: Mechanism, world: World, options: LearnerOptions) -> Learner:
    """Build the learner from resolved settings."""
    if isinstance(mechanism, Anchor):
        anchors = learner_for(mechanism.design(world), 1 - options.confidence)
        return RoundLearner(anchors=anchors, clusters=world.clusters)
    custom = mechanism.custom if isinstance(mechanism, CustomAdapter) else None
    if options.decoder == POSTERIOR:
        return PosteriorLearner(
            design=mechanism.design(world),
            clusters=world.clusters,
            confidence=options.confidence,
            assume_malicious=options.assume_malicious,
            custom=custom,
        )
    curator = None
    if mechanism.trust == CURATOR:
        curator = Curator(
            epsilon=world.epsilon, rated=world.rated, neighbours=mechanism.relation(), seed=options.curator_seed
        )
    how = Decoding(
        clusters=world.clusters,
        decoder=options.decoder,
        curator=curator,
        public=options.public,
        world=replace(world, block=None),
    )
    return SumLearner(mechanism=mechanism, how=how, custom=custom)
