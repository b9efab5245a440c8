"""A two-tier result as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenarios.records import STDOUT, deliver

_LINES: tuple[tuple[str, str], ...] = (
    ("trust_model", "trust model"),
    ("mechanism", "mechanism"),
    ("guarantee", "guarantee of private devices"),
    ("epsilon", "epsilon [nats]"),
    ("users", "users"),
    ("items", "items"),
    ("public", "public users"),
    ("private", "private devices asked"),
    ("answered", "answered, once each"),
    ("unseen_items", "items that no public user rated"),
    ("rank", "rank"),
    ("regularisation", "regularisation kappa"),
    ("weight", "weight of a release"),
    ("validation_users", "  chosen on public users that no announced model knows"),
    ("rmse", "RMSE"),
    ("rmse_public_only", "  public users alone"),
    ("rmse_baseline", "  items' means"),
    ("hit_rate", "hit rate at 10 of held-out likes"),
    ("popularity_hit_rate", "  by popularity"),
    ("ndcg", "NDCG at 10"),
    ("popularity_ndcg", "  by popularity"),
    ("evaluated", "devices with held-out likes"),
    ("overlap_gamma_median", "gamma of rated items (Theorem 3.5), median"),
    ("iterations", "EM iterations"),
    ("change", "  change of S~ in the last one"),
    ("seconds", "seconds"),
    ("seconds_per_iteration", "  an EM iteration, median"),
    ("peak_memory_mb", "peak memory, all processes [MB]"),
    ("releases_sha256", "SHA-256 of all releases"),
)


def report_two_tier(result: Mapping[str, Any], json_target: str | None, command: str = "two-tier") -> None:
    """Deliver a result as JSON where that was asked for, and as a table where standard output is free."""
    deliver(json_target, dict(result))
    if json_target != STDOUT:
        show_result(Console(), result, f"blindrec {command}, {result['mechanism']}, {result['backend']}")


def show_result(console: Console, result: Mapping[str, Any], title: str) -> None:
    """Print a result; what does not apply is left out."""
    table = Table(title=Text(title), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(overflow="fold")
    for name, words in _LINES:
        if (value := result.get(name)) is not None:
            table.add_row(Text(words), told(value))
    console.print(table)


def told(value: object) -> str:
    """Return a number as tables show it."""
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 10 else f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
