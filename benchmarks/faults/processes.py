"""Processes of devices, of the server's own cohorts and of the keeper, which may die or live on unnoticed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.keeper import Keeper, UnreachableError
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import LONG, DeviceDiedError, KeeperDiedError, Scheduler
from benchmarks.faults.witness import Witness
from coordinator.protocol.errors import BlindrecError, LedgerError, LostError

Deliver = Callable[[Any], None]  # Delivers the answer or the error of a call to the server
GONE: Exception = ConnectionError("its process died")  # Stands for Ray's error about a dead process
CUT = 8.0  # Most seconds for which a keeper cannot be reached


class KeepersProcess:
    """The keeper's process. If it dies it is restarted from its log, and calls are repeated, as Ray does.

    If it cannot be restarted, it is gone for good: devices cannot reach it, and the driver notices. A `LedgerError`
    says that it cannot be started.
    """

    def __init__(self, scheduler: Scheduler, disk: Disk, folder: Path) -> None:
        self._scheduler, self._disk, self._folder = scheduler, disk, folder
        self._keeper: Keeper | None = self._started()

    def _started(self) -> Keeper:
        while True:
            try:
                with self._disk.used_by("keeper"):
                    return Keeper(self._folder)
            except KeeperDiedError:
                self._disk.end("keeper")

    def _start_anew(self) -> None:
        self._keeper = None
        self._disk.end("keeper")
        with suppress(LedgerError):
            self._keeper = self._started()

    def require_there(self) -> None:
        """Raise an error if it is gone; see `actors.keeper.require_there`."""
        if self._keeper is None:
            raise LostError("the process that keeps what devices have spent was lost")

    def book(
        self, first: int, stop: int, position: int, lines: Sequence[str], opener: str = ""
    ) -> tuple[int, list[str]]:
        """As `Keeper.book`; a caller who has waited too long gets an error instead."""
        if self._scheduler.happens("keeper dies", "between two calls"):
            self._start_anew()
        while self._keeper is not None:
            try:
                with self._disk.used_by("keeper"):
                    return self._keeper.book(first, stop, position, lines, opener)
            except KeeperDiedError:
                self._start_anew()
                if not self._scheduler.below(3):
                    raise UnreachableError("it died, and whoever waited did not wait for the next one") from None
        raise UnreachableError("it is gone")


@dataclass(eq=False)
class Call:
    """Addresses ``first`` to ``stop - 1`` are asked; ``public`` goes with the question."""

    question: Any
    first: int
    stop: int
    public: tuple[Any, ...]
    deliver: Deliver


class Process:
    """One process with a cohort, which books with the keeper if it can reach it."""

    def __init__(self, site: Site, number: int) -> None:
        self.site, self.name = site, f"process {number} of {site.name}"
        self.alive = True
        self._asked: Call | None = None
        self._waiting: deque[Call] = deque()
        self._host = site.start(self)

    def read(self, first: int, stop: int, since: int = 0) -> tuple[int, list[str]]:
        """As `actors.keeper.LedgerClient.read`."""
        return self.book(first, stop, since, ())

    def book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        """As `actors.keeper.LedgerClient.book`; anything may happen before and after."""
        try:
            return self._book(first, stop, position, lines)
        except UnreachableError:
            if self._asked is not None:
                self.site.witness.cannot_book(self._asked.question, self._asked.first, self._asked.stop)
            raise

    def _book(self, first: int, stop: int, position: int, lines: Sequence[str]) -> tuple[int, list[str]]:
        scheduler, site = self.site.scheduler, self.site
        scheduler.meanwhile()
        self._may_die("before it books")
        if scheduler.now < site.cut_until or scheduler.happens("keeper cut off", self.name):
            site.cut_until = max(site.cut_until, scheduler.now + CUT * scheduler.coins.random() * scheduler.below(2))
            raise UnreachableError("the request did not reach it")
        reply = site.keeper.book(first, stop, position, lines)
        scheduler.say(f"{self.name} books {len(lines)} lines, and gets {len(reply[1])}")
        scheduler.meanwhile()
        self._may_die("after it booked")
        if scheduler.happens("keeper cut off", f"{self.name}, after it booked"):
            raise UnreachableError("the answer did not come back")
        return reply

    def _may_die(self, when: str) -> None:
        if not self.alive or self.site.scheduler.happens(self.site.dies, f"{self.name} {when}"):
            raise DeviceDiedError

    def take(self, call: Call) -> None:
        """Answer a call after all earlier ones."""
        self._waiting.append(call)
        while self.alive and self._asked is None and self._waiting:
            self._asked = self._waiting.popleft()
            try:
                self._answer(self._asked)
            except DeviceDiedError:
                self.site.died(self)
            finally:
                self._asked = None

    def _answer(self, call: Call) -> None:
        site, scheduler = self.site, self.site.scheduler
        try:
            answer = self._host.ask(call.question, call.first, call.stop, *call.public)
        except BlindrecError as error:
            scheduler.at(scheduler.delay(), lambda error=error: call.deliver(error))  # type: ignore[misc] # bound now
            return
        self._may_die("before it answers")
        if site.watched:
            site.witness.leaves(call.question, call.public, call.first, call.stop, answer)
        scheduler.say(f"{self.name} answers {call.question} for {call.first} to {call.stop - 1}")
        if scheduler.happens("message lost", "an answer"):
            scheduler.at(scheduler.delay(), lambda: call.deliver(GONE))
        else:
            scheduler.at(scheduler.delay(), lambda: call.deliver(answer))
        if scheduler.happens("message twice", "an answer"):
            scheduler.at(scheduler.delay(), lambda: call.deliver(answer))
        self._may_die("after it answered")


@dataclass(eq=False)
class Site:
    """The address of a cohort's process; a new process is started if it died or is taken for dead."""

    name: str  # Name of the cohort, for the trace
    start: Callable[[Process], Any]  # Takes the devices' books, and returns a cohort as `actors.host.DeviceHost`
    scheduler: Scheduler
    keeper: KeepersProcess
    witness: Witness
    watched: bool = True  # Whether these are devices, and not the server's own cohorts
    cut_until: float = 0.0

    def __post_init__(self) -> None:
        self.dies = "device dies" if self.watched else "server's host dies"
        self._open: list[Call] = []
        self._number = 0
        self._process = Process(self, 0)

    def ask(self, question: Any, first: int, stop: int, public: tuple[Any, ...], deliver: Deliver) -> None:
        """Send a call to the present process; ``deliver`` is called with the result sooner or later."""
        scheduler, process = self.scheduler, self._process
        call = Call(question, first, stop, public, deliver)
        self._open = [*self._open[-7:], call]
        if scheduler.happens("message lost", "a question"):
            scheduler.at(scheduler.delay(), lambda: deliver(GONE))
            return
        slow = LONG if scheduler.happens("slow process", process.name) else 1.0
        for _ in range(1 + scheduler.happens("message twice", "a question")):
            scheduler.at(slow * scheduler.delay(), lambda: process.take(call))
        if scheduler.happens("taken for dead", process.name):
            scheduler.at(scheduler.delay(), lambda: self._replace(process))

    def died(self, process: Process) -> None:
        """Start the next process; callers who wait for the old one get an error."""
        process.alive = False
        self._replace(process)

    def _replace(self, process: Process) -> None:
        if process is not self._process:
            return
        self._number += 1
        self._process = Process(self, self._number)
        for call in self._open:
            self.scheduler.at(self.scheduler.delay(), lambda call=call: call.deliver(GONE))  # type: ignore[misc] # same
        self._open = []
