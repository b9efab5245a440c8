"""Tables on a terminal: numbers stand right, words left, and what designs are called."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from coordinator.protocol.custom import UNCHECKED
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.given.mechanisms import server_half

WIDTH = 170
"""Columns of tables that no terminal limits."""
WORDS = 16
"""Columns that words take where there is little room; they go on in the next line, and numbers never do."""
GAP, EDGES = 3, 2
"""Columns between two of a table's, and at its ends."""
Value = float | str | None
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def printed() -> Console:
    """Return the console of results: as wide as the terminal, or wide enough for any table."""
    return Console(width=None if sys.stdout.isatty() else WIDTH)


def show_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str] | None],
    *,
    title: str = "",
    words: Collection[str] = (),
    names: int = 1,
) -> None:
    """Print a table, none of whose numbers is cut or split where it fits in by folding."""
    cells = [None if row is None else [*row, *[""] * (len(columns) - len(row))] for row in rows]
    every = [[heading, *(row[place] for row in cells if row)] for place, heading in enumerate(columns)]
    least = [_narrowest(one) if one[0] in words else max(map(len, one)) for one in every]
    groups = next(
        (
            found
            for lines in range(1, len(columns))
            if _fits(found := _groups(names, len(columns), lines), least, console)
        ),
        [[place] for place in range(len(columns))],
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for group in groups:
        left = columns[group[0]] in words
        heading = Text("\n".join(columns[place] for place in group))
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for row in cells:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(Text("\n".join(row[place] for place in group)) for group in groups))
    if title:
        console.print(Text(title, style="italic"))
    console.print(table)


Cell = str | Callable[[Mapping[str, Any]], str]
"""What a column shows of a row: the number of that name, or what a function makes of the row."""


def show_rows(
    console: Console, columns: Sequence[tuple[str, Cell]], rows: Iterable[Mapping[str, Any] | None], **how: Any
) -> None:
    """Print rows as a table of declared columns; None draws a line between rows, ``how`` is as in `show_table`."""
    cells = [
        None if row is None else [number(row[cell]) if isinstance(cell, str) else cell(row) for _, cell in columns]
        for row in rows
    ]
    show_table(console, [heading for heading, _ in columns], cells, **how)


def _narrowest(cells: Sequence[str]) -> int:
    """Return how narrow a column of words may be: no word is split."""
    longest = max(len(word) for cell in cells for word in cell.split() or [""])
    return min(max(map(len, cells)), max(longest, WORDS))


def _groups(names: int, columns: int, lines: int) -> list[list[int]]:
    """Return which columns stand below each other where a row takes so many lines."""
    across = -(-(columns - names) // lines)
    rest = [list(range(first, columns, across)) for first in range(names, names + across)]
    return [*([place] for place in range(names)), *rest]


def _fits(groups: Sequence[Sequence[int]], widths: Sequence[int], console: Console) -> bool:
    return sum(max(widths[place] for place in group) + GAP for group in groups) - GAP + EDGES <= console.width


def remark(console: Console, *lines: str) -> None:
    """Print lines below a table."""
    for line in lines:
        console.print(Text(line))


def number(value: Value) -> str:
    """Return a number with four digits; nothing for None."""
    if value is None or isinstance(value, str):
        return value or ""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def whole(value: float | None) -> str:
    """Return a number of users; in words where it was not reached."""
    return "not reached" if value is None else f"{value:,.0f}"


def short(people: float) -> str:
    """Return a number of people in two digits.

    >>> [short(people) for people in (588_737, 9_960, 610, 1_230_000)]
    ['590k', '10k', '610', '1.2M']
    """
    rounded = float(f"{people:.2g}")
    size, unit = next((pair for pair in _UNITS if rounded >= pair[0]), (1.0, ""))
    return f"{rounded / size:.3g}{unit}"


def ratio(value: float | None) -> str:
    """Return a ratio; nothing for None."""
    return "" if value is None else f"{value:.3f}"


def percent(value: float | None) -> str:
    """Return a share in percent; nothing for None."""
    return "" if value is None else f"{100 * value:.1f} %"


def interval(low: Value, high: Value, write: Callable[[Any], str] = number, *, missing: str = "") -> str:
    """Return an interval; nothing where neither end is known, and ``missing`` in the place of one that is not."""
    if low is None and high is None:
        return ""
    return f"[{missing if low is None else write(low)}, {missing if high is None else write(high)}]"


def interval_of(row: Mapping[str, Any], name: str = "", write: Callable[[Any], str] = number, **how: str) -> str:
    """Return the interval whose ends a row holds as ``NAME_low`` and ``NAME_high``, or as ``low`` and ``high``."""
    low, high = (row.get(f"{name}_{end}".strip("_")) for end in ("low", "high"))
    return interval(low, high, write, **how)


def is_number(value: Any) -> bool:
    """Return whether a value is a finite number, or the text of one."""
    try:
        return not isinstance(value, bool) and math.isfinite(float(value))
    except (TypeError, ValueError):
        return False


SAFE, OPEN = "protects all a device holds", "not private"
"""Headings of what may be recommended, unless epsilon is infinite, and of designs without a guarantee."""


def trust_of(row: Mapping[str, Any]) -> str:
    """Return the heading that a row of a plan stands under; `SAFE` ones may be recommended."""
    if not row["private"]:
        return OPEN
    if row["trust_model"] == TRUST_CURATOR:
        return "trusted curator"
    if row.get("channel") == UNCHECKED:
        return UNCHECKED
    return "rated items public" if row.get("rated_items") == "public" else SAFE


def name_of(row: Mapping[str, Any]) -> str:
    """Return design, what tells it apart, and decoder, where a design has more than one."""
    half = server_half(str(row["design"]))
    return ", ".join([half.label(row), *([str(row["decoder"])] if len(half.decoders) > 1 else [])])
