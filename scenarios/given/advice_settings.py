"""What a scenario over a file says of advice beside what devices tell: public features of items, and public people."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scenarios.given.parsing import NamedPath
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
