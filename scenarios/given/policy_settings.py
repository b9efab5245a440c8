"""What a scenario says of its policy, checked: which query comes next, and when to stop."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator.server.design import MOST_ROUNDS
from coordinator.server.server_half import (
    ONE_ROUND,
)
from scenarios.given.settings import OWN, ExperimentScenario


class PolicySettings(ExperimentScenario):
    """A policy, and what it is told."""

    policy: str = Field(
        default=ONE_ROUND,
        description="Which query comes next: one-round, fixed, eliminate, item-by-item, or your own "
        f"{OWN} [one-round].",
    )
    rounds: Annotated[int, Field(ge=1)] = Field(default=2, description="Policy fixed: number of rounds [2].")
    confidence: Annotated[float, Field(gt=0, lt=1)] = Field(
        default=0.95,
        description="P(all labels right) at which adaptive policies stop and items count as decided [0.95].",
    )
    answers_per_device: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Queries m a device answers at most, at epsilon / m each [1]."
    )
    pool_size: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Policies fixed and eliminate: ask about so many items at a time, so that liars move fewer [all].",
    )
    assume_malicious: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Policy eliminate with sign sensing: share of liars that decided items must withstand [0].",
    )
    verify: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Policy eliminate with sign sensing: at the end fresh devices are asked again about all items, in "
        "pools of so many, and labels that they dispute count as not decided [no].",
    )
    most_rounds: Annotated[int, Field(ge=1)] = Field(
        default=MOST_ROUNDS, description=f"Stop a policy that goes on after so many rounds [{MOST_ROUNDS}]."
    )
