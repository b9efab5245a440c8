"""What counts of a result, how it is written, and how two of them differ."""

import json
import math
from collections.abc import Iterator
from typing import Any

LEFT_OUT = frozenset(
    {
        "actors",
        "agreement_digest",  # of bounds whose last bits are the processor's
        "backend",
        "backend_reason",
        "bytes_per_answer",  # cohorts are padded to whole bytes
        "cpus",
        "devices_per_actor",
        "devices_per_second",
        "peak_memory_mb",
        "restarts",
        "retries",
        "seconds",
        "seconds_per_iteration",
        "versions",
        "workers",
    }
)
"""Keys, at any depth, that tell of time, layout and machine."""
RELATIVE, ABSOLUTE = 1e-6, 1e-12  # How far floats may lie apart
DIGITS = 10  # Significant digits of floats in the file


def kept(value: Any) -> Any:
    """Return what counts of a JSON value: without `LEFT_OUT`, floats to `DIGITS`, those that JSON lacks as text."""
    if isinstance(value, dict):
        return {key: kept(one) for key, one in sorted(value.items()) if key not in LEFT_OUT}
    if isinstance(value, list):
        return [kept(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)
    return value


def differences(want: Any, got: Any, where: str = "") -> Iterator[str]:
    """Yield one line for each place where ``got`` is not what is wanted; keys that ``want`` lacks are not looked at."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, one in want.items():
            place = f"{where}.{key}" if where else key
            if key in got:
                yield from differences(one, got[key], place)
            else:
                yield f"{place}: want {one!r}, got no such key"
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for place, (one, other) in enumerate(zip(want, got, strict=True)):
            yield from differences(one, other, f"{where}[{place}]")
    elif not _same(want, got):
        yield f"{where}: want {want!r}, got {got!r}"


def _same(want: Any, got: Any) -> bool:
    if isinstance(got, float) and not math.isfinite(got):
        return bool(want == str(got))
    if isinstance(want, float) and isinstance(got, (int, float)) and not isinstance(got, bool):
        return math.isclose(want, got, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(want) is type(got) and bool(want == got)


def as_text(value: Any, indent: str = "") -> str:
    """Return a JSON value as text, a key a line, lists of plain values on one line."""
    deeper = indent + " "
    if isinstance(value, dict) and value:
        rows = [f"{deeper}{json.dumps(key)}: {as_text(one, deeper)}" for key, one in sorted(value.items())]
        return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value):
        rows = [f"{deeper}{as_text(one, deeper)}" for one in value]
        return "[\n" + ",\n".join(rows) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)
