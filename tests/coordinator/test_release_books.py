"""Folding of releases: each device once, in its own order; and queries, each with an id of its own."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from worlds import features_of

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.fitting import ReleaseBook

ITEMS = 11
FEATURES = features_of(np.random.default_rng(0).standard_normal((ITEMS, 2)), np.linspace(2, 4, ITEMS), common_h=0.4)


def asked(mechanism: str, features: ItemFeatures = FEATURES, **changes: object) -> SecondOrderQuery:
    return SecondOrderQuery(model=features.digest, mechanism=mechanism, **changes)  # type: ignore[arg-type] # fields


def exact(query: SecondOrderQuery, device: int, row: Floats, features: ItemFeatures = FEATURES) -> SecondOrderRelease:
    payload = (row + features.mean).astype("<f8").tobytes()
    return SecondOrderRelease(query_id=query.id, device=device, mechanism=query.mechanism, payload=payload)


def stacked(book: ReleaseBook) -> Floats2:
    return np.concatenate(list(book.blocks()))


def test_a_release_that_arrives_twice_counts_once() -> None:
    rows = np.random.default_rng(1).standard_normal((4, ITEMS))
    query, later = asked("exact"), asked("exact", batch=1)
    book = ReleaseBook(ITEMS)
    book.absorb(query, FEATURES, [exact(query, device, rows[device]) for device in (2, 0, 2)])
    book.absorb(query, FEATURES, [exact(query, device, rows[device]) for device in (0, 1)])
    book.absorb(later, FEATURES, [exact(later, device, -rows[device]) for device in (1, 3)])
    assert (book.devices, book.duplicates, book.rows()) == (4, 3, 4)
    assert np.allclose(stacked(book), [rows[0], rows[2], rows[1], -rows[3]])
    assert np.allclose(book.gram(), stacked(book) @ stacked(book).T)


def test_order_of_arrival_is_forgotten_and_rows_that_do_not_fit_are_decoded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(2).standard_normal((5, ITEMS))
    query = asked("exact")
    told = [exact(query, device, rows[device]) for device in range(5)]
    one, other = ReleaseBook(ITEMS), ReleaseBook(ITEMS)
    one.absorb(query, FEATURES, told)
    monkeypatch.setattr("coordinator.server.completion.fitting.KEPT_BYTES", 0)
    monkeypatch.setattr("coordinator.server.completion.mechanisms.CHUNK", 2)
    other.absorb(query, FEATURES, told[::-1])
    assert [len(block) for block in other.blocks()] == [2, 2, 1]
    assert np.array_equal(stacked(one), stacked(other))


def test_queries_differ_by_everything_and_name_what_they_need() -> None:
    queries = [
        asked("pmc"),
        asked("pmd"),
        asked("pmc", batch=1),
        asked("pmc", own_h=True),
        asked("laplace", epsilon=Fraction(1)),
        asked("laplace", epsilon=Fraction(2)),
        asked("pmc", replace(FEATURES, kappa=2.0)),
    ]
    assert len({query.id for query in queries}) == len(queries)
    none, one = replace(FEATURES, scale=None), replace(FEATURES, scale=(3.0,))
    refused: list[tuple[str, Callable[[], object]]] = [
        ("not the announced one", lambda: queries[-1].require(FEATURES)),
        ("mechanism is 'pmx'", lambda: asked("pmx")),
        ("epsilon is inf", lambda: asked("laplace")),
        ("epsilon is 1 for pmc", lambda: asked("pmc", epsilon=Fraction(1))),
        ("own_h", lambda: asked("pmd", own_h=True)),
        ("K = 2", lambda: asked("pmd", none).require(none)),
        ("K = 2", lambda: asked("pmd", one).require(one)),
    ]
    for words, call in refused:
        with pytest.raises(InputError, match=words):
            call()
