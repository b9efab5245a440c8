"""What a scenario says of whom devices trust: nobody, a shuffler, or one of two servers."""

from typing import Annotated, Any, Literal

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.protocol.trust import LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.config.files import brief
from scenarios.config.settings import ExperimentScenario

DELTA = 1e-6  # Probability that a central guarantee fails, if nothing else is said
EXPECTED = 0.9  # Share of the devices that are expected to answer, if nothing else is said
SMALLEST = 10  # A round of a policy that goes on asks at least one device in so many, if nothing else is said
WITHHOLD, TELL = "withhold", "tell"
_SHUFFLED = ("expected_answers", "short_rounds", "smallest_round")


class TrustSettings(ExperimentScenario):
    """Who stands between devices and server, and what that promises."""

    trust: Literal["local", "shuffled", "two-servers"] = Field(
        default="local",
        description="Whom devices trust: local, nobody; shuffled, a shuffler that hides who sent what, so that epsilon "
        "is the central one; two-servers, one of two that add up shares [local].",
    )
    delta: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description=f"P(the promise of a shuffler or of two servers fails), at most 1 / answers [{DELTA:g}].",
    )
    expected_answers: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description=f"Shuffled: share of the devices of a round that answers at least, on which their local epsilon "
        f"counts [{EXPECTED:g}].",
    )
    short_rounds: Literal["withhold", "tell"] | None = Field(
        default=None,
        description="Shuffled: a round with fewer answers is withheld, or told with the larger epsilon that it has "
        "[withhold].",
    )
    smallest_round: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Shuffled, policies that go on: fewest devices of a round, on which their local epsilon counts "
        f"[a {SMALLEST}th of the users].",
    )
    own_questions: bool = Field(
        default=False,
        description="Devices draw their sensing sets, signs or hashes from private coins and report them too, so that "
        "a shuffler can hide who was asked [no].",
    )

    def check_trust(self) -> None:
        """Refuse settings of another trust model than the scenario's."""
        for name in ("delta", *_SHUFFLED) if self.trust == LOCAL else _SHUFFLED if self.trust == TWO_SERVERS else ():
            value: Any = getattr(self, name)
            if value is not None:
                model = f"{SHUFFLED} or {TWO_SERVERS}" if name == "delta" else SHUFFLED
                raise InputError(f"{name} is {brief(value)}, which is about --trust {model}; the trust is {self.trust}")

    @property
    def failure_chance(self) -> float:
        """The delta of the promise, the default where none was given."""
        return DELTA if self.delta is None else self.delta
