"""p-REC in its readings, and ours: recommendation by weight, under different kick-out rules.

Source: Gilbert, Liu, Yu, *On Differentially Private Online Collaborative Recommendation Systems*; the readings are
those of the spec's section 2, the lean rule and the sharp weighting are ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coordinator.protocol.arrays import Floats
from coordinator.server.online.recommenders import RULES, Limits, NamedRecommender, PublicFacts, Unweighted
from coordinator.server.online.weighting import Weighting


@dataclass(frozen=True)
class ByWeight(Unweighted):
    """p-REC's RecommendByWeight."""

    weighting: Weighting

    def chances(self, sums: Floats) -> Floats:
        """Return equation (2); see `Weighting.chances`."""
        return self.weighting.chances(sums)


def _by_weight(
    name: str, about: str, order: int, limits: Limits, *, sharp: bool = False, **declared: Any
) -> NamedRecommender:
    """Return a recommender by weight."""

    def weighting(rounds: int, objects: int) -> Weighting:
        return Weighting(rounds=rounds, objects=objects, sharp=sharp)

    def build(facts: PublicFacts) -> ByWeight:
        return ByWeight(weighting(facts.rounds, facts.objects))

    return NamedRecommender(
        name=name, about=about, order=order, build=build, limits=limits, weighting=weighting, sharp=sharp, **declared
    )


_EPSILON = ("epsilon-rounds", "epsilon-peers")
_EVERYWHERE = ("rounds", "radius", "diversity", *_EPSILON, "ratings", "theorem-6", "slow-halving", "theorem-15")

RECOMMENDERS = (
    _by_weight("p-rec", "p-REC(D, R), Rule B of its credits", 10, RULES["total"], bounded=True, compared=_EVERYWHERE),
    _by_weight(
        "p-rec-sim",
        "p-REC_sim, for D = R = 0",
        20,
        RULES["strict"],
        bounded=True,
        promised=False,
        exact=("epsilon", "loss"),
        compared=("ratio", *_EPSILON, "claim-1"),
    ),
    _by_weight(
        "p-rec-lean",
        "ours: p-REC without doubled credits",
        30,
        RULES["lean"],
        ours=True,
        bounded=True,
        compared=_EVERYWHERE,
    ),
    _by_weight(
        "p-rec-sharp",
        "ours: lean, half the privacy loss, two objects only",
        40,
        RULES["lean"],
        ours=True,
        sharp=True,
        bounded=True,
        exact=("loss",),
        compared=("rounds", "ratio", "radius", *_EPSILON, "ratings"),
    ),
    _by_weight(
        "p-rec-wide",
        "p-REC(D, R), Rule A of its credits",
        50,
        RULES["wide"],
        bounded=True,
        compared=("rounds",),
        in_figures=False,  # it lies on p-rec
    ),
    _by_weight(
        "p-rec-literal",
        "p-REC's credits taken literally: kicks peers out where R > D",
        60,
        RULES["literal"],
        compared=("rounds", "radius"),
        in_figures=False,
    ),
)
