"""Recommenders by name: p-REC in its readings, ours, and their rivals.

A recommender says with which probability each object is recommended, given survivors' votes; whom strikes kick out;
and how weights change. All of them are pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from coordinator.online import rules
from coordinator.online.rules import Rule
from coordinator.online.weighting import Weighting
from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError

Limits = Callable[[int, int], Rule]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """What a recommender is told of the client and its voters.

    Attributes
    ----------
    rounds, objects : int
        T rounds of m objects.
    diversity : int
        D: in at most so many rounds the client likes more than one object.
    radius : int
        R: a peer votes for a disliked object in at most so many rounds.
    peers : int
        P: at least so many peers.
    voters : int
        How many are invited. Where one stays away, which its public budget decides, nobody's votes are used: what is
        proved of P peers says nothing if some of them are missing.
    epsilon : float
        Privacy loss of all rounds together [nats]; naive composition only.
    """

    rounds: int
    objects: int
    diversity: int = 0
    radius: int = 0
    peers: int = 1
    voters: int = 0
    epsilon: float = math.inf


class Recommender(Protocol):
    """Anything that recommends."""

    def chances(self, sums: Floats) -> Floats:
        """Return each object's probability, given survivors' votes by weight; uniform where nobody votes."""
        ...

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:
        """Return the factors of weights: of those that voted for the recommended object, and of the others."""
        ...


class Unweighted:
    """A recommender in which all survivors weigh the same."""

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:  # noqa: ARG002 (a protocol)
        """Change no weight."""
        return 1.0, 1.0


@dataclass(frozen=True)
class ByWeight(Unweighted):
    """p-REC's RecommendByWeight."""

    weighting: Weighting

    def chances(self, sums: Floats) -> Floats:
        """Return equation (2); see `Weighting.chances`."""
        return self.weighting.chances(sums)


class Uniform(Unweighted):
    """Any object alike: no privacy loss, and no use."""

    def chances(self, sums: Floats) -> Floats:
        """Return equal probabilities."""
        return np.full(sums.size, 1 / sums.size)


class Plurality(Unweighted):
    """The object with most votes, ties fairly; not private."""

    def chances(self, sums: Floats) -> Floats:
        """Share all probability among the most voted objects."""
        best: Floats = np.where(sums == sums.max(), 1.0, 0.0)
        share: Floats = best / best.sum()
        return share


@dataclass(frozen=True)
class Exponential(Unweighted):
    """The exponential mechanism in every round, composed naively: ``p`` proportional to ``e^(eta c)``.

    One more voter changes one count by one, so a round's log-ratio is at most ``eta`` = epsilon / T.
    """

    eta: float

    def chances(self, sums: Floats) -> Floats:
        """Return the mechanism's probabilities."""
        weights = np.exp(self.eta * (sums - sums.max()))
        share: Floats = weights / weights.sum()
        return share


class MultiplicativeWeights:
    """Follow a voter drawn by weight; whoever errs, or misses a liked object, is halved. Not private."""

    def chances(self, sums: Floats) -> Floats:
        """Return the objects' shares of all weight."""
        total = float(sums.sum())
        return sums / total if total > 0 else np.full(sums.size, 1 / sums.size)

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:  # noqa: ARG002 (a protocol)
        """Halve those that earn a strike."""
        return (1.0, 0.5) if liked else (0.5, 1.0)


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

    def factors(self, sums: Floats, chosen: int, *, liked: bool) -> tuple[float, float]:
        """Halve or double those that voted for it."""
        if not liked:
            return 0.5, 1.0
        return (1.0 if sums[chosen] >= self.bar else 2.0), 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A recommender as the command line names it.

    Attributes
    ----------
    build : callable
        What is promised to the recommender.
    limits : callable
        (D, R) to the kick-out rule.
    about : str
        One line.
    private : bool
        Whether a bound of its privacy loss is proved.
    promised : bool
        Whether it wants to know D and R: p-REC_sim works for ``D = R = 0`` only.
    weighted : bool
        Whether voters' weights differ, so that no exposure of theirs is computed.
    """

    build: Callable[[Promise], Recommender]
    limits: Limits
    about: str
    private: bool = False
    promised: bool = True
    weighted: bool = False


def _by_weight(promise: Promise) -> Recommender:
    return ByWeight(Weighting(rounds=promise.rounds, objects=promise.objects))


def _sharp(promise: Promise) -> Recommender:
    return ByWeight(Weighting(rounds=promise.rounds, objects=promise.objects, sharp=True))


RECOMMENDERS: dict[str, Kind] = {
    "p-rec": Kind(build=_by_weight, limits=rules.total, private=True, about="p-REC(D, R), Rule B of its credits"),
    "p-rec-sim": Kind(
        build=_by_weight, limits=rules.strict, private=True, promised=False, about="p-REC_sim, for D = R = 0"
    ),
    "p-rec-lean": Kind(build=_by_weight, limits=rules.lean, private=True, about="ours: p-REC without doubled credits"),
    "p-rec-sharp": Kind(
        build=_sharp, limits=rules.lean, private=True, about="ours: lean, half the privacy loss, two objects only"
    ),
    "p-rec-wide": Kind(build=_by_weight, limits=rules.wide, private=True, about="p-REC(D, R), Rule A of its credits"),
    "p-rec-literal": Kind(
        build=_by_weight, limits=rules.literal, about="p-REC's credits taken literally: kicks peers out where R > D"
    ),
    "plurality": Kind(
        build=lambda _: Plurality(), limits=rules.lean, about="what most survivors vote for (lean credits); not private"
    ),
    "multiplicative-weights": Kind(
        build=lambda _: MultiplicativeWeights(),
        limits=rules.everybody,
        weighted=True,
        about="a voter drawn by weight; not private",
    ),
    "dsybil": Kind(
        build=lambda promise: DSybil(promise.peers / 2),
        limits=rules.everybody,
        weighted=True,
        about="DSybil-style; not private",
    ),
    "naive": Kind(
        build=lambda promise: Exponential(promise.epsilon / promise.rounds),
        limits=rules.total,
        private=True,
        about="exponential mechanism of epsilon / T a round (credits of p-rec)",
    ),
    "random": Kind(build=lambda _: Uniform(), limits=rules.everybody, private=True, about="any object; epsilon 0"),
}


def recommender_kind(name: str) -> Kind:
    """Return a recommender by its name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in RECOMMENDERS:
        raise InputError(f"recommender is {name!r}; choose among {', '.join(RECOMMENDERS)}")
    return RECOMMENDERS[name]
