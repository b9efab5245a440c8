"""An experiment and its folder, from claiming the folder to the result; for all experiments that can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from coordinator.protocol.errors import InputError, LostError
from scenarios.given.endings import kept
from scenarios.store.chain import drop, kept_records
from scenarios.store.locking import sole
from scenarios.store.mark import read_mark
from scenarios.store.taking import used

S = TypeVar("S")
T = TypeVar("T")


@contextmanager
def held_in(
    out: Path | None, opening: AbstractContextManager[S], *, claim: Callable[[Path], None], work: Callable[[S], T]
) -> Iterator[T]:
    """Run an experiment in its folder and let the caller write the result there. Records for resuming it are kept.

    Parameters
    ----------
    out : Path or None
        A new folder, or the folder of the same experiment, which is then resumed; None to keep nothing.
    opening : context manager
        Opens the backend once the folder is known to be free; see `scenarios.places.backends.opened`.
    claim : callable
        Claims the folder or refuses it; see `scenarios.store.taking.take`.
    work : callable
        Runs the experiment on a backend, and stores finished rounds in the folder, if there is one.

    Yields
    ------
    object
        The result.

    Raises
    ------
    InputError
        If an input cannot be used; no device was asked then.
    InterruptedRunError, ResumableError
        On Ctrl-C or if something was lost, provided that the folder keeps records to resume from.
    """
    with sole(out), kept(lambda: _kept(out)):
        with opening as session:
            new = out is not None and read_mark(out) is None
            if out is not None:
                claim(out)
            with _left_empty(out, new=new):
                done = work(session)
        yield done


@contextmanager
def done_in(
    out: Path | None,
    opening: AbstractContextManager[S],
    *,
    claim: Callable[[Path], None],
    work: Callable[[S], T],
    write: Callable[[Path, T], None],
) -> Iterator[T]:
    """Run an experiment and write its folder; let the caller report, then remove the records for resuming it.

    Parameters
    ----------
    out, opening, claim, work
        As `held_in` takes them.
    write : callable
        Writes the results into the folder, ``result.json`` last.

    Yields
    ------
    object
        The result. What the folder keeps stays if the caller raises.

    Raises
    ------
    InputError, InterruptedRunError, ResumableError
        As `held_in` does.
    """
    with held_in(out, opening, claim=claim, work=work) as done:
        if out is not None:
            try:
                write(out, done)
            except OSError as error:
                raise LostError(f"results cannot be written to {out} ({error.strerror})") from None
        yield done
        if out is not None:
            drop(out)


@contextmanager
def _left_empty(out: Path | None, *, new: bool) -> Iterator[None]:
    """Remove a folder that keeps nothing if its experiment ends early.

    This happens on Ctrl-C, and on bad input if the folder is new and nobody has booked anything.
    """
    try:
        yield
    except KeyboardInterrupt:
        if out is not None and not kept_records(out):
            drop(out)
        raise
    except InputError:
        if out is not None and new and not used(out):
            drop(out)
        raise


def require_counts(repeat: int, devices_per_actor: int | None) -> None:
    """Refuse an experiment with less than one seed, or with less than one device in a cohort.

    Raises
    ------
    InputError
    """
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if devices_per_actor is not None and devices_per_actor < 1:
        raise InputError(f"devices_per_actor is {devices_per_actor}; it must be at least 1")


def _kept(out: Path | None) -> str | None:
    """Return how many records there are and how to resume, in words; None if there is nothing to resume from."""
    if out is None or not (records := kept_records(out)) or not (mark := read_mark(out)):
        return None
    return mark.told(records, out)
