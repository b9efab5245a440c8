"""What people were promised: by the record's own words, and what epsilon means for one person."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from coordinator.protocol.custom import UNCHECKED
from coordinator.protocol.trust import SHUFFLED, TWO_SERVERS
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.families.two_tier.two_tier_scenario import GUARANTEES, NONE
from scenarios.pages.traced import NOTHING, Traced

PRIORS = (0.01, 0.1, 0.5)  # How probable something was held to be before any answer was seen
EVEN = 0.5
NO_BOUND = 0.999  # A bound from here on says nothing, and the page says that


def belief_at_most(prior: float, epsilon: float) -> float:
    """Return the largest probability that an answer under epsilon [nats] can lift a belief to.

    By Bayes' rule with the likelihood ratio at its bound: ``p e^eps / (1 - p + p e^eps)``.
    """
    return 1 / (1 + (1 - prior) / prior * math.exp(-epsilon))


def belief_at_least(prior: float, epsilon: float) -> float:
    """Return the smallest probability that such an answer can lower it to: ``p / (p + (1 - p) e^eps)``.

    >>> round(belief_at_least(0.5, 1.0), 4), belief_at_least(0.1, math.inf)
    (0.2689, 0.0)
    """
    return 1 - belief_at_most(1 - prior, epsilon)


@dataclass(frozen=True, slots=True, kw_only=True)
class Believed:
    """An epsilon of a record, and what it means."""

    words: str  # Whose it is, or of what
    epsilon: Traced  # Privacy parameter [nats]

    @property
    def says_nothing(self) -> bool:
        """Whether even a fair coin can become as good as certain."""
        return belief_at_most(EVEN, self.epsilon.number()) > NO_BOUND

    def bound(self, kind: str, prior: float) -> Markup:
        """Return a bound of a belief in percent; rounding never makes it look better than it is."""
        bound = belief_at_most if kind == "at-most" else belief_at_least
        thousandths = 1000 * bound(prior, self.epsilon.number())
        rounded = math.ceil(thousandths - 1e-9) if kind == "at-most" else math.floor(thousandths + 1e-9)
        data = Markup('<data value="{}" data-belief="{}" data-prior="{}">{:.1f} %</data>')
        return data.format(self.epsilon.place, kind, prior, rounded / 10)


def each(words: str, epsilons: Iterable[Traced]) -> list[Believed]:
    """Return the different epsilons among some, in ascending order."""
    different = {one.number(): one for one in reversed([*epsilons]) if one}
    return [Believed(words=words, epsilon=different[value]) for value in sorted(different)]


LOUD = ("none", "deniability", "part")
KINDS = ("local", "shuffled", "two-servers", "curator", "approximate", "silent", *LOUD)
"""Of promises, and those that a page warns of; their words stand in ``templates/parts.html``."""
TRUSTED = {
    "local": "nobody",
    "curator": "whoever collects",
    "coordinator": "whoever collects",
    "two-servers": "one of two servers not to collude with the other",
    "shuffled": "a shuffler not to say who sent what",
    "two-tier": "nobody with private ratings",
    "public-rates": "nobody but whoever published totals of all ratings",
    "none": "whoever learns",
}
"""Who is trusted, by trust model."""
_PARTS = ("which items it rated is public", "one coordinate")  # Guarantees of less than all that a device holds


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivacyPromise:
    """A promise."""

    kind: str  # One of `KINDS`
    about: str = ""  # Whom or what it is about; empty where a record has but one
    guarantee: Traced | None = None  # The record's own words
    # Which data it takes as neighbours, and how probably it fails; None where nothing is promised or a record is older
    neighbours: Traced | None = None
    delta: Traced | None = None

    @property
    def unchecked(self) -> bool:
        """Whether nothing vouches for it but its author."""
        return self.guarantee is not None and UNCHECKED in self.guarantee.text()

    @property
    def loud(self) -> bool:
        """Whether a page warns of it."""
        return self.kind in LOUD or self.unchecked


def promised(record: Traced) -> PrivacyPromise:
    """Return what an experiment's record promises."""
    guarantee = record.get("guarantee") or None
    kind = kind_of(guarantee.text() if guarantee else "none", record.get("trust_model").text())
    neighbours, delta = record.get("neighbours") or None, record.get("delta") or None
    return PrivacyPromise(kind=kind, guarantee=guarantee, neighbours=neighbours, delta=delta)


def trusted(model: Traced) -> Markup:
    """Return who is trusted, in a word, and the name of that trust model."""
    return Markup("{} ({})").format(TRUSTED.get(model.text(), "somebody"), model) if model else NOTHING


def kind_of(guarantee: str, trust: str = "local") -> str:
    """Return of which kind a guarantee is, by its words and by who is trusted."""
    if guarantee == GUARANTEES[NONE]:
        return "silent"
    if guarantee.startswith("none"):
        return "none"
    if "not differential privacy" in guarantee:
        return "deniability"
    if any(words in guarantee for words in _PARTS):
        return "part"
    return trust if trust in (TRUST_CURATOR, SHUFFLED, TWO_SERVERS) else "local"


def merged(named: Iterable[tuple[str, str]]) -> list[PrivacyPromise]:
    """Return the promises of several rows, from pairs of kind and name: one a kind, about all names that have it."""
    names: dict[str, list[str]] = {}
    for kind, name in dict.fromkeys(named):
        names.setdefault(kind, []).append(name)
    return [PrivacyPromise(kind=kind, about=", ".join(several)) for kind, several in names.items()]
