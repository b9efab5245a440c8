"""Private devices answer what they agreed to; a server's model is checked before compiled code sees it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiers
from forging import forged

from actors.keeper import Keeper
from actors.second_order.cohort import Consent, Pin, PrivateCohort
from coordinator.protocol.errors import BlindrecError, ConsentError, InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

DEVICES = 6
OF = tiers.rated(devices=DEVICES)
MODEL = tiers.features()


def consenting(*mechanisms: str, epsilon: Fraction | None = Fraction(1), own_h: bool = False) -> Consent:
    """What devices agree to."""
    return Consent(mechanisms=frozenset(mechanisms), epsilon=epsilon, own_h=own_h)


def pinned(consent: Consent, model: ItemFeatures = MODEL, keeper: Keeper | None = None) -> PrivateCohort:
    """Devices that agreed to something, and were told of a model."""
    cohort = tiers.cohort(OF, 0, DEVICES, consent=consent, keeper=keeper)
    cohort.pin(model.digest, 0, DEVICES)
    return cohort


def untouched(cohort: PrivateCohort) -> bool:
    """Whether no device has let anything out."""
    return all(cohort.spent(device) is None for device in range(DEVICES))


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_device_answers_what_it_agreed_to_and_nothing_else(mechanism: str) -> None:
    """Whatever a server names: the mechanism of the experiment is answered, six others and more epsilon are refused."""
    cohort = pinned(consenting(mechanism))
    for other in second_order_public_halves().keys() - {mechanism}:
        with pytest.raises(ConsentError, match=f"agreed to {mechanism}; they refuse {other}$"):
            cohort.answer(tiers.query(MODEL, other), MODEL, 0, DEVICES)
    if second_order_public_halves()[mechanism].takes_epsilon:
        dearer = tiers.query(MODEL, mechanism, epsilon=Fraction(1) + Fraction(1, 10**30))
        with pytest.raises(ConsentError, match="agreed to epsilon 1 at most"):
            cohort.answer(dearer, MODEL, 0, DEVICES)
    assert untouched(cohort)
    assert len(cohort.answer(tiers.query(MODEL, mechanism), MODEL, 0, DEVICES)) == DEVICES


@pytest.mark.parametrize("epsilon", [Fraction(-20), Fraction(0), -20, "1", None, 0.5, Fraction(1, 10**40)])
@pytest.mark.parametrize("mechanism", ["sslp", "laplace", "pmc-rr", "privunit"])
def test_no_device_answers_at_an_epsilon_that_is_none(mechanism: str, epsilon: Any) -> None:
    """At -20 SSLP turned nearly every answer round, and the ledger said "-20"."""
    for consent in (consenting(mechanism), tiers.WILLING):
        cohort = pinned(consent)
        bad = forged(tiers.query(MODEL, mechanism), epsilon=epsilon)
        with pytest.raises(InputError):
            cohort.answer(bad, MODEL, 0, DEVICES)
        assert untouched(cohort)
    with pytest.raises(InputError):
        SecondOrderQuery(model=MODEL.digest, mechanism=mechanism, epsilon=epsilon)


def test_the_devices_own_h_is_agreed_to_by_name() -> None:
    asked = forged(tiers.query(MODEL, "pmc"), own_h=True)
    cohort = pinned(consenting("pmc"))
    with pytest.raises(ConsentError, match="own_h"):
        cohort.answer(asked, MODEL, 0, DEVICES)
    assert untouched(cohort)
    assert len(pinned(consenting("pmc", own_h=True)).answer(asked, MODEL, 0, DEVICES)) == DEVICES


def test_nobody_agrees_to_what_there_is_not() -> None:
    for mechanisms, epsilon in ((("mine",), Fraction(1)), (("pmc",), Fraction(-1)), (("pmc",), Fraction(0))):
        with pytest.raises(InputError):
            consenting(*mechanisms, epsilon=epsilon)
    with pytest.raises(ConsentError, match="agreed to nothing"):
        pinned(consenting()).answer(tiers.query(MODEL, "pmc"), MODEL, 0, DEVICES)


BAD: dict[str, dict[str, Any]] = {
    "fewer rows than items": {"vectors": MODEL.vectors[:40].copy()},
    "one row": {"vectors": MODEL.vectors[:1].copy()},
    "more rows": {"vectors": np.ones((71, 3))},
    "a flat table": {"vectors": MODEL.vectors.ravel()},
    "single precision": {"vectors": MODEL.vectors.astype(np.float32)},
    "columns first": {"vectors": np.asfortranarray(MODEL.vectors)},
    "every other row": {"vectors": np.repeat(MODEL.vectors, 2, 0)[::2]},
    "NaN in V": {"vectors": np.where(np.arange(3) == 1, np.nan, MODEL.vectors)},
    "too large": {"vectors": MODEL.vectors * 1e60},
    "fewer means": {"mean": MODEL.mean[:60].copy()},
    "NaN mean": {"mean": MODEL.mean * np.nan},
    "kappa 0": {"kappa": 0.0},
    "kappa below 0": {"kappa": -1.0},
    "kappa NaN": {"kappa": np.nan},
    "h below 0": {"common_h": -0.1},
    "h NaN": {"common_h": np.nan},
    "h infinite": {"common_h": np.inf},
    "lowest above highest": {"lowest": 5.0, "highest": 1.0, "scale": None},
    "lowest NaN": {"lowest": np.nan, "scale": None},
    "highest infinite": {"highest": np.inf},
    "degree 0": {"mean_degree": 0.0},
    "degree below 0": {"mean_degree": -3.0},
    "degree NaN": {"mean_degree": np.nan},
    "scale falls": {"scale": (5.0, 4.0, 1.0)},
    "scale twice": {"scale": (1.0, 1.0, 5.0)},
    "scale with NaN": {"scale": (1.0, np.nan, 5.0)},
    "scale in a list": {"scale": [1.0, 5.0]},
    "scale outside": {"scale": (1.0, 6.0)},
    "no scale": {"scale": ()},
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_model_that_is_none_is_refused_where_it_is_built_and_where_it_arrives(mechanism: str, name: str) -> None:
    """With fewer rows than items ``exact`` ended the process, and ``pmc`` answered from foreign memory."""
    fields = {part: getattr(MODEL, part) for part in ItemFeatures.__dataclass_fields__}
    with pytest.raises(InputError):
        ItemFeatures(**{**fields, **BAD[name]})
    bad = forged(MODEL, **BAD[name])
    digest = bytes(16) if bad.vectors.ndim == 1 else bad.digest
    query, cohort = forged(tiers.query(MODEL, mechanism), model=digest), tiers.cohort(OF, 0, DEVICES)
    cohort.pin(digest, 0, DEVICES)
    with pytest.raises(InputError):
        cohort.answer(query, bad, 0, DEVICES)
    assert untouched(cohort)


@pytest.mark.parametrize("mechanism", ["laplace", "sslp"])
def test_what_divides_by_the_range_of_ratings_needs_one(mechanism: str) -> None:
    flat = forged(MODEL, lowest=3.0, highest=3.0, scale=(3.0,))
    assert ItemFeatures.arrived(flat).scale == flat.scale
    with pytest.raises(InputError, match=r"all ratings are 3; .* divides by their range"):
        pinned(tiers.WILLING, flat).answer(tiers.query(flat, mechanism), flat, 0, DEVICES)
    assert len(pinned(tiers.WILLING, flat).answer(tiers.query(flat, "pmc"), flat, 0, DEVICES)) == DEVICES


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_model_cannot_make_a_device_tell_by_an_overflow_what_it_rated(mechanism: str) -> None:
    """Item 3's row is as large as a model allows, kappa as small: who rated it gets no numbers out of completion.

    They answer like all others, with numbers, so that every mechanism's promise holds for them, too.
    """
    vectors = MODEL.vectors.copy()
    vectors[3] = 9e49
    vectors[4] = 9e49 * np.array([1.0, 1.0, 1.0 + 2.0**-52])
    model = forged(MODEL, vectors=vectors, kappa=1e-50)
    query = tiers.query(model, mechanism)
    every = np.tile(np.arange(8, dtype=np.int32), DEVICES)
    starts = np.arange(DEVICES + 1, dtype=np.int64) * 8
    cohort = tiers.cohort(tiers.Rated(starts, every, np.resize([1.0, 5.0], every.size)), 0, DEVICES)
    cohort.pin(model.digest, 0, DEVICES)
    for release in cohort.answer(query, model, 0, DEVICES):
        SecondOrderRelease.arrived(release).require(query, model)


@pytest.mark.parametrize("mechanism", second_order_public_halves())
def test_a_payload_has_its_size_and_its_numbers(mechanism: str) -> None:
    query = tiers.query(MODEL, mechanism)
    release = pinned(tiers.WILLING).answer(query, MODEL, 0, 1)[0]
    size = len(release.payload)
    bad = [release.payload[:-1], release.payload + b"\0", b"", bytearray(release.payload), None, "x" * size]
    if mechanism in {"laplace", "exact", "privunit"}:
        bad += [value.tobytes() * (size // 8) for value in np.array([np.nan, np.inf, -np.inf, 1e300], "<f8")]
    if mechanism == "pmd":
        bad += [b"\x05" * size, b"\xff" * size]
    for payload in bad:
        with pytest.raises(InputError):
            SecondOrderRelease.arrived(forged(release, payload=payload)).require(query, MODEL)


def test_what_is_kept_in_a_folder_is_kept_under_consent_only(tmp_path: Path) -> None:
    cohort = pinned(consenting("sslp"), keeper=Keeper(tmp_path))
    with pytest.raises(BlindrecError):
        cohort.answer(tiers.query(MODEL, "exact"), MODEL, 0, DEVICES)
    assert untouched(cohort)
    assert untouched(pinned(consenting("sslp"), keeper=Keeper(tmp_path)))
    assert Keeper(tmp_path).read(0, DEVICES) == (1, [Pin(MODEL.digest, 0, DEVICES).line()])
