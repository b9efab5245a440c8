"""One attack: devices hold one of two inputs by a fair coin, are asked, and the attacker looks at what leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools, Floats, Ints
from coordinator.protocol.messages import Query
from scenarios.audit.laws import Laws, Sketches
from scenarios.audit.neighbours import Neighbours
from scenarios.audit.stated import Answers, Asking
from scenarios.conformance.subject import stored

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
        row: asking.sketch(queries[0], stored([rows[row]], np.zeros(devices), queries[0].items)) for row in _used(pairs)
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
        row: asking.sketch(query, stored([rows[row]], np.zeros(pair.size), query.items)) for row in _used(pairs)
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
