"""Whether devices answer a mechanism's queries as every device must: on any layout, once, within the budget."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np

from actors.absence import Absence
from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.messages import Query, Release
from scenarios.conformance.subject import PLAIN, TINY, Subject, cohort, every_rating, stored
from scenarios.conformance.verdicts import Failed


def everybody() -> StoredRatings:
    """Return devices of which one each has rated whatever can be rated in the tiny catalogue."""
    rows = list(every_rating(TINY))
    return stored(rows, range(len(rows)), TINY.items)


def digest(releases: list[Release]) -> str:
    """Return a digest of who answered, of the bits and of what they are about, device by device."""
    hashed = hashlib.sha256()
    for release in sorted(releases, key=lambda one: one.first):
        pairs = release.public_pairs()
        told = [release.answered_mask(), release.unpacked(), *([] if pairs is None else [pairs])]
        hashed.update(np.column_stack(told).astype("<i4").tobytes())
    return hashed.hexdigest()


def layouts(subject: Subject) -> str:
    """Check that one device an actor, blocks and threads release the same, and that the next round has other coins."""
    query, ratings = subject.query(TINY, PLAIN), everybody()
    absence = Absence(dropout=0.2)

    def answered(size: int, threads: int, query: Query = query) -> str:
        firsts = range(0, ratings.users, size)
        stops = [min(first + size, ratings.users) for first in firsts]
        cohorts = [cohort(ratings, *ends, absence=absence) for ends in zip(firsts, stops, strict=True)]
        with ThreadPoolExecutor(threads) as pool:
            releases = pool.map(lambda one: one.answer(query, one.first, one.stop), reversed(cohorts))
            return digest(list(releases))

    whole, later = answered(ratings.users, 1), subject.query(TINY, PLAIN, round_number=1)
    for asked in (query, later):
        expected = whole if asked is query else answered(ratings.users, 1, later)
        for size, threads in ((1, 1), (7, 3), (50, 2)):
            if answered(size, threads, asked) != expected:
                told = f"cohorts of {size} devices on {threads} threads release other bits than one cohort of all"
                raise Failed(told if asked is query else f"round 1: {told}")
    if subject.public.private and expected == whole:
        raise Failed("the next round's query has the same releases: its coins are not keyed by the query")
    return f"{ratings.users} devices, digest {whole[:8]}"


def ledger(subject: Subject) -> str:
    """Check that a new query costs its epsilon, a repeat nothing and has the same bits, and one too many is refused."""
    query, later = subject.query(TINY, PLAIN), subject.query(TINY, PLAIN, round_number=1)
    ratings = everybody()
    budget = None if query.epsilon is None else query.epsilon * Fraction(3, 2)
    devices = cohort(ratings, 0, ratings.users, budget=budget)
    first = devices.answer(query, 0, ratings.users)
    require_spent(devices, query.epsilon, "one query")
    if devices.answer(query, 0, ratings.users) != first:
        raise Failed("asked again, devices release other bits")
    require_spent(devices, query.epsilon, "a query and its repeat")
    second = devices.answer(later, 0, ratings.users)
    if query.epsilon is None:
        return "no noise: the ledger tells no limit, a repeat has the same bits"
    if second.refused != ratings.users or any(second.bits) or second.answered_mask().any():
        raise Failed(f"beyond their budget {ratings.users - second.refused} of {ratings.users} devices answer")
    require_spent(devices, query.epsilon, "a refusal")
    return f"{as_float(query.epsilon):g} for a new query, 0 for its repeat, the next one is refused"


def require_spent(devices: Cohort, epsilon: Epsilon, what: str) -> None:
    """Fail where a device has spent anything else."""
    for first, _, spent in devices.ledger.stretches():
        if spent != epsilon:
            raise Failed(f"device {first} has spent {as_float(spent):g} after {what}, not {as_float(epsilon):g}")
