"""A record as one level of numbers and texts, which is what tools that track experiments log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def flat(record: Mapping[str, Any]) -> dict[str, float | str]:
    """Return a record as one level: numbers as floats or whole numbers, texts, truths as 1 and 0; no None.

    Parameters
    ----------
    record : mapping
        What `--json` prints.

    Returns
    -------
    dict
        Parts of a name are joined by dots, rows of a list by their place: ``designs.0.users``. ``"inf"`` becomes the
        number; ends of intervals are ``.low`` and ``.high``.

    Examples
    --------
    >>> flat({"epsilon": "inf", "exact": True, "error": None, "intervals": {"ari": [0.5, 1.0]}})
    {'epsilon': inf, 'exact': 1, 'intervals.ari.low': 0.5, 'intervals.ari.high': 1.0}
    """
    return dict(_parts("", record))


def _parts(name: str, value: Any) -> Iterator[tuple[str, float | str]]:
    before = f"{name}." if name else ""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _parts(f"{before}{key}", one)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        ends = ("low", "high") if name.startswith("intervals.") and len(value) == 2 else range(len(value))
        for key, one in zip(ends, value, strict=True):
            yield from _parts(f"{before}{key}", one)
    elif isinstance(value, bool):
        yield name, int(value)
    elif isinstance(value, (int, float, str)):
        yield name, float("inf") if value == "inf" else value
