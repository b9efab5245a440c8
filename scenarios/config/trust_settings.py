"""What a scenario says of whom devices trust: nobody, a shuffler, or one of two servers."""

from typing import Annotated, Any, Literal

from pydantic import Field

from coordinator.protocol.errors import InputError
from coordinator.protocol.trust import LOCAL, SHUFFLED, TWO_SERVERS
from scenarios.config.files import brief
from scenarios.config.settings import ExperimentScenario

DELTA = 1e-6  # Probability that a central guarantee fails, if nothing else is said
EXPECTED = 0.9  # Share of the devices that are expected to answer, if nothing else is said
SMALLEST = 10  # A round of a policy that goes on need not ask more than one device in so many, if nothing else is said
WITHHOLD, TELL = "withhold", "tell"
EXPECTATION = "expected_answers"
_SHUFFLED = (EXPECTATION, "short_rounds", "smallest_round")


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
        description=f"Shuffled, and two servers with noise of devices: share of the devices of a round that answers at "
        f"least, on which epsilon counts [{EXPECTED:g}].",
    )
    short_rounds: Literal["withhold", "tell"] | None = Field(
        default=None,
        description="Shuffled: a round with fewer answers is withheld, or told with the larger epsilon that it has "
        "[withhold].",
    )
    smallest_round: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="Shuffled, policies that go on: fewest devices of a round, on which their local epsilon counts "
        f"[eliminate, anchor: what should ask for the fewest users in all; at most a {SMALLEST}th of the users].",
    )
    own_questions: bool = Field(
        default=False,
        description="Devices draw their sensing sets, signs or hashes from private coins and report them too, so that "
        "a shuffler can hide who was asked [no].",
    )

    def check_trust(self) -> None:
        """Refuse settings of another trust model than the scenario's."""
        theirs = {LOCAL: ("delta", *_SHUFFLED), TWO_SERVERS: tuple(name for name in _SHUFFLED if name != EXPECTATION)}
        for name in theirs.get(self.trust, ()):
            value: Any = getattr(self, name)
            if value is not None:
                model = f"{SHUFFLED} or {TWO_SERVERS}" if name == "delta" else SHUFFLED
                raise InputError(f"{name} is {brief(value)}, which is about --trust {model}; the trust is {self.trust}")

    @property
    def terms_of_servers(self) -> tuple[float, float, float]:
        """Delta, the share of devices that answers and that of liars among these, where two servers add up; else 0."""
        if self.trust != TWO_SERVERS:
            return 0.0, 1.0, 0.0
        liars: float | None = getattr(self, "assume_malicious", None)  # of all scenarios that have liars
        return self.failure_chance, EXPECTED if self.expected_answers is None else self.expected_answers, liars or 0.0

    @property
    def failure_chance(self) -> float:
        """The delta of the promise, the default where none was given."""
        return DELTA if self.delta is None else self.delta
