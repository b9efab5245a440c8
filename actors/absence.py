"""Who is missing: devices that drop out of a round, and stragglers whose answer comes after its deadline.

Both follow from a device's own coin and nothing else, so that its silence reveals nothing about its ratings.
"""

import math
from dataclasses import dataclass

import numpy as np

from actors.seeds import ABSENCE, private_coins
from coordinator.protocol.arrays import Bits, Words
from coordinator.protocol.schedule import staying

_WORDS = 1 << 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """How often devices are missing in a round."""

    dropout: float = 0.0  # Probability that a device does not answer a query at all, 0 to less than 1
    stragglers: float = 0.0  # Probability that a device that did not drop out is slow, 0 to 1
    delay: float = 60.0  # Mean of a slow device's delay, which is exponential [simulated seconds]
    deadline: float = math.inf  # Time at which a round ends; nobody waits for later answers [simulated seconds]
    churn: float = 0.0  # Share of devices that leave from one period of time to the next, which is a public event
    # Where devices leave: the stretches that came together, each its period of arrival, first device and stop
    stretches: tuple[tuple[int, int, int], ...] = ()

    @property
    def late(self) -> float:
        """Probability that a device that does not drop out answers too late."""
        return self.stragglers * math.exp(-self.deadline / self.delay)

    @property
    def missing(self) -> float:
        """Probability that a device's answer is missing."""
        return self.dropout + (1 - self.dropout) * self.late

    def present(self, master: Words, query_id: Words, first: int, count: int, period: int = 0) -> Bits | None:
        """Return which devices from ``first`` on answer in time, 0 or 1 each; None where all do."""
        there = self._there(period, first, count) if self.churn and period else None
        if not self.missing:
            return there
        coins = private_coins(master, first, count, ABSENCE, query_id, 0)
        timely = (coins >= np.uint64(min(round(self.missing * _WORDS), _WORDS - 1))).astype(np.uint8)
        return timely if there is None else timely & there

    def _there(self, period: int, first: int, count: int) -> Bits:
        """Return which devices have come and not left, 0 or 1 each; of a stretch the last ones leave first."""
        there = np.zeros(count, np.uint8)
        for arrival, start, stop in self.stretches:
            if arrival <= period:
                end = start + staying(stop - start, self.churn, period - arrival)
                there[max(start - first, 0) : max(end - first, 0)] = 1
        return there


PRESENT = Absence()  # Everybody answers in time
