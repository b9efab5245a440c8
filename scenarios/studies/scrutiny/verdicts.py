"""Results of scrutiny: a table of checks that held or failed, or epsilon claimed, exact and measured."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from coordinator.protocol.budget import Epsilon, as_float

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
    """One attack on real releases: how often its best event happened with either input, and the bound that follows."""

    name: str = ""
    meaning: str = ""  # the inputs that are distinguished, and the releases that are observed
    times: int = 1  # how often the claimed epsilon may be spent on the observation: once a new query, or a coordinate
    epsilon: Epsilon = None  # the exact cost that is allowed for all of them [nats]; None where nothing is promised
    measured: float  # lower bound of the victims' privacy loss [nats], at least 0, at the audit's confidence
    right: float | None  # share of victims whose input was guessed right; None where no device was asked
    plays: int  # victims that were measured
    hits: int = 0  # how often it happened among them, with the input that it speaks for
    misses: int = 0  # and with the other one
    by: str = ""  # the score that it is a threshold of
    facts: Mapping[str, Any] = field(default_factory=dict)  # what else its view says of it, by JSON's names

    @property
    def claimed(self) -> float | None:
        """The cost that is allowed for all of them together [nats]; None where nothing is promised."""
        return None if self.epsilon is None else as_float(self.epsilon)

    @property
    def right_at_most(self) -> float | None:
        """Share of victims that anybody can guess right within the claim: ``e**eps / (1 + e**eps)``."""
        return None if self.claimed is None else 1 / (1 + math.exp(-self.claimed))

    def as_json(self, names: Sequence[str]) -> dict[str, Any]:
        """Return facts and fields of these names as JSON values."""
        return {name: self.facts[name] if name in self.facts else getattr(self, name) for name in names}


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


CLAIM = ("design", "claimed", "exact", "measured", "confidence", "held", "failures")
"""What JSON says of a mechanism beside its attacks, unless a view says more."""
ATTACK = ("name", "meaning", "times", "claimed", "measured", "right", "plays", "hits", "misses", "by")
"""What JSON says of an attack, unless a view says it otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit(Scrutiny):
    """The result of an audit: what is claimed, given away and measured, as the attacker of one view sees it.

    What a view says beside, such as ``epsilon_local`` behind a shuffler, stands under its name in JSON:
    ``audit["epsilon_local"]``.

    Attributes
    ----------
    view : str
        Who looks: the server, behind a shuffler, or as one of two; or who sees all periods.
    design : str
        The mechanism, with its settings where they are not the default.
    epsilon : Fraction or None
        Epsilon that is claimed, exactly [nats]: of one release; behind a shuffler and of sums of a round, at a delta;
        of a history. None where none is promised.
    exact : float or None
        What is really given away, by an exact law [nats]: the largest log-ratio of a channel, as the next float, so
        that it is not above the claim where the channel is within it; what a multiset gives away where all other
        devices hold one input that is known, to some 1e-5, and of questions that devices draw to some 1e-2; what a dose
        of noise does. Infinite where ratings are released as they are, None where it cannot be computed.
    confidence : float
        Probability that all lower bounds hold.
    attacks : tuple of AttackResult
        Those that were made.
    contradictions : tuple of str
        What the exact law says against the claim, a line each; attacks say more.
    power : Power or None
        Which leaks these attacks would have found, of one release; None where nothing is claimed, or no attack saw
        anything.
    """

    table = "attacks"
    view: str = ""
    design: str
    epsilon: Epsilon
    exact: float | None = None
    confidence: float
    attacks: tuple[AttackResult, ...] = ()
    contradictions: tuple[str, ...] = ()
    power: Power | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # what else the view says, by JSON's names
    names: tuple[str, ...] = CLAIM  # JSON's, in its order
    attack_names: tuple[str, ...] = ATTACK

    @property
    def claimed(self) -> float | None:
        """Epsilon that is claimed [nats]; None where none is promised."""
        return None if self.epsilon is None else as_float(self.epsilon)

    @property
    def measured(self) -> float:
        """Largest lower bound of what one release, or a round, gives away [nats]: that of several is shared out."""
        return max((attack.measured / attack.times for attack in self.attacks), default=0.0)

    @property
    def failures(self) -> list[str]:
        """The violations of the claim, a line each."""
        return [*self.contradictions] + [
            f"attack {attack.name}{attack.by and f', by {attack.by}'}, measured at least {attack.measured:.4g}, "
            f"claimed are {attack.claimed:.9g}"
            for attack in self.attacks
            if attack.epsilon is not None and attack.measured > attack.epsilon
        ]

    def __getitem__(self, name: str) -> Any:
        return self.facts[name] if name in self.facts else getattr(self, name)

    def as_json(self) -> dict[str, Any]:
        """Return what `blindrec audit --json` writes; infinity is the string ``"inf"``."""
        values = {name: self[name] for name in self.names}
        content = {name: "inf" if value == math.inf else value for name, value in values.items()}
        if "power" in content:
            content["power"] = None if self.power is None else self.power.as_json()
        return {**content, "attacks": [attack.as_json(self.attack_names) for attack in self.attacks]}

    def __repr__(self) -> str:
        claimed, exact = ("none" if value is None else f"{value:g}" for value in (self.claimed, self.exact))
        return f"<{self.design}: claimed {claimed}, exact {exact}, measured {self.measured:.4f}, {self.verdict}>"
