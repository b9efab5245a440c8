"""Pictures of sweeps of all kinds, told apart by what their records hold."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from scenarios.pictures.picture import Picture

KINDS = {
    "schemes": "sweep_adaptive",
    "points": "sweep_online",
    "recommenders": "sweep_clients",
    "summary": "sweep_two_tier",
    "columns": "sweep_results",
    "ratios": "sweep_users",
}
"""A key that only records of a kind have, with the module that draws them."""


def pictures(record: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]) -> Iterator[Picture]:
    """Yield the pictures of a sweep's folder; nothing where it is of a kind that has none."""
    for key, module in KINDS.items():
        if key in record:
            yield from importlib.import_module(f"scenarios.pictures.{module}").pictures(record, tables)
            return
