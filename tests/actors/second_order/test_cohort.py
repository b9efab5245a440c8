"""A private device answers one query about one announced model: the same bytes in any layout, and ever after."""

import dataclasses
import itertools
import warnings
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from hostile import COSTS, SCALARS, forged
from worlds import complete_many

from actors.keeper import Keeper
from actors.second_order.cohort import Consent, PrivateCohort
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.errors import BlindrecError, ConsentError, InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

DEVICES = 23
OF = worlds.rated(devices=DEVICES)


def answered(
    mechanism: str, cuts: tuple[int, ...] = (0, DEVICES), model: ItemFeatures | None = None
) -> list[SecondOrderRelease]:
    """What all devices release, where cohorts are cut so."""
    public = model or worlds.features()
    found: list[SecondOrderRelease] = []
    for first, stop in itertools.pairwise(cuts):
        cohort = worlds.cohort(OF, first, stop)
        cohort.pin(public.digest, first, stop)
        found += cohort.answer(worlds.query(public, mechanism), public, first, stop)
    return found


def pinned(model: ItemFeatures) -> PrivateCohort:
    cohort = worlds.cohort(OF, 0, DEVICES)
    cohort.pin(model.digest, 0, DEVICES)
    return cohort


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_promise_is_no_more_than_there_is(mechanism: str) -> None:
    half = second_order_public_halves()[mechanism]
    assert half.guarantee.startswith("none") == (not half.private)
    if half.private and not half.takes_epsilon:
        assert "not differential privacy" in half.guarantee


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_releases_are_the_same_in_every_layout(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answered(mechanism)
    assert [one.device for one in whole] == list(range(DEVICES))
    assert answered(mechanism, tuple(range(DEVICES + 1))) == whole
    assert answered(mechanism, (0, 1, 9, 22, 23)) == whole
    monkeypatch.setattr("actors.second_order.cohort.BLOCK", 4 * 70)
    assert answered(mechanism) == whole
    model = worlds.features()
    cohort = pinned(model)
    late = [cohort.answer(worlds.query(model, mechanism), model, k, k + 1)[0] for k in reversed(range(DEVICES))]
    assert late[::-1] == whole


def test_exact_releases_are_the_completed_vectors_and_pmcs_are_their_signs() -> None:
    model = worlds.features()
    rows = complete_many(model, *OF) - model.mean
    query = worlds.query(model, "exact")
    exact = [one.as_vector(model, query) for one in answered("exact")]
    np.testing.assert_allclose(exact, rows, atol=1e-12)
    query = worlds.query(model, "pmc")
    for row, one in zip(rows, answered("pmc"), strict=True):
        signs = one.as_vector(model, query) / model.common_h
        assert abs(signs @ np.sign(row)) == pytest.approx(row.size)


def test_the_devices_own_h_comes_behind_the_signs_where_it_is_asked_for() -> None:
    model = worlds.features()
    query = dataclasses.replace(worlds.query(model, "pmc"), own_h=True)
    rows = complete_many(model, *OF) - model.mean
    cohort = pinned(model)
    for row, one in zip(rows, cohort.answer(query, model, 0, DEVICES), strict=True):
        np.testing.assert_allclose(np.abs(one.as_vector(model, query)), np.abs(row).mean())
    answer = worlds.answer_of(cohort, 3)
    assert answer is not None
    assert answer.guarantee.startswith("none: ")


def test_a_device_asked_twice_repeats_and_spends_nothing() -> None:
    model = worlds.features()
    query, cohort = worlds.query(model, "pmc-rr", epsilon=Fraction(1, 3)), pinned(model)
    assert worlds.answer_of(cohort, 4) is None
    one = cohort.answer(query, model, 0, DEVICES)
    answer = worlds.answer_of(cohort, 4)
    assert cohort.answer(query, model, 4, 5) == one[4:5]
    assert worlds.answer_of(cohort, 4) == answer
    assert answer is not None
    assert (answer.query_id, answer.model, answer.epsilon) == (query.id, model.digest, Fraction(1, 3))
    assert answer.guarantee == second_order_public_halves()["pmc-rr"].guarantee


def test_another_model_is_refused_and_both_are_named() -> None:
    model, other = worlds.features(), worlds.features(seed=1)
    shifted = dataclasses.replace(model, mean=model.mean - 5.0 * (np.arange(70) == 3))
    names = f"{model.digest.hex()[:8]}.*{{}}"
    for wrong in (other, shifted):
        named = names.format(wrong.digest.hex()[:8])
        cohort = pinned(model)
        with pytest.raises(InputError, match=named):
            cohort.answer(worlds.query(wrong, "pmc"), wrong, 2, 3)
        with pytest.raises(InputError, match=named):
            cohort.pin(wrong.digest, 2, 3)
        cohort.answer(worlds.query(model, "pmc"), model, 2, 3)
        with pytest.raises(InputError, match=named):
            cohort.answer(worlds.query(wrong, "pmc"), wrong, 2, 3)
        with pytest.raises(InputError, match=f"{wrong.digest.hex()[:8]}.*{model.digest.hex()[:8]}"):
            cohort.answer(worlds.query(model, "pmc"), wrong, 2, 3)


def test_devices_that_were_told_of_no_model_answer_none() -> None:
    model, cohort = worlds.features(), worlds.cohort(OF, 0, DEVICES)
    cohort.pin(model.digest, 1, 3)
    cohort.pin(model.digest, 4, 5)
    releases = cohort.answer(worlds.query(model, "pmc"), model, 0, 6)
    assert [release.device for release in releases] == [1, 2, 4]
    assert worlds.answer_of(cohort, 0) is worlds.answer_of(cohort, 5) is None
    cohort.pin(model.digest, 0, 6)
    assert len(cohort.answer(worlds.query(model, "pmc"), model, 0, 6)) == 6


def test_a_second_question_about_the_same_model_is_refused() -> None:
    model = worlds.features()
    cohort = pinned(model)
    first = worlds.query(model, "pmd")
    cohort.answer(first, model, 0, 3)
    for again in (worlds.query(model, "exact"), worlds.query(model, "pmd", batch=1)):
        with pytest.raises(InputError, match=f"{first.id.hex()[:8]} \\(pmd\\).*once.*{again.id.hex()[:8]}"):
            cohort.answer(again, model, 1, 6)
    assert worlds.answer_of(cohort, 5) is None


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
        worlds.private(OF._replace(**{part: changed}))


@pytest.mark.parametrize("items", [1, 40, 69, 71])
def test_a_model_of_another_catalogue_is_refused_whatever_was_rated(items: int) -> None:
    """The error tells two public numbers: it is the same for a device that rated nothing."""
    model = worlds.features(items=items, rank=1)
    texts = set()
    for of in (OF, worlds.rated(devices=DEVICES, each=1), worlds.rated(devices=DEVICES, each=0)):
        cohort = worlds.cohort(of, 0, DEVICES)
        cohort.pin(model.digest, 0, DEVICES)
        with pytest.raises(InputError, match=f"model has {items} items; .* catalogue of 70") as caught:
            cohort.answer(worlds.query(model, "sslp"), model, 0, DEVICES)
        texts.add(str(caught.value))
        assert worlds.answer_of(cohort, 0) is None
    assert len(texts) == 1


def test_devices_beyond_the_cohort_are_refused() -> None:
    with pytest.raises(IndexError, match="devices 20 to 23"):
        pinned(worlds.features()).pin(worlds.features().digest, 20, 24)


def test_nothing_of_a_cohort_shows_when_its_ratings_are_printed() -> None:
    cohort = worlds.cohort(OF, 0, 2)
    assert repr(cohort._ratings) == "RowTable(count=70)"


# Private devices answer what they agreed to; a server's model is checked before compiled code sees it.
FEW_DEVICES = 6
MODEL = worlds.features()


def consenting(*mechanisms: str, epsilon: Fraction | None = Fraction(1), own_h: bool = False) -> Consent:
    return Consent(mechanisms=frozenset(mechanisms), epsilon=epsilon, own_h=own_h)


def consenting_cohort(consent: Consent, model: ItemFeatures = MODEL, keeper: Keeper | None = None) -> PrivateCohort:
    """Devices that agreed to something, and were told of a model."""
    cohort = worlds.cohort(OF, 0, FEW_DEVICES, consent=consent, keeper=keeper)
    cohort.pin(model.digest, 0, FEW_DEVICES)
    return cohort


def untouched(cohort: PrivateCohort) -> bool:
    """Whether no device has let anything out."""
    return all(worlds.answer_of(cohort, device) is None for device in range(FEW_DEVICES))


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_device_answers_what_it_agreed_to_and_nothing_else(mechanism: str) -> None:
    """Whatever a server names: the mechanism of the experiment is answered, six others and more epsilon are refused."""
    cohort = consenting_cohort(consenting(mechanism))
    for other in second_order_public_halves().keys() - {mechanism}:
        with pytest.raises(ConsentError, match=f"agreed to {mechanism}; they refuse {other}$"):
            cohort.answer(worlds.query(MODEL, other), MODEL, 0, FEW_DEVICES)
    if second_order_public_halves()[mechanism].takes_epsilon:
        dearer = worlds.query(MODEL, mechanism, epsilon=Fraction(1) + Fraction(1, 10**30))
        with pytest.raises(ConsentError, match="agreed to epsilon 1 at most"):
            cohort.answer(dearer, MODEL, 0, FEW_DEVICES)
    assert untouched(cohort)
    assert len(cohort.answer(worlds.query(MODEL, mechanism), MODEL, 0, FEW_DEVICES)) == FEW_DEVICES


@pytest.mark.parametrize("epsilon", [Fraction(-20), Fraction(0), -20, "1", None, 0.5, Fraction(1, 10**40)])
@pytest.mark.parametrize("mechanism", ["sslp", "laplace", "pmc-rr", "privunit"])
def test_no_device_answers_at_an_epsilon_that_is_none(mechanism: str, epsilon: Any) -> None:
    """At -20 SSLP turned nearly every answer round, and the ledger said "-20"."""
    for consent in (consenting(mechanism), worlds.WILLING):
        cohort = consenting_cohort(consent)
        bad = forged(worlds.query(MODEL, mechanism), epsilon=epsilon)
        with pytest.raises(InputError):
            cohort.answer(bad, MODEL, 0, FEW_DEVICES)
        assert untouched(cohort)
    with pytest.raises(InputError):
        SecondOrderQuery(model=MODEL.digest, mechanism=mechanism, epsilon=epsilon)


def test_the_devices_own_h_is_agreed_to_by_name() -> None:
    asked = forged(worlds.query(MODEL, "pmc"), own_h=True)
    cohort = consenting_cohort(consenting("pmc"))
    with pytest.raises(ConsentError, match="own_h"):
        cohort.answer(asked, MODEL, 0, FEW_DEVICES)
    assert untouched(cohort)
    assert len(consenting_cohort(consenting("pmc", own_h=True)).answer(asked, MODEL, 0, FEW_DEVICES)) == FEW_DEVICES


def test_nobody_agrees_to_what_there_is_not() -> None:
    for mechanisms, epsilon in ((("mine",), Fraction(1)), (("pmc",), Fraction(-1)), (("pmc",), Fraction(0))):
        with pytest.raises(InputError):
            consenting(*mechanisms, epsilon=epsilon)
    with pytest.raises(ConsentError, match="agreed to nothing"):
        consenting_cohort(consenting()).answer(worlds.query(MODEL, "pmc"), MODEL, 0, FEW_DEVICES)


V, BACKWARDS = MODEL.vectors, {"lowest": 5.0, "highest": 1.0, "scale": None}
SHORT, SPLIT, NOT = (V[:40].copy(), V[:1].copy()), np.repeat(V, 2, 0)[::2], np.where(np.arange(3) == 1, np.nan, V)
BAD: list[dict[str, Any]] = [
    *({"vectors": one} for one in (*SHORT, np.ones((71, 3)), V.ravel(), V.astype(np.float32), SPLIT, NOT, V * 1e60)),
    {"vectors": np.asfortranarray(V)},
    *({"mean": means} for means in (MODEL.mean[:60].copy(), MODEL.mean * np.nan)),
    *({"kappa": kappa} for kappa in (0.0, -1.0, np.nan)),
    *({"common_h": size} for size in (-0.1, np.nan, np.inf)),
    *(BACKWARDS, {"lowest": np.nan, "scale": None}, {"highest": np.inf}),
    *({"mean_degree": degree} for degree in (0.0, -3.0, np.nan)),
    *({"scale": scale} for scale in ((5.0, 4.0, 1.0), (1.0, 1.0, 5.0), (1.0, np.nan, 5.0), [1.0, 5.0], (1.0, 6.0), ())),
]


@pytest.mark.parametrize("changes", BAD)
@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_model_that_is_none_is_refused_where_it_is_built_and_where_it_arrives(
    mechanism: str, changes: dict[str, Any]
) -> None:
    """With fewer rows than items ``exact`` ended the process, and ``pmc`` answered from foreign memory."""
    fields = {part: getattr(MODEL, part) for part in ItemFeatures.__dataclass_fields__}
    with pytest.raises(InputError):
        ItemFeatures(**{**fields, **changes})
    bad = forged(MODEL, **changes)
    digest = bytes(16) if bad.vectors.ndim == 1 else bad.digest
    query, cohort = forged(worlds.query(MODEL, mechanism), model=digest), worlds.cohort(OF, 0, FEW_DEVICES)
    cohort.pin(digest, 0, FEW_DEVICES)
    with pytest.raises(InputError):
        cohort.answer(query, bad, 0, FEW_DEVICES)
    assert untouched(cohort)


@pytest.mark.parametrize("mechanism", ["laplace", "sslp"])
def test_what_divides_by_the_range_of_ratings_needs_one(mechanism: str) -> None:
    flat = forged(MODEL, lowest=3.0, highest=3.0, scale=(3.0,))
    assert ItemFeatures.arrived(flat).scale == flat.scale
    with pytest.raises(InputError, match=r"all ratings are 3; .* divides by their range"):
        consenting_cohort(worlds.WILLING, flat).answer(worlds.query(flat, mechanism), flat, 0, FEW_DEVICES)
    others = consenting_cohort(worlds.WILLING, flat).answer(worlds.query(flat, "pmc"), flat, 0, FEW_DEVICES)
    assert len(others) == FEW_DEVICES


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_payload_has_its_size_and_its_numbers(mechanism: str) -> None:
    query = worlds.query(MODEL, mechanism)
    release = consenting_cohort(worlds.WILLING).answer(query, MODEL, 0, 1)[0]
    size = len(release.payload)
    bad = [release.payload[:-1], release.payload + b"\0", b"", bytearray(release.payload), None, "x" * size]
    if mechanism in {"laplace", "exact", "privunit"}:
        bad += [value.tobytes() * (size // 8) for value in np.array([np.nan, np.inf, -np.inf, 1e300], "<f8")]
    if mechanism == "pmd":
        bad += [b"\x05" * size, b"\xff" * size]
    for payload in bad:
        with pytest.raises(InputError):
            SecondOrderRelease.arrived(forged(release, payload=payload)).require(query, MODEL)


# Whether private devices answer, and what an error says, is the same whatever they rated: silence is not a release.
ITEMS, OVERFLOW_DEVICES = 12, 3
OVERFLOW_MODEL = worlds.features(items=ITEMS, rank=3)


def several(rated: list[tuple[int, ...]], values: list[float]) -> worlds.Rated:
    """Devices that rated these items so; the values are repeated."""
    starts = np.cumsum([0, *(len(row) for row in rated)]).astype(np.int64)
    items = np.concatenate([np.array(row, np.int32) for row in rated])
    return worlds.Rated(starts, items, np.resize(np.array(values, np.float64), items.size))


DIFFERENT = (
    several([(0, 1), (1, 2), (0, 1, 2)], [1.0, 5.0]),
    several([tuple(range(ITEMS))] * OVERFLOW_DEVICES, [3.0]),
    several([(), (11,), (5, 7, 8, 9, 10)], [4.5, -1e50, 1e50, 0.0]),
)
"""Few ratings and all; on the scale and far off; of items 0 and 1, whose rows are alike below, and of none of them."""


def outcome(of: worlds.Rated, query: SecondOrderQuery, model: ItemFeatures) -> str:
    """What a server sees that announces a model and asks about it: an error, or that all answered."""
    cohort, digest = worlds.cohort(of, 0, OVERFLOW_DEVICES, items=ITEMS), OVERFLOW_MODEL.digest
    if model is not OVERFLOW_MODEL:
        with suppress(Exception):  # one that has no digest is sent as it is
            digest = model.digest
        query = forged(query, model=digest)
    cohort.answers._pinned = dict.fromkeys(range(OVERFLOW_DEVICES), digest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            releases = cohort.answer(query, model, 0, OVERFLOW_DEVICES)
    except BlindrecError as error:
        return f"{type(error).__name__}: {error}"
    for release in releases:
        SecondOrderRelease.arrived(release).require(query, model)
    return f"{len(releases)} answered"


def same(query: Any, model: Any) -> str:
    found = {outcome(of, query, model) for of in DIFFERENT}
    assert len(found) == 1, (query, model, found)
    return found.pop()


@pytest.mark.parametrize("name", [field.name for field in fields(SecondOrderQuery)])
def test_any_scalar_in_any_field_of_a_query(name: str) -> None:
    queries = [worlds.query(OVERFLOW_MODEL, mechanism) for mechanism in ("pmd", "sslp")]
    values = (*SCALARS, *COSTS)
    outcomes = [same(forged(query, **{name: value}), OVERFLOW_MODEL) for value in values for query in queries]
    assert any("Error" in one for one in outcomes)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", [field.name for field in fields(ItemFeatures)])
def test_any_scalar_in_any_field_of_a_model(name: str) -> None:
    queries = [worlds.query(OVERFLOW_MODEL, mechanism) for mechanism in second_order_public_halves()]
    told = [same(query, forged(OVERFLOW_MODEL, **{name: value})) for value in SCALARS for query in queries]
    assert any("InputError" in one for one in told)


def alike(size: float = 1.0) -> np.ndarray[Any, Any]:
    """Rows of V of which those of items 0 and 1 are equal."""
    vectors = OVERFLOW_MODEL.vectors * size
    vectors[1] = vectors[0]
    return vectors


HARD: dict[str, dict[str, Any]] = {
    **{
        f"equal rows of size {size:g}, kappa {kappa:g}": {"vectors": alike(size), "kappa": kappa}
        for size in (1.0, 1e-20, 1e20, 1e49)
        for kappa in (1e-50, 1e-40, 1e-17, 1e50)
    },
    "V of ones": {"vectors": np.ones((ITEMS, 3)), "kappa": 1e-40},
    "V of zeros": {"vectors": np.zeros((ITEMS, 3)), "kappa": 1e-50},
    "no directions": {"vectors": np.empty((ITEMS, 0))},
    "as wide as there are items": {"vectors": np.eye(ITEMS), "kappa": 1e-40},
    "as wide, of ones": {"vectors": np.ones((ITEMS, ITEMS)), "kappa": 1e-40},
    "too wide": {"vectors": np.ones((ITEMS, ITEMS + 1))},
    "much too wide": {"vectors": np.zeros((ITEMS, 300_000))},
    "fewer items": {"mean": OVERFLOW_MODEL.mean[:1].copy(), "vectors": OVERFLOW_MODEL.vectors[:1, :1].copy()},
    "more items": {"mean": np.tile(OVERFLOW_MODEL.mean, 2), "vectors": np.tile(OVERFLOW_MODEL.vectors, (2, 1))},
    "means that are huge": {"mean": OVERFLOW_MODEL.mean * 1e49},
    "a degree that is tiny": {"mean_degree": 1e-50, "vectors": alike(), "kappa": 1e50},
    "a degree that is huge": {"mean_degree": 1e50, "vectors": alike(), "kappa": 1e-50},
    "a range that is tiny": {"lowest": 1e-50, "highest": 3e-50, "scale": (1e-50, 3e-50)},
    "a range that is huge": {"lowest": -1e50, "highest": 1e50, "scale": (-1e50, 1e50)},
    "a scale of other ratings": {"scale": (1.25, 2.25)},
    "whole numbers": {"scale": (1, 2, 5), "lowest": 1, "highest": 5},
    "whole numbers that are huge": {"scale": (1.0, 10**40), "highest": 10**40, "kappa": 10**30},
}


@pytest.mark.parametrize("mechanism", second_order_public_halves())
@pytest.mark.parametrize("name", HARD)
def test_a_model_that_is_hard_to_complete_with(name: str, mechanism: str) -> None:
    """With equal rows and a tiny kappa a pivot is 0 where both items were rated: that was an error of its own."""
    told = same(worlds.query(OVERFLOW_MODEL, mechanism, epsilon=Fraction(2)), forged(OVERFLOW_MODEL, **HARD[name]))
    refused = name in {"too wide", "much too wide", "fewer items", "more items", "whole numbers"}
    refused |= name == "whole numbers that are huge" or (
        name == "no directions" and second_order_public_halves()[mechanism].moment
    )
    assert ("answered" not in told) == refused, told


def test_completed_vectors_are_numbers_and_not_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = np.array([[np.inf, -np.inf, np.nan, 1e60, -0.5]])
    monkeypatch.setattr("actors.second_order.cohort.residuals", lambda *_: overflow.copy())
    vectors = worlds.cohort(OF, 0, 1)._vectors(*[None] * 3)  # type: ignore[arg-type] # nothing looks at them
    assert vectors.tolist() == [[LARGEST, -LARGEST, 0.0, LARGEST, -0.5]]


def test_moments_of_very_many_directions_are_refused_and_others_are_not() -> None:
    many = 513
    model = forged(OVERFLOW_MODEL, mean=np.zeros(many), vectors=np.zeros((many, many)))
    fewer = forged(model, vectors=np.zeros((many, many - 1)))
    for mechanism, half in second_order_public_halves().items():
        worlds.query(fewer, mechanism).require(fewer)
        if half.moment:
            with pytest.raises(BlindrecError, match=f"rank is 513; {mechanism} is about directions, give 1 to 512"):
                worlds.query(model, mechanism).require(model)
        else:
            worlds.query(model, mechanism).require(model)
