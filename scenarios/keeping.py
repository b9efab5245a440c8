"""A run from its first seed to its folder: what `blindrec run`, `blindrec resume` and `blindrec.run` have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from rich.console import Console

from coordinator.protocol.errors import PolicyError
from scenarios.claiming import claim
from scenarios.config import Scenario
from scenarios.places.session import Session
from scenarios.policies import import_policy
from scenarios.records import write_out
from scenarios.repeat import Finished, run_seeds
from scenarios.separability import warning
from scenarios.store.holding import done_in, require_counts


@contextmanager
def finished_run(
    wanted: Scenario,
    opening: AbstractContextManager[Session],
    *,
    repeat: int,
    devices_per_actor: int | None,
    console: Console,
    out: Path | None,
) -> Iterator[Finished]:
    """Run the seeds of a scenario and write their folder; let the caller report, then end the run.

    Parameters
    ----------
    wanted : Scenario
        Its seed is the first.
    opening, out
        See `scenarios.store.holding.done_in`; it goes on after the last round that the folder keeps.
    repeat : int
        Number of seeds.
    devices_per_actor : int or None
        Size of a cohort.
    console : Console
        For progress.

    Yields
    ------
    Finished
        What is to be reported. The rounds that the folder keeps go only after that.

    Raises
    ------
    InputError, InterruptedRunError, ResumableError
        As `scenarios.store.holding.done_in` does.
    PolicyError
        If the policy cannot be used, or went astray; where some rounds were over, after they were reported.
    """
    require_counts(repeat, devices_per_actor)
    if ":" in wanted.policy:
        import_policy(wanted.policy)  # what cannot be imported is told before Ray starts
    if line := warning(wanted):  # and so is what cannot be asked
        console.print(line, highlight=False, soft_wrap=True)
    with done_in(
        out,
        opening,
        claim=lambda folder: claim(folder, wanted, repeat),
        work=lambda session: run_seeds(
            wanted, session, repeat=repeat, devices_per_actor=devices_per_actor, console=console, out=out
        ),
        write=lambda folder, finished: write_out(folder, finished.scenario, finished.result, finished.first),
    ) as finished:
        yield finished
        if finished.failure:
            reported = f"what earlier rounds learned is reported{f' in {out}' if out else ''}"
            astray = PolicyError(f"{finished.failure}; {reported}")
            astray.result = finished.result
            raise astray
