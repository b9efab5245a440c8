"""A recommender: what it does in a round, and what it declares about itself.

A recommender says with which probability each object is recommended, given survivors' votes; whom strikes kick out;
and how weights change. All of them are pure. Each has a file in the room `recommenders`; whatever else depends on it
(bounds, sweeps, figures, help) follows from its declaration. Reading declarations loads no numerical library but numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coordinator.protocol.arrays import Floats
from coordinator.server.online.rules import Rule

if TYPE_CHECKING:
    from coordinator.server.online.weighting import Weighting

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecommender:
    """What a recommender declares about itself.

    Attributes
    ----------
    name, about : str
        As the command line knows it, and one line of help.
    order : int
        Its place among all; those of one place stand by their names.
    build : callable
        What is promised to the recommender that recommends.
    limits : callable
        (D, R) to the kick-out rule.
    weighting : callable or None
        (T, m) to the constants of p-REC's RecommendByWeight; None where it recommends otherwise.
    sharp : bool
        Whether that is the tuned weighting, which is for two objects only.
    ours : bool
        Whether it is ours, and neither the paper's nor a rival.
    bounded : bool
        Whether Theorem P and (L) of the spec hold: it recommends by weight, and never kicks a peer out.
    promised : bool
        Whether it wants to know D and R; one that does not is for ``D = R = 0`` only.
    weighted : bool
        Whether voters' weights differ, so that no exposure of theirs is computed.
    proved_epsilon : callable or None
        The epsilon that is proved otherwise than by Theorem P [nats], of what is promised.
    proved_loss : callable or None
        The expected loss that is proved otherwise than by (L), of what is promised.
    epsilon_of : str or None
        It takes an epsilon; where none is given, that which is proved of this recommender. None: it takes none.
    exact : tuple of str
        Which dynamic programmes over p-REC_sim's survivors are its exact worst case: ``"epsilon"``, ``"loss"``.
    compared : tuple of str
        Where it stands unless others are asked for: axes of the online sweep, ``"ratings"``, names of adversaries.
        One that stands in ``"theorem-6"`` meets the halving adversary in the online sweep, too.
    drawn, bound_drawn : bool
        Whether figures show it, and its proved loss beside the measured one.
    """

    name: str
    about: str
    build: Callable[[Promise], Recommender]
    limits: Limits
    order: int = 1000
    weighting: Callable[[int, int], Weighting] | None = None
    sharp: bool = False
    ours: bool = False
    bounded: bool = False
    promised: bool = True
    weighted: bool = False
    proved_epsilon: Callable[[Promise], float] | None = None
    proved_loss: Callable[[Promise], float] | None = None
    epsilon_of: str | None = None
    exact: tuple[str, ...] = ()
    compared: tuple[str, ...] = ("rounds", "ratings")
    drawn: bool = True
    bound_drawn: bool = True

    @property
    def private(self) -> bool:
        """Whether a bound of its privacy loss is proved."""
        return self.bounded or self.proved_epsilon is not None

    def serves(self, diversity: int, radius: int) -> bool:
        """Return whether it is for clients and peers with these D and R."""
        return self.promised or diversity + radius == 0

    def bounded_at(self, diversity: int, radius: int) -> bool:
        """Return whether Theorem P and (L) of the spec bound it there."""
        return self.bounded and self.serves(diversity, radius)
