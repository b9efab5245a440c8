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
    """One trust model: its properties, and the words that describe it.

    What is said are clauses, of which `sentences` makes sentences; terminal, pages, pictures and results have them.
    """

    name: str
    short: str = ""  # At a curve, and over rows of a plan
    party: str = ""  # Who is trusted
    task: str = ""  # What for
    noise: str = ""  # What for, unless devices add the noise
    sees: str  # Who sees what
    left: str = ""  # What is left if who is trusted lies
    central: bool = False  # Whether epsilon is about what is published, not about a device's own answers
    runs: bool = False  # Whether a run can name it
    rung: bool = True  # Whether it is on the ladder: everybody's ratings are private
    reports: bool = False  # Whether a table's epsilon is that of a device's own report
    either_relation: bool = False  # Whether noise can be for either relation of neighbours; else ratings are replaced
    power: int | None = None  # The number of people that it takes grows as ``1 / f^power`` in a share f of likes

    @property
    def description(self) -> str:
        """Who sees what, and what is left if who is trusted lies."""
        return "; ".join(clause for clause in (self.sees, self.left) if clause)

    @property
    def trusted(self) -> str:
        """Who is trusted with what."""
        return f"{self.party}, which {f'{self.task} {self.noise}'.strip()}" if self.central else self.party

    def guarantee(self, *, epsilon_local: float | None = None, honest: int = 0) -> dict[str, str]:
        """Say who is trusted with what, and what is left if that is misplaced, as results and verdicts have it.

        ``honest`` is how many devices' shares of noise make the noise scale, 0 where servers add it.
        """
        trusted, left = self.trusted, self.left
        if epsilon_local is not None:
            left += f": {epsilon_local:.6g} nats of local differential privacy"
        if honest:
            trusted = f"{self.party}, which {self.task}, and {honest:,} devices, which must add their noise"
            left = f"if one opens other sums than was agreed, what devices add is too little noise; {_COLLUDE}"
        return {"trusted": trusted, "if_trust_fails": left}


def sentences(*clauses: str) -> str:
    """Return sentences made of clauses.

    >>> sentences("nobody is trusted", "", "epsilon holds")
    'Nobody is trusted. Epsilon holds.'
    """
    return " ".join(f"{clause[0].upper()}{clause[1:]}." for clause in clauses if clause)


_COLLUDE = "if both collude, every rating lies open"
TRUST = {
    model.name: model
    for model in (
        TrustModel(name=NONE, sees="no privacy: whoever learns has all ratings"),
        TrustModel(
            name=CURATOR,
            short="curator",
            party="a curator",
            task="sees every rating, and must keep it",
            sees="the curator sees all as it is; everybody else, what it publishes with noise",
            left="if the curator lies, every rating lies open",
            central=True,
            either_relation=True,
            power=1,
        ),
        TrustModel(
            name=TWO_SERVERS,
            short="two servers",
            party="one of 2 servers",
            task="must keep its shares to itself",
            noise="and add its noise",
            sees="each server sees shares that look random; everybody, noisy totals",
            left=f"if one lies, the other's noise still protects; {_COLLUDE}",
            central=True,
            runs=True,
            either_relation=True,
            power=1,
        ),
        TrustModel(
            name=SHUFFLED,
            short="shuffler",
            party="a shuffler",
            task="must not tell who sent which report, and must let only counted devices in",
            sees="the server sees reports without senders; the shuffler, senders without reports",
            left="if the shuffler tells, each device's own noise is left",
            central=True,
            runs=True,
            power=1,
        ),
        TrustModel(
            name=TWO_TIER,
            short="volunteers",
            party="volunteers",
            task="their ratings are public",
            sees="everybody sees the volunteers' ratings; the others send nothing",
            left="there is nothing to lie about",
            rung=False,
            reports=True,
        ),
        TrustModel(
            name=LOCAL,
            short="nobody",
            party="nobody",
            task="each device protects itself",
            sees="the server sees each device's noisy report, and whose it is",
            left="epsilon holds whoever lies",
            runs=True,
            reports=True,
            power=2,
        ),
        TrustModel(
            name=PUBLIC_RATES,
            sees="as local, but totals of all ratings are public; not compared",
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
    """Return the trust model of a run by its name, or refuse an unknown name."""
    if (model := TRUST.get(name)) is None or not model.runs:
        names = ", ".join(other for other, model in reversed(TRUST.items()) if model.runs)
        raise InputError(f"trust is {name!r}; choose one of {names}")
    return model


CHOSEN_RELATION = tuple(name for name, model in TRUST.items() if model.either_relation)
