"""Queries are told apart by everything they ask; bits travel packed, most significant first."""

import dataclasses
import math
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import worlds
from evidence import sample
from hypothesis import given
from hypothesis import strategies as st
from messages import forged

from coordinator import name_kernels_folder
from coordinator.protocol.arrays import Ints, Ints2
from coordinator.protocol.checked import require_array, require_block
from coordinator.protocol.compiled import borrowing, compiled, inlined, private_options
from coordinator.protocol.errors import BlockError, InputError
from coordinator.protocol.messages import Query, pack, unpack

BASE = forged(
    worlds.maxsense_query(items=10, sensing=0.25, epsilon=Fraction(1), public_seed=bytes(16)),
    parameters={"sensing": 0.25, "other": 2.0},
)

POOLS = [np.array(pool, np.int32) for pool in ([], [0], [1], [0, 1], [1, 0], [256], [0, 0])]
NUMBERS = {"sensing": 0.25, "other": 2.0}
CHANGES: list[dict[str, Any]] = [
    *({"design": "maxsense "}, {"design": 'maxsense", "items": 10'}),
    *({"items": 11}, {"round": 1}, {"public_seed": bytes(15) + b"\x01"}),
    *({"epsilon": epsilon} for epsilon in (Fraction(1) + Fraction(1, 10**30), Fraction(10), None)),
    *({"questions": 2}, {"answer_bits": 2}, {"answer_bits": 2, "questions": 2}),
    *({"parameters": numbers} for numbers in ({}, {"sensing": 0.25}, {**NUMBERS, "more": 0.0})),
    {"parameters": {"sensing": 2.0, "other": 0.25}},
    {"parameters": {**NUMBERS, "sensing": math.nextafter(0.25, 1)}},
    {"parameters": {"sensing": 0.25, "other ": 2.0}},
    *({"pool": pool} for pool in POOLS),
    *({"centres": np.array(centres, np.int32)} for centres in ([], [0], [-1])),
    *({"pool": POOLS[1], "centres": POOLS[2]}, {"pool": POOLS[2], "centres": POOLS[1]}),
    {"arrays": {"anchors": np.array([0, 1], np.int32)}},
    *({"own_questions": True}, {"period": 1}, {"period": 2}),
]


def test_any_change_changes_the_id() -> None:
    ids = {forged(BASE, **change).id for change in [{}, *CHANGES]}
    assert len(ids) == 1 + len(CHANGES)
    assert {len(one) for one in ids} == {16}


def test_every_field_of_a_query_is_in_its_id() -> None:
    """A field added later must get a change above; the agreement alone is not in the id, so that coins stay."""
    fields = {field.name for field in dataclasses.fields(Query)}
    assert fields - {"agreement"} == {name for change in CHANGES for name in change}
    assert forged(BASE, agreement=bytes(16)).id == BASE.id


def test_what_says_the_same_has_the_same_id() -> None:
    for sensing, other in ((1 / 4, 2), (np.float64(0.25), np.float32(2))):
        assert forged(BASE, parameters={"other": other, "sensing": sensing}).id == BASE.id
    for same in ({"epsilon": Fraction(3, 3)}, {"pool": None}, {}):
        assert forged(BASE, **same).id == BASE.id


@pytest.mark.parametrize("kind", [">i4", "<i8", "uint16", "int32"])
def test_a_pool_is_its_numbers_however_they_are_stored(kind: str) -> None:
    stored = np.array([3, 5, 500], kind)
    wide = np.repeat(stored, 2)[::2]
    assert forged(BASE, pool=wide).id == forged(BASE, pool=np.array([3, 5, 500], np.int32)).id
    again = pickle.loads(pickle.dumps(forged(BASE, pool=stored)))
    assert again.id == forged(BASE, pool=stored).id


def test_queries_are_equal_where_their_ids_are() -> None:
    """With a pool, comparing fields would be neither true nor false."""
    queries = [forged(BASE, **change) for change in CHANGES]
    for place, query in enumerate(queries):
        again = forged(query, pool=None if query.pool is None else query.pool.copy())
        assert query == again
        assert hash(query) == hash(again)
        assert [other == query for other in queries] == [k == place for k in range(len(queries))]
    assert len({*queries, *queries}) == len(CHANGES)
    assert BASE.id != BASE
    assert BASE != "query"


@given(st.lists(st.integers(0, 1), max_size=70))
def test_packed_bits_come_back(bits: list[int]) -> None:
    packed = pack(np.array(bits, np.uint8))
    assert len(packed) == -(-len(bits) // 8)
    assert unpack(packed, len(bits)).tolist() == bits
    assert int.from_bytes(packed, "big") == int("".join(map(str, bits)).ljust(8 * len(packed), "0") or "0", 2)


# Public arrays of a query: in its id where there are some, checked where it arrives; ids of others as they were.
EPSILON = Fraction(3, 2)
BARE_QUERY = worlds.maxsense_query(items=30, sensing=0.25, epsilon=EPSILON)


SIX = np.arange(6, dtype=np.int32)
GIVEN: dict[str, Mapping[str, Any]] = {
    "none": {},
    "one": {"anchors": SIX},
    "another name": {"anchor": SIX},
    "another type": {"anchors": np.arange(6, dtype=np.int64)},
    "without signs": {"anchors": np.arange(6, dtype=np.uint64)},
    "real numbers": {"anchors": np.arange(6.0)},
    "a table": {"anchors": SIX.reshape(2, 3)},
    "another table": {"anchors": SIX.reshape(3, 2)},
    "other numbers": {"anchors": np.array([0, 1, 2, 3, 5, 4], np.int32)},
    "two": {"anchors": SIX, "more": np.zeros(0)},
    "the other way": {"more": SIX, "anchors": np.zeros(0)},
}


def test_arrays_differ_in_the_id_by_name_type_shape_and_numbers() -> None:
    ids = {name: dataclasses.replace(BARE_QUERY, arrays=dict(arrays)).id for name, arrays in GIVEN.items()}
    assert len(set(ids.values())) == len(GIVEN)
    assert ids["none"] == BARE_QUERY.id
    for arrays in GIVEN.values():
        query = dataclasses.replace(BARE_QUERY, arrays=dict(arrays))
        assert pickle.loads(pickle.dumps(query)).id == query.id
        turned = dataclasses.replace(BARE_QUERY, arrays=dict(reversed(list(arrays.items()))))
        assert turned.id == query.id
        swapped = {name: array.astype(array.dtype.newbyteorder(">")) for name, array in arrays.items()}
        assert forged(BARE_QUERY, arrays=swapped).id == query.id


TYPES = (np.arange(3, dtype=np.int16), np.arange(3, dtype=">i4"), np.array(["a"]), np.array([None], dtype=np.object_))
SHAPES = (np.array(3), np.zeros((2, 2, 2)), np.zeros((4, 4))[:, ::2])
NO_NUMBERS = (np.array([True]), np.array([1.0, np.nan]), np.array([np.inf]))


@pytest.mark.parametrize("array", [None, [1, 2], *TYPES, *SHAPES, *NO_NUMBERS], ids=str)
def test_arrays_that_are_none_are_refused_by_name(array: object) -> None:
    """Where a query is built, and where it arrives."""
    arrays: Any = {"anchors": array}
    with pytest.raises(InputError, match=r"^array anchors: ") as caught:
        dataclasses.replace(BARE_QUERY, arrays=arrays)
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match=r"^array anchors: "):
        Query.arrived(forged(BARE_QUERY, arrays=arrays))


@pytest.mark.parametrize("arrays", [None, [], {1: np.zeros(2)}, {"": np.zeros(2)}, {"x" * 300: np.zeros(2)}], ids=str)
def test_arrays_without_names_are_refused(arrays: object) -> None:
    with pytest.raises(InputError, match="array"):
        Query.arrived(forged(BARE_QUERY, arrays=arrays))


# What is refused where a message is made: arrays of other types, and devices that are not here.
@pytest.mark.parametrize("wrong", [[1, 2], np.zeros(2, np.int32), np.zeros(2), np.zeros(2, ">i8"), None])
def test_arrays_of_another_type_or_byte_order_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match=r"^counts: .*give an array of int64$"):
        require_array("counts", wrong, np.int64, [2])


def test_arrays_of_another_shape_or_order_are_refused() -> None:
    square = np.arange(4, dtype=np.int64).reshape(2, 2)
    assert require_array("counts", square, np.int64, [None, 2]) is square
    for wrong, shape in ((square, [2]), (square, [2, 3]), (square.T, [2, 2])):
        with pytest.raises(InputError, match=r"^counts: shape \(2, 2\); give"):
            require_array("counts", wrong, np.int64, shape)


@pytest.mark.parametrize(("first", "stop"), [(4, 9), (2, 5), (6, 5)])
def test_devices_that_are_not_here_are_named(first: int, stop: int) -> None:
    with pytest.raises(BlockError, match=rf"^devices {first} to {stop - 1} are not all among devices 3 to 7 here$"):
        require_block(first, stop, 3, 8)


# Functions that borrow arrays make none, and count no references to those that they are given; where kernels lie.


ROOT = Path(__file__).parents[2]


def sum_of_row(table: Ints2, row: int) -> int:
    """Takes a row, to which there is a reference of its own."""
    mine, found = table[row], 0
    if not mine.size:
        return -1
    for value in mine:
        found += value
    return found


def made(many: int) -> Ints:
    return np.zeros(many, np.int64)


def squared(matrix: Any) -> Any:
    return matrix @ matrix


def fresh(kind: Callable[..., Any], function: Callable[..., Any]) -> Any:
    """Compiles as a decorator does, without the cache, which knows one kind of each function."""
    return numba.jit(**kind(function).dispatcher.targetoptions)(function)


def references(function: Any) -> int:
    """How often its code names what counts references."""
    return sum(text.count("@NRT_") for text in function.inspect_llvm().values())


def test_borrowing_counts_no_references_and_where_numba_has_no_such_option_kernels_give_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table, kinds = np.arange(12).reshape(3, 4), (borrowing, inlined)
    borrowed = [fresh(kind, sum_of_row) for kind in kinds]
    assert [function(table, 2) for function in borrowed] == [38, 38]
    assert not any(references(function) for function in borrowed)
    monkeypatch.delattr("numba.core.options.DefaultOptions._nrt")
    assert private_options(_nrt=False) == {}
    counting = [fresh(kind, sum_of_row) for kind in kinds]
    assert [function(table, 2) for function in counting] == [38, 38]
    assert all(references(function) for function in counting)


@pytest.mark.thorough  # compiles for a second; tests/test_light_imports.py sees that numba has its linear algebra
def test_a_kernel_multiplies_matrices() -> None:
    assert fresh(compiled, squared)(np.array([[2.0, 3.0], [5.0, 7.0]])).tolist() == [[19.0, 27.0], [45.0, 64.0]]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", [borrowing, inlined])
def test_borrowing_makes_no_array(kind: Callable[..., Any]) -> None:
    assert fresh(compiled, made)(3).size == 3
    with pytest.raises(numba.TypingError, match="zeros"):
        fresh(kind, made)(3)


CALL = """
import os
import numpy as np
from actors import block_model as kernels
from coordinator.protocol import hashing
kernel = hashing.device_streams
print(len(kernel(np.zeros(2, np.uint64), 0, 3)), sum(kernel.dispatcher.stats.cache_hits.values()))
"""


def hits(folder: Path, home: Path) -> int:
    """How often a kernel of the packages in a folder's folders was found compiled."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "HOME": str(home)}
    environment["PYTHONPATH"] = os.pathsep.join(str(one) for one in sorted(folder.iterdir()))
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", CALL]
    said = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=True)
    return int(said.stdout.split()[1])


@pytest.mark.thorough  # compiles twice
@pytest.mark.slow
@pytest.mark.parametrize("prefix", sample(["_ray_pkg_", "mine_"], 1))
def test_kernels_of_sent_code_are_found_until_any_of_it_changes(tmp_path: Path, prefix: str) -> None:
    """Each package is sent by itself: one whose own files are the same must not bring kernels of another's old code."""
    (home := tmp_path / "home").mkdir()
    for name in ("actors", "coordinator"):
        leave = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, tmp_path / "sent" / f"{prefix}{name}" / name, ignore=leave)
    assert [hits(tmp_path / "sent", home) for _ in range(2)] == [0, 1]
    with (tmp_path / "sent" / f"{prefix}actors" / "actors" / "words.py").open("a", encoding="utf-8") as file:
        file.write("# numba does not notice a change in a module that a kernel calls\n")
    assert hits(tmp_path / "sent", home) == (0 if prefix == "_ray_pkg_" else 1)
    assert not list(home.iterdir())


def test_kernels_lie_in_the_users_folder_where_the_code_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")  # else that it was not there is not noted, and what is set here stays:
    monkeypatch.delenv("NUMBA_CACHE_DIR")  # every process that a later test starts would compile all its kernels
    name_kernels_folder(tmp_path)
    assert "NUMBA_CACHE_DIR" not in os.environ
    monkeypatch.setattr(os, "access", lambda *_: False)
    name_kernels_folder(tmp_path)
    assert Path(os.environ["NUMBA_CACHE_DIR"]).parent == Path("/caches/blindrec")
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/mine")
    name_kernels_folder(tmp_path)
    assert os.environ["NUMBA_CACHE_DIR"] == "/mine"
