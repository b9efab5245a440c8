"""Whether private devices answer, and what an error says, is the same whatever they rated: silence is not a release."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import fields
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import tiers
from forging import forged
from nasty import COSTS, SCALARS

from actors.second_order.cohort import PrivateCohort
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import second_order_public_halves

ITEMS, DEVICES = 12, 3
MODEL = tiers.features(items=ITEMS, rank=3)


def several(rated: list[tuple[int, ...]], values: list[float]) -> tiers.Rated:
    """Devices that rated these items so; the values are repeated."""
    starts = np.cumsum([0, *(len(row) for row in rated)]).astype(np.int64)
    items = np.concatenate([np.array(row, np.int32) for row in rated])
    return tiers.Rated(starts, items, np.resize(np.array(values, np.float64), items.size))


DIFFERENT = (
    several([(0, 1), (1, 2), (0, 1, 2)], [1.0, 5.0]),
    several([tuple(range(ITEMS))] * DEVICES, [3.0]),
    several([(), (11,), (5, 7, 8, 9, 10)], [4.5, -1e50, 1e50, 0.0]),
)
"""Few ratings and all; on the scale and far off; of items 0 and 1, whose rows are alike below, and of none of them."""


def outcome(of: tiers.Rated, query: SecondOrderQuery, model: ItemFeatures) -> str:
    """What a server sees that announces a model and asks about it: an error, or that all answered."""
    cohort, digest = tiers.cohort(of, 0, DEVICES, items=ITEMS), MODEL.digest
    if model is not MODEL:
        with suppress(Exception):  # one that has no digest is sent as it is
            digest = model.digest
        query = forged(query, model=digest)
    cohort._answers._pinned = dict.fromkeys(range(DEVICES), digest)
    return _told(cohort, query, model)


def _told(cohort: PrivateCohort, query: Any, model: Any) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            releases = cohort.answer(query, model, 0, DEVICES)
    except BlindrecError as error:
        return f"{type(error).__name__}: {error}"
    for release in releases:
        SecondOrderRelease.arrived(release).require(query, model)
    return f"{len(releases)} answered"


def same(query: Any, model: Any) -> str:
    """Return what all cohorts tell, which is the same."""
    found = {outcome(of, query, model) for of in DIFFERENT}
    assert len(found) == 1, (query, model, found)
    return found.pop()


@pytest.mark.parametrize("name", [field.name for field in fields(ItemFeatures)])
def test_any_scalar_in_any_field_of_a_model(name: str) -> None:
    queries = [tiers.query(MODEL, mechanism) for mechanism in second_order_public_halves()]
    told = [same(query, forged(MODEL, **{name: value})) for value in SCALARS for query in queries]
    assert any("InputError" in one for one in told)


@pytest.mark.parametrize("name", [field.name for field in fields(SecondOrderQuery)])
def test_any_scalar_in_any_field_of_a_query(name: str) -> None:
    told = [
        same(forged(tiers.query(MODEL, mechanism), **{name: value}), MODEL)
        for value in (*SCALARS, *COSTS)
        for mechanism in ("pmd", "sslp")
    ]
    assert any("Error" in one for one in told)


def alike(size: float = 1.0) -> np.ndarray[Any, Any]:
    """Rows of V of which those of items 0 and 1 are equal."""
    vectors = MODEL.vectors * size
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
    "fewer items": {"mean": MODEL.mean[:1].copy(), "vectors": MODEL.vectors[:1, :1].copy()},
    "more items": {"mean": np.tile(MODEL.mean, 2), "vectors": np.tile(MODEL.vectors, (2, 1))},
    "means that are huge": {"mean": MODEL.mean * 1e49},
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
    told = same(tiers.query(MODEL, mechanism, epsilon=Fraction(2)), forged(MODEL, **HARD[name]))
    refused = name in {"too wide", "much too wide", "fewer items", "more items", "whole numbers"}
    refused |= name == "whole numbers that are huge" or (
        name == "no directions" and second_order_public_halves()[mechanism].moment
    )
    assert ("answered" not in told) == refused, told


def test_moments_of_very_many_directions_are_refused_and_others_are_not() -> None:
    many = 513
    model = forged(MODEL, mean=np.zeros(many), vectors=np.zeros((many, many)))
    fewer = forged(model, vectors=np.zeros((many, many - 1)))
    for mechanism, half in second_order_public_halves().items():
        tiers.query(fewer, mechanism).require(fewer)
        if half.moment:
            with pytest.raises(BlindrecError, match=f"rank is 513; {mechanism} is about directions, give 1 to 512"):
                tiers.query(model, mechanism).require(model)
        else:
            tiers.query(model, mechanism).require(model)
