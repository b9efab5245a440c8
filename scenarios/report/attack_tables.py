"""What an attack's releases tell, as tables: guesses against the number of known ratings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console

from scenarios.report.tables import show_table

PANELS = {
    "flip_found": "flip found",
    "like_right": "like or dislike guessed right",
    "rmse": "RMSE of the guess",
}
_COLUMNS = {**PANELS, "exact_right": "rating guessed exactly", "rated_auc": "which items were rated, AUC"}


def label_of(row: Mapping[str, Any]) -> str:
    """Return what a mechanism is called: its name, and its epsilon where it has one."""
    return str(row["mechanism"]) if row["epsilon"] is None else f"{row['mechanism']}, epsilon {row['epsilon']:g}"


def attack_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return an attack's rows, of `Guessed.as_json`, with their labels."""
    points = pd.DataFrame(rows)
    points.insert(0, "label", [label_of(row) for row in rows])
    return points


def show_attack(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print an attack's rows, of `Guessed.as_json`; what does not apply is a dash."""
    cells = [
        [label_of(row), str(row["known"]), *("-" if row[name] is None else f"{row[name]:.3f}" for name in _COLUMNS)]
        for row in rows
    ]
    title = "What one release tells a server that knows k ratings"
    show_table(console, ["release", "k", *_COLUMNS.values()], cells, title=title, words=("release",), names=2)
