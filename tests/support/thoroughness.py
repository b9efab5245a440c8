"""How much of a test runs: cases that cover all values, and smaller sizes."""

from __future__ import annotations

import hashlib
import os
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pytest

# How much of a large test runs: a part by default, all of it in ``make test-thorough``.
V = TypeVar("V")
THOROUGH = os.environ.get("BLINDREC_THOROUGH") == "1"
FEWEST = 6  # Examples of a property, by default


def examples(most: int) -> int:
    """Return how many examples of a property are drawn: an eighth of the most by default."""
    return most if THOROUGH else min(most, max(FEWEST, most // 8))


def size(most: int, default: int) -> int:
    """Return how large a test is that has a size."""
    return most if THOROUGH else default


def sample(cases: Sequence[V], default: int) -> list[V]:
    """Return all cases, or so many of them by default, evenly spread from the first."""
    return list(cases) if THOROUGH else list(cases)[:: -(-len(cases) // default)]


# Which cases of a parametrised test run by default: some that have every value of every parameter between them.
FEW = 4  # A test of no more cases is whole


def surplus(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that a covering sample needs not: those marked thorough, and cases whose values others have.

    A test marked ``whole`` needs all of its cases, and one marked ``few`` the stated number, whatever their values.
    """
    functions, more = defaultdict(list), []
    for item in items:
        if item.get_closest_marker("thorough"):
            more.append(item)
        elif hasattr(item, "callspec") and not item.get_closest_marker("whole"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        # The same on every machine, and not always the first that somebody thought of
        order = sorted(cases, key=lambda case: hashlib.sha256(case.nodeid.encode()).digest())
        if few := cases[0].get_closest_marker("few"):
            more += order[few.args[0] :]
        elif len(cases) > FEW:
            needed = _covering(order)
            more += [case for case in order if case not in needed]
    return more


def _covering(order: list[pytest.Item]) -> set[pytest.Item]:
    """Return cases that have every value: those that alone have one, then each time one with the most new ones."""
    values = {case: set(_values(case.callspec.params.items())) for case in order}  # type: ignore[attr-defined]
    counts = Counter(value for every in values.values() for value in every)
    needed = {case for case, every in values.items() if any(counts[value] == 1 for value in every)}
    missing = counts.keys() - {value for case in needed for value in values[case]}
    while missing:
        best = max(order, key=lambda case: len(values[case] & missing))
        needed.add(best)
        missing -= values[best]
    return needed


def _values(named: Iterable[tuple[Hashable, object]]) -> Iterator[Hashable]:
    """Yield values by name, each with its type, as True is not 1; of a tuple or a dictionary those that it holds."""
    for name, value in named:
        if isinstance(value, (tuple, dict)):
            inner = value.items() if isinstance(value, dict) else enumerate(value)
            yield from ((name, one) for one in _values(inner))
        else:
            yield name, type(value), value if _hashable(value) else repr(value)


def _hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
