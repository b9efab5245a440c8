"""An online sweep's result as tables on a terminal: over planted worlds, and on clients of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from scenarios.report.tables import interval_of, number, percent, remark, show_table
from scenarios.sweep.online_axes import AXES, same

Row = Mapping[str, Any]
_COLUMNS: tuple[str, ...] = ("loss", "s.e.", "95 %", "bound (L)", "Thm 6", "epsilon", "exact", "at least")
_COLUMNS += ("leaks", "most", "peers alive", "kicked")
_REMARKS = (
    "bound (L): proved for any world; Thm 6: no algorithm expects less against Theorem 6's adversary (rows with *)",
    "epsilon: proved; exact: worst case of p-rec-sim by dynamic programme, <= where T < N: an upper bound",
    "at least: what epsilon is at least, by a chain of adjacent voters",
    "leaks: exact privacy loss of a run, mean and largest over seeds [nats]; kicked: peers, all seeds together",
)


def show(console: Console, summary: Row, title: str) -> None:
    """Print a table an axis: the loss of every recommender beside its bounds, and what it leaks."""
    remark(console, f"{title}: means over {summary['seeds']} seeds")
    for axis in summary["axes"]:
        rows = [row for row in summary["points"] if row["axis"] == axis]
        cells: list[list[str] | None] = []
        for place, row in enumerate(rows):
            if place and row["x"] != rows[place - 1]["x"]:
                cells.append(None)
            against = " *" if row["environment"] != rows[0]["environment"] else ""
            cells.append([f"{row['x']:,}", row["recommender"] + against, *_cells(row)])
        columns = [AXES[axis].label.rpartition(" ")[2], "recommender", *_COLUMNS]
        title = f"{axis}: {same(axis, rows)}"
        show_table(console, columns, cells, title=title, words=("recommender",), names=2)
    remark(console, *_REMARKS)


def _cells(row: Row) -> list[str]:
    before = [number(row["loss"]), number(row["loss_se"]), interval_of(row, "loss")]
    bounds = [number(row[name]) for name in ("loss_bound", "loss_lower_bound", "epsilon_proved")]
    exact = number(row["epsilon_exact"]) + (" <=" if row["exact_is_bound"] else "")
    leaks = [number(row[name]) for name in ("epsilon_lower", "privacy_loss", "privacy_loss_most", "peers_alive")]
    return [*before, *bounds, exact, *leaks, str(row["peers_kicked"])]


_WORLD = {
    "rounds": "rounds T", "skipped": "rounds skipped", "voters": "voters N", "peers": "peers P",
    "diversity": "diversity D", "radius": "radius R", "radius_share": "R / T",
    "random_share": "random's loss / T",
}  # fmt: skip
_SPREAD = ("mean", "least", "median", "most")
_LOSSES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "loss": ("loss", number),
    "share": ("share", percent),
    "less random": ("to_random_share", percent),
    "less plurality": ("to_plurality_share", percent),
}
_SIZES = {
    "bound (L)": "loss_bound",
    "epsilon": "epsilon_median",
    "least": "epsilon_least",
    "most": "epsilon_most",
    "run leaks": "privacy_loss_any_median",
    "most leaked": "privacy_loss_any_most",
}
_OF_FILE = (
    "share: of the rounds; less random, less plurality: differences of shares, client by client, below 0 is better",
    "random's loss is its expectation where others are compared with it",
    "bound (L): mean over clients; epsilon: proved; run leaks: exact loss of any voter in a run; medians [nats]",
)


def show_clients(console: Console, summary: Row, title: str) -> None:
    """Print what was measured of the clients, and every recommender beside random and plurality."""
    seeds = summary["seeds"]
    remark(console, f"{title}: {summary['distinct_clients']} clients, {seeds} seed{'s' if seeds > 1 else ''}")
    first = "measured of clients"
    world = [[label, *(number(summary["world"][name][one]) for one in _SPREAD)] for name, label in _WORLD.items()]
    show_table(console, [first, *_SPREAD], world, words=(first,))
    losses = [heading for name in _LOSSES for heading in (name, "95 %")]
    rows = [
        [row["recommender"]]
        + [told for name, how in _LOSSES.values() for told in (how(row.get(name)), interval_of(row, name, write=how))]
        for row in summary["recommenders"]
    ]
    show_table(console, ["recommender", *losses], rows, words=("recommender",))
    rows = [
        [row["recommender"], *(number(row[name]) for name in _SIZES.values()), str(row["peers_kicked"])]
        for row in summary["recommenders"]
    ]
    show_table(console, ["recommender", *_SIZES, "kicked"], rows, words=("recommender",))
    remark(console, *_OF_FILE)
