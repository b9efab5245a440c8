"""What the exact channel of one query says of releases: log-ratios of two sketches, and how far apart they are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd

from coordinator.protocol.arrays import Bits2, Floats, Ints, Words
from coordinator.protocol.channels import Likelihood, LogRatio
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query
from coordinator.protocol.streams import device_streams
from scenarios.audit.stated import Asking, Sketches
from scenarios.conformance.enumerating import MOST_BITS, chances

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
