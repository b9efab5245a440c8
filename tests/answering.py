"""Devices that answer in this process, settings of policies that ask them, and how often each was asked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import worlds

from actors.device import Cohort
from coordinator.protocol.messages import Release
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask
from coordinator.server.statistics.statistic import Statistic

SURE = 1 - 1e-6  # A confidence at which a wrong label is a false alarm of this suite's usual probability


@dataclass(frozen=True)
class Devices:
    """One cohort, asked without a panel."""

    cohort: Cohort

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        release = self.cohort.answer(ask.query, ask.first, ask.stop)
        return aggregate(ask.query, release), [release]


def setting_of(*, items: int = 20, rated: int = 5, clusters: int = 2, sets: bool = False, **more: Any) -> Setting:
    """A setting of sign sensing, or of MaxSense."""
    design = MaxSense(items=items, rated=rated) if sets else SignSensing(items=items, rated=rated)
    usual = {"epsilon": Fraction(1), "confidence": SURE, "public_seed": worlds.PUBLIC}
    return Setting(design=design, clusters=clusters, **{**usual, **more})


def answers(asks: Sequence[Ask]) -> Counter[int]:
    """How often each device was asked."""
    return Counter(device for ask in asks for device in range(ask.first, ask.stop))
