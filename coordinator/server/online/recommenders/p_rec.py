"""p-REC in its readings, and ours: recommendation by weight, under different kick-out rules.

Source: Gilbert, Liu, Yu, *On Differentially Private Online Collaborative Recommendation Systems*; the readings are
those of the spec's section 2, the lean rule and the sharp weighting are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coordinator.protocol.arrays import Floats
from coordinator.server.online import recommender
from coordinator.server.online.recommender import NamedRecommender, Promise, Recommender, Unweighted

if TYPE_CHECKING:
    from coordinator.server.online.weighting import Weighting


@dataclass(frozen=True)
class ByWeight(Unweighted):
    """p-REC's RecommendByWeight."""

    weighting: Weighting

    def chances(self, sums: Floats) -> Floats:
        """Return equation (2); see `Weighting.chances`."""
        return self.weighting.chances(sums)


def _weighting(rounds: int, objects: int, *, sharp: bool = False) -> Weighting:
    from coordinator.server.online.weighting import Weighting  # noqa: PLC0415 (settings need not load numba)

    return Weighting(rounds=rounds, objects=objects, sharp=sharp)


def _sharp(rounds: int, objects: int) -> Weighting:
    return _weighting(rounds, objects, sharp=True)


def _built(weighting: Callable[[int, int], Weighting]) -> Callable[[Promise], Recommender]:
    return lambda promise: ByWeight(weighting(promise.rounds, promise.objects))


_PLAIN = _built(_weighting)
_EPSILON = ("epsilon-rounds", "epsilon-peers")
_ADVERSARIES = ("theorem-6", "slow-halving", "theorem-15")

RECOMMENDERS = (
    NamedRecommender(
        name="p-rec",
        order=10,
        about="p-REC(D, R), Rule B of its credits",
        build=_PLAIN,
        limits=recommender.total,
        weighting=_weighting,
        bounded=True,
        compared=("rounds", "radius", "diversity", *_EPSILON, "ratings", *_ADVERSARIES),
    ),
    NamedRecommender(
        name="p-rec-sim",
        order=20,
        about="p-REC_sim, for D = R = 0",
        build=_PLAIN,
        limits=recommender.strict,
        weighting=_weighting,
        bounded=True,
        promised=False,
        exact=("epsilon", "loss"),
        compared=("ratio", *_EPSILON, "claim-1"),
    ),
    NamedRecommender(
        name="p-rec-lean",
        order=30,
        ours=True,
        about="ours: p-REC without doubled credits",
        build=_PLAIN,
        limits=recommender.lean,
        weighting=_weighting,
        bounded=True,
        compared=("rounds", "radius", "diversity", *_EPSILON, "ratings", *_ADVERSARIES),
    ),
    NamedRecommender(
        name="p-rec-sharp",
        order=40,
        ours=True,
        about="ours: lean, half the privacy loss, two objects only",
        build=_built(_sharp),
        limits=recommender.lean,
        weighting=_sharp,
        sharp=True,
        bounded=True,
        exact=("loss",),
        compared=("rounds", "ratio", "radius", *_EPSILON, "ratings"),
    ),
    NamedRecommender(
        name="p-rec-wide",
        order=50,
        about="p-REC(D, R), Rule A of its credits",
        build=_PLAIN,
        limits=recommender.wide,
        weighting=_weighting,
        bounded=True,
        compared=("rounds",),
        in_figures=False,  # it lies on p-rec
    ),
    NamedRecommender(
        name="p-rec-literal",
        order=60,
        about="p-REC's credits taken literally: kicks peers out where R > D",
        build=_PLAIN,
        limits=recommender.literal,
        weighting=_weighting,
        compared=("rounds", "radius"),
        in_figures=False,
    ),
)
