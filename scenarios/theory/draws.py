"""Devices that are not simulated: the sum of their answers is drawn from its law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from actors.device import PIECE, sketch_of
from actors.ratings import StoredRatings
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Floats, Indices2
from coordinator.protocol.channels import COIN, IndependentBits, MatrixChannel
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.law import Law, People
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.server.rounds.state import Ask
from scenarios.data.people import FilePeople

FEWEST_SKETCHES, MOST_CELLS = 8, 1 << 28  # Of every person, and numbers of all sketches together beyond these


@dataclass(frozen=True, slots=True)
class Drawn:
    """Carries a query to nobody; see `coordinator.server.rounds.conductor.Transport`."""

    people: People  # Whom devices are drawn from
    coins: np.random.Generator  # What sums are drawn with
    _laws: dict[bytes, Law] = field(default_factory=dict, repr=False)  # Of the latest query, by its id

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        """Draw the sum of the answers of as many devices as a round asks; nothing is released."""
        return self._law(ask.query).draw(ask.stop - ask.first, self.coins), []

    def _law(self, query: Query) -> Law:
        if (law := self._laws.get(query.id)) is not None:
            return law
        self._laws.clear()
        return self._laws.setdefault(query.id, law_of(query, self.people))


def law_of(query: Query, people: People) -> Law:
    """Return the law of a query's sum: as its mechanism says it, or else by devices that sketch a file's people."""
    mechanism = mechanism_of(query.design)
    if mechanism.has_law or not (mechanism.adds_up and isinstance(people, FilePeople)):
        return mechanism.law(query, people)
    channel = mechanism.channel(query)
    if not isinstance(channel, IndependentBits | MatrixChannel):
        raise InputError(f"{query} has no channel whose answers add up by a law; let devices answer")

    def draw(users: int, coins: np.random.Generator) -> CountStatistic:
        chances = mean_chances(query, channel, people, users, coins.bytes(16))
        one_of_many = isinstance(channel, MatrixChannel)
        sums = (coins.multinomial if one_of_many else coins.binomial)(users, chances).astype(np.int64)
        pooled = 0 if query.pool is None else users
        return CountStatistic(sums=sums, ones=0, devices=users, answered=users, refused=0, pooled=pooled)

    return Law(draw)


def mean_chances(
    query: Query, channel: IndependentBits | MatrixChannel, people: FilePeople, users: int, secret: bytes
) -> Floats:
    """Return the mean over people of the chance of each output, or of each bit, by the exact channel of sketches."""
    # Everybody is sketched by devices of its own, again and again, unless chance has no part in it: nearly as often as
    # devices answer. Where that is less, what is left of the sketches' chance makes sums noisier than they would be.
    ratings = StoredRatings(rows=people.fold.train, user=np.arange(people.fold.train.users, dtype=np.int32))
    width = channel.bits if isinstance(channel, IndependentBits) else 1
    times = max(FEWEST_SKETCHES, min(users, MOST_CELLS // width) // ratings.users)
    sums = np.zeros(width if isinstance(channel, IndependentBits) else len(channel.rows))
    first, second = (_sketched(query, ratings, derive(secret, f"sketch {number}"), sums) for number in (0, 1))
    if np.array_equal(first, second):
        times = 2
    for number in range(2, times):
        _sketched(query, ratings, derive(secret, f"sketch {number}"), sums)
    means = sums / (times * ratings.users)
    if isinstance(channel, MatrixChannel):
        chances: Floats = means @ np.array([[cell / COIN for cell in row] for row in channel.rows])
        return np.asarray(chances / chances.sum())
    of_zero, of_one = channel.if_zero / COIN, channel.if_one / COIN
    return np.asarray(np.clip(of_zero + means * (of_one - of_zero), 0, 1))


def _sketched(query: Query, ratings: StoredRatings, secret: bytes, sums: Floats) -> Bits2 | Indices2:
    """Add the sketches of everybody by one device each to sums of bits, or of private values; return the last ones."""
    private: Bits2 | Indices2 = np.empty((0, 0), np.uint8)
    for first in range(0, ratings.users, PIECE):
        coins = Coins(as_words(secret), first, min(PIECE, ratings.users - first), query.words)
        private = sketch_of(query, ratings, coins).private
        bits = private.dtype == np.uint8
        sums += private.sum(axis=0) if bits else np.bincount(private[:, 0], minlength=sums.size)
    return private
