"""The scheduler of a history decides its clock, its messages and its faults. Everything follows from a number."""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

KINDS = {
    "message lost": 0.04,
    "message twice": 0.1,
    "slow process": 0.06,
    "device dies": 0.05,
    "taken for dead": 0.05,
    "keeper cut off": 0.06,
    "keeper dies": 0.03,
    "coordinator dies": 0.01,
    "killed": 0.004,
    "power cut": 0.004,
    "disk full": 0.05,
    "disk error": 0.02,
    "server's host dies": 0.05,
    "driver lags": 0.5,
    "shuffler dies": 0.3,
    "server of words dies": 0.2,
    "server of seeds dies": 0.2,
}
"""Kinds of faults, and the largest probability of each wherever it can happen."""
LATER = ("shuffler dies", "server of words dies", "server of seeds dies")
"""Kinds that have coins of their own, so that histories that were found wrong before there were any stay the same."""
SHARE = 0.4  # Share of the kinds that occur in one history
DEEPEST, DELAY, LONG = 3, 1.0, 20.0
"""How deeply events may be nested; mean seconds of a message, and of a slow process's work."""


class Fault(BaseException):
    """Ends running code as a crash does; our own code must not catch it."""


class Killed(Fault):
    """The driver and with it every process of the run have died; written files remain."""


class PowerCut(Fault):
    """A power cut: all processes have died, and some data that were not synchronized are lost."""


class CoordinatorDiedError(Fault):
    """The coordinator's process has died."""


class KeeperDiedError(Fault):
    """The keeper's process has died."""


class DeviceDiedError(Fault):
    """A process of devices, or of the server's own cohorts, has died."""


class Violation(Fault):
    """A condition that must always hold is violated."""


@dataclass
class Scheduler:
    """Makes all random decisions of a history."""

    number: int
    now: float = 0.0  # Its clock [seconds]
    fired: Counter[str] = field(default_factory=Counter)  # How often each kind of fault happened
    trace: list[str] = field(default_factory=list)  # What happened, in order
    calm: bool = False
    crashed: Callable[[type[Fault]], None] = lambda _: None
    _queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _scheduled: int = 0
    _depth: int = 0

    def __post_init__(self) -> None:
        self.coins = random.Random(self.number)
        self._rates = {}
        for kind, rate in KINDS.items():
            coins = random.Random(f"{kind} {self.number}") if kind in LATER else self.coins
            if coins.random() < SHARE:
                self._rates[kind] = rate * coins.random()

    def say(self, what: str) -> None:
        """Note what happens."""
        self.trace.append(f"{self.now:9.3f} {'  ' * self._depth}{what}")

    def below(self, count: int) -> int:
        """Return one of ``count`` numbers from 0."""
        return int(self.coins.random() * count)

    def bytes(self, count: int) -> bytes:
        """Return so many random bytes, instead of the system's."""
        return bytes(self.below(256) for _ in range(count))

    def happens(self, kind: str, where: str = "") -> bool:
        """Return whether a fault happens here, and count it."""
        rate = 0.0 if self.calm else self._rates.get(kind, 0.0)
        if not rate or self.coins.random() >= rate:
            return False
        self.fired[kind] += 1
        self.say(f"! {kind} {where}")
        return True

    def crash(self, fault: type[Fault]) -> NoReturn:
        """End all processes of the run, after an image of the disk was taken."""
        self.crashed(fault)
        self.calm = True  # interrupted code may clean up without further faults
        raise fault

    def delay(self) -> float:
        """Return how long a message takes."""
        return self.coins.expovariate(1 / DELAY)

    def at(self, delay: float, act: Callable[[], None]) -> None:
        """Schedule an event after a delay."""
        self._scheduled += 1
        heapq.heappush(self._queue, (self.now + delay, self._scheduled, act))

    def step(self, until: float | None = None) -> bool:
        """Go on to the next event or to the time ``until``; return whether there was either."""
        for kind, fault in (("killed", Killed), ("power cut", PowerCut)):
            if self.happens(kind):
                self.crash(fault)
        if not self._queue or (until is not None and self._queue[0][0] > until):
            if until is None:
                return False
            self.now = max(self.now, until)
            return True
        time, _, act = heapq.heappop(self._queue)
        self.now = max(self.now, time)
        self._depth += 1
        try:
            act()
        finally:
            self._depth -= 1
        return True

    def meanwhile(self) -> None:
        """Let other events happen while somebody waits, for about the time of a message."""
        if self._depth < DEEPEST:
            for _ in range(self.below(3)):
                self.step(self.now + self.delay())

    def forget(self) -> None:
        """Drop all scheduled events, because nobody is left whom they could reach."""
        self._queue.clear()
        self._depth = 0
