"""Which two inputs an attack tells apart: those that the channel tells apart best, and those found by search."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query
from scenarios.audit.laws import Laws, patterns_of
from scenarios.audit.stated import Asking
from scenarios.conformance.subject import Rated, Size, every_rating, stored

PILOTS = 48
"""Devices whose sketches of every input are compared."""
AT_ONCE = 1 << 20
"""Numbers of sketches that are compared at once."""
MOST_PAIRS = 4
"""Pairs of inputs that one attack uses; a device's own pair depends on its public coins."""
ENUMERATED = 250
"""Inputs of a catalogue up to which every one is tried."""
DRAWN = 40
"""Inputs of a larger catalogue that are drawn, beside plain ones."""
SEARCHED = 1 << 18
"""Releases that a search looks at, at most."""
SEARCHING = derive(0, "devices that are searched")
"""The secret of these devices: their noise is not that of the devices on which an attack is measured."""
CHUNK = 8
"""Bits of a long release that a search looks at together."""


class Neighbours(NamedTuple):
    """Pairs of inputs, by their places among some inputs: shape (pairs, 2)."""

    rows: tuple[Rated, ...]
    pairs: Ints


def inputs(size: Size, coins: np.random.Generator) -> list[Rated]:
    """Return what a device may have rated: everything in a tiny catalogue, else plain inputs and drawn ones."""
    if sum(comb(size.items, many) << many for many in range(size.rated + 1)) <= ENUMERATED:
        return list(every_rating(size))
    whole = range(min(size.rated, size.items))
    plain: list[Rated] = [(), *(tuple((item, like) for item in whole) for like in (True, False))]
    plain += [((item, like),) for item in (0, 1, size.items - 1) for like in (True, False)]
    plain += [tuple((item, like == (item > 0)) for item in whole) for like in (True, False)]
    for _ in range(DRAWN):
        some = np.sort(coins.choice(size.items, coins.integers(1, len(whole) + 1), replace=False))
        plain.append(tuple((int(item), bool(coins.integers(2))) for item in some))
    return list(dict.fromkeys(plain))


def comparable(rows: Sequence[Rated], *, names_rated: bool) -> Ints:
    """Return the places of two inputs that are neighbours: any two, or where rated items are public, rated alike."""
    alike = [tuple(item for item, _ in row) for row in rows]
    found = [pair for pair in combinations(range(len(rows)), 2) if not names_rated or alike[pair[0]] == alike[pair[1]]]
    return np.array(found, np.int64).reshape(-1, 2)


def stated_worst(asking: Asking, query: Query, rows: list[Rated], pairs: Ints) -> Neighbours:
    """Return the few pairs of inputs that together lie farthest apart on most devices, as the channel states it."""
    laws = Laws(asking, query)
    told = [asking.sketch(query, stored([row], [0] * PILOTS, query.items)) for row in rows]
    sketches, answered = (np.stack(parts) for parts in zip(*told, strict=True))
    one_by_one = laws.told and not laws.alike(sketches[pairs[0, 0]])
    step = 1 if one_by_one else max(1, AT_ONCE // sketches[0].size)
    far = np.zeros((len(pairs), PILOTS))
    for first in range(0, len(pairs), step):
        one, two = pairs[first : first + step].T
        apart = laws.distance(np.concatenate(sketches[one]), np.concatenate(sketches[two])).reshape(-1, PILOTS)
        far[first : first + step] = np.where(answered[one] & answered[two], apart, 0.0)
    chosen: list[int] = []
    reached = np.zeros(PILOTS)
    for _ in range(MOST_PAIRS):
        gain = np.maximum(far, reached).sum(axis=1)
        best = int(np.argmax(gain))
        if chosen and gain[best] <= reached.sum() * 1.01:
            break
        chosen.append(best)
        reached = np.maximum(reached, far[best])
    return _kept(rows, pairs[chosen])


def searched(
    asking: Asking, query: Query, rows: list[Rated], pairs: Ints, *, releases: int, coins: np.random.Generator
) -> Neighbours:
    """Return the pairs of inputs whose releases differ most, whatever the channel states, in releases of their own."""
    devices = min(SEARCHED, releases, (1 << 24) // query.bits)
    own = coins.integers(len(rows), size=devices)
    (answers,) = asking.answers([query], stored(rows, own, query.items), SEARCHING)
    least = np.full(len(pairs), -np.inf)
    for first in range(0, query.bits, CHUNK):
        seen = patterns_of(answers.bits[:, first : first + CHUNK]) + (1 << CHUNK) * ~answers.answered
        counts = np.bincount(own * (2 << CHUNK) + seen, minlength=len(rows) * (2 << CHUNK)).reshape(len(rows), -1)
        counts = counts[:, counts.any(axis=0)]
        least = np.maximum(least, _least(counts, np.bincount(own, minlength=len(rows)), pairs))
    return _kept(rows, pairs[np.argsort(-least, kind="stable")[:MOST_PAIRS]])


def _least(counts: Ints, devices: Ints, pairs: Ints) -> Floats:
    """Return a cautious log-ratio of one release's shares for each pair of inputs, the largest over releases."""
    shares = np.log((counts + 0.5) / (devices + 1.0)[:, None])
    spread = 1.0 / (counts + 0.5)
    found = np.full(len(pairs), -np.inf)
    for column in range(counts.shape[1]):
        share, noise = shares[:, column], spread[:, column]
        apart = np.abs(share[pairs[:, 0]] - share[pairs[:, 1]])
        found = np.maximum(found, apart - 4 * np.sqrt(noise[pairs[:, 0]] + noise[pairs[:, 1]]))
    return found


def _kept(rows: list[Rated], pairs: Ints) -> Neighbours:
    kept, places = np.unique(pairs, return_inverse=True)
    return Neighbours(tuple(rows[place] for place in kept.tolist()), places.reshape(pairs.shape))
