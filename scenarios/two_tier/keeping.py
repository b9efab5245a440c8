"""A two-tier run from its ratings to its folder: what `blindrec two-tier` and `blindrec resume` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios.places.session import Session
from scenarios.records import write_result
from scenarios.report import progress
from scenarios.store.holding import done_in
from scenarios.store.mark import TWO_TIER
from scenarios.store.taking import mark_of, take
from scenarios.two_tier.config import TwoTier
from scenarios.two_tier.experiment import read_table, run
from scenarios.two_tier.kept_batches import KeptBatches

FILES = ("ratings",)
"""Values of a scenario that name a file."""
ASKED = "private devices were asked"
"""What progress counts."""


@contextmanager
def taught_in(
    wanted: TwoTier, opening: AbstractContextManager[Session], *, console: Console, out: Path | None
) -> Iterator[dict[str, Any]]:
    """Run a two-tier experiment and write its folder; let the caller report, then end the run.

    Parameters
    ----------
    wanted : TwoTier
    opening, out
        See `scenarios.store.holding.done_in`; ratings are read first. It goes on after the last batch that is kept.
    console : Console
        For progress, and told if something that was kept is damaged.

    Yields
    ------
    dict
        The result.

    Raises
    ------
    InputError, InterruptedRunError, ResumableError
        As `scenarios.store.holding.done_in` does.
    """
    table = read_table(wanted)

    def work(session: Session) -> dict[str, Any]:
        kept = None if out is None else KeptBatches(out, wanted.seed)
        if kept:
            kept.check(console)
        return run(wanted, session, table, kept, watched=lambda devices: progress(console, devices, "batches", ASKED))

    with done_in(
        out,
        opening,
        claim=lambda folder: take(folder, mark_of(TWO_TIER, wanted, *FILES)),
        work=work,
        write=lambda folder, result: write_result(folder, result, wanted.model_dump(mode="json")),
    ) as result:
        yield result
