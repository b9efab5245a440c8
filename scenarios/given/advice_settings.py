"""What a scenario over a file says of advice beside what devices tell: public features of items, and public people."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.server.server_half import POSTERIOR, ServerHalf
from scenarios.given.parsing import NamedPath, brief
from scenarios.given.policy_settings import PolicySettings
from scenarios.given.settings import FEATURES

SET = "set"
"""The design whose estimates are weighed with public counts."""


class AdviceSettings(PolicySettings):
    """Public features and public people; see `scenarios.run.experiment`."""

    features: NamedPath | None = Field(default=None, description=FEATURES)
    public: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0,
        description="Set mechanism: share of the file's people whose ratings are public, and weighed with answers [0].",
    )

    def check_advice(self, half: ServerHalf, decoder: str) -> None:
        """Refuse features and public people where scores are no popularity that they could be weighed with."""
        if self.features is not None and not half.ranks:
            raise InputError(
                f"features is {brief(str(self.features))}, but scores of {half.name} are no popularity that features "
                "could weigh; leave it out"
            )
        if self.public and (half.name != SET or decoder == POSTERIOR):
            raise InputError(
                f"public is {self.public:g}, which is weighed with popularity as design {SET} tells it, not "
                f"{half.name} by {decoder}; leave it out"
            )
