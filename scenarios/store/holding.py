"""An experiment and its folder, from claiming it to its result: what all that can be gone on with have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TypeVar

from coordinator.protocol.errors import InputError, LostError
from scenarios.endings import kept
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
    """Do an experiment in its folder; let the caller write there what came of it. What is kept to go on from stays.

    Parameters
    ----------
    out : Path or None
        New folder, or that of the same experiment, which goes on there; None: nothing is kept.
    opening : context manager
        Opens the backend, once the folder is known to be free; see `scenarios.places.backends.opened`.
    claim : callable
        Makes the folder its own, or refuses it; see `scenarios.store.taking.take`.
    work : callable
        Does it all on a backend, and keeps in the folder, if there is one, what is over.

    Yields
    ------
    object
        What came of it.

    Raises
    ------
    InputError
        If something cannot be used; no device was asked.
    InterruptedRunError, ResumableError
        On Ctrl-C, or where something was lost, if the folder keeps something to go on from.
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
    """Do an experiment and write its folder; let the caller report, then remove what was kept to go on from.

    Parameters
    ----------
    out, opening, claim, work
        As `held_in` takes them.
    write : callable
        Writes what came of it into the folder, the result last.

    Yields
    ------
    object
        What came of it. What the folder keeps stays if the caller raises.

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
    """Leave nothing where an experiment ends early that keeps nothing.

    That is on Ctrl-C; and on bad input in a new folder, where nobody has booked anything.
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
    """Refuse an experiment without a seed, or with cohorts of nobody.

    Raises
    ------
    InputError
    """
    if repeat < 1:
        raise InputError(f"repeat is {repeat}; it must be at least 1")
    if devices_per_actor is not None and devices_per_actor < 1:
        raise InputError(f"devices_per_actor is {devices_per_actor}; it must be at least 1")


def _kept(out: Path | None) -> str | None:
    """Tell what can be gone on with; None where that is nothing."""
    if out is None or not (records := kept_records(out)) or not (mark := read_mark(out)):
        return None
    return mark.told(records, out)
