"""A private device answers one query about one announced model: the same bytes in any layout, and ever after."""

from __future__ import annotations

import dataclasses
import itertools
from fractions import Fraction

import numpy as np
import pytest
import tiers
from completions import complete_many
from forging import forged

from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

DEVICES = 23
OF = tiers.rated(devices=DEVICES)


def answered(
    mechanism: str, cuts: tuple[int, ...] = (0, DEVICES), model: ItemFeatures | None = None
) -> list[SecondOrderRelease]:
    """What all devices release, where cohorts are cut so."""
    public = model or tiers.features()
    found: list[SecondOrderRelease] = []
    for first, stop in itertools.pairwise(cuts):
        cohort = tiers.cohort(OF, first, stop)
        cohort.pin(public.digest, first, stop)
        found += cohort.answer(tiers.query(public, mechanism), public, first, stop)
    return found


def pinned(model: ItemFeatures) -> PrivateCohort:
    cohort = tiers.cohort(OF, 0, DEVICES)
    cohort.pin(model.digest, 0, DEVICES)
    return cohort


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_promise_is_no_more_than_there_is(mechanism: str) -> None:
    half = second_order_public_halves()[mechanism]
    assert half.promise.startswith("none") == (not half.private)
    if half.private and not half.takes_epsilon:
        assert "not differential privacy" in half.promise


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_releases_are_the_same_in_every_layout(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answered(mechanism)
    assert [one.device for one in whole] == list(range(DEVICES))
    assert answered(mechanism, tuple(range(DEVICES + 1))) == whole
    assert answered(mechanism, (0, 1, 9, 22, 23)) == whole
    monkeypatch.setattr("actors.second_order.cohort.BLOCK", 4 * 70)
    assert answered(mechanism) == whole
    model = tiers.features()
    cohort = pinned(model)
    late = [cohort.answer(tiers.query(model, mechanism), model, k, k + 1)[0] for k in reversed(range(DEVICES))]
    assert late[::-1] == whole


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_payloads_are_what_the_server_reads(mechanism: str) -> None:
    model = tiers.features(unseen=10)
    query = tiers.query(model, mechanism, epsilon=Fraction(1))
    for one in answered(mechanism, model=model):
        if second_order_public_halves()[mechanism].moment:
            assert one.as_moment(model, query).shape == (model.rank, model.rank)
        else:
            assert np.isfinite(one.as_vector(model, query)).all()


def test_exact_releases_are_the_completed_vectors_and_pmcs_are_their_signs() -> None:
    model = tiers.features()
    rows = complete_many(model, *OF) - model.mean
    query = tiers.query(model, "exact")
    exact = [one.as_vector(model, query) for one in answered("exact")]
    np.testing.assert_allclose(exact, rows, atol=1e-12)
    query = tiers.query(model, "pmc")
    for row, one in zip(rows, answered("pmc"), strict=True):
        signs = one.as_vector(model, query) / model.common_h
        assert abs(signs @ np.sign(row)) == pytest.approx(row.size)


def test_the_devices_own_h_comes_behind_the_signs_where_it_is_asked_for() -> None:
    model = tiers.features()
    query = dataclasses.replace(tiers.query(model, "pmc"), own_h=True)
    rows = complete_many(model, *OF) - model.mean
    cohort = pinned(model)
    for row, one in zip(rows, cohort.answer(query, model, 0, DEVICES), strict=True):
        np.testing.assert_allclose(np.abs(one.as_vector(model, query)), np.abs(row).mean())
    spent = cohort.spent(3)
    assert spent is not None
    assert spent.guarantee.startswith("none: ")


def test_a_device_asked_twice_repeats_and_spends_nothing() -> None:
    model = tiers.features()
    query, cohort = tiers.query(model, "pmc-rr", epsilon=Fraction(1, 3)), pinned(model)
    assert cohort.spent(4) is None
    one = cohort.answer(query, model, 0, DEVICES)
    spent = cohort.spent(4)
    assert cohort.answer(query, model, 4, 5) == one[4:5]
    assert cohort.spent(4) == spent
    assert spent is not None
    assert (spent.query_id, spent.model, spent.epsilon) == (query.id, model.digest, "1/3")
    assert spent.guarantee == second_order_public_halves()["pmc-rr"].promise


def test_another_model_is_refused_and_both_are_named() -> None:
    model, other = tiers.features(), tiers.features(seed=1)
    shifted = dataclasses.replace(model, mean=model.mean - 5.0 * (np.arange(70) == 3))
    names = f"{model.digest.hex()[:8]}.*{{}}"
    for wrong in (other, shifted):
        named = names.format(wrong.digest.hex()[:8])
        cohort = pinned(model)
        with pytest.raises(InputError, match=named):
            cohort.answer(tiers.query(wrong, "pmc"), wrong, 2, 3)
        with pytest.raises(InputError, match=named):
            cohort.pin(wrong.digest, 2, 3)
        cohort.answer(tiers.query(model, "pmc"), model, 2, 3)
        with pytest.raises(InputError, match=named):
            cohort.answer(tiers.query(wrong, "pmc"), wrong, 2, 3)
        with pytest.raises(InputError, match=f"{wrong.digest.hex()[:8]}.*{model.digest.hex()[:8]}"):
            cohort.answer(tiers.query(model, "pmc"), wrong, 2, 3)


def test_devices_that_were_told_of_no_model_answer_none() -> None:
    model, cohort = tiers.features(), tiers.cohort(OF, 0, DEVICES)
    cohort.pin(model.digest, 1, 3)
    cohort.pin(model.digest, 4, 5)
    releases = cohort.answer(tiers.query(model, "pmc"), model, 0, 6)
    assert [release.device for release in releases] == [1, 2, 4]
    assert cohort.spent(0) is cohort.spent(5) is None
    cohort.pin(model.digest, 0, 6)
    assert len(cohort.answer(tiers.query(model, "pmc"), model, 0, 6)) == 6


@pytest.mark.parametrize(("part", "value"), [("mean", np.nan), ("vectors", np.inf), ("kappa", 0.0)])
def test_a_model_that_nothing_can_be_completed_with_is_refused(part: str, value: float) -> None:
    model = tiers.features()
    bad = forged(model, **{part: getattr(model, part) * value})
    with pytest.raises(InputError, match=f"{part}.*no numbers|kappa is 0"):
        pinned(bad).answer(tiers.query(bad, "pmc"), bad, 0, 1)


def test_a_second_question_about_the_same_model_is_refused() -> None:
    model = tiers.features()
    cohort = pinned(model)
    first = tiers.query(model, "pmd")
    cohort.answer(first, model, 0, 3)
    for again in (tiers.query(model, "exact"), tiers.query(model, "pmd", batch=1)):
        with pytest.raises(InputError, match=f"{first.id.hex()[:8]} \\(pmd\\).*once.*{again.id.hex()[:8]}"):
            cohort.answer(again, model, 1, 6)
    assert cohort.spent(5) is None


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        ("values", np.nan, "user 6 rated item .* with nan; give finite"),
        ("values", -np.inf, "with -inf; give finite"),
        ("values", 1e60, "with 1e[+]60; give finite"),
        ("items", 70, "user 6 rated item 70; the catalogue has items 0 to 69 only"),
        ("items", -1, "rated item -1"),
    ],
)
def test_a_rating_that_cannot_be_used_is_refused_where_devices_are_made(part: str, value: float, text: str) -> None:
    """By the experimenter, who knows it; no server can ask afterwards for an error that tells it."""
    changed = getattr(OF, part).copy()
    changed[OF.starts[6] + 1] = value
    with pytest.raises(InputError, match=text):
        tiers.private(OF._replace(**{part: changed}))


@pytest.mark.parametrize("mechanism", second_order_public_halves())
@pytest.mark.parametrize("scale", [(1.0, 2.0), (3.1, 3.2, 3.3), None])
def test_whether_devices_answer_does_not_depend_on_whether_their_ratings_are_on_the_scale(
    mechanism: str, scale: tuple[float, ...] | None
) -> None:
    """Ratings on a scale of two, and others that are not: before, PMD told in its error which rating was none."""
    model = forged(tiers.features(), scale=scale)
    query = tiers.query(model, mechanism)
    outcomes = set()
    for values in (np.ones_like(OF.values), OF.values, OF.values + 0.3, OF.values * -1e49):
        cohort = tiers.cohort(OF._replace(values=values), 0, DEVICES)
        cohort.pin(model.digest, 0, DEVICES)
        try:
            told = cohort.answer(query, model, 0, DEVICES)
            outcomes.add(("answered", len(told)))
        except InputError as error:
            outcomes.add((str(error), 0))
    assert len(outcomes) == 1
    assert (("answered", DEVICES) in outcomes) == (
        scale is not None or not second_order_public_halves()[mechanism].needs_scale
    )


@pytest.mark.parametrize("items", [1, 40, 69, 71])
def test_a_model_of_another_catalogue_is_refused_whatever_was_rated(items: int) -> None:
    """The error tells two public numbers: it is the same for a device that rated nothing."""
    model = tiers.features(items=items, rank=1)
    texts = set()
    for of in (OF, tiers.rated(devices=DEVICES, each=1), tiers.rated(devices=DEVICES, each=0)):
        cohort = tiers.cohort(of, 0, DEVICES)
        cohort.pin(model.digest, 0, DEVICES)
        with pytest.raises(InputError, match=f"model has {items} items; .* catalogue of 70") as caught:
            cohort.answer(tiers.query(model, "sslp"), model, 0, DEVICES)
        texts.add(str(caught.value))
        assert cohort.spent(0) is None
    assert len(texts) == 1


def test_devices_beyond_the_cohort_are_refused() -> None:
    with pytest.raises(IndexError, match="devices 20 to 23"):
        pinned(tiers.features()).pin(tiers.features().digest, 20, 24)


def test_nothing_of_a_cohort_shows_when_its_ratings_are_printed() -> None:
    cohort = tiers.cohort(OF, 0, 2)
    assert repr(cohort._ratings) == "RowTable(count=70)"
