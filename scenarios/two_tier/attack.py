"""What one release tells: an honest but curious server, calibrated on public users, guesses a private user's ratings.

The server knows the public model, the mechanism, every public rating, and k ratings of the target's user. It plays the
mechanism on its public users again and again, learns what releases look like there, and guesses: on which side of
+-r' a release lies; another rating of the user; and which of two items as popular was rated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np

from actors.second_order.cohort import PrivateCohort
from actors.second_order.consent import Consent
from coordinator.protocol import second_order_mechanisms as public
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon, as_json, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.rows import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.server.completion import mechanisms as server
from scenarios.two_tier.clues import Dealt, Singles, deal, seen
from scenarios.two_tier.guessing import Lesson, Scores, Spy

NONE = "none"
KNOWN = (0, 1, 5, 20)
"""Ratings of the target's user that the server knows."""
Asked: TypeAlias = tuple[str, Epsilon]
"""A mechanism and its epsilon."""


def _attacked() -> tuple[Asked, ...]:
    """Return what mechanisms are attacked at: those without an epsilon first, then those that have sides."""
    halves = server.found()
    order = sorted(halves, key=lambda name: (public.half_of(name).takes_epsilon, not halves[name].sided, name))
    tried = [(name, epsilon) for name in order for epsilon in halves[name].attacked or ()]
    return (NONE, None), *((name, parse_epsilon(epsilon) if epsilon else None) for name, epsilon in tried)


ATTACKED = _attacked()
"""Releases that are attacked: mechanism and epsilon; ``"none"`` is what the server guesses without any."""
PLAYED, TARGETS = 1000, 40
"""Releases of public users that the server plays, at least; targets a user, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guessed:
    """What the server finds out from one mechanism's releases and k known ratings a user.

    Attributes
    ----------
    mechanism : str
    epsilon : Fraction or None
    known : int
        k.
    scores : Scores
        How well ratings were guessed.
    rated_auc : float
        Probability that of a rated and an unrated item, as popular, the rated one is told from the release alone.
    users, targets : int
        Attacked users and ratings.
    """

    mechanism: str
    epsilon: Epsilon
    known: int
    scores: Scores
    rated_auc: float
    users: int
    targets: int

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        told = {"mechanism": self.mechanism, "epsilon": None if self.epsilon is None else as_json(self.epsilon)}
        told |= {"known": self.known, **asdict(self.scores)}
        return told | {"rated_auc": self.rated_auc, "users": self.users, "targets": self.targets}


def attack(
    features: ItemFeatures,
    public: Rows,
    private: Rows,
    seed: int,
    *,
    attacked: Sequence[Asked] = ATTACKED,
    known: Sequence[int] = KNOWN,
    played: int = PLAYED,
) -> list[Guessed]:
    """Attack the releases that private devices would let out about one public model.

    Parameters
    ----------
    features : ItemFeatures
        The public model, as it is announced (with common h).
    public, private : Rows
        Ratings of public users, which the server has, and of private ones, which it guesses.
    seed : int
        Everything random follows from it.
    attacked : sequence of (str, Fraction or None)
        Mechanisms and their epsilon; ``"none"`` for no release. Each is asked of the same devices, in worlds apart.
    known : sequence of int
        Numbers k of known ratings.
    played : int
        Releases of public users that the server plays, at least.

    Returns
    -------
    list of Guessed
        Mechanism by mechanism, k by k.

    Raises
    ------
    InputError
        If a mechanism releases no vector, ratings cannot be used with it, or there are none.
    """
    if not public.items.size or not private.items.size:
        raise InputError(
            f"public users have {public.items.size} ratings and private ones {private.items.size}; an attack needs both"
        )
    copies = -(-played // public.users)
    crowd = public.of(np.tile(np.arange(public.users), copies))
    popularity = public.raters
    total = _total(features, public)
    own = deal(crowd, popularity, seed, "attack played", targets=TARGETS)
    other = deal(private, popularity, seed, "attack private", targets=TARGETS)
    found = []
    for mechanism, epsilon in attacked:
        practice = _lesson(features, own, total, (mechanism, epsilon), derive(seed, "attack devices"))
        target = _lesson(features, other, total, (mechanism, epsilon), derive(seed, "devices"))
        sided = mechanism != NONE and server.half_of(mechanism).sided
        spy = Spy(features=features, popularity=popularity, played=practice, sided=sided)
        auc = spy.tells_rated(target)
        found += [
            Guessed(
                mechanism=mechanism,
                epsilon=epsilon,
                known=count,
                scores=spy.guess(target, count),
                rated_auc=auc,
                users=private.users,
                targets=int(other.owner.size),
            )
            for count in known
        ]
    return found


def _lesson(features: ItemFeatures, dealt: Dealt, total: Floats, asked: Asked, secret: bytes) -> Lesson:
    """Let users release what is asked for, and look at it."""
    return Lesson(seen=seen(features, _released(features, dealt.rows, asked, secret), dealt.rows, total), dealt=dealt)


def _total(features: ItemFeatures, public: Rows) -> Floats:
    """Return the sum of public users' r': what a release leans to before anything is known of its user."""
    total = np.zeros(features.items)
    for first, stop in public.blocks(64):
        block = public.block(first, stop)
        total += residuals(features, block).sum(axis=0)
    return total


def _released(features: ItemFeatures, rows: Rows, asked: Asked, secret: bytes) -> Singles:
    """Return what devices release, as rows z, float32; zeros of no mechanism."""
    mechanism, epsilon = asked
    told = np.zeros((rows.users, features.items), np.float32)
    if mechanism == NONE:
        return told
    if (half := public.found().get(mechanism)) is not None and half.moment:
        others = ", ".join(name for name, one in server.found().items() if one.attacked is not None)
        raise InputError(f"mechanism {mechanism} releases no vector; attack one of {others}")
    query = SecondOrderQuery(model=features.digest, mechanism=mechanism, epsilon=epsilon)
    consent = Consent(mechanisms=frozenset({mechanism}), epsilon=epsilon)
    cohort = PrivateCohort(rows, secret, 0, consent=consent)
    cohort.pin(query.model, 0, rows.users)
    for first, stop in rows.blocks(32):
        for release in cohort.answer(query, features, first, stop):
            told[release.device] = release.as_vector(features, query)
    return told
