"""DataFrames in the place of files of ratings: Parquet in memory, named by the digest of their values."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any, TypeGuard
from weakref import WeakValueDictionary

from coordinator.protocol.errors import InputError
from coordinator.protocol.limits import require_memory

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

NOWHERE = Path("/dev/null")  # Below it no file can be, so that the name of a frame is nobody else's
Content = tuple[str, "pa.Buffer"]
"""The digest of a frame's values, and the frame as Parquet."""


class FramePath(PosixPath):
    """The name of a DataFrame where settings name a file; what it holds stays in memory as long as this does."""

    content: Content

    def __reduce__(self) -> tuple[type[Path], tuple[str]]:  # settings travel with every unit, a frame once: see `sent`
        return Path, (str(self),)


_HELD: WeakValueDictionary[str, FramePath] = WeakValueDictionary()
_RECEIVED: dict[str, FramePath] = {}  # Of a worker, as long as it runs units of the call that sent them


def is_frame(value: object) -> TypeGuard[pd.DataFrame]:
    """Return whether a value is a DataFrame of pandas, which is not loaded for that."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def frame_at(path: Path) -> Content | None:
    """Return the frame of this name; None where the name is a file's. A frame that this process has not is refused."""
    if path.parent != NOWHERE:
        return None
    if (frame := _HELD.get(str(path))) is None:
        raise InputError(f"{path.name} is a DataFrame, which a folder does not keep; call blindrec with it from Python")
    return frame.content


def named(frame: pd.DataFrame) -> FramePath:
    """Hold a DataFrame in memory as Parquet, and return its name."""
    import pyarrow as pa  # noqa: PLC0415 (the command line loads this module)
    from pyarrow import parquet  # noqa: PLC0415 (as above)

    size = int(frame.memory_usage(deep=True).sum())
    require_memory(2 * size, f"the DataFrame, with {len(frame):,} rows,", "give fewer rows, or fewer columns")
    columns = [_plain(frame.iloc[:, index]) for index in range(frame.shape[1])]
    table = pa.Table.from_arrays(columns, names=[str(name) for name in frame.columns])
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    return _hold(_sha256(table), sink.getvalue())


def sent() -> dict[str, Content]:
    """Return all frames that this process holds, by name, for workers of its units."""
    return {name: frame.content for name, frame in _HELD.items()}


def receive(frames: Mapping[str, Content]) -> None:
    """Hold the frames that another process sent, and no others."""
    for name in _RECEIVED.keys() - frames.keys():
        del _RECEIVED[name]
    _RECEIVED.update({name: _hold(*content) for name, content in frames.items()})


def _hold(sha256: str, content: pa.Buffer) -> FramePath:
    path = FramePath(NOWHERE, f"frame-{sha256[:16]}")
    path.content = sha256, content
    return _HELD.setdefault(str(path), path)


def _plain(column: pd.Series[Any]) -> pa.Array:
    """Return a column in the one type of its kind, so that equal values have one digest; what is mixed is text."""
    import pyarrow as pa  # noqa: PLC0415 (the command line loads this module)

    try:
        array = pa.array(column, from_pandas=True)
    except pa.ArrowException:
        array = pa.array([None if value is None or value != value else str(value) for value in column], pa.string())  # noqa: PLR0124 (nan)
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pa.types.is_null(array.type) or pa.types.is_nested(array.type):
        array = pa.array([None if value is None else str(value) for value in array.to_pylist()], pa.string())
    kinds = (
        (lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(), pa.int64()),
        (pa.types.is_floating, pa.float64()),
        (pa.types.is_string, pa.large_string()),
        (pa.types.is_string_view, pa.large_string()),
    )
    return array.cast(next((kind for check, kind in kinds if check(array.type)), array.type))


def _sha256(table: pa.Table) -> str:
    """Return the digest of a table's names, types and values, the same in every process and version of Parquet."""
    import numpy as np  # noqa: PLC0415 (the command line loads this module)
    import pyarrow as pa  # noqa: PLC0415 (as above)

    digest = hashlib.sha256()
    for name, column in zip(table.column_names, table.columns, strict=True):
        array = column.combine_chunks()
        array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
        # Values in order of their first rows, and for each row which of them it has: what is null has no bytes to hash
        encoded = array.dictionary_encode()
        values = encoded.dictionary
        fixed = pa.types.is_integer(values.type) or pa.types.is_floating(values.type)
        content = values.to_numpy().tobytes() if fixed else json.dumps(list(map(str, values.to_pylist()))).encode()
        digest.update(json.dumps([name, str(array.type), len(array), len(content)]).encode())
        digest.update(content)
        digest.update(np.ascontiguousarray(encoded.indices.fill_null(-1).to_numpy(), np.int32).tobytes())
    return digest.hexdigest()
