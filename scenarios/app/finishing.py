"""An experiment from its first seed to its folder: what its command, `blindrec resume` and `blindrec.run` share."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.versions import require_tested
from scenarios.app.experiment import Experiment, Record, Running, S
from scenarios.log import event
from scenarios.report.columns import mean_of
from scenarios.report.records import write_result
from scenarios.store.files import tables_in, write_bytes
from scenarios.store.manifest import read_manifest
from scenarios.store.run_folder import RUN_SHA256, claim_folder, finished_result, finished_run_folder, require_counts

if TYPE_CHECKING:
    from scenarios.places.session import Backend


@contextmanager
def finished_run(
    experiment: Experiment[S],
    settings: S,
    opening: AbstractContextManager[Backend],
    *,
    console: Console,
    repeat: int = 1,
    devices_per_actor: int | None = None,
    out: Path | None = None,
) -> Iterator[Record]:
    """Run the seeds of a scenario and write their folder; let the caller report, then end the experiment."""
    require_counts(repeat, devices_per_actor)
    if devices_per_actor is not None and not experiment.sized:
        raise InputError(
            f"devices_per_actor is {devices_per_actor}, but cohorts of blindrec {experiment.name} have one size; leave "
            "it out"
        )
    experiment.check(settings)
    if out is not None and (result := finished_result(out, experiment.mark(settings, repeat))) is not None:
        message = f"the run in {out} is over: this is its result, and nobody was asked again"
        console.print(message, highlight=False, soft_wrap=True, markup=False)
        yield Record(values=result, scenario={}, tables=lambda: tables_in(out))
        return
    require_tested("numba")  # here, because the thread below would say nothing of it and leave half a module
    threading.Thread(target=_load, args=(experiment.loads,), daemon=True, name="loading").start()

    def work(session: Backend) -> Record:
        from scenarios.watch.progress import ProgressReporter  # noqa: PLC0415 (`--help` need not wait for what runs load)

        experiment.warn(settings, console)
        mark = None if out is None else read_manifest(out)
        telling = ProgressReporter(
            kind=experiment.name,
            run=os.urandom(16).hex() if mark is None else mark.run,
            console=console,
            repeats=repeat,
            out=out,
        )
        event("started", kind=experiment.name, run=telling.run, repeats=repeat, backend=session.name)
        running = Running(
            session=session, console=console, devices_per_actor=devices_per_actor, out=out, telling=telling
        )
        return run_seeds(experiment, settings, running, repeat)

    with finished_run_folder(
        out,
        opening,
        claim=lambda folder: claim_folder(folder, experiment.mark(settings, repeat)),
        work=work,
        write=write_folder,
    ) as record:
        yield record
        if record.failure:
            reported = f"what earlier rounds learned is reported{f' in {out}' if out else ''}"
            astray = PolicyError(f"{record.failure}; {reported}")
            astray.result = record.values
            raise astray


def _load(module: str) -> None:
    """Load a module ahead of time; what is wrong with it is said where it is used."""
    with suppress(Exception):
        importlib.import_module(module)


def run_seeds(experiment: Experiment[S], settings: S, running: Running, repeat: int) -> Record:
    """Run seeds from the scenario's own on, until all are over or a policy goes astray; no folder is written."""
    first: int = getattr(settings, "seed")  # noqa: B009 (all scenarios have one)
    seeds: list[Record] = []
    for seed in range(first, first + repeat):
        seeds.append(experiment.once(settings.model_copy(update={"seed": seed}), running))
        if seeds[-1].failure:
            break
    records = [one.values for one in seeds]
    result = records[0] if repeat == 1 else mean_of(experiment.columns, records)
    backend = {"backend": result["backend"], "backend_reason": running.session.reason}
    return replace(seeds[0], values={**result, **backend}, failure=seeds[-1].failure)


def write_folder(out: Path, record: Record) -> None:
    """Write the first seed's tables, the scenario, versions, and the result last."""
    for name, table in record.tables().items():
        write_bytes(out / f"{name}.parquet", table.to_parquet(index=False))
    mark = read_manifest(out)
    digests = {} if mark is None else {"source_sha256": mark.source_sha256, RUN_SHA256: mark.whole}
    write_result(out, record.values, record.scenario, **digests)
