"""What releases tell, as a table and as a figure: guesses against the number of known ratings, a line a mechanism."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.files import write_figure, write_table

_PANELS = {
    "flip_found": "flip found",
    "like_right": "like or dislike guessed right",
    "rmse": "RMSE of the guess",
}
_COLUMNS = {**_PANELS, "exact_right": "rating guessed exactly", "rated_auc": "which items were rated, AUC"}
NOTHING = "none"


def label_of(row: Mapping[str, Any]) -> str:
    """Return what a mechanism is called: its name, and its epsilon where it has one."""
    return str(row["mechanism"]) if row["epsilon"] is None else f"{row['mechanism']}, epsilon {row['epsilon']:g}"


def show_attack(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    """Print an attack's rows, of `Guessed.as_json`; what does not apply is a dash."""
    table = Table(title=Text("What one release tells a server that knows k ratings"), title_justify="left")
    for words in ("release", "k", *_COLUMNS.values()):
        table.add_column(words, justify="left" if words == "release" else "right")
    for row in rows:
        numbers = ["-" if row[name] is None else f"{row[name]:.3f}" for name in _COLUMNS]
        table.add_row(Text(label_of(row)), str(row["known"]), *numbers)
    console.print(table)


def draw_attack(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write ``attack.png`` and, with every number in it, ``attack.csv`` into a folder that is there.

    Parameters
    ----------
    rows : sequence of dict
        Of `Guessed.as_json`.
    out : Path
    """
    points = pd.DataFrame(rows)
    points.insert(0, "label", [label_of(row) for row in rows])
    write_table(out / "attack.csv", points)
    figure = Figure(figsize=(12, 4.6), layout="constrained")
    places = {known: place for place, known in enumerate(sorted(points["known"].unique()))}
    for axes, (name, words) in zip(figure.subplots(1, len(_PANELS)), _PANELS.items(), strict=True):
        for place, (label, line) in enumerate(points.groupby("label", sort=False)):
            if line[name].isna().any():
                continue
            style = {"color": "0.4", "linestyle": "--"} if label == NOTHING else {"color": f"C{place}"}
            axes.plot(line["known"].map(places), line[name].astype(float), marker="o", label=str(label), **style)
        axes.set_xticks(list(places.values()), [str(known) for known in places])
        axes.yaxis.set_major_locator(MaxNLocator(6))
        axes.set(xlabel="ratings that the server knows", title=words)
        axes.grid(alpha=0.3)
    handles, labels = figure.axes[1].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize="small", loc="outside lower center", ncols=len(labels))
    write_figure(out / "attack.png", figure)
