"""Reports: progress while a run lasts, and a table at its end."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from scenarios.places.session import Progress as Told
from scenarios.records import STDOUT, deliver

EVERY = 5.0
"""Seconds between progress lines where there is no terminal."""

_LINES: tuple[tuple[str, str], ...] = (
    ("trust_model", "trust model"),
    ("guarantee", "guarantee"),
    ("mechanism", "mechanism"),
    ("channel", "channel"),
    ("epsilon", "epsilon of a device [nats]"),
    ("person_epsilon", "epsilon of a person [nats]"),
    ("questions", "questions a device"),
    ("epsilon_per_question", "epsilon of a question [nats]"),
    ("policy", "policy"),
    ("rounds", "rounds"),
    ("answers_per_device", "answers a device, at most"),
    ("users", "users"),
    ("answered", "answered"),
    ("refused", "refused"),
    ("missing", "missing"),
    ("items", "items"),
    ("rated", "rated items (public)"),
    ("clusters", "clusters"),
    ("unlearned", "items not learned"),
    ("undecided", "items not decided"),
    ("policy_error", "policy went astray"),
    ("accuracy", "items right"),
    ("accuracy_predicted", "items right, predicted"),
    ("exact", "all items right"),
    ("ari", "adjusted Rand index"),
    ("nmi", "normalised mutual information"),
    ("advice_liked", "devices like of their own top 10"),
    ("random_liked", "devices like of random items"),
    ("clusters_follow", "clusters follow"),
    ("popularity_share", "variance of popularity between clusters"),
    ("taste_share", "variance of taste between clusters"),
    ("noiseless_ari", "agreement with clusters without noise (ARI)"),
    ("top_50", "true top 50 items among the estimated"),
    ("rank_correlation", "rank correlation with popularity"),
    ("hit_rate", "hit rate at 10"),
    ("popularity_hit_rate", "  by popularity (knows all ratings)"),
    ("random_hit_rate", "  by chance"),
    ("ndcg", "NDCG at 10"),
    ("popularity_ndcg", "  by popularity (knows all ratings)"),
    ("random_ndcg", "  by chance"),
    ("evaluated", "users with held-out likes"),
    ("seconds", "seconds"),
    ("devices_per_second", "devices a second"),
    ("releases_sha256", "SHA-256 of all releases"),
)


_SINGLE = {
    "questions": "questions",
    "epsilon_per_question": "questions",
    "policy": "rounds",
    "rounds": "rounds",
    "answers_per_device": "answers_per_device",
}
"""Lines that say nothing where another number is 1."""
_IN_FILES = ("top_50", "rank_correlation")
"""Lines about lists of items; in a block model all items of a cluster are equally popular, and clusters tell more."""


def report_run(result: Mapping[str, Any], json_target: str | None, command: str) -> None:
    """Deliver a run's result as JSON where that was asked for, and as a table where standard output is free."""
    deliver(json_target, dict(result))
    if json_target != STDOUT:
        show(Console(), result, f"blindrec {command}, {result['design']}, {result['backend']}")


def show(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print a result as a table; what does not apply is left out."""
    show_lines(console, result, title, _lines_for(result), _SINGLE)


def show_lines(
    console: Console, result: Mapping[str, Any], title: str, lines: Sequence[tuple[str, str]], single: Mapping[str, str]
) -> None:
    """Print a result as a table.

    Parameters
    ----------
    console : Console
    result : mapping
        Values by name; ``intervals`` are shown beside them.
    title : str
    lines : sequence of (str, str)
        Names in order, with their words; what a result does not have is left out.
    single : mapping
        Lines that say nothing where another value, named here, is 1.
    """
    table = _table(title)
    for words, told in _told(result, lines, single):
        table.add_row(Text(words), told)  # Text: brackets are no markup
    console.print(table)


def told_lines(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what `show` prints, as words and values."""
    return list(_told(result, _lines_for(result), _SINGLE))


def _lines_for(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    known = result.get("accuracy") is not None
    return [line for line in _LINES if not (known and line[0] in _IN_FILES)]


def _told(
    result: Mapping[str, Any], lines: Sequence[tuple[str, str]], single: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    intervals = result.get("intervals", {})
    for name, words in lines:
        value = None if result.get(single.get(name, "")) == 1 else result.get(name)
        if value is not None:
            reach = f"  [{text_of(intervals[name][0])}, {text_of(intervals[name][1])}]" if name in intervals else ""
            yield words, text_of(value) + reach


def show_description(console: Console, described: Mapping[str, Any], title: str) -> None:
    """Print what `scenarios.rating_split.describe` says as a table."""
    table = _table(title)
    for name, value in described.items():
        inner = (
            ", ".join(f"{key} {text_of(number)}" for key, number in value.items()) if isinstance(value, dict) else None
        )
        told = "above each user's own mean" if value is None else inner or text_of(value)
        table.add_row(name.replace("_", " "), told)
    console.print(table)


def _table(title: str) -> Table:
    """Return an empty table of two columns; a long value goes on in the next line, digests are not cut off."""
    table = Table(title=Text(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    return table


def text_of(value: Any) -> str:
    """Return a number, a truth or a word as reports show it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4f}" if abs(value) < 100 else f"{value:,.0f}"
    return f"{int(value):,}" if isinstance(value, (int, float)) else str(value)


def shows_bars(console: Console) -> bool:
    """Return whether a bar can move there: on a terminal, or in a notebook that has the widgets it is made of."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


@contextmanager
def progress(console: Console, devices: int, label: str, done: str = "devices answered") -> Iterator[Told]:
    """Show progress on ``console``: a bar where one can move (`shows_bars`), a plain line now and then elsewhere.

    Yields
    ------
    callable
        Takes the number of answers so far.
    """
    if shows_bars(console):
        columns = TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
        with Progress(*columns, console=console, transient=True) as bar:
            task = bar.add_task(label, total=devices)
            yield lambda answers: bar.update(task, completed=answers)
        return
    said = time.monotonic()

    def line(answers: int) -> None:
        nonlocal said
        if time.monotonic() - said >= EVERY:
            said = time.monotonic()
            console.print(f"{label}: {answers:,} of {devices:,} {done}", highlight=False)

    yield line
