"""A two-tier run from its ratings to its folder: what `blindrec two-tier` and `blindrec resume` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios.files import write_json
from scenarios.policies import code_digest
from scenarios.records import versions
from scenarios.session import Session
from scenarios.store.holding import Experiment, done_in
from scenarios.store.mark import TWO_TIER, Mark
from scenarios.store.taking import same_source, scenario_in, take, values_of
from scenarios.two_tier.config import TwoTier
from scenarios.two_tier.experiment import read_table, run
from scenarios.two_tier.kept_batches import KeptBatches


@contextmanager
def taught_in(
    wanted: TwoTier, opening: AbstractContextManager[Session], *, console: Console, out: Path | None
) -> Iterator[dict[str, Any]]:
    """Run a two-tier experiment and write its folder; let the caller report, then end the run.

    Parameters
    ----------
    wanted : TwoTier
    opening : context manager
        Opens the backend, once ratings are read and the folder is known to be free.
    console : Console
        Told if something that was kept is damaged.
    out : Path or None
        New folder, or that of the same run, which goes on after the last batch that it kept.

    Yields
    ------
    dict
        The result.

    Raises
    ------
    InputError
        If something cannot be used; no private device was asked.
    InterruptedRunError, ResumableError
        On Ctrl-C, or where something was lost, if the folder keeps batches that the run can go on from.
    """
    table = read_table(wanted)

    def work(session: Session) -> dict[str, Any]:
        return run(wanted, session, table, None if out is None else _kept(out, wanted.seed, console))

    def write(folder: Path, result: dict[str, Any]) -> None:
        write_json(folder / "scenario.json", wanted.model_dump(mode="json"))
        write_json(folder / "versions.json", versions())
        write_json(folder / "result.json", result)

    experiment = Experiment(claim=lambda folder: take(folder, mark_of(wanted)), work=work, write=write)
    with done_in(out, opening, experiment) as result:
        yield result


def mark_of(wanted: TwoTier) -> Mark:
    """Return the mark of a new run."""
    values, source = values_of(wanted, "ratings")
    return Mark(kind=TWO_TIER, scenario=values, source_sha256=source, code_sha256=code_digest(""))


def claimed_two_tier(out: Path, mark: Mark) -> TwoTier:
    """Return the scenario of a two-tier run that was interrupted.

    Raises
    ------
    InputError
        If it cannot be run any more, or the file that it reads has changed since.
    """
    wanted = scenario_in(out, mark, TwoTier)
    same_source(out, mark, values_of(wanted, "ratings")[1], wanted.ratings)
    return wanted


def _kept(out: Path, seed: int, console: Console) -> KeptBatches:
    kept = KeptBatches(out, seed)
    if damaged := kept.check():
        console.print(f"{damaged} is damaged; going on from the batch before it", soft_wrap=True)
    return kept
