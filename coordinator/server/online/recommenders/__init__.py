"""Recommenders: rules for kicking voters out, what each recommender declares, and names; found here, not listed.

A module here declares ``RECOMMENDERS``, a tuple of `coordinator.server.online.recommenders.NamedRecommender`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.finding import by_name, declared

if TYPE_CHECKING:
    from coordinator.server.online.weighting import Weighting


NO_LIMIT = 2**31 - 1


class Rule(NamedTuple):
    """A voter survives while it has at most ``radius_strikes``, ``diversity_strikes`` and ``strikes`` in all."""

    radius_strikes: int
    diversity_strikes: int
    strikes: int


Limits = Callable[[int, int], Rule]  # Returns the rule for (D, R)
RULES: Mapping[str, Limits] = {
    "total": lambda diversity, radius: Rule(2 * radius, NO_LIMIT, 2 * (diversity + radius)),
    "wide": lambda diversity, radius: Rule(2 * radius, 2 * (diversity + radius), NO_LIMIT),
    "literal": lambda diversity, radius: Rule(2 * radius, 2 * diversity, NO_LIMIT),
    "lean": lambda diversity, radius: Rule(radius, NO_LIMIT, diversity + radius),
    "strict": lambda *_: Rule(0, 0, 0),
    "everybody": lambda *_: Rule(NO_LIMIT, NO_LIMIT, NO_LIMIT),
}
"""Kick-out rules, with a voter's D-strikes a and R-strikes b.

``total`` is Rule B of the spec, what `p-rec` uses: ``b <= 2R`` and ``a + b <= 2 (D + R)``. ``wide`` is its Rule A:
``b <= 2R`` and ``a <= 2 (D + R)``. ``literal`` is the paper's words taken literally: ``b <= 2R`` and ``a <= 2D``; it
kicks peers out where R > D. ``lean`` is the rule without doubling, ours: ``b <= R`` and ``a + b <= D + R``. By
``strict``, p-REC_sim's rule, the first strike kills; recommenders that kick nobody out have ``everybody``.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicFacts:
    """The public facts that a recommender gets about the client and its voters."""

    rounds: int  # T rounds of m objects
    objects: int
    diversity: int = 0  # D: the largest number of rounds in which the client likes more than one object
    radius: int = 0  # R: the largest number of rounds in which a peer votes for a disliked object
    peers: int = 1  # P: the smallest number of peers
    # Number of invited voters. If one of them stays away because of its budget, nobody's votes are used, because the
    # proofs for P peers do not hold if some of them are missing
    voters: int = 0
    epsilon: float = math.inf  # Privacy loss of all rounds together [nats]; naive composition only


class Recommender(Protocol):
    """The protocol of a recommender."""

    def chances(self, sums: Floats) -> Floats:
        """Return each object's probability, given survivors' votes by weight; uniform where nobody votes."""

    def factors(self, sums: Floats, recommendation: int, *, liked: bool) -> tuple[float, float]:
        """Return the factors of weights: of those that voted for the recommended object, and of the others."""


class Unweighted:
    """A recommender in which all survivors weigh the same."""

    def factors(self, sums: Floats, recommendation: int, *, liked: bool) -> tuple[float, float]:  # noqa: ARG002 (a protocol)
        """Change no weight."""
        return 1.0, 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecommender:
    """What a recommender declares about itself."""

    name: str  # As the command line knows it, and one line of help
    about: str
    build: Callable[[PublicFacts], Recommender]  # Makes the recommender from what is promised
    limits: Limits  # Returns the kick-out rule for (D, R)
    order: int = 1000  # Its place in lists; equal places are ordered by name
    # Returns the constants of p-REC's RecommendByWeight for (T, m); None if it recommends in another way
    weighting: Callable[[int, int], Weighting] | None = None
    sharp: bool = False  # Whether it uses the tuned weighting, which is for two objects only
    ours: bool = False  # Whether it is our own, and neither the paper's nor a rival
    # Whether Theorem P and (L) of the spec hold: it recommends by weight, and never kicks a peer out
    bounded: bool = False
    promised: bool = True  # Whether it needs D and R; otherwise it is for ``D = R = 0`` only
    weighted: bool = False  # Whether voters' weights differ, so that their exposure is not computed
    # Returns the epsilon [nats] that is proved in another way than by Theorem P
    proved_epsilon: Callable[[PublicFacts], float] | None = None
    # Returns the expected loss that is proved in another way than by (L)
    proved_loss: Callable[[PublicFacts], float] | None = None
    # If it takes an epsilon: the recommender whose proved epsilon is the default. None if it takes none
    epsilon_of: str | None = None
    # Quantities whose exact worst case is computed over p-REC_sim's survivors: ``"epsilon"``, ``"loss"``
    exact: tuple[str, ...] = ()
    # Comparisons that include it by default: axes of the online sweep, ``"ratings"``, names of adversaries. With
    # ``"theorem-6"`` it also meets the halving adversary in the online sweep
    compared: tuple[str, ...] = ("rounds", "ratings")
    in_figures: bool = True  # Whether figures show it, and its proved loss beside the measured one
    bound_in_figures: bool = True

    @property
    def private(self) -> bool:
        """Whether it has a proved bound of its privacy loss."""
        return self.bounded or self.proved_epsilon is not None

    def serves(self, diversity: int, radius: int) -> bool:
        """Return whether it may be used with these D and R."""
        return self.promised or diversity + radius == 0

    def bounded_at(self, diversity: int, radius: int) -> bool:
        """Return whether Theorem P and (L) of the spec bound it there."""
        return self.bounded and self.serves(diversity, radius)


@functools.cache
def named_recommenders() -> Mapping[str, NamedRecommender]:
    """Return all recommenders by name, in their declared order."""
    every = declared(__name__, __path__, "RECOMMENDERS", NamedRecommender)
    every.sort(key=lambda recommender: (recommender.order, recommender.name))
    return MappingProxyType(by_name(every, lambda recommender: (recommender.name,)))


def recommender_of(name: str) -> NamedRecommender:
    """Return a recommender by its name."""
    if name not in named_recommenders():
        raise InputError(f"recommender is {name!r}; {name_choices(name, named_recommenders())}")
    return named_recommenders()[name]


def compared_in(where: str) -> tuple[str, ...]:
    """Return the names of the recommenders that comparisons include; see `NamedRecommender.compared`."""
    return tuple(name for name, recommender in named_recommenders().items() if where in recommender.compared)


def bounded_names() -> tuple[str, ...]:
    """Return the recommenders by weight that never kick a peer out: the paper's, ours, those for ``D = R = 0`` only."""
    bounded = (recommender for recommender in named_recommenders().values() if recommender.bounded)
    return tuple(
        recommender.name
        for recommender in sorted(bounded, key=lambda recommender: (not recommender.promised, recommender.ours))
    )


def still_names() -> tuple[str, ...]:
    """Return the names of the recommenders that are for ``D = R = 0`` only."""
    return tuple(name for name, recommender in named_recommenders().items() if not recommender.promised)
