"""Tables of online runs on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.records import STDOUT, deliver
from scenarios.report import show_lines, text_of

_LINES: tuple[tuple[str, str], ...] = (
    ("trust_model", "trust model"),
    ("guarantee", "guarantee"),
    ("clients", "clients"),
    ("rounds", "rounds T"),
    ("skipped", "rounds skipped (client likes nothing)"),
    ("objects", "objects m"),
    ("voters", "voters N"),
    ("refused", "voters that stay away"),
    ("peers", "peers P, promised"),
    ("peers_measured", "  as there are"),
    ("diversity", "diversity D"),
    ("radius", "radius R"),
    ("loss", "loss: disliked recommendations"),
    ("loss_bound", "  its bound"),
    ("loss_random", "  of random recommendations"),
    ("epsilon_proved", "epsilon, proved [nats]"),
    ("epsilon_exact", "epsilon, exact worst case [nats]"),
    ("epsilon_needed", "  any algorithm with that bound of the loss needs at least [nats]"),
    ("privacy_loss_of_run", "exact privacy loss of this run [nats]"),
    ("privacy_loss_of_peers", "  peers included"),
    ("voter_epsilon", "epsilon of a voter, all clients [nats]"),
    ("voter_loss", "exact loss of a voter, all clients [nats]"),
    ("budget", "budget of a voter [nats]"),
    ("peers_alive", "peers alive at the end"),
    ("survivors", "voters alive at the end"),
    ("seconds", "seconds"),
    ("recommendations_sha256", "SHA-256 of all recommendations"),
)
_SINGLE = {"voter_epsilon": "clients", "voter_loss": "clients"}


def report_online(result: Mapping[str, Any], json_target: str | None, command: str = "online") -> None:
    """Deliver a result as JSON where that was asked for, and as a table where standard output is free."""
    deliver(json_target, dict(result))
    if json_target != STDOUT:
        show_online(Console(), result, f"blindrec {command}, {result['recommender']}, {result['backend']}")
    sys.stdout.flush()


def show_online(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print a result as a table; what does not apply is left out."""
    show_lines(console, result, title, _LINES, _SINGLE)


def show_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as a table that stands on its side: names down, a column a row; what does not apply is left out.

    Rows for which a line has no room stand in a table of their own below.
    """
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    words = [name.replace("_", " ") for name in names]
    columns = [["" if row[name] is None else text_of(row[name]) for name in names] for row in rows]
    frame = len(" │ │")
    while columns:
        room, shown = console.width - max(map(len, words)) - frame, 0
        while shown < len(columns) and (room := room - max(map(len, columns[shown])) - len(" │ ")) >= 0:
            shown += 1
        beside, columns = columns[: shown or 1], columns[shown or 1 :]
        table = Table(title=Text(title), title_justify="left", show_header=False)
        for cells in zip(words, *beside, strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)
