"""The panel of one question: which block of devices is asked next, what counts of what comes in, and when all is in.

A state machine without Ray, clock or pause: whoever drives it carries questions out, and tells it what came of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from coordinator.protocol.errors import InputError
from coordinator.server.fleet.attempts import MOST_ATTEMPTS, pause_after, require_less
from coordinator.server.rounds.conductor import Block, Check


class Question(NamedTuple):
    """A block that is to be asked now.

    ``number`` names it on this panel; ``epoch`` counts how often it was lost before.
    """

    number: int
    epoch: int
    block: Block


class Panel:
    """Asks every block until its answer is in; at most ``window`` of them are asked at the same time.

    A block's answer counts once, and only that of its last epoch: what an earlier call still brings in, from a process
    that was taken for dead or by a message that came twice, is dropped.

    Parameters
    ----------
    blocks : iterable of Block
        Whom to ask, in this order.
    check : callable
        Told every block and its answer, before that counts.
    window : int
        Blocks in flight at most.
    most : int
        How often a block may be lost before the panel gives up.
    """

    def __init__(self, blocks: Iterable[Block], check: Check, *, window: int, most: int = MOST_ATTEMPTS) -> None:
        self._check, self._window, self._most = check, window, most
        self._blocks = list(blocks)
        self._epochs = [0] * len(self._blocks)
        self._fresh = deque(range(len(self._blocks)))
        self._flying: set[int] = set()
        self._due: dict[int, float] = {}
        self._answers: dict[int, Any] = {}

    @property
    def done(self) -> bool:
        """Whether every block's answer is in."""
        return len(self._answers) == len(self._blocks)

    @property
    def until(self) -> float | None:
        """When the next block that was lost may be asked again; None where none waits for that alone."""
        return None if len(self._flying) >= self._window else min(self._due.values(), default=None)

    @property
    def retries(self) -> int:
        """How often blocks were lost and are asked again."""
        return sum(self._epochs)

    def question(self, now: float) -> Question | None:
        """Return whom to ask now, or None: then the window is full, or a pause is not over, or all were asked.

        Blocks that were lost come first, once their pause is over.

        Parameters
        ----------
        now : float
            The driver's clock [seconds].
        """
        if len(self._flying) >= self._window:
            return None
        number = min(self._due, key=lambda one: (self._due[one], one), default=None)
        if number is not None and self._due[number] <= now:
            del self._due[number]
        elif self._fresh:
            number = self._fresh.popleft()
        else:
            return None
        self._flying.add(number)
        return Question(number, self._epochs[number], self._blocks[number])

    def answered(self, number: int, epoch: int, answer: Any) -> bool:
        """Take a block's answer in; return whether it counts.

        Raises
        ------
        InputError
            If it is no answer to the question: it names the devices.
        """
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
        """Note that a block's call was lost; return whether that was its last one, so that it is asked again.

        The pause before that doubles with each loss; other blocks go on meanwhile.

        Raises
        ------
        LostError
            If it was lost too often.
        """
        if not self._current(number, epoch):
            return False
        block = self._blocks[number]
        require_less(epoch + 1, self._most, f"{block.name} were lost", why)
        self._flying.discard(number)
        self._epochs[number] = epoch + 1
        self._due[number] = now + pause_after(epoch)
        return True

    def answers(self) -> list[Any]:
        """Return the answers that are in, in the order of the blocks, whatever the order in which they came."""
        return [self._answers[number] for number in sorted(self._answers)]

    def _current(self, number: int, epoch: int) -> bool:
        """Return whether a call is its block's last one, and still out."""
        return number in self._flying and self._epochs[number] == epoch
