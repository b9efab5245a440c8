"""Rivals of p-REC: DSybil, multiplicative weights, naive composition, plurality, and random choice."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.server.online.recommenders import RULES, NamedRecommender, PublicFacts, Unweighted


@dataclass(frozen=True)
class DSybil:
    """In the style of DSybil (Yu, Shi, Kaminsky, Gibbons, Xiao, 2009), simplified; not private.

    Objects with weight ``P / 2`` or more are overwhelming: one of them is recommended, else any object. Voters of a
    disliked one are halved, those of a liked one that was not overwhelming are doubled.
    """

    bar: float

    def chances(self, sums: Floats) -> Floats:
        """Share all probability among overwhelming objects, or among all."""
        pool: Floats = (sums >= self.bar).astype(np.float64)
        return pool / pool.sum() if pool.any() else np.full(sums.size, 1 / sums.size)

    def factors(self, sums: Floats, recommendation: int, *, liked: bool) -> tuple[float, float]:
        """Halve or double those that voted for it."""
        if not liked:
            return 0.5, 1.0
        return (1.0 if sums[recommendation] >= self.bar else 2.0), 1.0


class MultiplicativeWeights:
    """Follow a voter drawn by weight; whoever errs, or misses a liked object, is halved. Not private."""

    def chances(self, sums: Floats) -> Floats:
        """Return the objects' shares of all weight."""
        total = float(sums.sum())
        return sums / total if total > 0 else np.full(sums.size, 1 / sums.size)

    def factors(self, sums: Floats, recommendation: int, *, liked: bool) -> tuple[float, float]:  # noqa: ARG002 (a protocol)
        """Halve those that earn a strike."""
        return (1.0, 0.5) if liked else (0.5, 1.0)


@dataclass(frozen=True)
class ByVotes(Unweighted):
    """Draw an object with a probability proportional to a function of its votes."""

    share: Callable[[Floats], Floats]

    def chances(self, sums: Floats) -> Floats:
        """Return the function's values as shares."""
        weights = self.share(sums)
        return np.asarray(weights / weights.sum())


def exponential(facts: PublicFacts) -> ByVotes:
    """Return the exponential mechanism in every round, composed naively: ``p`` proportional to ``e^(eta c)``."""
    # one more voter changes one count by one, so that a round's log-ratio is at most eta
    eta = facts.epsilon / facts.rounds
    return ByVotes(lambda sums: np.exp(eta * (sums - sums.max())))


def most_lost(facts: PublicFacts) -> float:
    """Return (L) of the spec with m in the place of 2m and without the hidden coin: ours, by the same proof."""
    strikes = RULES["lean"](facts.diversity, facts.radius).radius_strikes + 1
    return facts.objects * (facts.radius + strikes * math.log(facts.voters / facts.peers))


_COMPARED = ("rounds", "ratio", "radius", "diversity", "ratings")
RECOMMENDERS = (
    NamedRecommender(
        name="dsybil",
        order=90,
        about="DSybil-style; not private",
        build=lambda facts: DSybil(facts.peers / 2),
        limits=RULES["everybody"],
        weighted=True,
        compared=_COMPARED,
    ),
    NamedRecommender(
        name="multiplicative-weights",
        order=80,
        about="a voter drawn by weight; not private",
        build=lambda _: MultiplicativeWeights(),
        limits=RULES["everybody"],
        weighted=True,
        compared=_COMPARED,
    ),
    NamedRecommender(
        name="naive",
        order=100,
        about="exponential mechanism of epsilon / T a round (credits of p-rec)",
        build=exponential,
        limits=RULES["total"],
        proved_epsilon=lambda facts: facts.epsilon,
        epsilon_of="p-rec",
    ),
    NamedRecommender(
        name="plurality",
        order=70,
        about="what most survivors vote for (lean credits); not private",
        build=lambda _: ByVotes(lambda sums: np.where(sums == sums.max(), 1.0, 0.0)),  # ties fairly
        limits=RULES["lean"],
        proved_loss=most_lost,
        compared=(*_COMPARED, "theorem-6"),
    ),
    NamedRecommender(
        name="random",
        order=110,
        about="any object; epsilon 0",
        build=lambda _: ByVotes(np.ones_like),
        limits=RULES["everybody"],
        proved_epsilon=lambda _: 0.0,
        proved_loss=lambda facts: facts.rounds * (1 - 1 / facts.objects),
        bound_in_figures=False,  # the measured line hides it
    ),
)
