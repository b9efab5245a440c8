"""Public arrays of a query: in its id where there are some, checked where it arrives; ids of others as they were."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from forging import forged

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

EPSILON = Fraction(3, 2)
FIXED: dict[str, tuple[Query, str]] = {
    "maxsense": (
        worlds.maxsense_query(items=30, sensing=0.25, epsilon=EPSILON),
        "05fa599d67fa4e808e4ee4dfb12fbeb9",
    ),
    "a pool": (
        worlds.maxsense_query(items=30, sensing=0.1, pool=[1, 5, 9, 20], round_number=7),
        "cee9ba1d6585edba9f25913edca2aefa",
    ),
    "sign": (
        worlds.sign_query([0, 3, 29], items=30, vectors=4, kept=2, epsilon=EPSILON),
        "da601ed5a4db1d4353c1f9b582eeb75b",
    ),
    "centres": (
        worlds.sign_query([0, 3], items=30, epsilon=Fraction(1, 3), centres=[-32, 7]),
        "ea4e5b885bedbde4ffa3654818468684",
    ),
    "questions": (
        Query(
            design="multi-maxsense",
            items=30,
            round=2,
            public_seed=worlds.PUBLIC,
            epsilon=EPSILON,
            questions=3,
            parameters={"set_size": 7},
        ),
        "7f656d1becbe8fb66bb23bf4791d12fe",
    ),
}


@pytest.mark.parametrize("name", FIXED)
def test_ids_of_queries_without_arrays_are_what_they_were(name: str) -> None:
    """Taken from the code before queries could have arrays: ids key all coins."""
    query, told = FIXED[name]
    assert query.id.hex() == told


BASE = FIXED["maxsense"][0]
GIVEN: dict[str, Mapping[str, Any]] = {
    "none": {},
    "one": {"anchors": np.arange(6, dtype=np.int32)},
    "another name": {"anchor": np.arange(6, dtype=np.int32)},
    "another type": {"anchors": np.arange(6, dtype=np.int64)},
    "without signs": {"anchors": np.arange(6, dtype=np.uint64)},
    "real numbers": {"anchors": np.arange(6.0)},
    "a table": {"anchors": np.arange(6, dtype=np.int32).reshape(2, 3)},
    "another table": {"anchors": np.arange(6, dtype=np.int32).reshape(3, 2)},
    "other numbers": {"anchors": np.array([0, 1, 2, 3, 5, 4], np.int32)},
    "two": {"anchors": np.arange(6, dtype=np.int32), "more": np.zeros(0)},
    "the other way": {"more": np.arange(6, dtype=np.int32), "anchors": np.zeros(0)},
}


def test_arrays_differ_in_the_id_by_name_type_shape_and_numbers() -> None:
    ids = {name: dataclasses.replace(BASE, arrays=dict(arrays)).id for name, arrays in GIVEN.items()}
    assert len(set(ids.values())) == len(GIVEN)
    assert ids["none"] == BASE.id
    for arrays in GIVEN.values():
        query = dataclasses.replace(BASE, arrays=dict(arrays))
        assert pickle.loads(pickle.dumps(query)).id == query.id
        turned = dataclasses.replace(BASE, arrays=dict(reversed(list(arrays.items()))))
        assert turned.id == query.id
        swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in arrays.items()}
        assert forged(BASE, arrays=swapped).id == query.id


@pytest.mark.parametrize(
    "array",
    [
        None,
        [1, 2],
        np.arange(3, dtype=np.int16),
        np.arange(3, dtype=">i4"),
        np.array([True]),
        np.array([1.0, np.nan]),
        np.array([np.inf]),
        np.array(3),
        np.zeros((2, 2, 2)),
        np.zeros((4, 4))[:, ::2],
        np.array(["a"]),
        np.array([None], dtype=np.object_),
    ],
    ids=str,
)
def test_arrays_that_are_none_are_refused_by_name(array: object) -> None:
    """Where a query is built, and where it arrives."""
    arrays: Any = {"anchors": array}
    with pytest.raises(InputError, match=r"^array anchors: ") as caught:
        dataclasses.replace(BASE, arrays=arrays)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"^array anchors: "):
        Query.arrived(forged(BASE, arrays=arrays))


@pytest.mark.parametrize("arrays", [None, [], {1: np.zeros(2)}, {"": np.zeros(2)}, {"x" * 300: np.zeros(2)}], ids=str)
def test_arrays_without_names_are_refused(arrays: object) -> None:
    with pytest.raises(InputError, match="array"):
        Query.arrived(forged(BASE, arrays=arrays))
