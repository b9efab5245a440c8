"""The two-tier model as an experiment, `blindrec two-tier`: public users teach item features, devices refine them."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from rich.console import Console

from scenarios.app.experiment import Ended, Experiment, Running
from scenarios.report import progress
from scenarios.store.mark import TWO_TIER
from scenarios.two_tier.config import TwoTier
from scenarios.two_tier.experiment import read_table, run
from scenarios.two_tier.kept_batches import KeptBatches
from scenarios.two_tier.results import COLUMNS, tables_of

if TYPE_CHECKING:
    from scenarios.datasets import RatingTable

ASKED = "private devices were asked"
"""What progress counts."""


class TwoTiers(Experiment[TwoTier]):
    """Public users hand over their ratings; private devices answer once each, with one second-order vector."""

    name = TWO_TIER
    kind = TwoTier
    columns = COLUMNS
    titled = "mechanism"
    sized = False
    help = """Public users teach item features; private devices complete their own vectors and answer once.

Rank, regularisation and the weights of noisy releases are chosen on held-out public users where they are not given.
Speed flags (--backend, --workers) never change an answer. With --out every batch of releases is kept: a run that was
killed or interrupted goes on by blindrec resume FOLDER, or by the same command; models are fitted again.
"""

    def check(self, scenario: TwoTier, console: Console) -> None:  # noqa: ARG002 (a file says nothing to warn of)
        """Read the ratings, so that a file that cannot be used is refused before a place is opened."""
        _table(scenario)

    def once(self, scenario: TwoTier, running: Running) -> Ended:
        """Run one seed."""
        kept = None if running.out is None else KeptBatches(running.out, scenario.seed)
        if kept:
            kept.check(running.console)
        record = run(
            scenario,
            running.session,
            _table(scenario),
            kept,
            watched=lambda devices: progress(running.console, devices, f"seed {scenario.seed}", ASKED),
        )
        return Ended(record=record, scenario=scenario.again(), tables=partial(tables_of, record))


def _table(scenario: TwoTier) -> RatingTable:
    """Return a scenario's ratings; those of its file are the same for every seed, and read once."""
    names = ("ratings", "columns", "planted", "scale", "round_ratings")
    what: dict[str, Any] = {name: getattr(scenario, name) for name in names}
    return _read(TwoTier.model_validate({**what, "seed": scenario.seed if scenario.ratings is None else 0}))


@lru_cache(maxsize=1)
def _read(scenario: TwoTier) -> RatingTable:
    return read_table(scenario)
