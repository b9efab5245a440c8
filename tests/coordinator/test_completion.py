"""Completion by EM, models as they are announced, and what two-tier mechanisms' releases are folded to."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import sample
from worlds import PlantedRatings as Planted
from worlds import complete, complete_many, features_of, fitted, planted

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.channels import ExactChannel
from coordinator.protocol.coins import BITS, on_grid, significant, step_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, tastes
from coordinator.protocol.messages import Release
from coordinator.protocol.second_order import (
    SecondOrderQuery,
    as_bytes,
    two_tier_mechanism,
    two_tier_mechanisms,
)
from coordinator.server.completion import fitting as spectrum
from coordinator.server.completion.batches import VECTOR_BITS, announced, canonical, gridded
from coordinator.server.completion.crowd import cut_users
from coordinator.server.completion.fitting import FittedModel, Fitting, ReleaseBook, centre


def equation_2(of: Planted, mean: Floats, fit: Floats2, kappa: float) -> float:
    """Equation 2's objective, ``|P(Y - X)|^2 + 2 kap |X|_*``."""
    error = np.where(of.seen, of.dense(mean) - fit, 0)
    return float(np.square(error).sum() + 2 * kappa * np.linalg.svd(fit, compute_uv=False).sum())


def soft_impute(of: Planted, mean: Floats, kappa: float, iterations: int = 1200) -> Floats2:
    """Equation 2's optimum by dense soft-thresholded singular values (Mazumder, Hastie and Tibshirani, 2010)."""
    fit = np.zeros(of.truth.shape)
    for _ in range(iterations):
        left, values, right = np.linalg.svd(np.where(of.seen, of.dense(mean), fit), full_matrices=False)
        fit = (left * np.maximum(values - kappa, 0)) @ right
    return fit


KAPPA = 2.0
PROX = Fitting(rank=30, kappa=KAPPA, mstep="prox")


@pytest.fixture(scope="module")
def ratings() -> Planted:
    return planted(30, 40, rank=3, share=0.4)


@pytest.fixture(scope="module")
def optimum(ratings: Planted) -> FittedModel:
    return fitted(ratings, PROX, 400)


def fit_of(of: Planted, features: ItemFeatures) -> Floats2:
    """X: all predictions less means."""
    own = tastes(features, of.starts, of.items, of.values - features.mean[of.items])
    return own @ features.vectors.T


def test_em_prox_never_rises_and_ends_at_the_optimum_of_equation_2(ratings: Planted, optimum: FittedModel) -> None:
    objectives = np.array([step.objective for step in optimum.steps])
    assert np.diff(objectives).max() <= 1e-9 * objectives[0]
    mean = optimum.features.mean
    best = equation_2(ratings, mean, soft_impute(ratings, mean, KAPPA), KAPPA)
    assert objectives[-1] == pytest.approx(best, abs=1e-6)
    assert equation_2(ratings, mean, fit_of(ratings, optimum.features), KAPPA) == pytest.approx(best, abs=1e-6)


@pytest.mark.few(2)
@pytest.mark.parametrize(("norm", "rows"), [("uniform", 1000), ("uniform", 0), ("weighted", 1000)])
def test_two_workers_give_the_model_of_one(norm: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spectrum, "MOMENT_ITEMS", 0)
    monkeypatch.setattr(spectrum, "ROWS", rows)
    monkeypatch.setattr("coordinator.server.completion.crowd.RATINGS_A_COHORT", 100)
    of = planted(50, 40, rank=2, share=0.5)
    assert len(cut_users(of.rows())) > 5
    fitting = Fitting(rank=4, kappa=1.0, weighted=norm == "weighted")
    one, two = (announced(fitted(of, fitting, 5, workers), of.crowd(workers)).features for workers in (1, 2))
    assert one.digest == two.digest
    assert one.vectors.tobytes() == two.vectors.tobytes()


def test_nothing_to_learn_from_is_refused() -> None:
    empty = planted(2, 3, rank=1, share=1.0)
    none = empty._replace(starts=np.zeros(3, np.int64), items=empty.items[:0], values=empty.values[:0])
    with pytest.raises(InputError, match="0 ratings"):
        centre(none.crowd())


def test_the_digest_covers_everything_that_devices_use() -> None:
    one = features_of(np.ones((3, 2)), np.zeros(3))
    changes = {
        "mean": np.array([0.0, 0.0, 1e-12]),
        "vectors": np.array([[1.0, 1], [1, 1], [1, 1 + 1e-12]]),
        "kappa": 1.1,
        "lowest": 0.4,
        "highest": 5.1,
        "scale": (1.0, 2.0),
        "common_h": 0.6,
        "mean_degree": 3.0,
    }
    digests = {replace(one, **{name: value}).digest for name, value in changes.items()}  # type: ignore[arg-type] # a field
    assert len(digests | {one.digest}) == len(changes) + 1
    assert replace(one).digest == one.digest


MODEL = worlds.features(items=12, rank=2)


def test_no_two_mechanisms_have_one_place() -> None:
    orders = [part.order for part in two_tier_mechanisms().values()]
    assert orders == sorted(set(orders))


@pytest.mark.parametrize("name", two_tier_mechanisms())
def test_an_epsilon_has_an_exact_channel_that_is_checked(name: str) -> None:
    """A class of the protocol that computes its epsilon: test_channels.py holds all of these to e**epsilon."""
    part = two_tier_mechanism(name)
    if not part.takes_epsilon:
        assert part.channel(worlds.query(MODEL, name), MODEL) is None
        return
    for epsilon in sample([Fraction(2), part.smallest, Fraction(part.largest), Fraction(1, 3)], 1):
        channel = part.channel(worlds.query(MODEL, name, epsilon=epsilon), MODEL)
        assert channel is not None
        of = type(channel)
        assert of.__module__.startswith("coordinator.protocol")
        assert issubclass(of, ExactChannel)
        assert float(epsilon) * (1 - 2e-6) <= channel.epsilon <= float(epsilon)
        assert channel.log_ratio.within(epsilon)
    for wrong in (part.smallest / 2, Fraction(part.largest) * 2):
        with pytest.raises(InputError, match=f"the coins of {name} can express"):
            worlds.query(MODEL, name, epsilon=wrong)


NOISE = 1e-13  # More than libraries differ by, as a share of the largest entry


def vectors_of(seed: int, *, items: int = 300, rank: int = 8) -> Floats2:
    """V as it is fitted: orthogonal columns, longest first."""
    columns = np.linalg.qr(np.random.default_rng(seed).standard_normal((items, rank)))[0]
    return np.ascontiguousarray(columns * np.sqrt(np.linspace(40.0, 4.0, rank)))


def other_library(vectors: Floats2, seed: int, noise: float = NOISE) -> Floats2:
    """The same model as another library might give it: other signs, another order, other last bits."""
    coins = np.random.default_rng([seed, 1])
    turned = vectors[:, coins.permutation(vectors.shape[1])] * coins.choice([-1.0, 1.0], vectors.shape[1])
    found: Floats2 = turned + noise * np.abs(vectors).max() * coins.uniform(-1, 1, vectors.shape)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_another_library_announces_the_same_model(seed: int) -> None:
    """An entry crosses with probability 1e-13 / 2 over a step of 2^-16 at least: 2e-4 for all 2,400 of 20 models."""
    vectors = vectors_of(seed)
    told = canonical(vectors)
    assert canonical(other_library(vectors, seed)).tobytes() == told.tobytes()
    assert canonical(other_library(vectors, seed, noise=1e-5)).tobytes() != told.tobytes()
    assert on_grid(other_library(vectors, seed)).tobytes() != on_grid(vectors).tobytes()


def test_every_announced_number_is_on_the_grid_and_stays_there() -> None:
    of = planted(40, 60, rank=2, share=0.5)
    model = announced(fitted(of, Fitting(rank=4, kappa=0.7, weighted=True), 5), of.crowd())
    features = model.features
    assert features.mean_degree is not None
    for values, bits in ((features.vectors, VECTOR_BITS), (features.mean, BITS)):
        steps = values / step_of(float(np.abs(values).max()), bits)
        assert (steps == np.rint(steps)).all()
        assert 2 ** (bits - 1) <= np.abs(steps).max() <= 2**bits
    for one in (features.kappa, features.common_h, features.mean_degree):
        assert one > 0
        assert significant(one) == one
    assert gridded(features).digest == features.digest
    assert announced(model, of.crowd()).features.digest == features.digest
    for name in ("kappa", "mean_degree", "common_h"):
        nudged = replace(features, **{name: np.nextafter(getattr(features, name), np.inf)})
        assert nudged.digest != features.digest
        if name != "common_h":  # computed anew
            assert gridded(nudged).digest == features.digest


def test_what_is_exactly_nothing_stays_nothing() -> None:
    """An item that no public user rated has V = 0, not minus 0: its residual is exactly 0 and gets a fair coin."""
    vectors = vectors_of(0)
    vectors[7] = 0.0
    vectors[8] = -1e-9
    told = gridded(features_of(vectors, np.full(300, 3.0))).vectors
    assert not told[[7, 8]].any()
    assert not np.signbit(told[[7, 8]]).any()


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(number: float) -> None:
    vectors = vectors_of(0)
    vectors[7, 0] = number
    with pytest.raises(InputError, match="vectors of a model: some are no numbers"):
        gridded(features_of(vectors, np.full(300, 3.0)))
    with pytest.raises(InputError, match="no place on a grid"):
        significant(number)


# Folding of releases: each device once, in its own order; and queries, each with an id of its own.


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


@pytest.mark.parametrize("count", [1, 3, 7, 8, 25])
@pytest.mark.parametrize("mean_degree", [None, 5.0])
def test_equation_4_in_low_rank_is_the_dense_one(count: int, mean_degree: float | None) -> None:
    coins = np.random.default_rng(count)
    vectors, mean = coins.standard_normal((60, 8)), coins.standard_normal(60)
    items = np.sort(coins.permutation(60)[:count]).astype(np.int32)
    values = coins.standard_normal(count)
    features = features_of(vectors, mean, kappa=0.7, mean_degree=mean_degree)
    kappa = 0.7 if mean_degree is None else 0.7 * count / mean_degree
    square = vectors @ vectors.T
    inner = kappa * np.eye(count) + square[np.ix_(items, items)]
    expected = mean + square[:, items] @ np.linalg.solve(inner, values - mean[items])
    expected[items] = values
    assert np.abs(complete(features, items, values) - expected).max() < 1e-8


@pytest.mark.parametrize("mstep", ["keep", "prox"])
def test_planted_data_seen_in_full_are_recovered(mstep: str) -> None:
    full = planted(50, 30, rank=3, share=1.0, noise=0.0)
    fitting = Fitting(rank=6, kappa=1e-8, mstep=mstep)  # type: ignore[arg-type] # one of both
    model = fitted(full, fitting, 3)
    assert np.abs(fit_of(full, model.features) + model.features.mean - full.truth).max() < 1e-5
    completed = complete_many(model.features, full.starts, full.items, full.values)
    assert np.array_equal(np.round(completed, 12), np.round(full.truth, 12))


@pytest.mark.thorough
@pytest.mark.parametrize("mstep", ["keep", "prox"])
def test_all_three_ways_to_the_spectrum_agree(mstep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = planted(50, 70, rank=3, share=0.5)
    found = []
    for moment, rows in ((1000, 0), (0, 1000), (0, 0)):
        monkeypatch.setattr(spectrum, "MOMENT_ITEMS", moment)
        monkeypatch.setattr(spectrum, "ROWS", rows)
        fitting = Fitting(rank=4, kappa=KAPPA, mstep=mstep)  # type: ignore[arg-type] # one of both
        vectors = fitted(of, fitting, 60).features.vectors
        found.append(vectors @ vectors.T)
    assert np.abs(found[1] - found[0]).max() < 1e-8
    assert np.abs(found[2] - found[0]).max() < 1e-3 * np.abs(found[0]).max()
