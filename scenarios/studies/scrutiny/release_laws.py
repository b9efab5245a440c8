"""The claimed law of a query's releases, enumerated over sketches, and draws of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, TypeAlias, cast

import numpy as np
import pandas as pd

from actors.ratings import RatingsBlock, StoredRatings
from coordinator.protocol.arrays import Bits2, Bools, Bools2, Floats, Ints, Words
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import ExactChannel, Likelihood, LogRatio
from coordinator.protocol.coins import round_key
from coordinator.protocol.custom import CustomChannel, MechanismError, Question, fitted, guarded, question_of, stated
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import DeviceCoins
from coordinator.protocol.messages import Query
from coordinator.protocol.short_adapter import CustomAdapter, ShortAdapter
from scenarios.studies.scrutiny.mechanism_under_test import CoinsPerInput, MechanismUnderTest, Rated, coins_of, stored
from scenarios.studies.scrutiny.verdicts import Failed

MOST_BITS = 12  # bits of a release whose values are enumerated
DEVICES, PILOTS = 16, 48
"""Devices whose public coins are tried by a check, and by an audit: what a private sketch can be depends on them."""
LIKELIHOODS = 60_000
"""Devices whose claimed likelihoods are looked up, one by one, where a channel depends on public coins."""
FEW = 64  # devices of which every claimed likelihood is looked up, to see which inputs lie farthest apart
SURE = 60.0  # log-ratios are cut off here: what is certain
AnyChannel = ExactChannel | Likelihood
Sketch = tuple[int, ...]
Shares = dict[Sketch, list[int]]
"""Probabilities of all releases of each private sketch, as numerators over one denominator."""
Sketches: TypeAlias = np.ndarray[Any, np.dtype[Any]]  # Whole numbers, a row for each device


class UnclaimedQuestion(Question):
    """A question that says what it may cost but claims nothing, so that a channel is built whatever it gives away."""

    cost: float = math.inf

    @property
    def nats(self) -> float:
        """What the answer may cost [nats]."""
        return self.cost


class Unheld(ShortAdapter):
    """The adapter of a custom mechanism that does not refuse a channel that gives away too much."""

    def channel(self, query: Query) -> CustomChannel:
        """Return the channel that the class states, or would state if it did not have to claim anything."""
        try:
            return cast("CustomChannel", stated(self.custom, query))
        except MechanismError as error:
            question = question_of(query)
            values = {part.name: getattr(question, part.name) for part in fields(question)}
            free = UnclaimedQuestion(**{**values, "epsilon": None})
            object.__setattr__(free, "cost", question.nats)
            try:
                answer = guarded(self.custom.mechanism, "channel", query.round, free)
                return cast("CustomChannel", fitted(self.custom, query, answer))
            except MechanismError:
                raise error from None


class ClaimedLaw:
    """What is claimed of one query's releases, and the mechanism that sketches and draws them, past any refusal."""

    def __init__(self, subject: MechanismUnderTest, query: Query) -> None:
        public, self.device, self.query = subject.public, subject.public, query
        self._public = public
        self.names_rated = public.names_rated  # which items a device rated is public
        self.channel: AnyChannel | None = None  # so it stays where ratings are released as they are
        self.refusal = ""  # why devices refuse such a query, if they do
        if not public.randomizes:
            return
        try:
            self.channel = public.channel(query)
        except MechanismError as error:
            if not isinstance(public, ShortAdapter):
                raise
            beyond = Unheld(custom=public.custom)
            self.channel, self.refusal = beyond.channel(query), str(error)
            self.device = beyond

    @property
    def claimed(self) -> Epsilon:
        """Epsilon that is claimed of one release, exactly [nats]; None where none is."""
        return self.query.epsilon if self._public.randomizes else None

    @property
    def enumerable(self) -> bool:
        """Whether there is a channel, of releases few enough to go through."""
        return self.channel is not None and self.query.bits <= MOST_BITS

    def streams(self, devices: int) -> Words:
        """Return the public streams of devices from 0 on."""
        return device_streams(round_key(self.query.public_seed, self.query.round), 0, devices)

    def sketch(self, ratings: StoredRatings, coins: DeviceCoins | None = None) -> tuple[Sketches, Bools]:
        """Return what devices have to say, shape (devices, k), and which of them can answer."""
        block = RatingsBlock(ratings, coins_of(self.query, 0, ratings.users))
        coins = coins or block.coins
        sketch = self.device.sketch(self.query, block, coins)
        able = np.ones(ratings.users, np.bool_) if sketch.able is None else sketch.able.astype(np.bool_)
        if self.channel is None:  # then it lets out the sketch itself
            return self.device.randomize(sketch.private, self.query, coins), able
        private: Sketches = sketch.private.reshape(ratings.users, -1)
        return private, able

    def sketches(self, inputs: Iterable[Rated], devices: int = DEVICES) -> list[dict[Sketch, Ints]]:
        """Return every sketch that each of a few devices can have, as the array that it made."""
        sketches: list[dict[Sketch, Ints]] = [{} for _ in range(devices)]
        private, able = self.of_inputs(list(inputs), devices)
        for row, answers in zip(private, able, strict=True):
            for device, sketch in zip(np.flatnonzero(answers).tolist(), map(tuple, row[answers].tolist()), strict=True):
                if sketch not in sketches[device]:
                    sketches[device][sketch] = row[device].copy()
        return sketches

    def of_inputs(self, rows: Sequence[Rated], devices: int) -> tuple[Sketches, Bools2]:
        """Return what devices say of each input, shape (inputs, devices, k), and which of them can answer."""
        # Item queries, and a long class of a user's, may count devices from the first of a block on
        long = isinstance(self.device, CustomAdapter) and not isinstance(self.device, ShortAdapter)
        size = 1 if long or self.channel is None else len(rows)
        coins, parts = coins_of(self.query, 0, devices), list[tuple[Sketches, Bools]]()
        for first in range(0, len(rows), size):
            block = rows[first : first + size]
            ratings = stored(block, np.repeat(np.arange(len(block)), devices), self.query.items)
            parts.append(self.sketch(ratings, CoinsPerInput(coins, len(block))))
        private, able = (np.concatenate(part) for part in zip(*parts, strict=True))
        return private.reshape(len(rows), devices, -1), able.reshape(len(rows), devices)

    def chances(self, sketch: Ints, public: np.uint64) -> list[Fraction]:
        """Return the probabilities of all releases of one sketch; see `chances`."""
        assert self.channel is not None  # where it is called
        return chances(self.channel, sketch, self.query.bits, public)

    def enumeration(self, inputs: Iterable[Rated], devices: int = DEVICES) -> Enumeration:
        """Let a few devices sketch each of the inputs, and look up what their sketches release."""
        streams, sketches = self.streams(devices), self.sketches(inputs, devices)
        if isinstance(self.channel, Likelihood):  # it depends on a device's public coins
            tables = tuple(
                _shares({sketch: self.chances(array, public) for sketch, array in sorted(of_device.items())})
                for of_device, public in zip(sketches, streams, strict=True)
                if of_device
            )
            return Enumeration(tables, tables)
        of_device = {sketch: array for device in reversed(sketches) for sketch, array in device.items()}
        whole = _shares({sketch: self.chances(of_device[sketch], streams[0]) for sketch in sorted(of_device)})
        alike = {frozenset(device) for device in sketches if device}
        return Enumeration(tuple({sketch: whole[sketch] for sketch in device} for device in alike), (whole,))

    def log_ratio(self, inputs: Iterable[Rated]) -> LogRatio | None:
        """Return the largest log-ratio, exact: in closed form, or enumerated; None where releases are too many."""
        if self.channel is None:
            return LogRatio.of(None)
        if not isinstance(self.channel, Likelihood):
            return self.channel.log_ratio
        return LogRatio.of(self.enumeration(inputs, PILOTS).farthest()[0]) if self.enumerable else None


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The chances of all releases of all sketches that devices can have."""

    devices: tuple[Shares, ...]  # of the sketches that one device can have, for devices that differ
    comparable: tuple[Shares, ...]  # of all sketches where the channel is the same on all devices; else as above

    def farthest(self) -> tuple[Fraction | None, str]:
        """Return the largest ratio of one release's probabilities over all pairs of sketches, and where it is."""
        ratios = map(largest_ratio, self.comparable)
        return max(ratios, key=lambda ratio: math.inf if ratio[0] is None else ratio[0])

    def reached(self, enough: Fraction) -> Fraction:
        """Return the largest ratio of sketches that one device can have, or the first that is ``enough``."""
        reached = Fraction(1)
        for shares in self.devices:
            reached = max(reached, largest_ratio(shares)[0] or Fraction(1))
            if reached >= enough:
                break
        return reached


def chances(channel: AnyChannel, sketch: Ints, bits: int, public: np.uint64) -> list[Fraction]:
    """Return the probabilities of all releases of one private sketch; it raises `Failed` if they are none."""
    row = channel.chances(sketch, public) if isinstance(channel, Likelihood) else channel.chances(sketch)
    if len(row) > 1 << bits:
        raise Failed(f"the channel states {len(row)} chances for {bits} bits")
    (numbers,), every = _numerators([row])
    if sum(numbers) != every or min(numbers) < 0:
        sums = f"sum to {sum(numbers) / every:.9g}, the least is {min(numbers) / every:g}"
        raise Failed(f"chances of sketch {sketch.tolist()} {sums}")
    return row + [Fraction(0)] * ((1 << bits) - len(row))


def _shares(rows: dict[Sketch, list[Fraction]]) -> Shares:
    return dict(zip(rows, _numerators(list(rows.values()))[0], strict=True))


def _numerators(rows: Sequence[list[Fraction]]) -> tuple[list[list[int]], int]:
    """Return rows of chances as whole numbers over one denominator, and that one."""
    # A row has a thousand places but few chances, each of them one object
    chances = {id(chance): chance for row in rows for chance in row}
    common = math.lcm(*{chance.denominator for chance in chances.values()})
    number = {key: chance.numerator * (common // chance.denominator) for key, chance in chances.items()}
    return [[number[id(chance)] for chance in row] for row in rows], common


def largest_ratio(shares: Shares) -> tuple[Fraction | None, str]:
    """Return the largest ratio of one release's probabilities over all pairs of sketches, None for an infinite one."""
    largest, pair, sketches = Fraction(1), "equal sketches", list(shares)
    for release, column in enumerate(zip(*shares.values(), strict=True)):
        largest_share, smallest_share = max(column), min(column)
        if largest_share * largest.denominator > smallest_share * largest.numerator:
            most, least = (list(sketches[column.index(share)]) for share in (largest_share, smallest_share))
            pair = f"sketches {most} and {least} at release {release}"
            if smallest_share == 0:
                return None, pair
            largest = Fraction(largest_share, smallest_share)
    return largest, pair


def keys_of(columns: Sketches) -> Ints:
    """Return a number for each row of an array that is the same for equal rows, int64, shape (rows,)."""
    keys = np.zeros(len(columns), np.uint64)
    for column in columns.T:
        keys = (keys * np.uint64(0x9E3779B97F4A7C15)) ^ (
            column.astype(np.int64).view(np.uint64) + np.uint64(0x632BE59B)
        )
    return np.asarray(keys.view(np.int64))


def patterns_of(bits: Bits2) -> Ints:
    """Return releases as whole numbers where they have up to 62 bits, most significant first; else as `keys_of`."""
    if bits.shape[1] > 62:
        return keys_of(np.packbits(bits, axis=1))
    return np.asarray(bits.astype(np.int64) @ (1 << np.arange(bits.shape[1], dtype=np.int64)[::-1]))


class LogRatios:
    """Log-ratios that a law claims of two sketches of each device, for devices from 0 on."""

    def __init__(self, law: ClaimedLaw) -> None:
        self._law, self._channel = law, law.channel
        self._index: dict[int, int] = {}  # of a sketch's row, by the sketch's key
        self._rows: list[Floats] = []
        self._by_device: dict[tuple[int, Sketch], Floats] = {}
        self._alike = None if isinstance(self._channel, Likelihood) else True

    def alike(self, sketches: Sketches) -> bool:
        """Return whether the law is the same on all devices; of a likelihood, as seen on a few of them."""
        if self._alike is None:
            assert isinstance(self._channel, Likelihood)  # others are known to be
            few = [
                [list(self._channel.likelihood(sketch, public)) for public in self._law.streams(4)]
                for sketch in sketches[:8]
            ]
            self._alike = all(row == rows[0] for rows in few for row in rows)
        return self._alike

    def distance(self, ours: Sketches, theirs: Sketches) -> Floats:
        """Return how far apart the laws of two sketches of each device are: the log-ratio, else how much differs."""
        enumerable = self._law.enumerable
        if enumerable and len(ours) <= FEW and not self.alike(ours):
            logs = [[self._of_device(device, side[device]) for side in (ours, theirs)] for device in range(len(ours))]
            return np.array([float((first_logs - other).max()) for first_logs, other in logs])
        if not (enumerable and self.alike(ours)):
            return np.asarray(np.abs(ours.astype(np.int64) - theirs).sum(axis=1).astype(np.float64))
        left, right = self._places(ours), self._places(theirs)
        size = len(self._rows)
        inverse, pairs = pd.factorize(left * size + right)
        far = [float((self._rows[pair // size] - self._rows[pair % size]).max()) for pair in pairs.tolist()]
        return np.array(far)[inverse]

    def of_releases(self, ours: Sketches, theirs: Sketches, bits: Bits2) -> Floats:
        """Return the claimed log-ratio of each device's release given two sketches; 0 where nothing is claimed."""
        if not self._law.enumerable:
            return np.zeros(len(bits))
        releases = patterns_of(bits)
        if self.alike(ours):
            left, right, rows = self._places(ours), self._places(theirs), np.array(self._rows)
            ratios = rows[left, releases] - rows[right, releases]
        else:
            ratios = np.zeros(len(bits))
            streams = self._law.streams(len(bits))
            for device in range(min(len(bits), LIKELIHOODS)):
                ours_chance, other = (
                    self._chance(side[device], streams[device], releases[device]) for side in (ours, theirs)
                )
                ratios[device] = ours_chance - other
        return np.clip(np.round(ratios, 6), -SURE, SURE)

    def likeliest(self, sketches: Sketches) -> Bits2 | None:
        """Return the likeliest release of each sketch, shape (devices, bits); None where the law does not say it."""
        # A sketch of bits is its own likeliest release where there are too many releases to enumerate.
        bits = self._law.query.bits
        if self._law.enumerable and self.alike(sketches):
            places = self._places(sketches)
            best = np.array([int(np.argmax(row)) for row in self._rows])
            return np.asarray(((best[places][:, None] >> np.arange(bits)[::-1]) & 1).astype(np.uint8))
        if sketches.shape[1] == bits and np.isin(sketches, (0, 1)).all():
            return sketches.astype(np.uint8)
        return None

    def _places(self, sketches: Sketches) -> Ints:
        """Return the place of each sketch's law in the table, which grows by those that are new."""
        inverse, keys = pd.factorize(keys_of(sketches))
        first = np.zeros(keys.size, np.int64)
        first[inverse[::-1]] = np.arange(inverse.size)[::-1]
        for key, where in zip(keys.tolist(), first.tolist(), strict=True):
            if key not in self._index:
                self._index[key] = len(self._rows)
                self._rows.append(_logs(self._law.chances(sketches[where].copy(), np.uint64(0))))
        return np.array([self._index[key] for key in keys.tolist()])[inverse]

    def _of_device(self, device: int, sketch: Ints) -> Floats:
        """Return logarithms of the claimed likelihood of all releases of one device, kept once they are known."""
        key = device, tuple(sketch.tolist())
        if key not in self._by_device:
            assert isinstance(self._channel, Likelihood)  # where it is called
            self._by_device[key] = _logs(self._channel.likelihood(sketch, self._law.streams(FEW)[device]))
        return self._by_device[key]

    def _chance(self, sketch: Ints, public: np.uint64, release: int) -> float:
        """Return the logarithm of the claimed likelihood of one release."""
        assert isinstance(self._channel, Likelihood)  # where it is called
        row = self._channel.likelihood(sketch, public)
        return math.log(max(row[release], 1e-26)) if release < len(row) else -SURE


def floats(chances: Iterable[float | Fraction]) -> Floats:
    """Return chances as floats."""
    row = list(chances)
    value = {key: float(chance) for key, chance in {id(chance): chance for chance in row}.items()}
    return np.array([value[id(chance)] for chance in row])


def _logs(row: Iterable[float | Fraction]) -> Floats:
    with np.errstate(divide="ignore"):
        logs: Floats = np.maximum(np.log(floats(row)), -SURE)
    return logs


BLOCK = 1 << 15  # number of devices that are sampled at once for releases of one sketch


def releases_of_sketch(law: ClaimedLaw, sketch: Ints, devices: int) -> Iterator[Bits2]:
    """Yield the releases of devices that all have one private sketch, block by block."""
    public = law.streams(1)[0]
    for first in range(0, devices, BLOCK):
        private, coins = cast("Bits2", np.repeat(sketch[None], BLOCK, axis=0)), coins_of(law.query, first, BLOCK)
        if isinstance(law.channel, Likelihood):
            yield law.channel.draw(private, np.full(BLOCK, public), coins.release)
        else:
            yield law.device.randomize(private, law.query, coins)
