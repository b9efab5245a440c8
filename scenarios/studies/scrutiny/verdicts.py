"""Results of scrutiny: a table of checks that held or failed, or epsilon claimed, exact and measured."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import LogRatio
from coordinator.protocol.trust_models import TRUST

if TYPE_CHECKING:
    import pandas as pd

HELD, FAILED, UNCHECKED = "held", "failed", "not checked"


class Failed(Exception):  # noqa: N818 (a verdict, which a check raises as soon as it knows)
    """A check found a counter-example; its text is one line."""


class Unchecked(Exception):  # noqa: N818 (a verdict)
    """A check does not apply, or cannot be made; its text is the reason."""


class Scrutiny(ABC):
    """The result of a scrutiny: a verdict, its counter-examples, and a table."""

    __slots__ = ()
    table: ClassVar[str]  # the key of the table's rows in `as_json`

    @property
    @abstractmethod
    def failures(self) -> Sequence[object]:
        """The counter-examples to the claim."""

    @abstractmethod
    def as_json(self) -> dict[str, Any]:
        """Return what the command's ``--json`` writes."""

    @property
    def held(self) -> bool:
        """Whether nothing contradicts the claim."""
        return not self.failures

    @property
    def verdict(self) -> str:
        """Whether it held, or how many counter-examples there are."""
        return f"{len(self.failures)} failed" if self.failures else "held"

    def frame(self) -> pd.DataFrame:
        """Return the table's rows, checks or attacks, as a table of pandas."""
        import pandas as pd  # noqa: PLC0415 (loaded by whoever wants a table)

        return pd.DataFrame(self.as_json()[self.table])


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    """One check of one mechanism."""

    mechanism: str  # its name, with its settings where they are not the default
    check: str
    meaning: str  # the property that is checked
    verdict: str  # held, failed or not checked
    told: str  # figures, the counter-example, or the reason why nothing was checked; one line


@dataclass(frozen=True, slots=True)
class Conformance(Scrutiny):
    """All checks of one mechanism.

    Attributes
    ----------
    rows : tuple of CheckRow
        One a check and a setting, in the order of the checks.
    """

    table = "rows"
    rows: tuple[CheckRow, ...]

    @property
    def failures(self) -> list[CheckRow]:
        """The rows that failed."""
        return [row for row in self.rows if row.verdict == FAILED]

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec check --json` writes."""
        return {"held": self.held, "rows": [asdict(row) for row in self.rows]}

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(row.mechanism for row in self.rows))
        counts = {kind: sum(row.verdict == kind for row in self.rows) for kind in (HELD, FAILED, UNCHECKED)}
        return f"<{names}: {', '.join(f'{count} {kind}' for kind, count in counts.items() if count)}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackResult:
    """One attack on real releases, with the event that it counts, and how often that happened with either input."""

    name: str = ""
    meaning: str = ""  # the inputs that are distinguished, and the releases that are observed
    times: int = 1  # how often the claimed epsilon may be spent on the observation: once a new query, or a coordinate
    epsilon: Epsilon = None  # the exact cost that is allowed for all of them [nats]; None where nothing is promised
    measured: float  # lower bound of the victims' privacy loss [nats], at least 0, at the audit's confidence
    right: float  # share of victims whose input was guessed right; a half says nothing
    plays: int  # victims that were measured
    hits: int  # how often it happened among them, with the input that it speaks for
    misses: int  # and with the other one
    by: str  # the score that it is a threshold of

    @property
    def claimed(self) -> float | None:
        """The cost that is allowed for all of them together [nats]; None where nothing is promised."""
        return None if self.epsilon is None else as_float(self.epsilon)

    @property
    def right_at_most(self) -> float | None:
        """Share of victims that anybody can guess right within the claim: ``e**eps / (1 + e**eps)``."""
        return None if self.claimed is None else 1 / (1 + math.exp(-self.claimed))

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        names = "name meaning times claimed measured right plays hits misses by right_at_most"
        return {name: getattr(self, name) for name in names.split()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Power:
    """An audit's power to find leaks, computed from its numbers of releases and attacks."""

    probability: float  # that a leak of the size that is stated is found; smaller ones are found less often
    attack: str  # the attack that it is computed for
    claimed: float  # what one release may cost [nats]
    # The smallest leak that is found if it is in a share of the answers, whose bits alone are distinguished better than
    # is claimed: by that share what they give away at least [nats]; None: none of any size is found
    leaks: Mapping[float, float | None]

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        leaks = [{"share": share, "epsilon": epsilon} for share, epsilon in self.leaks.items()]
        return {"probability": self.probability, "attack": self.attack, "leaks": leaks}


def in_words(powers: Sequence[Power]) -> str:
    """Say which leaks audits find, and that smaller ones may pass; for several mechanisms the range of sizes."""
    parts = []
    for share in powers[0].leaks:
        leaks = [(power.leaks[share], power.claimed) for power in powers]
        sizes = [math.inf if leak is None else leak / claimed - 1 for leak, claimed in leaks]
        percents = (f"{float(f'{100 * share_bound:.2g}'):g} %" for share_bound in (min(sizes), max(sizes)))
        ends = dict.fromkeys("none" if percent == "inf %" else percent for percent in percents)
        where = "every answer" if share == 1 else f"one answer in {1 / share:g}"
        parts.append(f"{' to '.join(ends)} in {where}")
    by = f"by attack {powers[0].attack}" if len(powers) == 1 else "by the mechanism"
    often = f"leaks are found with probability at least {powers[0].probability:g} from so much above the claim on"
    return f"{often} ({by}): {', '.join(parts)}; smaller ones may pass"


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Scrutiny):
    """The result of an audit of one mechanism.

    Attributes
    ----------
    design : str
        Its name, with its settings where they are not the default.
    guarantee : str
        What a device is promised, in words.
    epsilon : Fraction or None
        Epsilon of one release, exactly [nats]; None where none is promised.
    log_ratio : LogRatio or None
        Largest log-ratio of the exact channel; infinite where ratings are released as they are, None where the channel
        cannot be enumerated.
    confidence : float
        Probability that all lower bounds hold.
    attacks : tuple of AttackResult
        Those that were made.
    power : Power or None
        Which leaks these attacks would have found; None where nothing is claimed, or no attack saw anything.
    dust : Fraction
        By how much `log_ratio` may exceed the claim where a class states floats [nats]; elsewhere not at all.
    refused : str
        Why devices refuse such queries, if they do; the attacks were made past the refusal.
    """

    table = "attacks"
    design: str
    guarantee: str
    epsilon: Epsilon
    log_ratio: LogRatio | None
    confidence: float
    attacks: tuple[AttackResult, ...]
    power: Power | None = None
    dust: Fraction = Fraction(0)
    refused: str = ""

    @property
    def claimed(self) -> float | None:
        """Epsilon of one release [nats]; None where none is promised."""
        return None if self.epsilon is None else as_float(self.epsilon)

    @property
    def exact(self) -> float | None:
        """`log_ratio` as the next float [nats]; not above `claimed` where the channel is within the claim."""
        return None if self.log_ratio is None else float(self.log_ratio)

    @property
    def excess(self) -> float | None:
        """By how much `log_ratio` is above the claim, however little [nats]; negative where it is below."""
        return None if self.log_ratio is None or self.epsilon is None else self.log_ratio.beyond(self.epsilon)

    @property
    def measured(self) -> float:
        """Largest lower bound of what one release gives away [nats]: that of several is shared out."""
        return max((attack.measured / attack.times for attack in self.attacks), default=0.0)

    @property
    def failures(self) -> list[str]:
        """The violations of the claim, a line each."""
        if self.epsilon is None:
            return []
        lines = [self.refused] if self.refused else []
        if self.log_ratio is not None and not self.log_ratio.within(self.epsilon + self.dust):
            above = "" if math.isinf(float(self.log_ratio)) else f"{self.excess:.3g} "
            lines.append(f"exact epsilon {self.exact:.9g} is {above}above the claimed {self.claimed:.9g}")
        return lines + [
            f"attack {attack.name} measured at least {attack.measured:.4g}, claimed are {attack.claimed:.9g}"
            for attack in self.attacks
            if attack.epsilon is not None and attack.measured > attack.epsilon
        ]

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec audit --json` writes; infinity is the string ``"inf"``."""
        names = "design guarantee claimed exact excess measured confidence held failures"
        values = {name: getattr(self, name) for name in names.split()}
        content = {name: "inf" if value == math.inf else value for name, value in values.items()}
        attacks = [attack.as_json() for attack in self.attacks]
        return {**content, "power": None if self.power is None else self.power.as_json(), "attacks": attacks}

    def __repr__(self) -> str:
        claimed, exact = ("none" if value is None else f"{value:g}" for value in (self.claimed, self.exact))
        return f"<{self.design}: claimed {claimed}, exact {exact}, measured {self.measured:.4f}, {self.verdict}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralAudit(Scrutiny):
    """What audits of central promises say: epsilon claimed, given away and measured, at one delta.

    Attributes
    ----------
    design : str
        The mechanism, with its settings where they are not the default.
    epsilon : float
        Central epsilon that is claimed at the audit's delta, from above [nats].
    delta : float
        The audit's delta; of two servers that for which the noise was made, 0 for Laplace noise.
    epsilon_at_least : float
        What is really given away [nats]: by the multiset where all other devices hold one input that is known, to some
        1e-5, and of questions that devices draw to some 1e-2; or by one dose of noise, by its exact law.
    confidence : float
        Probability that all lower bounds hold.
    attacks : tuple of AttackResult
        Those that were made.
    neighbours : str
        ``"replace"``, one device's ratings by any others, or ``"add-remove"``.
    """

    table = "attacks"
    trust_model: ClassVar[str]
    leak_source: ClassVar[str]  # what gives `epsilon_at_least` away, in words
    kind_fields: ClassVar[tuple[str, ...]]  # names of the fields and properties that JSON tells beside those of all
    design: str
    epsilon: float
    delta: float
    epsilon_at_least: float
    confidence: float
    attacks: tuple[AttackResult, ...]
    neighbours: str = "replace"

    @property
    def measured(self) -> float:
        """Largest lower bound of what a round gives away of a device [nats]."""
        return max((attack.measured for attack in self.attacks), default=0.0)

    @property
    def failures(self) -> list[str]:
        """The violations of the claim, a line each."""
        lines = []
        if self.epsilon_at_least > self.epsilon * (1 + 1e-3):
            lines.append(
                f"{self.leak_source} gives away {self.epsilon_at_least:.5g}, above the claimed {self.epsilon:.5g}"
            )
        return lines + [
            f"attack {attack.name}, by {attack.by}, measured at least {attack.measured:.4g}, "
            f"claimed are {self.epsilon:.5g}"
            for attack in self.attacks
            if attack.measured > self.epsilon
        ]

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec audit --trust ... --json` writes."""
        rows = [attack.as_json() for attack in self.attacks]
        for row in rows:
            del row["right_at_most"]  # which holds at delta 0
        shared = ("design", "epsilon", "epsilon_at_least", "delta", "neighbours", "measured", "confidence")
        content = {name: getattr(self, name) for name in (*shared, *self.kind_fields)}
        verdict = {"held": not self.failures, "failures": self.failures, "attacks": rows}
        return {"trust_model": self.trust_model} | content | verdict

    def __repr__(self) -> str:
        figures = f"claimed {self.epsilon:.4f}, at least {self.epsilon_at_least:.4f}, measured {self.measured:.4f}"
        return f"<{self.design}, {self.trust_model}: {figures}, {self.verdict}>"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ShuffledAudit(CentralAudit):
    """The result of an audit of a mechanism's reports behind a shuffler; it also has what `CentralAudit` has.

    Attributes
    ----------
    amplified_for : int
        Devices of a round, for which the central epsilon is claimed.
    epsilon_local : float
        Epsilon of each device's report [nats], which is left if the shuffler tells who sent what.
    bound : str
        The bound from above: ``"two levels"``, ``"finite channel"``, or ``"any randomizer"``.
    own_questions : bool
        Whether devices draw their questions from private coins, and report them.
    """

    trust_model = "shuffled"
    leak_source = "the multiset"
    kind_fields = ("epsilon_local", "amplified_for", "bound", "own_questions")
    amplified_for: int
    epsilon_local: float
    bound: str
    own_questions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ServersAudit(CentralAudit):
    """The result of an audit of the sums that two servers publish; it also has what `CentralAudit` has.

    Attributes
    ----------
    noise : str
        ``"servers"``: each server adds a dose; ``"devices"``: devices add shares of one.
    noise_deviation : float
        Standard deviation of all noise in a published total.
    answered : int
        Devices of a round; of noise of devices the fewest whose sum the servers open.
    honest_noise : int or None
        Honest devices on whose noise epsilon counts; None where servers add it, and epsilon holds for any number.
    bytes_per_device : int
        What a device sends to both servers.
    """

    trust_model = "two-servers"
    leak_source = "a dose of noise"
    kind_fields = (
        *("epsilon_local", "noise", "noise_deviation", "honest_noise", "answered", "bytes_per_device"),
        *("trusted", "if_trust_fails"),
    )
    epsilon_local: ClassVar[None] = None  # no device randomizes what it sends
    noise: str
    noise_deviation: float
    answered: int
    honest_noise: int | None
    bytes_per_device: int

    @property
    def trusted(self) -> str:
        """Who is trusted with what, in words."""
        return TRUST[self.trust_model].guarantee(honest=self.honest_noise or 0)["trusted"]

    @property
    def if_trust_fails(self) -> str:
        """What is left if that is misplaced, in words."""
        return TRUST[self.trust_model].guarantee(honest=self.honest_noise or 0)["if_trust_fails"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Amplification:
    """The guarantees of shuffled reports: the central one that holds, and what is left if the shuffler lies.

    Attributes
    ----------
    design : str
        The mechanism or channel.
    users : int
        Honest devices n that answer; absentees and liars hide nobody.
    epsilon : float
        Central epsilon [nats]: of the multiset of all reports, which is what the server sees. Certified from above.
    epsilon_local : float
        Epsilon of each device's own report [nats], which holds whatever the shuffler does.
    delta : float
        The central guarantee's delta.
    neighbours : str
        ``"replace"``: one device's ratings are replaced by any others, and n is public.
    bound : str
        The bound from above: ``"two levels"``, ``"finite channel"``, or ``"any randomizer"``.
    epsilon_at_least : float or None
        What the multiset really gives away where the server knows all others' ratings [nats], to some 1e-5: a measure
        of how tight the bound is, and no certificate. None where nobody computed it.
    settings : dict
        Settings of the mechanism that follow from the central epsilon, by their names.
    """

    design: str
    users: int
    epsilon: float
    epsilon_local: float
    delta: float
    bound: str
    epsilon_at_least: float | None
    neighbours: str = "replace"
    settings: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self)
