"""What is checked: the three halves of a mechanism with one choice of its settings, in small worlds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import NamedTuple, Protocol

import numpy as np

from actors.absence import PRESENT, Absence
from actors.coins import Coins
from actors.device import Cohort
from actors.halves import DeviceHalf, Sketched
from actors.ratings import Ratings, StoredRatings
from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf
from coordinator.protocol.rows import RowTable
from coordinator.server.server_half import ServerHalf
from scenarios.given.config import Scenario

EPSILONS = (Fraction(1, 10), Fraction(1), Fraction(3))
"""Where channels are enumerated, if nothing else is said [nats]."""
PLAIN = Fraction(1)
"""An epsilon at which everything but the channel is looked at [nats]."""
SECRET, PUBLIC = derive(0, "devices"), derive(0, "public")
ROUNDS = ((0, PUBLIC), (1, PUBLIC), (0, bytes(16)), (7, derive(1, "public")))
"""Rounds and public seeds that channels are looked at with: what is honest in one of them must be so in all."""
Rated = tuple[tuple[int, bool], ...]
"""Items that a device rated, ascending, each with whether it liked it."""


class Size(NamedTuple):
    """How large a world is."""

    items: int
    rated: int
    users: int


TINY = Size(items=5, rated=3, users=1000)
"""So small that everything a device may have rated can be enumerated, up to ``rated`` items."""
MIDDLE = Size(items=60, rated=20, users=1000)
"""Where what a tiny catalogue cannot reach is looked for by drawing ratings."""
RUN = Size(items=200, rated=20, users=1_000_000)
"""Of the size of a run."""


def every_rating(size: Size) -> Iterator[Rated]:
    """Yield all that a device may have rated: every set of at most ``rated`` items, and every like."""
    for many in range(size.rated + 1):
        for chosen in combinations(range(size.items), many):
            for likes in product((False, True), repeat=many):
                yield tuple(zip(chosen, likes, strict=True))


def stored(rows: Sequence[Rated], user: Sequence[int] | Ints, items: int) -> StoredRatings:
    """Return the ratings of devices, of which the i-th has those of ``rows[user[i]]``; rated items are public."""
    flat = [rating for row in rows for rating in row]
    return StoredRatings(
        rows=RowTable(
            starts=np.cumsum([0, *map(len, rows)]),
            items=np.array([item for item, _ in flat], np.int32),
            values=np.array([like for _, like in flat], np.bool_),
            count=items,
        ),
        user=np.array(user, np.int32),
        rated_public=True,
    )


class Asks(Protocol):
    """How a mechanism asks in a small world of two clusters."""

    def __call__(self, size: Size, epsilon: Epsilon, round_number: int, public_seed: bytes) -> Query:
        """Return the query of a round; ``epsilon`` is what a scenario says [nats].

        Raises
        ------
        InputError
            If the mechanism does not fit that world.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A mechanism with one choice of its settings.

    Attributes
    ----------
    label : str
        Its name, with what of its settings is not the default.
    public, device, server
        Its halves.
    asks : callable
        What it asks.
    epsilons : tuple of Fraction
        Where its channel is enumerated [nats].
    scenario : callable or None
        The same as a scenario that can be run; None where there is none.
    """

    label: str
    public: PublicHalf
    device: DeviceHalf
    server: ServerHalf
    asks: Asks
    epsilons: tuple[Fraction, ...] = EPSILONS
    scenario: Callable[..., Scenario] | None = None

    def query(self, size: Size, epsilon: Epsilon, *, round_number: int = 0, public_seed: bytes = PUBLIC) -> Query:
        """Return what is asked in a small world of two clusters.

        Raises
        ------
        InputError
            If the mechanism does not fit that world.
        """
        return self.asks(size, epsilon, round_number, public_seed)

    def sketch(self, query: Query, ratings: Ratings) -> Sketched:
        """Return what devices have to say."""
        return self.device.sketch(query, ratings, coins_of(query, 0, ratings.users))


def coins_of(query: Query, first: int, devices: int, secret: bytes = SECRET) -> Coins:
    """Return the private coins of devices from ``first`` on."""
    return Coins(as_words(secret), first, devices, query.words)


def cohort(
    ratings: Ratings,
    first: int,
    stop: int,
    *,
    budget: Epsilon = None,
    absence: Absence = PRESENT,
    secret: bytes = SECRET,
) -> Cohort:
    """Return devices as a run has them; they look up their half of the mechanism themselves."""
    return Cohort(ratings, secret, first, stop, budget, absence=absence)
