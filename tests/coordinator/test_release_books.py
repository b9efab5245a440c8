"""Folding of releases: each device once, in its own order; and queries, each with an id of its own."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from worlds import features_of

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Release
from coordinator.protocol.second_order import SecondOrderQuery, as_bytes, two_tier_mechanism, two_tier_mechanisms
from coordinator.server.completion.fitting import ReleaseBook

ITEMS = 11
FEATURES = features_of(np.random.default_rng(0).standard_normal((ITEMS, 2)), np.linspace(2, 4, ITEMS), common_h=0.4)


def asked(mechanism: str, features: ItemFeatures = FEATURES, **changes: object) -> SecondOrderQuery:
    return SecondOrderQuery(model=features.digest, mechanism=mechanism, **changes)  # type: ignore[arg-type] # fields


def absorb(
    book: ReleaseBook, query: SecondOrderQuery, rows: dict[int, Floats], features: ItemFeatures = FEATURES
) -> None:
    """Exact releases arrive, in this order."""
    payloads = as_bytes(np.stack(list(rows.values())) + features.mean)
    book.absorb(query, features, np.array(list(rows)), payloads)


def stacked(book: ReleaseBook) -> Floats2:
    return np.concatenate(list(book.blocks()))


def test_a_release_that_arrives_twice_counts_once() -> None:
    rows = np.random.default_rng(1).standard_normal((4, ITEMS))
    query, later = asked("exact"), asked("exact", batch=1)
    book = ReleaseBook(ITEMS)
    absorb(book, query, {2: rows[2], 0: rows[0]})
    absorb(book, query, {0: rows[0], 1: rows[1]})
    absorb(book, later, {1: -rows[1], 3: -rows[3]})
    assert (book.devices, book.duplicates, book.rows()) == (4, 2, 4)
    assert np.allclose(stacked(book), [rows[0], rows[2], rows[1], -rows[3]])
    assert np.allclose(book.gram(), stacked(book) @ stacked(book).T)


def test_order_of_arrival_is_forgotten_and_rows_that_do_not_fit_are_decoded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = np.random.default_rng(2).standard_normal((5, ITEMS))
    query = asked("exact")
    one, other = ReleaseBook(ITEMS), ReleaseBook(ITEMS)
    absorb(one, query, dict(enumerate(rows)))
    monkeypatch.setattr("coordinator.server.completion.fitting.KEPT_BYTES", 0)
    monkeypatch.setattr("coordinator.server.completion.fitting.CHUNK", 2)
    absorb(other, query, {device: rows[device] for device in reversed(range(5))})
    assert [len(block) for block in other.blocks()] == [2, 2, 1]
    assert np.array_equal(stacked(one), stacked(other))


def release_of(query: SecondOrderQuery, payload: bytes, **changes: Any) -> Release:
    about = {"query_id": query.id, "first": 4, "count": 1, "width": 8 * len(payload), "bits": payload}
    return Release(**{**about, **changes})


def test_answers_to_another_query_are_refused() -> None:
    query, payload = asked("exact"), bytes(8 * ITEMS)
    assert query.payloads(release_of(query, payload), FEATURES)[0].tolist() == [4]
    for other in (release_of(asked("exact", batch=1), payload), release_of(query, payload[1:])):
        with pytest.raises(InputError, match="no answer"):
            query.payloads(other, FEATURES)


@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
def test_a_payload_has_its_size_and_its_numbers(mechanism: str) -> None:
    query = asked(mechanism, epsilon=Fraction(1) if two_tier_mechanism(mechanism).takes_epsilon else None)
    size = two_tier_mechanism(mechanism).size(query, FEATURES)
    bad = [bytes(size - 1), bytes(size + 1)]
    if mechanism in {"laplace", "exact"}:
        bad += [value.tobytes() * ITEMS for value in np.array([np.nan, np.inf, -np.inf, 1e300], "<f8")]
    bad += {"pmd": [b"\x05" * size, b"\xff" * size], "privunit": [b"\xff\xff"]}.get(mechanism, [])
    for payload in bad:
        with pytest.raises(InputError):
            ReleaseBook(ITEMS).absorb(query, FEATURES, np.array([3]), np.frombuffer(payload, np.uint8)[None])
    ReleaseBook(ITEMS).absorb(query, FEATURES, np.array([3]), np.zeros((1, size), np.uint8))


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
