"""The stated law of a query: what devices of a small catalogue can have to say, and the chances of its releases."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Ints, Words
from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import Channel, Likelihood
from coordinator.protocol.coins import round_key
from coordinator.protocol.messages import Query
from coordinator.protocol.streams import device_streams
from scenarios.scrutiny.mechanism import TINY, Rated, Subject, stored
from scenarios.scrutiny.verdicts import Failed, Unchecked

DEVICES = 16
"""Devices whose public coins are tried: what a private sketch can be depends on them."""
AnyChannel = Channel | Likelihood
MOST_BITS = 12
"""Bits of a release whose values are enumerated."""
Sketch = tuple[int, ...]
Place = tuple[int, Sketch]
"""A device, where its public coins matter to the channel (else 0), and its private sketch."""
Shares = dict[Place, list[int]]
"""Probabilities of all releases, as numerators over one denominator."""


@dataclass(frozen=True, slots=True)
class Enumerated:
    """What devices can have to say, and the chances of what they release.

    Attributes
    ----------
    sketches : dict
        Every private sketch as the array that a device made.
    shares : dict
        What it releases, by device and sketch.
    devices : set of frozenset
        Which of them any one device can have.
    alike : bool
        Whether the channel is the same on all devices; a likelihood depends on a device's public coins.
    """

    sketches: dict[Sketch, Ints]
    shares: Shares
    devices: set[frozenset[Place]]
    alike: bool

    def farthest(self) -> tuple[Fraction | None, str]:
        """Return the largest ratio of one release's probabilities over all pairs of sketches, and where it is."""
        if self.alike:
            return largest_ratio(self.shares)
        found = [largest_ratio({place: self.shares[place] for place in places}) for places in self.devices]
        return max(found, key=lambda told: math.inf if told[0] is None else told[0])

    def reached(self, enough: Fraction) -> Fraction:
        """Return the largest ratio of sketches that one device can have, or the first that is ``enough``."""
        reached = Fraction(1)
        for places in self.devices:
            ratio, _ = largest_ratio({place: self.shares[place] for place in places})
            reached = max(reached, ratio or Fraction(1))
            if reached >= enough:
                break
        return reached


def enumerated(subject: Subject, query: Query, channel: AnyChannel, ratings: Iterable[Rated]) -> Enumerated:
    """Let a few devices sketch each of the ratings, and look up what their sketches release.

    Raises
    ------
    Failed
        If a row of the channel is no distribution over the releases.
    """
    alike, streams = not isinstance(channel, Likelihood), streams_of(query)
    sketches, known = sketched(subject, query, ratings)
    devices = [{(0 if alike else device, sketch) for sketch in found} for device, found in enumerate(known)]
    places = set().union(*devices)
    rows = {place: chances(channel, sketches[place[1]], query, streams[place[0]]) for place in sorted(places)}
    common = math.lcm(*{chance.denominator for row in rows.values() for chance in row})
    shares = {place: [one.numerator * (common // one.denominator) for one in row] for place, row in rows.items()}
    return Enumerated(sketches, shares, {frozenset(found) for found in devices if found}, alike)


def sketched(subject: Subject, query: Query, ratings: Iterable[Rated]) -> tuple[dict[Sketch, Ints], list[set[Sketch]]]:
    """Let a few devices sketch each of the ratings: return all their sketches, and which of them each device has."""
    devices: list[set[Sketch]] = [set() for _ in range(DEVICES)]
    sketches: dict[Sketch, Ints] = {}
    for rated in ratings:
        private, able, _ = subject.sketch(query, stored([rated], [0] * DEVICES, query.items))
        for device, known in enumerate(devices):
            if able is None or able[device]:
                sketch = tuple(private[device].tolist())
                known.add(sketch)
                sketches.setdefault(sketch, private[device].copy())
    return sketches, devices


def streams_of(query: Query) -> Words:
    """Return the public streams of the devices that are tried."""
    return device_streams(round_key(query.public_seed, query.round), 0, DEVICES)


def chances(channel: AnyChannel, private: Ints, query: Query, public: np.uint64) -> list[Fraction]:
    """Return the probabilities of all releases of one private sketch, one for each value of the query's bits.

    Raises
    ------
    Failed
        If they are no distribution.
    """
    row = channel.chances(private, public) if isinstance(channel, Likelihood) else channel.chances(private)
    if len(row) > 1 << query.bits:
        raise Failed(f"the channel tells {len(row)} chances for {query.bits} bits")
    every = math.lcm(*{one.denominator for one in row})
    numbers = [one.numerator * (every // one.denominator) for one in row]  # fractions would take most of the time
    if sum(numbers) != every or min(numbers) < 0:
        told = f"sum to {sum(numbers) / every:.9g}, the least is {min(numbers) / every:g}"
        raise Failed(f"chances of sketch {private.tolist()} {told}")
    return row + [Fraction(0)] * ((1 << query.bits) - len(row))


def largest_ratio(shares: Shares) -> tuple[Fraction | None, str]:
    """Return the largest ratio of one release's probabilities over all pairs of sketches, None for an infinite one."""
    largest, pair, places = Fraction(1), "equal sketches", list(shares)
    for release, column in enumerate(zip(*shares.values(), strict=True)):
        high, low = max(column), min(column)
        if high * largest.denominator > low * largest.numerator:
            most, least = (list(places[column.index(share)][1]) for share in (high, low))
            pair = f"sketches {most} and {least} at release {release}"
            if low == 0:
                return None, pair
            largest = Fraction(high, low)
    return largest, pair


def channel_of(subject: Subject, query: Query, epsilon: Fraction) -> AnyChannel:
    """Return the exact channel of a query that is asked at an epsilon.

    Raises
    ------
    Unchecked
        If there is none, or releases of a tiny catalogue are too many to enumerate.
    Failed
        If the query is asked at another epsilon.
    """
    if not subject.public.private and subject.server.private:
        raise Unchecked("devices tell a trusted curator their ratings; its guarantee is about what it publishes")
    if not subject.public.private:
        raise Unchecked("it is not private: there is no channel, and no query with an epsilon")
    if query.epsilon != epsilon:
        raise Failed(f"a query for epsilon {as_float(epsilon):g} is asked with {as_float(query.epsilon):g}")
    if query.items == TINY.items and query.bits > MOST_BITS:
        raise Unchecked(f"releases of {query.bits} bits are too many to enumerate")
    return subject.public.channel(query)
