"""Whether devices refuse what is no query of a mechanism, before anything is charged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from copy import copy
from fractions import Fraction
from typing import TypeVar

import numpy as np

from actors.ratings import StoredRatings
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf
from scenarios.conformance.device_checks import everybody, require_spent
from scenarios.conformance.subject import PLAIN, TINY, Subject, cohort
from scenarios.conformance.verdicts import Failed

HUGE = 1e300
T = TypeVar("T")


def refusals(subject: Subject) -> str:
    """Check that what is no query of it is refused in one line, with nothing charged; odd numbers break nothing."""
    query, tried = subject.query(TINY, PLAIN), 0
    ratings = everybody()
    for what, wrong in _no_queries(subject, query):
        tried += 1
        if not _refused(wrong, ratings):
            raise Failed(f"{what} is answered")
    for name in query.parameters:
        for value in (-1.0, 0.0, 0.5, HUGE, -HUGE):
            tried += 1
            _refused(altered(query, parameters={**query.parameters, name: value}), ratings)
    return f"{tried} wrong queries"


def altered(query: Query, **changes: object) -> Query:
    """Return a query that nothing has checked: a hostile server sends what it likes."""
    other = copy(query)
    for name, value in changes.items():
        object.__setattr__(other, name, value)
    return other


def _no_queries(subject: Subject, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield what every mechanism refuses, in words."""
    given, public = query.parameters, subject.public
    yield "another design", altered(query, design=f"{query.design}x")
    yield "another catalogue", altered(query, items=query.items + 1)
    for epsilon in (Fraction(0), Fraction(-1)):
        yield f"epsilon {epsilon}", altered(query, epsilon=epsilon)
    for questions in (-1, 0, public.questions(query).stop):
        yield f"{questions} questions", altered(query, questions=questions)
    for width in (query.answer_bits - 1, query.answer_bits + 1):
        yield f"{width} bits an answer", altered(query, answer_bits=width)
    yield "a parameter too many", altered(query, parameters={**given, "more": 1.0})
    for name in given:
        yield f"no {name}", altered(query, parameters=without(given, name))
        for value in (math.nan, math.inf, "1"):
            yield f"{name} {value!r}", altered(query, parameters={**given, name: value})
    yield "an array too many", altered(query, arrays={**query.arrays, "more": np.arange(3)})
    for name in query.arrays:
        yield f"no array {name}", altered(query, arrays=without(query.arrays, name))
    yield from _of_pools(public, query)
    for epsilon in () if public.private else (Fraction(1), Fraction(1, 10**9), Fraction(10**400)):
        yield "an epsilon, which it cannot keep,", altered(query, epsilon=epsilon)


def _of_pools(public: PublicHalf, query: Query) -> Iterator[tuple[str, Query]]:
    """Yield pools and centres that a mechanism refuses."""
    items = np.arange(query.items, dtype=np.int32)
    for what, pool in (("falling", items[::-1]), ("empty", items[:0]), ("beyond the catalogue", items + 1)):
        yield f"a pool that is {what}", altered(query, pool=pool, centres=None)
    if public.pooled is not None:
        yield "a pool, or none,", altered(query, pool=None if public.pooled else items, centres=None)
    if not public.centred:
        asked = items if query.pool is None else query.pool
        yield "centres", altered(query, pool=query.pool, centres=np.zeros_like(asked))


def without(values: Mapping[str, T], name: str) -> dict[str, T]:
    """Return all values but one."""
    return {other: value for other, value in values.items() if other != name}


def _refused(query: Query, ratings: StoredRatings) -> bool:
    """Return whether devices refuse a query; they may answer it, but not break, nor be charged for a refusal."""
    devices = cohort(ratings, 0, 3)
    try:
        devices.answer(query, 0, 3)
    except InputError as error:
        if "\n" in str(error):
            raise Failed(f"a refusal has several lines: {str(error).splitlines()[0]}") from None
        require_spent(devices, Fraction(0), "a refused query")
        return True
    return False
