"""Bringing a job's folder here: `blindrec fetch`. A small job of ours on the same node sends it through its log."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coordinator.protocol.errors import InputError
from scenarios.places.sending import environment, python
from scenarios.store.files import try_folder
from scenarios.submission.job_commands import AT, Address, Job, head_at, node_of

if TYPE_CHECKING:
    from scenarios.submission.head import Head
    from scenarios.submission.pieces import Sum

_SHARE = 0.001
"""Of a node's own resource, which keeps the job that sends on that node."""


def fetch(
    job: Job,
    out: Annotated[Path | None, typer.Option(help="New folder of this machine [the cluster's folder's name].")] = None,
    address: Address = AT,
) -> None:
    """Bring the --out of a job that is over here, whole, with its digest verified.

    A job that was stopped has kept its rounds there: blindrec resume goes on with them here. Nothing is overwritten.
    """
    head = head_at(address)
    details = head.details(job)
    there = (details.metadata or {}).get("out")
    if not there:
        raise InputError(f"job {job} has no --out to fetch; blindrec status {job} --json FILE fetches its result")
    if not details.status.is_terminal():
        raise InputError(f"job {job} is {details.status}; fetch {there} when it is over, blindrec watch {job} waits")
    place = out or Path(Path(there).name)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{place} is there already; name a new folder as --out")
    told = _brought(head, there, node_of(details), place)
    sys.stdout.write(
        f"{told.files:,} files, {told.size:,} bytes, of {there} are in {place}; SHA-256 {told.sha256[:16]}... of "
        "all is verified\n"
    )


def _brought(head: Head, there: str, node: str, place: Path) -> Sum:
    from scenarios.submission import following
    from scenarios.submission.pieces import Pieces, unpack

    try_folder(place)
    with tempfile.TemporaryFile(dir=place) as held, tempfile.TemporaryDirectory() as nothing:
        pieces, said = Pieces(held), list[str]()
        sending = head.submit(
            python("scenarios.submission.handing", there),
            environment(Path(nothing)),
            {"blindrec": f"fetch {there}"},
            {f"node:{node}": _SHARE} if node else None,
        )
        log = following.JobLog(said.append, take=pieces.take)
        details = following.follow(head, sending, log)
        if code := following.exit_code(details):
            why = "".join(said).strip().splitlines()[-1:] or [f"exit code {code}"]
            raise InputError(f"{there} cannot be sent: {why[0]}")
        told = pieces.check()
        unpack(held, place)
    return told
