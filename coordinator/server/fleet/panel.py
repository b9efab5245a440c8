"""The panel of one question: which block of devices is asked next, and how often a lost call is repeated."""

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator.protocol.errors import InputError, LostError
from coordinator.protocol.losses import reason, remedy
from coordinator.server.rounds.conductor import Block, Check

MOST_ATTEMPTS = 8  # How often a block may be lost, or a round begun, before the run gives up
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
"""Shortest and longest pause before another attempt [seconds]; the pause doubles each time."""


def pause_after(attempt: int) -> float:
    """Return the seconds to wait after a failed attempt; attempts are numbered from 0."""
    return min(FIRST_PAUSE * 2.0**attempt, LONGEST_PAUSE)


def require_less(attempts: int, most: int, what: str, error: Exception) -> None:
    """Raise an error after ``most`` failed attempts."""
    if attempts >= most:
        raise LostError(f"{what}, {most} times ({reason(error)}); {remedy(error)}, then resume") from None


class BlockRequest(NamedTuple):
    """A block of devices to ask now: its number on this panel, and its epoch, which is how often it was lost before."""

    number: int
    epoch: int
    block: Block


class Panel:
    """Asks every block until it has answered, at most ``window`` of them at the same time."""

    def __init__(self, blocks: Iterable[Block], check: Check, *, window: int, most: int = MOST_ATTEMPTS) -> None:
        # A block's answer counts once, and only in its current epoch. Answers of earlier calls are dropped: they may
        # come from a process that was taken for dead, or arrive twice.
        self._check, self._window, self._most = check, window, most
        self._blocks = list(blocks)
        self._epochs = [0] * len(self._blocks)
        self._fresh = deque(range(len(self._blocks)))
        self._flying: set[int] = set()
        self._due: dict[int, float] = {}
        self._answers: dict[int, Any] = {}

    @property
    def done(self) -> bool:
        """Whether every block has answered."""
        return len(self._answers) == len(self._blocks)

    @property
    def until(self) -> float | None:
        """When the next lost block may be asked again; None if no block waits for a time."""
        return None if len(self._flying) >= self._window else min(self._due.values(), default=None)

    def question(self, now: float) -> BlockRequest | None:
        """Return the next question, or None if the window is full, a pause is not over, or all blocks were asked."""
        if len(self._flying) >= self._window:
            return None
        number = min(self._due, key=lambda block: (self._due[block], block), default=None)
        if number is not None and self._due[number] <= now:
            del self._due[number]
        elif self._fresh:
            number = self._fresh.popleft()
        else:
            return None
        self._flying.add(number)
        return BlockRequest(number, self._epochs[number], self._blocks[number])

    def answered(self, number: int, epoch: int, answer: Any) -> bool:
        """Take in a block's answer; return whether it counts."""
        if not self._current(number, epoch):
            return False
        block = self._blocks[number]
        try:
            self._check(block, answer)
        except InputError as error:
            raise InputError(f"{block.name} sent what is no answer: {error}") from None
        self._flying.discard(number)
        self._answers[number] = answer
        return True

    def lost(self, number: int, epoch: int, now: float, why: Exception) -> bool:
        """Note that a call was lost; return whether it was the block's current call, which is asked again."""
        if not self._current(number, epoch):
            return False
        block = self._blocks[number]
        require_less(epoch + 1, self._most, f"{block.name} were lost", why)
        self._flying.discard(number)
        self._epochs[number] = epoch + 1
        self._due[number] = now + pause_after(epoch)
        return True

    def answers(self) -> list[Any]:
        """Return the answers that have come in, in the order of the blocks."""
        return [self._answers[number] for number in sorted(self._answers)]

    def _current(self, number: int, epoch: int) -> bool:
        """Return whether a call is its block's current one and has not ended."""
        return number in self._flying and self._epochs[number] == epoch
