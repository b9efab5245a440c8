"""One history: a run that is disturbed, resumed and disturbed again, and at last left alone, so that it must end."""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.faults.disk import Disk, Image
from benchmarks.faults.online import CLIENTS_SERVED
from benchmarks.faults.processes import KeepersProcess, Site
from benchmarks.faults.queries import QUERIES, behind_servers, behind_shuffler, over_periods
from benchmarks.faults.scheduler import CoordinatorDiedError, Fault, Killed, PowerCut, Scheduler, Violation
from benchmarks.faults.server import Driver, DriverFailed, Edge, SimulatedFleet
from benchmarks.faults.two_tier import BATCHES
from benchmarks.faults.world import Family, World
from coordinator.protocol.errors import BlindrecError, InputError, LedgerError, LostError
from coordinator.server.completion import crowd, fitting
from coordinator.server.fleet.cohorts import Cohorts
from coordinator.server.online import service
from coordinator.server.rounds.conductor import run_rounds
from scenarios.backends.session import DeviceGroup
from scenarios.store.journal import Journal
from scenarios.store.manifest import RUN, Manifest
from scenarios.store.record_log import RecordLog
from scenarios.store.run_folder import claim_folder
from scenarios.store.whole_files import locked_folder

FAMILIES: dict[str, Family] = {family.name: family for family in (QUERIES, CLIENTS_SERVED, BATCHES)}
"""All families of runs; a history's number determines its family."""
DISTURBED = 3  # Number of disturbed attempts; later ones have no faults
MOST_COORDINATORS = 8
MEMORY = Path("/dev/shm")  # A folder in memory for a history's files; without one histories only take longer


RATINGS_A_COHORT, ROUNDS_A_BALLOT = 8, 2
"""Limits so low that a few public users fill several cohorts, and a few rounds several ballots."""


class _Clock:
    """Replaces the module `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def perf_counter(self) -> float:
        """Return the history's time, so that stored times follow from its number."""
        return self._scheduler.now


@contextmanager
def small(scheduler: Scheduler) -> Iterator[None]:
    """Make cohorts and ballots small, and let clocks show the history's time."""
    clock = _Clock(scheduler)
    places: list[tuple[Any, str, Any]] = [
        (crowd, "RATINGS_A_COHORT", RATINGS_A_COHORT),
        (service, "MOST_ROUNDS", ROUNDS_A_BALLOT),
        (service, "time", clock),
        (fitting, "time", clock),
    ]
    with ExitStack() as stack:
        for target in places:
            stack.enter_context(mock.patch.object(*target))
        yield


def family_of(number: int) -> Family:
    """Return the family of a history."""
    return list(FAMILIES.values())[number % len(FAMILIES)]


def world_of(number: int, index: int) -> World:
    """Return the world at a place of a history's family.

    Of four runs of queries two go through a shuffler, and one through two servers; the other one is over periods in the
    first world.
    """
    family = family_of(number)
    world = family.worlds[index]
    if family.name != RUN:
        return world
    plain = (lambda same: same) if index else over_periods
    return (plain, behind_shuffler, behind_servers, behind_shuffler)[number // len(FAMILIES) % 4](world)


def numbers_of(first: int, count: int, family: str | None) -> list[int]:
    """Return the next ``count`` histories from the ``first`` on, of one family or of all."""
    if family is None:
        return list(range(first, first + count))
    many, index = len(FAMILIES), list(FAMILIES).index(family)
    start = first + (index - first) % many
    return list(range(start, start + many * count, many))


@dataclass(frozen=True)
class HistoryResult:
    """The result of a history."""

    number: int
    family: str  # The family of its run
    fired: Counter[str]  # How often each kind of fault happened
    attempts: int  # How often the run was begun or resumed
    cut_off: int  # Answers that are missing because devices could not reach their keeper
    wrong: str  # The first violated condition; empty if there is none
    trace: list[str]


class History:
    """One run in its own folder."""

    def __init__(self, number: int, root: Path) -> None:
        self._scheduler = Scheduler(number)
        self._family = family_of(number)
        self._world = world_of(number, self._scheduler.below(len(self._family.worlds)))
        self._disk = Disk(root, self._scheduler)
        self._witness = self._family.witness(self._world, self._disk)
        self._out = root / "out"
        self._attempts = 0

    def play(self) -> HistoryResult:
        """Play it to its end."""
        wrong = ""
        try:
            with self._disk.instead_of_the_system(), small(self._scheduler):
                while not self._is_finished():
                    pass
        except Violation as error:
            wrong = str(error)
        except Exception as error:  # any error is reported with the history's number
            wrong = f"{type(error).__name__}: {error}"
        scheduler, family, cut_off = self._scheduler, self._family.name, self._witness.cut_off
        return HistoryResult(scheduler.number, family, scheduler.fired, self._attempts, cut_off, wrong, scheduler.trace)

    def _is_finished(self) -> bool:
        """Begin or resume the run; return whether it ended, and check that its end is the right one."""
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
            self._disk.end()
        if left is not None:
            self._disk.restore(left[0], synchronized=left[1])
            self._witness.nothing_forgotten()
        return False

    @contextmanager
    def _noticing(self) -> Iterator[list[tuple[Image, bool]]]:
        """Take an image of the disk when a crash is raised, before the interrupted code can clean up."""
        crash: list[tuple[Image, bool]] = []

        def noticed(fault: type[Fault]) -> None:
            cut = fault is PowerCut
            crash.append((self._disk.survivors() if cut else self._disk.whole(), cut))

        self._scheduler.crashed = noticed
        yield crash

    def _require_told(self, error: BlindrecError, disk_errors: int) -> None:
        """Accept that a disturbed run ends with an error that names what was lost; any other error is wrong."""
        scheduler = self._scheduler
        scheduler.say(f"the run ends: {type(error).__name__}: {error}".replace(str(self._disk.root), ""))
        on_disk = scheduler.fired["disk full"] + scheduler.fired["disk error"] > disk_errors
        allowed = (LostError, LedgerError, *((InputError,) if on_disk else ()))
        if scheduler.calm or not isinstance(error, allowed):
            raise Violation(f"it ended with {type(error).__name__}: {error}") from error

    def _run(self) -> None:
        """Do what a command with `--out` does, and check its end."""
        with locked_folder(self._out):
            claim_folder(self._out, Manifest(kind=self._family.name, scenario={}, source_sha256=None, code_sha256=""))
            chain = self._family.stored_rounds(self._out)
            if chain.ledger not in self._witness.books:
                self._witness.books.append(chain.ledger)
            chain.check()
            if isinstance(chain, Journal) and (agreement := self._world.plan.agreement):
                chain.agree(agreement)
            keeper = KeepersProcess(self._scheduler, self._disk, chain.ledger)
            outcome = self._conducted(chain, keeper, self._devices(keeper))
            self._witness.ends(outcome, list(chain))

    def _devices(self, keeper: KeepersProcess) -> dict[str, Cohorts]:
        """Start all devices."""
        return {
            name: Cohorts(bounds=crew.bounds, hosts=[self._site(name, crew, bounds, keeper) for bounds in crew.bounds])
            for name, crew in self._world.crews.items()
        }

    def _site(self, name: str, crew: DeviceGroup, bounds: tuple[int, int], keeper: KeepersProcess) -> Site:
        def start(books: Any) -> Any:
            return self._world.host(crew, bounds, books)

        return Site(f"{name} from {bounds[0]}", start, self._scheduler, keeper, self._witness)

    def _conducted(
        self,
        chain: RecordLog[Any],
        keeper: KeepersProcess,
        devices: dict[str, Cohorts],
    ) -> Any:
        """Let a coordinator conduct the rounds; if it dies, the next one continues."""
        scheduler, witness = self._scheduler, self._witness
        for _ in range(MOST_COORDINATORS):
            driver = Driver(chain, keeper, scheduler, witness, in_step=self._world.plan.in_step)
            fleet = SimulatedFleet(self._world, devices, Edge(driver, scheduler, witness), keeper)
            try:
                outcome = run_rounds(self._world.plan.begin(fleet), driver.hear, chain)
                driver.wait()
            except CoordinatorDiedError:
                driver.coordinator_died()
            else:
                return outcome
        raise LostError(f"coordinators died {MOST_COORDINATORS} times; what was kept can be resumed")


def play(number: int) -> HistoryResult:
    """Play a history in a temporary folder."""
    folder = tempfile.mkdtemp(prefix="faults-", dir=MEMORY if MEMORY.is_dir() else None)
    try:
        return History(number, Path(folder)).play()
    finally:
        shutil.rmtree(folder)
