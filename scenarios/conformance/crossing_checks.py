"""What crosses between devices and server: types, sizes, and that silence tells nothing."""

from __future__ import annotations

import pickle
from dataclasses import fields
from itertools import groupby

import numpy as np

from actors.absence import Absence
from coordinator.protocol.messages import Query, Release
from coordinator.server.aggregation import aggregate
from coordinator.server.fleet.layout import cut
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.conformance.device_checks import everybody
from scenarios.conformance.enumerating import DEVICES
from scenarios.conformance.subject import PLAIN, PUBLIC, SECRET, TINY, Rated, Subject, cohort, every_rating, stored
from scenarios.conformance.verdicts import Failed


def crossing(subject: Subject) -> str:
    """Check types and sizes: a query, a release of its bits a device, whole numbers; silent devices release zeros."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    if type(query) is not Query:
        raise Failed(f"a {type(query).__name__} is asked, no Query")
    if query.public_seed != PUBLIC:
        raise Failed("the query brings another public seed than it was given")
    devices = cohort(ratings, 0, ratings.users, absence=Absence(dropout=0.3))
    release = devices.answer(query, 0, ratings.users)
    if type(release) is not Release:
        raise Failed(f"a {type(release).__name__} is released, no Release")
    if release.width != query.bits or len(release.bits) != -(-release.count * query.bits // 8):
        raise Failed(f"{len(release.bits)} bytes of {release.width} bits a device, the query asks for {query.bits}")
    silent = ~release.answered_mask()
    if not silent.any() or release.unpacked()[silent].any():
        raise Failed("a device that does not answer releases more than zeros")
    if (release.pairs is not None) != subject.public.names_rated:
        raise Failed("pairs of items are released" if release.pairs else "the pairs that bits are about are missing")
    statistic = aggregate(query, release)
    _whole_numbers(statistic)
    if SECRET in pickle.dumps([query, release, statistic]):
        raise Failed("the devices' secret is in what crosses")
    return f"{query.bits} bits a device, {int(silent.sum())} of {release.count} silent"


def silence(subject: Subject) -> str:
    """Check that who answers, and about what, follows from public things alone: silence is no release."""
    query = subject.query(TINY, PLAIN)
    public = (lambda rated: tuple(item for item, _ in rated)) if subject.public.names_rated else (lambda _: ())
    for _, alike in groupby(every_rating(TINY), key=public):
        told = {_who(subject, query, rated) for rated in alike}
        if len(told) > 1:
            raise Failed("devices that rated otherwise are silent, or answer about other items")
        if not subject.public.names_rated and told != {(bytes([1]) * DEVICES, b"")}:
            raise Failed("a device is silent, or names items, though nothing that it rated is public")
    return "which items were rated is public, how is not" if subject.public.names_rated else "everybody alike"


def merging(subject: Subject) -> str:
    """Check that the statistic of a block is the sum of those of its parts, in any cut."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    devices = cohort(ratings, 0, ratings.users, absence=Absence(dropout=0.1))
    whole = _told(aggregate(query, devices.answer(query, 0, ratings.users)))
    for size in (ratings.users // 2 + 1, 10, 1):
        blocks = cut(0, ratings.users, size)
        parts = [aggregate(query, devices.answer(query, first, stop)) for first, stop in blocks]
        if _told(merge(*parts)) != whole:
            raise Failed(f"blocks of {size} devices have another sum than one block of {ratings.users}")
    return f"{ratings.users} devices in one block, in two, by ten and one by one"


def _who(subject: Subject, query: Query, rated: Rated) -> tuple[bytes, bytes]:
    _, able, pairs = subject.sketch(query, stored([rated], [0] * DEVICES, TINY.items))
    mask = np.ones(DEVICES, np.bool_) if able is None else able
    return mask.tobytes(), b"" if pairs is None else pairs.tobytes()


def _whole_numbers(statistic: Statistic) -> None:
    if not isinstance(statistic, Statistic):
        raise Failed(f"aggregate returns a {type(statistic).__name__}, no Statistic")
    for part in fields(statistic):
        value = getattr(statistic, part.name)
        if type(value) is not int and not (isinstance(value, np.ndarray) and value.dtype == np.int64):
            raise Failed(f"{part.name} of the statistic is no whole number, nor an array of int64")


def _told(statistic: Statistic) -> dict[str, object]:
    _whole_numbers(statistic)
    values = {part.name: getattr(statistic, part.name) for part in fields(statistic)}
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
