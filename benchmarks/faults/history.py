"""One history: a run that is disturbed, resumed and disturbed again, until nothing happens any more and it must end."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from benchmarks.faults.devices import KeepersProcess, Site
from benchmarks.faults.disk import Disk, Image
from benchmarks.faults.scheduler import CoordinatorDiedError, Fault, Killed, PowerCut, Scheduler, Violation
from benchmarks.faults.server import Driver, DriverFailed, Server
from benchmarks.faults.witness import Witness
from benchmarks.faults.worlds import SCENARIO, WORLDS
from coordinator.protocol.errors import BlindrecError, InputError, LedgerError, LostError
from coordinator.server.rounds.query_rounds import Outcome
from scenarios import claiming
from scenarios.claiming import claim
from scenarios.policies import code_digest
from scenarios.store import journal as journals
from scenarios.store.journal import Journal
from scenarios.store.locking import sole

DISTURBED = 3
"""Attempts that are disturbed; after them nothing happens any more."""
MOST_COORDINATORS = 8
MEMORY = Path("/dev/shm")
"""Where files of a history are kept in memory; elsewhere it only takes longer."""


@dataclass(frozen=True)
class Told:
    """What came of a history.

    Attributes
    ----------
    number : int
        The history.
    fired : Counter
        How often each kind of fault happened.
    attempts : int
        How often the run was begun or resumed.
    cut_off : int
        Answers that are missing since devices could not reach their keeper.
    wrong : str
        What did not hold; empty where all did.
    trace : list of str
        What happened.
    """

    number: int
    fired: Counter[str]
    attempts: int
    cut_off: int
    wrong: str
    trace: list[str]


class History:
    """A run in a folder of its own.

    Parameters
    ----------
    number : int
        Everything follows from it.
    root : Path
        An empty folder.
    """

    def __init__(self, number: int, root: Path) -> None:
        self._scheduler = Scheduler(number)
        self._world = WORLDS[self._scheduler.below(len(WORLDS))]
        self._disk = Disk(root, self._scheduler)
        self._witness = Witness(self._world, self._disk)
        self._out = root / "out"
        self._attempts = 0

    def play(self) -> Told:
        """Play it to its end."""
        wrong = ""
        try:
            with self._disk.instead_of_the_system(), _code_read_once():
                while not self._over():
                    pass
        except Violation as error:
            wrong = str(error)
        except Exception as error:  # whatever a history brings to light is told by its number
            wrong = f"{type(error).__name__}: {error}"
        scheduler = self._scheduler
        return Told(scheduler.number, scheduler.fired, self._attempts, self._witness.cut_off, wrong, scheduler.trace)

    def _over(self) -> bool:
        """Begin or resume the run; return whether it came to its end, and see that it is the right one."""
        scheduler, self._attempts = self._scheduler, self._attempts + 1
        scheduler.calm = self._attempts > DISTURBED
        scheduler.say("the run begins" if self._attempts == 1 else "the run is resumed")
        errors = scheduler.fired["disk full"] + scheduler.fired["disk error"]
        left: tuple[Image, bool] | None = None
        try:
            with self._noticing() as crash:
                self._run()
        except (Killed, PowerCut):
            left = crash[0]
        except DriverFailed as failed:
            self._require_told(failed.error, errors)
        except BlindrecError as error:
            self._require_told(error, errors)
        else:
            return True
        finally:
            scheduler.forget()
        if left is not None:
            self._disk.restore(left[0], synchronized=left[1])
            self._witness.nothing_forgotten()
        return False

    @contextmanager
    def _noticing(self) -> Iterator[list[tuple[Image, bool]]]:
        """Take down what is on the disk as soon as a crash is thrown, before code that is cut off still cleans up."""
        crash: list[tuple[Image, bool]] = []

        def noticed(fault: type[Fault]) -> None:
            cut = fault is PowerCut
            crash.append((self._disk.survivors() if cut else self._disk.whole(), cut))

        self._scheduler.crashed = noticed
        yield crash

    def _require_told(self, error: BlindrecError, disk_errors: int) -> None:
        """Let a disturbed run end with an error that tells what was lost; any other is wrong."""
        scheduler = self._scheduler
        scheduler.say(f"the run ends: {type(error).__name__}: {error}".replace(str(self._disk.root), ""))
        on_disk = scheduler.fired["disk full"] + scheduler.fired["disk error"] > disk_errors
        allowed = (LostError, LedgerError, *((InputError,) if on_disk else ()))
        if scheduler.calm or not isinstance(error, allowed):
            raise Violation(f"it ended with {type(error).__name__}: {error}") from error

    def _run(self) -> None:
        """Do what `blindrec run --out` does, and hold its end."""
        with sole(self._out):
            claim(self._out, SCENARIO)
            journal = Journal(self._out, 0)
            if journal.ledger not in self._witness.books:
                self._witness.books.append(journal.ledger)
            journal.check()
            scheduler, witness = self._scheduler, self._witness
            keeper = KeepersProcess(scheduler, self._disk, journal.ledger)
            sites = [Site(self._world, bounds, scheduler, keeper, witness) for bounds in self._world.bounds]
            outcome = self._conducted(journal, sites)
            witness.ends(outcome, [over.digest for over in journal])

    def _conducted(self, journal: Journal, sites: list[Site]) -> Outcome:
        """Let a coordinator conduct the rounds; where it dies, the next one."""
        for _ in range(MOST_COORDINATORS):
            driver = Driver(journal, self._scheduler)
            try:
                outcome = Server(self._world, sites, driver, self._scheduler, self._witness).run(journal)
                driver.wait()
            except CoordinatorDiedError:
                driver.coordinator_died()
            else:
                return outcome
        raise LostError(f"coordinators died {MOST_COORDINATORS} times; what was kept can be resumed")


_digest = functools.cache(code_digest)


@contextmanager
def _code_read_once() -> Iterator[None]:
    """Let the digest of blindrec's code be taken once: it stays the same while histories are played."""
    with mock.patch.object(claiming, "code_digest", _digest), mock.patch.object(journals, "code_digest", _digest):
        yield


def play(number: int) -> Told:
    """Play a history, in a folder that is gone afterwards."""
    folder = tempfile.mkdtemp(prefix="faults-", dir=MEMORY if MEMORY.is_dir() else None)
    try:
        return History(number, Path(folder)).play()
    finally:
        shutil.rmtree(folder)
