"""Repeats: the same scenario over several seeds, each with its result, and their means."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from scenarios import report
from scenarios.config import Scenario
from scenarios.experiment import Run, own_of, run
from scenarios.places.in_process import InProcess
from scenarios.places.session import Session
from scenarios.populations import populate
from scenarios.results import record, summarize
from scenarios.store.journal import Journal


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What the command line reports.

    Attributes
    ----------
    scenario : Scenario
        Filled in, with the first seed.
    result : dict
        Of the run, or the means over seeds with their intervals.
    first : Run
        The run of the first seed.
    failure : str or None
        What went wrong with the policy in the last seed that ran; the result tells what earlier rounds learned.
    """

    scenario: Scenario
    result: dict[str, Any]
    first: Run
    failure: str | None = None


def run_seeds(
    scenario: Scenario,
    session: Session,
    *,
    repeat: int,
    devices_per_actor: int | None,
    console: Console,
    out: Path | None = None,
) -> Finished:
    """Run seeds ``scenario.seed`` to ``scenario.seed + repeat - 1`` and put their results together.

    With a ratings file and finite epsilon each run is followed by the same run without noise, in process, which its
    clusters are compared with.

    Parameters
    ----------
    scenario : Scenario
        Its seed is the first.
    session : Session
        Where to run.
    repeat : int
        Number of seeds.
    devices_per_actor : int or None
        Size of a cohort.
    console : Console
        For progress.
    out : Path, optional
        Folder in which every round is kept as soon as it is over; rounds that are there are not asked again.

    Returns
    -------
    Finished
    """
    records: list[dict[str, Any]] = []
    first: Run | None = None
    for seed in range(scenario.seed, scenario.seed + repeat):
        journal = None if out is None else Journal(out, seed)
        last = _one(scenario.model_copy(update={"seed": seed}), session, devices_per_actor, console, journal)
        records.append(record(last, _noiseless(last, session)))
        first = first or last
        if last.outcome.failure:
            break
    assert first is not None
    result = records[0] if repeat == 1 else summarize(records)
    return Finished(scenario=first.scenario, result=result, first=first, failure=last.outcome.failure)


def _one(
    scenario: Scenario, session: Session, devices_per_actor: int | None, console: Console, journal: Journal | None
) -> Run:
    population = populate(scenario)
    filled = population.scenario
    if scenario.ratings is not None and scenario.rated is None:
        console.print(
            f"rated is {filled.rated}, the file's median; it is public in this run", highlight=False, soft_wrap=True
        )
    if (own := own_of(filled)) and own[1].warning:
        console.print(own[1].warning, highlight=False, soft_wrap=True)
    answers = population.ratings.users * scenario.answers_per_device
    if journal:
        journal.check(console)
    with (
        report.progress(console, answers, f"seed {filled.seed}") as progress,
        _kept(journal, session, filled.seed) as rounds,
    ):
        return run(
            scenario,
            session,
            devices_per_actor=devices_per_actor,
            population=population,
            progress=progress,
            rounds=rounds,
            ledger=journal.ledger if journal else None,
        )


@contextmanager
def _kept(journal: Journal | None, session: Session, seed: int) -> Iterator[Journal | None]:
    """Yield where rounds are kept: the journal, else on Ray one that lasts as long as the run.

    There a coordinator may die and be replaced; in this process all end together.
    """
    if journal is None and session.name == "ray":
        with tempfile.TemporaryDirectory(prefix="blindrec-") as folder:
            yield Journal(Path(folder), seed)
    else:
        yield journal


def _noiseless(last: Run, session: Session) -> Run | None:
    if last.population.split is None or last.scenario.epsilon is None:
        return None
    free = last.scenario.model_copy(update={"epsilon": None})
    return run(free, InProcess(session.workers), population=last.population.with_scenario(free))
