"""Trust models, a row each: who is trusted with what, what is left if they lie, and what a table's epsilon is about."""

from dataclasses import dataclass

from coordinator.protocol.errors import InputError

LOCAL, SHUFFLED, TWO_SERVERS, CURATOR = "local", "shuffled", "two-servers", "curator"
"""Trust models of a run: nobody is trusted; a shuffler hides who sent what; one of two servers keeps its share; a
curator gets ratings as they are."""
NONE, TWO_TIER = "none", "two-tier"
PUBLIC_RATES = "public-rates"
"""Nobody is trusted with ratings, but totals of everybody's are public, without noise: more than `local` knows. Rows of
it are measured only where it is named, and are no part of what is compared: no curve, no number of people, no best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustModel:
    """One trust model: what is known of it beside the arithmetic of its promise."""

    name: str
    description: str  # Who learns what, and what is left if who is trusted lies
    heading: str = ""  # Of what a plan says of it, where somebody is trusted
    trusted: str = ""  # With what, and of what devices keep by themselves where that is misplaced
    if_it_fails: str = ""
    central: bool = False  # Whether epsilon is about what is published, not about a device's own answers
    runs: bool = False  # Whether a run can name it
    rung: bool = True  # Whether it is on the ladder: everybody's ratings are private
    reports: bool = False  # Whether a table's epsilon is that of a device's own report
    either_relation: bool = False  # Whether noise can be for either relation of neighbours; else ratings are replaced
    power: int | None = None  # The number of people that it takes grows as ``1 / f^power`` in a share f of likes

    def guarantee(self, *, epsilon_local: float | None = None, honest: int = 0) -> dict[str, str]:
        """Say who is trusted with what, and what is left if that is misplaced, as results and verdicts have it.

        ``honest`` is how many devices' shares of noise make the noise scale, 0 where servers add it.
        """
        trusted, left = self.trusted, self.if_it_fails.format(epsilon_local)
        if self.name == TWO_SERVERS and honest:
            trusted += f", and {honest:,} devices, to add their noise"
            left += "; if one opens other sums than was agreed, what devices add is too little noise"
        elif self.name == TWO_SERVERS:
            left += "; if one lies, the other one's noise keeps the whole promise"
        return {"trusted": trusted, "if_trust_fails": left}


TRUST = {
    model.name: model
    for model in (
        TrustModel(name=NONE, description="no privacy: whoever learns has all ratings"),
        TrustModel(
            name=CURATOR,
            description="a trusted curator has all ratings and publishes noisy totals; if it lies, nothing is left",
            heading="trusted curator",
            central=True,
            either_relation=True,
            power=1,
        ),
        TrustModel(
            name=TWO_SERVERS,
            description="each of two servers sees random shares, and both publish noisy sums; if one lies, epsilon "
            "still "
            "holds by the other's noise; if both collude, nothing is left",
            heading="two servers",
            central=True,
            runs=True,
            trusted="one of two servers, not to show its shares to the other",
            if_it_fails="if both servers collude, nothing is left: together they read every device's vector",
            either_relation=True,
            power=1,
        ),
        TrustModel(
            name=SHUFFLED,
            description="the server sees all reports and not who sent which, the shuffler who sent and not what; "
            "if the "
            "shuffler lies, each device keeps its own epsilon, below, and with ones nothing",
            heading="behind a shuffler",
            central=True,
            runs=True,
            trusted="the shuffler, not to say who sent what; it sees who sends, and what is sent is for the server",
            if_it_fails="each device keeps {:.6g} nats of local differential privacy",
            power=1,
        ),
        TrustModel(
            name=TWO_TIER,
            description="some people's ratings are public; the others are evaluated",
            rung=False,
            reports=True,
        ),
        TrustModel(
            name=LOCAL,
            runs=True,
            description="nobody is trusted: a device answers one question under its whole epsilon, which holds "
            "whoever lies",
            reports=True,
            power=2,
        ),
        TrustModel(
            name=PUBLIC_RATES,
            description="as local, but totals of all ratings are public; not compared",
            rung=False,
            reports=True,
        ),
    )
}
"""Trust models by name, from most trust to none."""
LADDER = tuple(name for name, model in TRUST.items() if model.rung)
"""The ladder of trust: trust models in which everybody's ratings are private, from most trust to none."""
UPWARDS = tuple(name for name in reversed(LADDER) if name != NONE)
"""The same with a guarantee, from no trust to most: the order in which advice looks, and trust models of an account."""


def require_trust(name: str) -> TrustModel:
    """Return the trust model of a run by its name, or refuse what is none."""
    if (model := TRUST.get(name)) is None or not model.runs:
        names = ", ".join(other for other, model in reversed(TRUST.items()) if model.runs)
        raise InputError(f"trust is {name!r}; choose one of {names}")
    return model


CHOSEN_RELATION = tuple(name for name, model in TRUST.items() if model.either_relation)
