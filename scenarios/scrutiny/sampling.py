"""Devices that hold one of two inputs are asked, and what leaves them is kept beside what the channel states of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from actors.halves import DeviceHalf
from actors.mechanisms import half_of as device_half
from actors.own import OwnDevice
from actors.ratings import StoredRatings
from coordinator.protocol.admitted import OwnPublic, fitted, question_of, stated
from coordinator.protocol.arrays import Bits2, Bools, Floats, Indices2, Ints, Words
from coordinator.protocol.channels import Likelihood, LogRatio
from coordinator.protocol.coins import round_key
from coordinator.protocol.guarding import guarded
from coordinator.protocol.mechanisms import half_of as public_half
from coordinator.protocol.messages import Query
from coordinator.protocol.own import MechanismError, OwnChannel, Question
from coordinator.protocol.streams import device_streams
from scenarios.scrutiny.laws import MOST_BITS, AnyChannel, chances
from scenarios.scrutiny.mechanism import SECRET, Neighbours, cohort, coins_of, stored

Sketches: TypeAlias = np.ndarray[Any, np.dtype[Any]]
"""Whole numbers, a row for each device."""


class Unclaimed(Question):
    """A question that tells what it may cost, but claims nothing, so that a channel is built however much it tells."""

    told: float = math.inf

    @property
    def nats(self) -> float:
        """What the answer may cost [nats]."""
        return self.told


class Unheld(OwnPublic):
    """The public half of one's own mechanism that does not refuse a channel which tells too much."""

    def channel(self, query: Query) -> OwnChannel:
        """Return the channel that the class states, or would state if it did not have to claim anything."""
        try:
            return stated(self.own, query)
        except MechanismError as error:
            asked = question_of(query)
            told = {part.name: getattr(asked, part.name) for part in fields(asked)}
            free = Unclaimed(**{**told, "epsilon": None})
            object.__setattr__(free, "told", asked.nats)
            try:
                return fitted(self.own, query, guarded(self.own.mechanism, "channel", query.round, free))
            except MechanismError:
                raise error from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What all devices let out, once: their bits, whether they answered, and the public pairs that bits are about."""

    bits: Bits2
    answered: Bools
    pairs: Indices2 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """How devices answer one query.

    Attributes
    ----------
    device : DeviceHalf
        Their half, which draws past a refusal where they refuse.
    channel : Channel, Likelihood or None
        As it is stated; None where ratings are told as they are.
    refusal : str
        Why devices refuse such a query, if they do.
    """

    device: DeviceHalf
    channel: AnyChannel | None
    refusal: str = ""


class Asking:
    """How queries are asked: of devices as a run has them, or past their refusal."""

    def __init__(self) -> None:
        self._stated: dict[bytes, Stated] = {}

    def stated(self, query: Query) -> Stated:
        """Return how devices answer a query; what a class states of it is looked up once."""
        if query.id not in self._stated:
            self._stated[query.id] = self._looked_up(query)
        return self._stated[query.id]

    def _looked_up(self, query: Query) -> Stated:
        public, device = public_half(query.design), device_half(query.design)
        if not public.private:
            return Stated(device=device, channel=None)
        try:
            return Stated(device=device, channel=public.channel(query))
        except MechanismError as error:
            if not isinstance(public, OwnPublic):
                raise
            beyond = Unheld(public.own)
            channel = beyond.channel(query)
            return Stated(device=OwnDevice(public.own, beyond), channel=channel, refusal=str(error))

    def sketch(self, query: Query, ratings: StoredRatings) -> tuple[Sketches, Bools]:
        """Return what devices have to say, shape (devices, k), and which of them can answer."""
        device = self.stated(query).device
        told = device.sketch(query, ratings, coins_of(query, 0, ratings.users))
        able = np.ones(ratings.users, np.bool_) if told.able is None else told.able.astype(np.bool_)
        if self.stated(query).channel is None:  # then it lets out the sketch itself
            return device.randomize(told.private, query, coins_of(query, 0, ratings.users)), able
        sketches: Sketches = told.private.reshape(ratings.users, -1)
        return sketches, able

    def answers(self, queries: list[Query], ratings: StoredRatings, secret: bytes = SECRET) -> list[Answers]:
        """Return what devices let out when they are asked these queries in turn; each says what it says in a run.

        With another ``secret`` they draw other noise: what is chosen by some releases is measured on others.
        """
        devices, told = cohort(ratings, 0, ratings.users, secret=secret), []
        for query in queries:
            if self.stated(query).refusal:
                told.append(self._past_refusal(query, ratings, secret))
                continue
            release = devices.answer(query, 0, ratings.users)
            told.append(
                Answers(bits=release.unpacked(), answered=release.answered_mask(), pairs=release.public_pairs())
            )
        return told

    def _past_refusal(self, query: Query, ratings: StoredRatings, secret: bytes) -> Answers:
        coins, device = coins_of(query, 0, ratings.users, secret), self.stated(query).device
        bits = device.randomize(device.sketch(query, ratings, coins).private, query, coins)
        return Answers(bits=bits, answered=np.ones(ratings.users, np.bool_), pairs=None)


LIKELIHOODS = 60_000
"""Devices whose stated likelihoods are looked up, one by one, where a channel depends on public coins."""
FEW = 64
"""Devices of which every stated likelihood is looked up, to see which inputs lie farthest apart."""
SURE = 60.0
"""Log-ratios are cut off here: what is certain."""


def keys_of(columns: Sketches) -> Ints:
    """Return a number for each row of an array that is the same for equal rows, int64, shape (rows,)."""
    told = np.zeros(len(columns), np.uint64)
    for column in columns.T:
        told = (told * np.uint64(0x9E3779B97F4A7C15)) ^ (
            column.astype(np.int64).view(np.uint64) + np.uint64(0x632BE59B)
        )
    found: Ints = told.view(np.int64)
    return found


def patterns_of(bits: Bits2) -> Ints:
    """Return releases as whole numbers where they have up to 62 bits, most significant first; else as `keys_of`."""
    if bits.shape[1] > 62:
        packed = np.packbits(bits, axis=1)
        return keys_of(packed)
    told: Ints = bits.astype(np.int64) @ (1 << np.arange(bits.shape[1], dtype=np.int64)[::-1])
    return told


class Laws:
    """The stated law of the releases of one query, for devices from 0 on.

    Parameters
    ----------
    asking : Asking
        How it is asked.
    query : Query
        What is asked.
    """

    def __init__(self, asking: Asking, query: Query) -> None:
        self._query, self._channel = query, asking.stated(query).channel
        self._known: dict[int, int] = {}
        self._rows: list[Floats] = []
        self._stated: dict[tuple[int, tuple[int, ...]], Floats] = {}
        self.told = self._channel is not None and query.bits <= MOST_BITS
        self._alike = None if isinstance(self._channel, Likelihood) else True

    def alike(self, sketches: Sketches) -> bool:
        """Return whether the law is the same on all devices; of a likelihood, as seen on a few of them."""
        if self._alike is None:
            assert isinstance(self._channel, Likelihood)  # others are known to be
            rows = [
                [list(self._channel.likelihood(one, public)) for public in self._streams(4)] for one in sketches[:8]
            ]
            self._alike = all(row == told[0] for told in rows for row in told)
        return self._alike

    def _streams(self, devices: int) -> Words:
        """Return the public streams of devices from 0 on."""
        return device_streams(round_key(self._query.public_seed, self._query.round), 0, devices)

    def _places(self, sketches: Sketches) -> Ints:
        """Return the place of each sketch's law in the table, which grows by those that are new."""
        inverse, keys = pd.factorize(keys_of(sketches))
        first = np.zeros(keys.size, np.int64)
        first[inverse[::-1]] = np.arange(inverse.size)[::-1]
        for key, where in zip(keys.tolist(), first.tolist(), strict=True):
            if key not in self._known:
                assert self._channel is not None  # where it is called
                row = chances(self._channel, sketches[where].copy(), self._query, np.uint64(0))
                self._known[key] = len(self._rows)
                with np.errstate(divide="ignore"):
                    self._rows.append(np.maximum(np.log(np.array([float(one) for one in row])), -SURE))
        return np.array([self._known[key] for key in keys.tolist()])[inverse]

    def distance(self, ours: Sketches, theirs: Sketches) -> Floats:
        """Return how far apart the laws of two sketches of each device are: the log-ratio, else how much differs.

        Where likelihoods are stated they are gone through for a few devices only.
        """
        if self.told and len(ours) <= FEW and not self.alike(ours):
            return self._by_likelihood(ours, theirs)
        if not (self.told and self.alike(ours)):
            far: Floats = np.abs(ours.astype(np.int64) - theirs).sum(axis=1).astype(np.float64)
            return far
        left, right = self._places(ours), self._places(theirs)
        size = len(self._rows)
        inverse, pairs = pd.factorize(left * size + right)
        told = [float((self._rows[pair // size] - self._rows[pair % size]).max()) for pair in pairs.tolist()]
        return np.array(told)[inverse]

    def log_ratio(self, ours: Sketches, theirs: Sketches, bits: Bits2) -> Floats:
        """Return the stated log-ratio of each device's release given two sketches; 0 where nothing is stated."""
        if not self.told:
            return np.zeros(len(bits))
        if self.alike(ours):
            told, left, right = patterns_of(bits), self._places(ours), self._places(theirs)
            rows = np.array(self._rows)
            return self._cut(rows[left, told] - rows[right, told])
        return self._of_likelihood(ours, theirs, patterns_of(bits))

    def _by_likelihood(self, ours: Sketches, theirs: Sketches) -> Floats:
        logs = [[self._logs(device, sketches[device]) for sketches in (ours, theirs)] for device in range(len(ours))]
        return np.array([float((one - other).max()) for one, other in logs])

    def _logs(self, device: int, sketch: Ints) -> Floats:
        """Return logarithms of the stated likelihood of all releases of one device, kept once they are known."""
        assert isinstance(self._channel, Likelihood)  # where it is called
        key = device, tuple(sketch.tolist())
        if key not in self._stated:
            row = self._channel.likelihood(sketch, self._streams(FEW)[device])
            with np.errstate(divide="ignore"):
                self._stated[key] = np.maximum(np.log(np.array([float(one) for one in row])), -SURE)
        return self._stated[key]

    def _of_likelihood(self, ours: Sketches, theirs: Sketches, told: Ints) -> Floats:
        assert isinstance(self._channel, Likelihood)  # where it is called
        streams = self._streams(len(told))
        state, found = self._channel.likelihood, np.zeros(len(told))
        for device in range(min(len(told), LIKELIHOODS)):
            place = int(told[device])
            chance = [state(one[device], streams[device]) for one in (ours, theirs)]
            logs = [math.log(max(row[place], 1e-26)) if place < len(row) else -SURE for row in chance]
            found[device] = logs[0] - logs[1]
        return self._cut(found)

    @staticmethod
    def _cut(told: Floats) -> Floats:
        return np.clip(np.round(told, 6), -SURE, SURE)

    def likely(self, sketches: Sketches) -> Bits2 | None:
        """Return the likeliest release of each sketch, shape (devices, bits): itself where that is one; or None."""
        bits = self._query.bits
        if sketches.shape[1] == bits and sketches.max(initial=0) <= 1:
            return sketches.astype(np.uint8)
        if not (self.told and self.alike(sketches)):
            return None
        places = self._places(sketches)
        best = np.array([int(np.argmax(row)) for row in self._rows])
        told: Bits2 = ((best[places][:, None] >> np.arange(bits)[::-1]) & 1).astype(np.uint8)
        return told


def largest_stated(asking: Asking, query: Query, rows: list[Sketches]) -> LogRatio | None:
    """Return the largest log-ratio that a channel states, exact: in closed form, or over sketches and public coins.

    Returns
    -------
    LogRatio or None
        None where a likelihood has too many releases to go through.
    """
    channel = asking.stated(query).channel
    if channel is None:
        return LogRatio.of(None)
    if not isinstance(channel, Likelihood):
        return channel.log_ratio
    if query.bits > MOST_BITS:
        return None
    streams = device_streams(round_key(query.public_seed, query.round), 0, len(rows[0]))
    most, least = Fraction(1), Fraction(1)
    for device, public in enumerate(streams):
        known = {tuple(row[device].tolist()): row[device] for row in rows}
        table = [list(channel.likelihood(sketch, public)) for sketch in known.values()]
        for column in set(zip(*table, strict=True)):
            high, low = max(column), min(column)
            if high > 0 and not low > 0:
                return LogRatio.of(None)
            above, below = Fraction(high), Fraction(low)  # floats, too, are rational numbers
            if above * least > most * below:
                most, least = above, below
    return LogRatio.of(most / least)


COMPANY = 3
"""Devices that stand together where an attack looks at neighbours by address: the victim is the one in the middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the attacker knows of one query's releases, device by device; arrays of one length.

    The attacker is also told what the device would have to say with either input: no promise rests on the coins that
    a sketch is made with.

    Attributes
    ----------
    query : Query
    answers : Answers
        What left the devices.
    ours, theirs : ndarray, shape (devices, k)
        Sketches with input a, and with b.
    stated : ndarray of float64
        Stated log-ratio of what was released.
    likely_ours, likely_theirs : ndarray of uint8, shape (devices, bits), or None
        The likeliest release with either input.
    """

    query: Query
    answers: Answers
    ours: Sketches
    theirs: Sketches
    stated: Floats
    likely_ours: Bits2 | None
    likely_theirs: Bits2 | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What one attack saw.

    Attributes
    ----------
    seen : list of Seen
        A query each.
    victims : ndarray of int64
        Addresses of the devices that are attacked, those whose sketches may differ.
    secret : ndarray of bool
        Whether each device, victim or not, holds input a.
    pair : ndarray of int64
        Which pair of inputs each device has.
    company : tuple of int
        Where devices stand whose inputs the attacker knows, counted from the victim.
    """

    seen: list[Seen]
    victims: Ints
    secret: Bools
    pair: Ints
    company: tuple[int, ...] = ()


def play(
    asking: Asking,
    queries: Sequence[Query],
    neighbours: Neighbours,
    devices: int,
    coins: np.random.Generator,
    *,
    fitted: bool = True,
    company: bool = False,
) -> Played:
    """Let devices answer, and return what is seen.

    Parameters
    ----------
    asking : Asking
        How they are asked.
    queries : sequence of Query
        What they are asked in turn; one may come twice.
    neighbours : Neighbours
        Pairs of inputs.
    devices : int
        How many.
    coins : numpy.random.Generator
        Who holds what.
    fitted : bool
        Whether each device gets the pair that the channel tells apart best there, and is no victim where none is; else
        pairs are drawn.
    company : bool
        Whether the attacker knows the inputs of the devices around the victim, and sees what they release.
    """
    secret = coins.random(devices) < 0.5
    rows, pairs = neighbours
    first = {
        row: asking.sketch(queries[0], stored([rows[row]], np.zeros(devices, np.int64), queries[0].items))
        for row in _used(pairs)
    }
    pair, able = coins.integers(len(pairs), size=devices), np.ones(devices, np.bool_)
    if fitted:
        laws = Laws(asking, queries[0])  # of a likelihood it says in which pairs sketches differ
        far = np.stack([laws.distance(first[one][0], first[two][0]) for one, two in pairs.tolist()])
        pair, able = far.argmax(axis=0), far.max(axis=0) > 0
    held = pairs[pair, np.where(secret, 0, 1)]
    answers = asking.answers(list(queries), stored(rows, held, queries[0].items))
    seen: list[Seen] = []
    for number, query in enumerate(queries):
        if number and query is queries[number - 1]:
            told = seen[-1].ours, seen[-1].theirs
        else:
            told = _sketches(asking, query, neighbours, pair, first if number == 0 else None)
        seen.append(_looked_at(Laws(asking, query), query, answers[number], *told))
    victims = np.flatnonzero(able)
    if company:
        victims = victims[(victims % COMPANY == 1) & (victims < devices - 1)]
    return Played(seen=seen, victims=victims, secret=secret, pair=pair, company=(-1, 1) if company else ())


def _used(pairs: Ints) -> list[int]:
    return [int(row) for row in np.unique(pairs)]


def _sketches(
    asking: Asking, query: Query, neighbours: Neighbours, pair: Ints, known: dict[int, tuple[Sketches, Bools]] | None
) -> tuple[Sketches, Sketches]:
    rows, pairs = neighbours
    told = known or {
        row: asking.sketch(query, stored([rows[row]], np.zeros(pair.size, np.int64), query.items))
        for row in _used(pairs)
    }
    sides = []
    for side in (0, 1):
        mine = np.empty_like(next(iter(told.values()))[0])
        for place, row in enumerate(pairs[:, side].tolist()):
            mine[pair == place] = told[row][0][pair == place]
        sides.append(mine)
    return sides[0], sides[1]


def _looked_at(laws: Laws, query: Query, answers: Answers, ours: Sketches, theirs: Sketches) -> Seen:
    likely = laws.likely(ours), laws.likely(theirs)
    known = likely if likely[0] is not None and likely[1] is not None else (None, None)
    return Seen(
        query=query,
        answers=answers,
        ours=ours,
        theirs=theirs,
        stated=laws.log_ratio(ours, theirs, answers.bits),
        likely_ours=known[0],
        likely_theirs=known[1],
    )
