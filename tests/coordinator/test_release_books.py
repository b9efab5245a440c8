"""Folding of releases: each device once, in its own order, decoded as it was coded; what it does to features."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from worlds import features_of, planted

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.public_draws import candidate
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.protocol.second_order_channels import basis_of, cap_channel, pack_moment, unpack_moment
from coordinator.protocol.second_order_mechanisms.paper import pmd_factors
from coordinator.protocol.second_order_mechanisms.rivals import sslp_bound
from coordinator.server.completion.fitting import Fitting, ReleaseBook, begin, iterate

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


def test_every_payload_is_decoded_as_it_is_documented() -> None:
    signs = np.array([1, -1, -1, 1, 1, 1, -1, 1, -1, 1, 1.0])
    bits = np.packbits(signs > 0).tobytes()

    def row(query: SecondOrderQuery, payload: bytes, **changes: bool) -> Floats:
        told = SecondOrderRelease(query_id=query.id, device=0, mechanism=query.mechanism, payload=payload)
        return told.as_vector(FEATURES, query, **changes)

    own = np.array([0.75], "<f8").tobytes()
    five = Fraction(5)
    assert np.allclose(row(asked("pmc"), bits), 0.4 * signs)
    assert np.allclose(row(asked("pmc", own_h=True), bits + own), 0.75 * signs)
    assert np.allclose(row(asked("pmc-rr", epsilon=five), bits), 0.4 * signs)
    assert np.allclose(row(asked("sslp", epsilon=five), bits), sslp_bound(FEATURES, five) * signs)
    places = np.arange(ITEMS, dtype=np.uint8) % 5
    raw = 1.0 + places - FEATURES.mean
    assert np.allclose(row(asked("pmd"), places.tobytes(), rescale=False), raw)
    energy = 2.0 + np.square(3.0 - FEATURES.mean)
    assert np.allclose(row(asked("pmd"), places.tobytes()), raw * 0.4 / np.sqrt(energy))
    assert np.allclose(pmd_factors(FEATURES) ** 2 * energy, 0.16)
    noisy = np.linspace(-3, 9, ITEMS)
    assert np.allclose(row(asked("laplace", epsilon=five), noisy.astype("<f8").tobytes()), noisy - FEATURES.mean)


def test_moments_keep_their_inner_product_and_come_back_as_rows() -> None:
    direction = np.array([0.6, -0.8])
    moment = np.outer(direction, direction)
    packed = pack_moment(moment)
    assert np.allclose(unpack_moment(packed, 2), moment)
    assert packed @ packed == pytest.approx(np.square(moment).sum())
    query, channel = asked("privunit", epsilon=Fraction(1)), cap_channel(Fraction(1), 3)
    releases = [
        SecondOrderRelease(query_id=query.id, device=device, mechanism="privunit", payload=answer.to_bytes(2, "little"))
        for device, answer in ((4, 2 * 37), (4, 2 * 37 + 1), (5, 0), (4, channel.choice.choices))
    ]
    told, opposite, other = (release.as_moment(FEATURES, query) for release in releases[:3])
    assert np.allclose(pack_moment(told), candidate(query.id, 4, 37, 3) / channel.length)
    assert np.allclose(told, -opposite)
    assert np.allclose(pack_moment(other), candidate(query.id, 5, 0, 3) / channel.length)
    with pytest.raises(ValueError, match="answer that names a candidate is 128; give a whole number, 0 to 127"):
        releases[3].as_moment(FEATURES, query)
    with pytest.raises(InputError, match="mechanism privunit releases no vector; read its moment"):
        releases[0].as_vector(FEATURES, query)
    bare = asked("exact")
    with pytest.raises(InputError, match="mechanism exact releases no moment; read its vector"):
        exact(bare, 0, np.zeros(ITEMS)).as_moment(FEATURES, bare)
    book = ReleaseBook(ITEMS)
    book.absorb(query, FEATURES, [releases[0], releases[2]])
    rows = stacked(book)
    seen = basis_of(FEATURES).T @ rows.T
    values, directions = np.linalg.eigh((told + other) * ITEMS * 0.4**2)
    assert np.allclose(seen @ seen.T, (directions * np.maximum(values, 0)) @ directions.T)
    assert book.rows() == 2


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


def test_exact_releases_at_full_weight_count_as_public_rows() -> None:
    of = planted(40, 30, rank=2, share=1.0, noise=0.0)
    half = of._replace(starts=of.starts[:21], items=of.items[: 20 * 30], values=of.values[: 20 * 30])
    fitting = Fitting(rank=4, kappa=0.1)
    crowd, everyone = half.crowd(), of.crowd()
    model = begin(crowd, fitting, lowest=-9, highest=9, scale=None)
    features = model.features
    query = asked("exact", features)
    residuals = of.truth[20:] - features.mean
    book = ReleaseBook(30)
    book.absorb(query, features, [exact(query, k, residuals[k], features) for k in range(20)])
    folded = iterate(model, crowd, fitting, 3, book=book, weight=1.0)
    whole = begin(everyone, fitting, lowest=-9, highest=9, scale=None)
    whole.features.mean[:] = features.mean
    together = iterate(whole, everyone, fitting, 3)
    squares = [one.features.vectors @ one.features.vectors.T for one in (folded, together)]
    assert np.abs(squares[0] - squares[1]).max() < 1e-6
    nothing = iterate(model, crowd, fitting, 3, book=book, weight=0.0)
    alone = iterate(model, crowd, fitting, 3)
    assert nothing.features.vectors.tobytes() == alone.features.vectors.tobytes()
