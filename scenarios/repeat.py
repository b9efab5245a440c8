"""Repeats: the same scenario over several seeds, each with its result, and their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.console import Console

from scenarios import report
from scenarios.config import Scenario
from scenarios.experiment import Run, run
from scenarios.populations import populate
from scenarios.results import record, summarize
from scenarios.separability import warning
from scenarios.session import InProcess, Session


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
    """

    scenario: Scenario
    result: dict[str, Any]
    first: Run


def run_seeds(
    scenario: Scenario, session: Session, *, repeat: int, devices_per_actor: int | None, console: Console
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

    Returns
    -------
    Finished
    """
    if line := warning(scenario):
        console.print(line, highlight=False, soft_wrap=True)
    records: list[dict[str, Any]] = []
    first: Run | None = None
    for seed in range(scenario.seed, scenario.seed + repeat):
        last = _one(scenario.model_copy(update={"seed": seed}), session, devices_per_actor, console)
        records.append(record(last, _noiseless(last, session)))
        first = first or last
    assert first is not None
    return Finished(scenario=first.scenario, result=records[0] if repeat == 1 else summarize(records), first=first)


def _one(scenario: Scenario, session: Session, devices_per_actor: int | None, console: Console) -> Run:
    population = populate(scenario)
    filled = population.scenario
    if scenario.ratings is not None and scenario.rated is None:
        console.print(
            f"rated is {filled.rated}, the file's median; it is public in this run", highlight=False, soft_wrap=True
        )
    with report.progress(console, population.ratings.users, f"seed {filled.seed}") as progress:
        return run(scenario, session, devices_per_actor=devices_per_actor, population=population, progress=progress)


def _noiseless(last: Run, session: Session) -> Run | None:
    if last.population.split is None or last.scenario.epsilon is None:
        return None
    free = last.scenario.model_copy(update={"epsilon": None})
    return run(free, InProcess(session.workers), population=last.population.with_scenario(free))
