"""One seed of the main job, from its population to its record."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np

from actors.ratings import BlockRatings, Ratings
from coordinator.protocol.budget import as_float
from coordinator.protocol.coins import derive
from scenarios.backends.selection import InProcess
from scenarios.backends.session import Backend
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import Population, populate
from scenarios.experiment.experiment import Record, Running
from scenarios.families.main.run import TOP, MainResult, run
from scenarios.families.main.score import record, tables_of
from scenarios.store.journal import Journal


def run_seed(scenario: Scenario, running: Running) -> Record:
    """Run one seed; with a ratings file and finite epsilon the same run without noise follows, to compare with."""
    population, console = populate(scenario), running.console
    filled = population.scenario
    if scenario.ratings is not None and scenario.rated is None:
        message = f"rated is {filled.rated}, the file's median; it is public in this run"
        console.print(message, highlight=False, soft_wrap=True)
    if (own := RunSpec(filled).own) and own[1].warning:
        console.print(own[1].warning, highlight=False, soft_wrap=True)
    if line := person_warning(population):
        console.print(line, highlight=False, soft_wrap=True)
    journal = None if running.out is None else Journal(running.out, filled.seed)
    if journal:
        journal.check(console)
    if running.session.name == "ray":  # this process has nothing else to do while others start
        secret = derive(filled.seed, "devices")
        threading.Thread(target=_rehearse, args=(population.ratings, secret), daemon=True, name="rehearsing").start()
    answers = population.ratings.users * scenario.answers_per_device
    with (
        running.progress(answers, filled.seed) as told_answers,
        _kept(journal, running.session, filled.seed) as rounds,
    ):
        ran = run(
            scenario,
            running.session,
            devices_per_actor=running.devices_per_actor,
            population=population,
            progress=told_answers,
            rounds=rounds,
            ledger=journal.ledger if journal else None,
        )
    return Record(
        values=record(ran, _noiseless(ran, running.session)),
        scenario=ran.scenario.again(),
        tables=partial(tables_of, ran),
        failure=ran.outcome.failure,
    )


def person_warning(population: Population) -> str | None:
    """Return a line that warns where a person of a file stands behind several devices, which answer apart; or None."""
    epsilon, person = population.scenario.epsilon, population.person_epsilon()
    if population.copies_max < 2 or epsilon is None or person is None:
        return None
    return (
        f"warning: {population.scenario.users:,} devices are drawn from {population.people:,} people, so that one "
        f"person answers up to {population.copies_max:,} times: a person's epsilon is {as_float(person):,.6g}, not "
        f"{as_float(epsilon):g}. Leave --users out for a device each; or take the result as that of so many other "
        "people, and nobody in the file as protected"
    )


def _rehearse(ratings: Ratings, secret: bytes) -> None:
    """Load or compile what advice will be scored with."""
    if isinstance(ratings, BlockRatings):
        ratings.would_like(secret, np.empty((0, TOP), np.int32))


@contextmanager
def _kept(journal: Journal | None, session: Backend, seed: int) -> Iterator[Journal | None]:
    """Yield where rounds are kept: the journal, else on Ray one that lasts as long as the run.

    There a coordinator may die and be replaced; in this process all end together.
    """
    if journal is None and session.name == "ray":
        with tempfile.TemporaryDirectory(prefix="blindrec-") as folder:
            yield Journal(Path(folder), seed)
    else:
        yield journal


def _noiseless(last: MainResult, session: Backend) -> MainResult | None:
    if last.population.split is None or last.scenario.epsilon is None:
        return None
    free = last.scenario.model_copy(update={"epsilon": None, "malicious": None, "attack": None})
    return run(free, InProcess(session.workers), population=last.population.with_scenario(free))
