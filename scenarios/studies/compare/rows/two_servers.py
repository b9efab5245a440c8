"""Rows with two servers: each adds up shares that are random alone, adds noise of its own, and publishes its sum."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coordinator.protocol.trust_models import TWO_SERVERS
from scenarios.studies.compare.advisors import pair_constants
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.rows.trusted import PAIRS_WITH_EASE
from scenarios.studies.compare.run_row import RunRow


def at_most(name: str) -> Callable[[Comparison, int], Mapping[str, Any]]:
    """Return a function that reads from a setting of the comparison how many likes of a person count."""
    return lambda settings, items: {"most_likes": min(getattr(settings, name), items)}


_totals = partial(RunRow, design="totals", trust_model=TWO_SERVERS)
ROWS = (
    _totals(mechanism="popularity", settings=at_most("likes"), approximate=True),
    _totals(mechanism="popularity (Laplace)", settings=at_most("curated")),
    RunRow(
        mechanism=PAIRS_WITH_EASE,
        design="pair-totals",
        settings=pair_constants,
        trust_model=TWO_SERVERS,
        approximate=True,
        pure=True,
    ),
)
