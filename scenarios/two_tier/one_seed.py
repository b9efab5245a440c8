"""One seed of a two-tier experiment, from its ratings to its record."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

from scenarios.app.experiment import Record, Running
from scenarios.data.datasets import RatingTable
from scenarios.two_tier.config import TwoTier
from scenarios.two_tier.experiment import read_table, run
from scenarios.two_tier.kept_batches import KeptBatches
from scenarios.two_tier.results import tables_of

ASKED = "private devices were asked"
"""What progress counts."""


def teach_seed(scenario: TwoTier, running: Running) -> Record:
    """Run one seed."""
    kept = None if running.out is None else KeptBatches(running.out, scenario.seed)
    if kept:
        kept.check(running.console)
    record = run(
        scenario,
        running.session,
        table_of(scenario),
        kept,
        watched=lambda devices: running.progress(devices, scenario.seed, ASKED),
    )
    return Record(values=record, scenario=scenario.again(), tables=partial(tables_of, record))


def table_of(scenario: TwoTier) -> RatingTable:
    """Return a scenario's ratings; those of its file are the same for every seed, and read once."""
    names = ("ratings", "columns", "duplicates", "bad_lines", "planted", "scale", "round_ratings")
    what: dict[str, Any] = {name: getattr(scenario, name) for name in names}
    return _read(TwoTier.model_validate({**what, "seed": scenario.seed if scenario.ratings is None else 0}))


@lru_cache(maxsize=1)
def _read(scenario: TwoTier) -> RatingTable:
    return read_table(scenario)
