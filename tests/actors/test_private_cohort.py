"""A private device answers one query about one announced model: the same bytes in any layout, and ever after."""

import dataclasses
import itertools
import warnings
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from faults import Deaf
from messages import COSTS, SCALARS, forged
from worlds import announced, complete_many

from actors.keeper import Keeper, spent_by
from actors.private_cohort import PrivateCohort
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.checked import LARGEST
from coordinator.protocol.errors import AgreementError, BlindrecError, InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, two_tier_mechanism, two_tier_mechanisms


def untouched(cohort: PrivateCohort) -> bool:
    """Whether no device was charged for anything."""
    cohort.ledger.look()
    return not any(block.answered for block in cohort.ledger._ranges)


DEVICES = 23
OF = worlds.rated(devices=DEVICES)
MODEL = worlds.features()


def answered(mechanism: str, cuts: tuple[int, ...] = (0, DEVICES)) -> Bits2:
    """What all devices release, where cohorts are cut so."""
    query = worlds.query(MODEL, mechanism)
    parts = [
        query.payloads(announced(OF, query, *ends).answer(query, MODEL, *ends), MODEL)
        for ends in itertools.pairwise(cuts)
    ]
    assert np.concatenate([devices for devices, _ in parts]).tolist() == list(range(DEVICES))
    return np.concatenate([payloads for _, payloads in parts])


def rows_of(query: SecondOrderQuery) -> Floats2:
    """What the server reads in all devices' releases."""
    told = query.payloads(announced(OF, query, 0, DEVICES).answer(query, MODEL, 0, DEVICES), MODEL)
    return two_tier_mechanism(query.mechanism).rows(told[1], told[0], query, MODEL)


@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
def test_a_promise_is_no_more_than_there_is(mechanism: str) -> None:
    part = two_tier_mechanism(mechanism)
    assert part.guarantee.startswith("none") == (not part.private)
    if part.private and not part.takes_epsilon:
        assert "not differential privacy" in part.guarantee


@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
def test_releases_are_the_same_in_every_layout(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = answered(mechanism)
    assert np.array_equal(answered(mechanism, tuple(range(DEVICES + 1))), whole)
    assert np.array_equal(answered(mechanism, (0, 1, 9, 22, 23)), whole)
    monkeypatch.setattr("actors.private_cohort.BLOCK", 4 * 70)
    assert np.array_equal(answered(mechanism), whole)
    query = worlds.query(MODEL, mechanism)
    cohort = announced(OF, query, 0, DEVICES)
    late = [cohort.answer(query, MODEL, k, k + 1).bits for k in reversed(range(DEVICES))]
    assert b"".join(late[::-1]) == whole.tobytes()


def test_exact_releases_are_the_completed_vectors_and_pmcs_are_their_signs() -> None:
    rows = complete_many(MODEL, *OF) - MODEL.mean
    np.testing.assert_allclose(rows_of(worlds.query(MODEL, "exact")), rows, atol=1e-12)
    signs = rows_of(worlds.query(MODEL, "pmc")) / MODEL.common_h
    assert np.abs((signs * np.sign(rows)).sum(axis=1)) == pytest.approx(70)


def test_the_devices_own_h_comes_behind_the_signs_where_it_is_asked_for() -> None:
    query = dataclasses.replace(worlds.query(MODEL, "pmc"), own_h=True)
    sizes = np.abs(complete_many(MODEL, *OF) - MODEL.mean).mean(axis=1)
    np.testing.assert_allclose(np.abs(rows_of(query)), np.tile(sizes[:, None], 70))
    assert two_tier_mechanism("pmc").promised(query).startswith("none: ")


def test_a_device_asked_twice_repeats_and_spends_nothing_in_any_process(tmp_path: Path) -> None:
    """It was charged when the query was announced, and a process that is started anew knows of it."""
    query = worlds.query(MODEL, "pmc-rr", epsilon=Fraction(1, 3))
    cohort = announced(OF, query, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    release = cohort.answer(query, MODEL, 0, DEVICES)
    assert cohort.answer(query, MODEL, 4, 5).bits == release.bits[4 * 9 : 5 * 9]
    again = worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    assert again.answer(query, MODEL, 0, DEVICES) == release
    again.announce(query, 0, DEVICES)
    assert spent_by(worlds.keeper_on(tmp_path), DEVICES) == [(0, DEVICES, Fraction(1, 3))]
    assert len(worlds.keeper_on(tmp_path).read(0, DEVICES)[1]) == 1


OTHERS = (
    worlds.query(worlds.features(seed=1), "pmd"),
    worlds.query(dataclasses.replace(MODEL, mean=MODEL.mean - 5.0 * (np.arange(70) == 3)), "pmd"),
    worlds.query(MODEL, "exact"),
    worlds.query(MODEL, "pmd", batch=1),
)
"""About another model, or otherwise."""


@pytest.mark.parametrize("other", OTHERS)
def test_a_device_takes_one_query_about_one_model_whichever_process_asks(
    other: SecondOrderQuery, tmp_path: Path
) -> None:
    query = worlds.query(MODEL, "pmd")
    cohort = worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    cohort.announce(query, 1, 3)
    named = f"devices 1 to 2 took query {query.id.hex()[:8]}.*once.*{other.id.hex()[:8]} \\({other.mechanism}\\)"
    for _ in range(2):
        with pytest.raises(InputError, match=named):
            cohort.announce(other, 0, 4)
        if other.model == MODEL.digest:
            with pytest.raises(InputError, match=named):
                cohort.answer(other, MODEL, 0, 4)
        cohort = worlds.cohort(OF, 0, DEVICES, keeper=worlds.keeper_on(tmp_path))
    assert [entry[:2] for entry in spent_by(worlds.keeper_on(tmp_path), 5)] == [(0, 1), (1, 3), (3, 5)]


def test_another_model_is_refused_and_both_are_named() -> None:
    query, wrong = worlds.query(MODEL, "pmc"), worlds.features(seed=1)
    with pytest.raises(
        InputError, match=f"{wrong.digest.hex()[:8]} is not the announced one, {MODEL.digest.hex()[:8]}"
    ):
        announced(OF, query, 2, 3).answer(query, wrong, 2, 3)


def test_devices_to_whom_a_query_was_not_announced_refuse_it() -> None:
    query = worlds.query(MODEL, "pmc")
    cohort = worlds.cohort(OF, 0, DEVICES)
    for ends in ((1, 3), (4, 5)):
        cohort.announce(query, *ends)
    release = cohort.answer(query, MODEL, 0, 6)
    devices, payloads = query.payloads(release, MODEL)
    assert (devices.tolist(), release.refused) == ([1, 2, 4], 3)
    assert np.array_equal(payloads, answered("pmc")[devices])
    assert not any(release.bits[:9] + release.bits[3 * 9 : 4 * 9] + release.bits[5 * 9 :])
    cohort.announce(query, 0, 6)
    assert cohort.answer(query, MODEL, 0, 6).refused == 0


def test_devices_whose_keeper_does_not_answer_send_nothing_that_is_not_booked() -> None:
    query, deaf = worlds.query(MODEL, "pmc"), Deaf(Keeper())
    cohort = announced(OF, query, 0, DEVICES, keeper=deaf)
    assert cohort.answer(query, MODEL, 0, DEVICES).refused == DEVICES
    deaf.below = 0
    cohort.announce(query, 2, 4)
    deaf.below = 1
    devices, _ = query.payloads(cohort.answer(query, MODEL, 0, DEVICES), MODEL)
    assert devices.tolist() == [2, 3]


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
    query, texts = worlds.query(model, "sslp"), set()
    for of in (OF, worlds.rated(devices=DEVICES, each=1), worlds.rated(devices=DEVICES, each=0)):
        with pytest.raises(InputError, match=f"model has {items} items; .* catalogue of 70") as caught:
            announced(of, query, 0, DEVICES).answer(query, model, 0, DEVICES)
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_devices_beyond_the_cohort_are_refused() -> None:
    with pytest.raises(IndexError, match="devices 20 to 23"):
        announced(OF, worlds.query(MODEL, "pmc"), 0, DEVICES).announce(worlds.query(MODEL, "pmc"), 20, 24)


def test_nothing_of_a_cohort_shows_when_its_ratings_are_printed() -> None:
    cohort = worlds.cohort(OF, 0, 2)
    assert repr(cohort._ratings) == "RowTable(count=70)"


# Private devices answer what they agreed to; a server's model is checked before compiled code sees it.
FEW_DEVICES = 6


def agreed(mechanism: str, *, own_h: bool = False) -> PrivateCohort:
    """Devices that agreed to one mechanism, and to epsilon 1 if it has any."""
    epsilon: Epsilon = Fraction(1) if two_tier_mechanism(mechanism).takes_epsilon else None
    agreement = Agreement(designs=(mechanism,), budget=epsilon, answers=1)
    return worlds.cohort(OF, 0, FEW_DEVICES, agreement=agreement, own_h=own_h)


@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
def test_a_device_answers_what_it_agreed_to_and_nothing_else(mechanism: str) -> None:
    """Whatever a server names: the mechanism of the experiment is answered, six others and more epsilon are refused."""
    cohort = agreed(mechanism)
    for other in two_tier_mechanisms().keys() - {mechanism}:
        with pytest.raises(AgreementError, match=f"agreed to {mechanism}; they refuse {other}$"):
            cohort.announce(worlds.query(MODEL, other), 0, FEW_DEVICES)
    if two_tier_mechanism(mechanism).takes_epsilon:
        dearer = worlds.query(MODEL, mechanism, epsilon=Fraction(1) + Fraction(1, 10**30))
        with pytest.raises(AgreementError, match="agreed to epsilon 1 at most"):
            cohort.announce(dearer, 0, FEW_DEVICES)
        with pytest.raises(AgreementError, match="agreed to epsilon 1 at most"):
            cohort.answer(dearer, MODEL, 0, FEW_DEVICES)
    assert untouched(cohort)
    query = worlds.query(MODEL, mechanism)
    cohort.announce(query, 0, FEW_DEVICES)
    assert cohort.answer(query, MODEL, 0, FEW_DEVICES).answered is None


@pytest.mark.parametrize("epsilon", [Fraction(-20), Fraction(0), -20, "1", None, 0.5, Fraction(1, 10**40)])
@pytest.mark.parametrize("mechanism", ["sslp", "laplace", "pmc-rr", "privunit"])
def test_no_device_answers_at_an_epsilon_that_is_none(mechanism: str, epsilon: Any) -> None:
    """At -20 SSLP turned nearly every answer round, and the ledger said "-20"."""
    for cohort in (agreed(mechanism), worlds.cohort(OF, 0, FEW_DEVICES)):
        with pytest.raises(InputError):
            cohort.announce(forged(worlds.query(MODEL, mechanism), epsilon=epsilon), 0, FEW_DEVICES)
        assert untouched(cohort)
    with pytest.raises(InputError):
        SecondOrderQuery(model=MODEL.digest, mechanism=mechanism, epsilon=epsilon)


def test_the_devices_own_h_is_agreed_to_by_name() -> None:
    asked = forged(worlds.query(MODEL, "pmc"), own_h=True)
    cohort = agreed("pmc")
    with pytest.raises(AgreementError, match="own_h"):
        cohort.announce(asked, 0, FEW_DEVICES)
    assert untouched(cohort)
    agreed("pmc", own_h=True).announce(asked, 0, FEW_DEVICES)


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
@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
def test_a_model_that_is_none_is_refused_where_it_is_built_and_where_it_arrives(
    mechanism: str, changes: dict[str, Any]
) -> None:
    """With fewer rows than items ``exact`` ended the process, and ``pmc`` answered from foreign memory."""
    fields = {part: getattr(MODEL, part) for part in ItemFeatures.__dataclass_fields__}
    with pytest.raises(InputError):
        ItemFeatures(**{**fields, **changes})
    bad = forged(MODEL, **changes)
    query = forged(worlds.query(MODEL, mechanism), model=bytes(16) if bad.vectors.ndim == 1 else bad.digest)
    with pytest.raises(InputError):
        announced(OF, query, 0, FEW_DEVICES).answer(query, bad, 0, FEW_DEVICES)


@pytest.mark.parametrize("mechanism", ["laplace", "sslp"])
def test_what_divides_by_the_range_of_ratings_needs_one(mechanism: str) -> None:
    flat = forged(MODEL, lowest=3.0, highest=3.0, scale=(3.0,))
    assert ItemFeatures.arrived(flat).scale == flat.scale
    query, other = worlds.query(flat, mechanism), worlds.query(flat, "pmc")
    with pytest.raises(InputError, match=r"all ratings are 3; .* divides by their range"):
        announced(OF, query, 0, FEW_DEVICES).answer(query, flat, 0, FEW_DEVICES)
    assert announced(OF, other, 0, FEW_DEVICES).answer(other, flat, 0, FEW_DEVICES).answered is None


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
    """What a server sees that announces a query and asks about its model: an error, or that all answered."""
    if model is not OVERFLOW_MODEL:
        with suppress(Exception):  # one that has no digest is sent as it is
            query = forged(query, model=model.digest)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            cohort = announced(of, query, 0, OVERFLOW_DEVICES, items=ITEMS)
            devices, payloads = query.payloads(cohort.answer(query, model, 0, OVERFLOW_DEVICES), model)
    except BlindrecError as error:
        return f"{type(error).__name__}: {error}"
    two_tier_mechanism(query.mechanism).check(payloads, query, model)
    return f"{len(devices)} answered"


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
    queries = [worlds.query(OVERFLOW_MODEL, mechanism) for mechanism in two_tier_mechanisms()]
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


@pytest.mark.parametrize("mechanism", two_tier_mechanisms())
@pytest.mark.parametrize("name", HARD)
def test_a_model_that_is_hard_to_complete_with(name: str, mechanism: str) -> None:
    """With equal rows and a tiny kappa a pivot is 0 where both items were rated: that was an error of its own."""
    told = same(worlds.query(OVERFLOW_MODEL, mechanism, epsilon=Fraction(2)), forged(OVERFLOW_MODEL, **HARD[name]))
    refused = name in {"too wide", "much too wide", "fewer items", "more items", "whole numbers"}
    refused |= name == "whole numbers that are huge" or (
        name == "no directions" and two_tier_mechanism(mechanism).moment
    )
    assert ("answered" not in told) == refused, told


def test_completed_vectors_are_numbers_and_not_huge(monkeypatch: pytest.MonkeyPatch) -> None:
    overflow = np.array([[np.inf, -np.inf, np.nan, 1e60, -0.5]])
    monkeypatch.setattr("actors.private_cohort.residuals", lambda *_: overflow.copy())
    vectors = worlds.cohort(OF, 0, 1)._vectors(*[None] * 3)  # type: ignore[arg-type] # nothing looks at them
    assert vectors.tolist() == [[LARGEST, -LARGEST, 0.0, LARGEST, -0.5]]


def test_moments_of_very_many_directions_are_refused_and_others_are_not() -> None:
    many = 513
    model = forged(OVERFLOW_MODEL, mean=np.zeros(many), vectors=np.zeros((many, many)))
    fewer = forged(model, vectors=np.zeros((many, many - 1)))
    for mechanism, part in two_tier_mechanisms().items():
        worlds.query(fewer, mechanism).require(fewer)
        if part.moment:
            with pytest.raises(BlindrecError, match=f"rank is 513; {mechanism} is about directions, give 1 to 512"):
                worlds.query(model, mechanism).require(model)
        else:
            worlds.query(model, mechanism).require(model)
