"""Tables on a terminal: numbers stand right, words left, and what designs are called."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.table import Table
from rich.text import Text

from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.trust_models import TRUST
from scenarios.config.files import printable
from scenarios.config.mechanism_settings import mechanism_kind
from scenarios.log import left_text, moving_bar, spoke, width_of, write_line
from scenarios.show.columns import Column

if TYPE_CHECKING:
    import pandas as pd

    from coordinator.server.rounds.state import RunProgress


WORDS = 16  # Columns that words take where there is little room; they go on in the next line, and numbers never do
GAP, EDGES = 3, 2  # Columns between two of a table's, and at its ends
Value = float | str | None
_DIGEST = re.compile("[0-9a-f]{64}")
_UNITS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def printed() -> Console:
    """Return the console of results: as wide as the terminal; see `scenarios.log.width_of`."""
    return Console(width=width_of(sys.stdout))


def show_table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[str] | None],
    *,
    title: str = "",
    words: Collection[str] = (),
    names: int = 1,
    compact: bool = False,
) -> None:
    """Print a table; fold text first, so that no number is cut or split if it fits."""
    gap, edges = (2, 0) if compact else (GAP, EDGES)
    cells = [None if row is None else [*row, *[""] * (len(columns) - len(row))] for row in rows]
    every = [[heading, *(row[column] for row in cells if row)] for column, heading in enumerate(columns)]
    least = [_narrowest(texts) if texts[0] in words else max(map(len, texts)) for texts in every]
    # Columns stand below each other, in as few lines a row as fit
    stacked = (_groups(names, len(columns), lines) for lines in range(1, len(columns)))
    spans = ((sum(max(least[column] for column in group) + gap for group in groups), groups) for groups in stacked)
    alone = [[column] for column in range(len(columns))]
    groups = next((groups for span, groups in spans if span - gap + edges <= console.width), alone)
    how: dict[str, Any] = {"box": None, "padding": (0, gap, 0, 0)} if compact else {"box": box.SIMPLE_HEAD}
    table = Table(pad_edge=False, **how)
    for group in groups:
        left = columns[group[0]] in words
        heading = Text("\n".join(columns[column] for column in group))
        table.add_column(heading, justify="left" if left else "right", overflow="fold", no_wrap=not left)
    for row in cells:
        if row is None:
            table.add_section()
        else:
            table.add_row(*(Text("\n".join(row[column] for column in group)) for group in groups))
    if title:
        console.print(Text(title, style="italic"))
    console.print(table)


def is_guaranteed(row: Mapping[str, Any]) -> bool:
    """Return whether a cell of a comparison guarantees something: an epsilon, and a delta of at most 1 / people."""
    return row.get("epsilon") not in (None, "inf") and (row.get("delta") or 0) * row["users"] <= 1


def delta_text(deltas: Iterable[float | None]) -> str:
    """Return several rows' delta in words: 0 of those that have none, and the largest where it falls with people.

    >>> delta_text([None, 1e-6]), delta_text([1e-6, 1.6e-8])
    ('0 or 1e-06', 'at most 1e-06')
    """
    every = sorted({delta or 0 for delta in deltas})
    largest = [f"{'at most ' * (len(every) - (not every[0]) > 1)}{every[-1]:g}"] if every[-1] else []
    return " or ".join(["0"] * (not every[0]) + largest)


def relation_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return neighbours and delta of rows in words: those that most have, then the mechanisms that have others.

    >>> rows = [{"mechanism": name, "neighbours": "replace", "delta": by} for name, by in (("a", None), ("b", 1e-6))]
    >>> relation_text(rows[:1]), relation_text(rows), relation_text([])
    ('neighbours replace, delta 0', 'neighbours replace, delta 0; b: neighbours replace, delta 1e-06', '')
    """
    deltas: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for row in rows:
        if row.get("neighbours"):
            deltas[str(row["mechanism"]), str(row["neighbours"])].append(row["delta"])
    promised: dict[str, list[str]] = defaultdict(list)
    for (mechanism, neighbours), several in deltas.items():
        promised[f"neighbours {neighbours}, delta {delta_text(several)}"].append(mechanism)
    ordered = sorted(promised, key=lambda said: -len(promised[said]))
    return "; ".join(f"{', '.join(promised[said])}: {said}" if number else said for number, said in enumerate(ordered))


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
    """Return which columns are stacked if a row takes this many lines."""
    across = -(-(columns - names) // lines)
    rest = [list(range(first, columns, across)) for first in range(names, names + across)]
    return [*([column] for column in range(names)), *rest]


def remark(console: Console, *lines: str) -> None:
    """Print lines below a table."""
    for line in lines:
        write_line(console, line)


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


def about(people: float) -> str:
    """Return a number of people in two digits, as sentences say it.

    >>> about(588_737), about(610)
    ('590,000', '610')
    """
    return f"{float(f'{people:.2g}'):,.0f}"


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
    if (model := TRUST[row["trust_model"]]).central:
        return model.short
    if row.get("channel") == UNCHECKED:
        return UNCHECKED
    return "rated items public" if row.get("rated_items") == "public" else SAFE


def name_of(row: Mapping[str, Any]) -> str:
    """Return design, what tells it apart, and decoder, where a design has more than one."""
    mechanism = mechanism_kind(str(row["design"]))
    return ", ".join([mechanism.label(row), *([str(row["decoder"])] if len(mechanism.decoders) > 1 else [])])


PANELS = {"flip_found": "flip found", "like_right": "like or dislike guessed right", "rmse": "RMSE of the guess"}
_COLUMNS = {**PANELS, "exact_right": "rating guessed exactly", "rated_auc": "which items were rated, AUC"}


def label_of(row: Mapping[str, Any]) -> str:
    """Return what a mechanism is called: its name, and its epsilon where it has one."""
    return str(row["mechanism"]) if row["epsilon"] is None else f"{row['mechanism']}, epsilon {row['epsilon']:g}"


def attack_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return an attack's rows, of `two_tier.attack`, with their labels."""
    import pandas as pd  # noqa: PLC0415 (other tables are shown without it)

    points = pd.DataFrame(rows)
    points.insert(0, "label", [label_of(row) for row in rows])
    return points


def show_attack(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print an attack's rows, of `Guessed.as_json`; what does not apply is a dash."""
    cells = [[label_of(row), str(row["known"]), *(ratio(row[name]) or "-" for name in _COLUMNS)] for row in rows]
    title = "What one release reveals to a server that knows k ratings"
    show_table(console, ["release", "k", *_COLUMNS.values()], cells, title=title, words=("release",), names=2)


EVERY = 5.0  # Seconds between progress lines where there is no terminal


def show(console: Console, result: Mapping[str, Any], title: str, columns: Sequence[Column[Any]]) -> None:
    """Print a result as a table: a line a column that it has, with the interval where there is one."""
    _show_lines(console, title, lines_of(result, columns))


def lines_of(result: Mapping[str, Any], columns: Sequence[Column[Any]]) -> list[tuple[str, str]]:
    """Return what `show` prints, as words and values."""
    lines = []
    for column in (shown_column for shown_column in columns if shown_column.shown(result)):
        ends = result.get("intervals", {}).get(column.name)
        write = _share_text if column.share else text_of
        reach = "" if ends is None else f"  {interval(ends[0], ends[1], write)}"
        beside = ", ".join(f"{key} {number(result[key])}" for key in column.beside if result.get(key) is not None)
        label = column.words_under.get(result.get("trust_model", ""), column.label)
        lines.append((label, write(result[column.name]) + reach + (f"; {beside}" if beside else "")))
    return lines


def show_description(console: Console, described: Mapping[str, Any], title: str) -> None:
    """Print what `scenarios.data.rating_split.describe` says as a table."""
    lines = []
    for name, value in described.items():
        text = "above each user's own mean" if value is None else text_of(value)
        if isinstance(value, dict):
            text = ", ".join(f"{key} {text_of(number)}" for key, number in value.items())
        lines.append((name.replace("_", " "), text))
    _show_lines(console, title, lines)


def _show_lines(console: Console, title: str, lines: Iterable[tuple[str, str]]) -> None:
    """Print a table of two columns; long values wrap, but digests are cut at the end of the line."""
    table = titled(title, "", show_header=False)
    table.add_column(overflow="fold")
    for label, text in lines:
        # Text: brackets are no markup
        table.add_row(Text(label), Text(printable(text), overflow="ellipsis" if _DIGEST.fullmatch(text) else None))
    console.print(table)


def titled(title: str, *columns: str, **how: Any) -> Table:
    """Return a table that is empty yet, with a title on the left that is no markup."""
    return Table(*columns, title=Text(title), title_justify="left", **how)


def text_of(value: Any) -> str:
    """Return a number, a truth or a word as reports show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{int(value):,}" if isinstance(value, (int, float)) else str(value)


def _share_text(value: float | bool) -> str:
    """Return a share; of one run, whether it is 1.

    >>> _share_text(1), _share_text(0.97), _share_text(True)
    ('1.0000', '0.9700', 'yes')
    """
    return text_of(value) if isinstance(value, bool) else f"{value:.4f}"


def shows_bars(console: Console) -> bool:
    """Return whether a bar can move there: on a terminal, or in a notebook that has the widgets it is made of."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


@contextmanager
def progress(
    console: Console, devices: int, label: str, done: str = "devices answered"
) -> Iterator[Callable[[RunProgress, float | None], None]]:
    """Show progress on ``console``: a bar where one can move (`shows_bars`), a plain line now and then elsewhere."""
    if shows_bars(console):
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}")
        with moving_bar(), Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=devices, left="")
            yield lambda tally, left: bar.update(task, completed=tally.count, left=left_text(left).strip(", "))
        return
    said, counted = time.monotonic(), 0

    def line(tally: RunProgress, left: float | None) -> None:
        nonlocal said, counted
        if tally.count != counted and time.monotonic() - said >= EVERY:
            said, counted = time.monotonic(), tally.count
            write_line(console, f"{label}: {tally.count:,} of {devices:,} {done}{left_text(left)}")
            spoke(said)

    yield line


def failing(failure: float, mistakes: int) -> str:
    """Return in words what lower bounds allow a learner.

    >>> failing(0.5, 0), failing(0.05, 3)
    ('to fail with probability 0.5 at most', 'to have more than 3 items wrong with probability 0.05 at most')
    """
    what = f"have more than {mistakes:,} item{'s' if mistakes > 1 else ''} wrong" if mistakes else "fail"
    return f"to {what} with probability {failure:g} at most"
