"""What a scenario says of its policy, checked: which query comes next, and when to stop."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.server.design import MOST_ROUNDS
from coordinator.server.server_half import (
    ANCHOR,
    GROUPS,
    ONE_ROUND,
    POSTERIOR,
    UNTIL_LEARNED,
    ServerHalf,
    Settings,
)
from scenarios.given.mechanisms import designs
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

    def check_policy(self, half: ServerHalf, settings: Settings, decoder: str) -> None:
        """Refuse a policy that there is not, or that the design cannot follow, and settings of another policy."""
        known = half.policies_with(settings)
        own = ":" in self.policy
        if not own and self.policy not in known:
            told = ", ".join(known)
            if len(known) == 1:
                raise InputError(f"policy is {self.policy!r}; {half.name} takes {told} alone, leave it out")
            raise InputError(
                f"policy is {self.policy!r}; choose one of {told} for {half.name}"
                f"{f', or {half.all_policies_with}' if self.policy in half.policies else ''}, or your own, "
                "mypackage.mymodule:MyPolicy"
            )
        if own and len(known) == 1:
            raise InputError(f"policy is {self.policy!r}, but {half.name} has one way of asking; leave it out")
        if self.confidence != type(self).model_fields["confidence"].default and not half.sure:
            told = " and ".join(half.name for half in designs().values() if half.sure)
            raise InputError(
                f"confidence is {self.confidence!r}, which is about {told}; the design is {half.name}, leave it out"
            )
        if self.rounds != 2 and self.policy != "fixed":
            raise InputError(f"rounds is {self.rounds}, which is about policy fixed, not {self.policy}; leave it out")
        single = self.policy in (ONE_ROUND, UNTIL_LEARNED, GROUPS, ANCHOR)
        if self.answers_per_device != 1 and single:
            raise InputError(
                f"answers_per_device is {self.answers_per_device}, but policy {self.policy} asks a device once; "
                "leave it out, or choose another policy"
            )
        if self.policy == "fixed" and self.rounds % self.answers_per_device:
            raise InputError(
                f"rounds is {self.rounds}, a device answers in {self.answers_per_device} of them; give a multiple"
            )
        if self.policy == GROUPS and decoder == POSTERIOR:
            raise InputError(f"decoder is {decoder!r}, which needs one question for all; policy {GROUPS} asks several")
        self._check_against_liars(half, decoder)
        if self.policy in ("eliminate", "item-by-item") and decoder != POSTERIOR:
            raise InputError(f"decoder is {decoder!r}; policy {self.policy} needs posterior, leave it out")

    def _check_against_liars(self, half: ServerHalf, decoder: str) -> None:
        if self.pool_size is not None and (self.policy not in ("fixed", "eliminate") or decoder != POSTERIOR):
            raise InputError(
                f"pool_size is {self.pool_size}, which is about decoder posterior and policies fixed and eliminate; "
                f"the policy is {self.policy} with decoder {decoder}, leave pool_size out"
            )
        for name in ("assume_malicious", "verify"):
            value = getattr(self, name)
            if value is not None and (self.policy != "eliminate" or half.name != "sign"):
                raise InputError(
                    f"{name} is {value:g}, which is about sign sensing with policy eliminate; the run is of "
                    f"{half.name} with {self.policy}; leave it out"
                )
        if self.verify is not None and self.answers_per_device != 1:
            raise InputError(
                f"answers_per_device is {self.answers_per_device}, but fresh devices verify labels; leave out one"
            )
