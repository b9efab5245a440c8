"""An experiment and its folder, from claiming it to its result: what all that can be gone on with have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from coordinator.protocol.errors import InputError, LostError
from scenarios.endings import kept
from scenarios.session import Session
from scenarios.store.chain import drop, kept_records
from scenarios.store.locking import sole
from scenarios.store.mark import read_mark
from scenarios.store.taking import used

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment(Generic[T]):
    """What is done in a folder.

    Attributes
    ----------
    claim : callable
        Makes the folder its own, or refuses it; see `scenarios.store.taking.take`.
    work : callable
        Does it all on a backend, and keeps in the folder, if there is one, what is over.
    write : callable
        Writes what came of it into the folder, the result last.
    """

    claim: Callable[[Path], None]
    work: Callable[[Session], T]
    write: Callable[[Path, T], None]


@contextmanager
def done_in(out: Path | None, opening: AbstractContextManager[Session], experiment: Experiment[T]) -> Iterator[T]:
    """Do an experiment and write its folder; let the caller report, then remove what was kept to go on from.

    Parameters
    ----------
    out : Path or None
        New folder, or that of the same experiment, which goes on there; None: nothing is kept.
    opening : context manager
        Opens the backend, once the folder is known to be free; see `scenarios.backends.opened`.
    experiment : Experiment

    Yields
    ------
    object
        What came of it. What the folder keeps stays if the caller raises.

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
                experiment.claim(out)
            with _left_empty(out, new=new):
                done = experiment.work(session)
        if out is not None:
            _write(experiment, out, done)
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


def _write(experiment: Experiment[T], out: Path, done: T) -> None:
    try:
        experiment.write(out, done)
    except OSError as error:
        raise LostError(f"results cannot be written to {out} ({error.strerror})") from None


def _kept(out: Path | None) -> str | None:
    """Tell what can be gone on with; None where that is nothing."""
    if out is None or not (records := kept_records(out)):
        return None
    mark = read_mark(out)
    told = "what is over is kept" if mark is None else mark.told(records)
    return f"{told} in {out}, the same command or blindrec resume {out} goes on"
