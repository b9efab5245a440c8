"""How far the server has come, in public numbers that it may show to anybody."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction

from coordinator.protocol.budget import Epsilon, add, as_float, within


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How far the server has come."""

    count: int = 0  # Answers, devices or rounds that have come in, with those of the round that goes on
    rounds: int = 0  # Rounds, batches or clients that are over
    planned: int | None = None  # How many of them there will be, where that is known beforehand
    # Answers in the rounds that are over; None where units are counted that are whole experiments
    answers: int | None = 0
    refused: int | None = 0  # Devices in these rounds that refused for lack of budget; None where devices do not say so
    # What a device has spent at most in the rounds that are over, by what it was asked [nats]; infinite where answers
    # have no noise, None as for ``answers``
    epsilon: float | None = 0.0
    # Items that were not decided when the latest round was asked, where the policy asks about these only
    undecided: int | None = None


class Spending:
    """What devices have spent, as follows from what they were asked: nobody answers beyond the budget.

    Devices ``starts[i]`` to ``starts[i + 1] - 1`` were asked alike. Sums are exact.

    ``budget`` in nats.

    Examples
    --------
    >>> spending = Spending(Fraction(1))
    >>> for first, stop in ((0, 10), (5, 20), (5, 6)):
    ...     spending.ask(first, stop, Fraction(1, 2))
    >>> spending.most
    1.0
    """

    def __init__(self, budget: Epsilon) -> None:
        self._budget = budget
        self._starts, self._spent = [0], list[Epsilon]([Fraction(0)])
        self.most = 0.0

    def ask(self, first: int, stop: int, cost: Epsilon) -> None:
        """Book a question to devices ``first`` to ``stop - 1``; those refuse it whose budget it exceeds."""
        start, end = self._cut(first), self._cut(stop)
        for at in range(start, end):
            after = add(self._spent[at], cost)
            if within(after, self._budget):
                self._spent[at] = after
                self.most = max(self.most, as_float(after))

    def _cut(self, device: int) -> int:
        """Let a stretch begin at a device, and return its place."""
        at = bisect_left(self._starts, device)
        if at == len(self._starts) or self._starts[at] != device:
            self._starts.insert(at, device)
            self._spent.insert(at, self._spent[at - 1])
        return at
