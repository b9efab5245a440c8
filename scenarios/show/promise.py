"""What people were promised: by the record's own words, and what epsilon means for one person."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from coordinator.protocol.custom import UNCHECKED
from coordinator.server.server_half import TRUST_CURATOR
from scenarios.show.traced import NOTHING, Traced
from scenarios.two_tier.config import GUARANTEES, NONE

PRIORS = (0.01, 0.1, 0.5)
"""How probable something was held to be before any answer was seen."""
EVEN = 0.5
SHOWN = 3
"""Epsilons that the summary shows one by one."""
NO_BOUND = 0.999
"""A bound from here on says nothing, and the page says that."""


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

    def cells(self) -> list[Markup]:
        """Return for each prior from where to where a belief can go."""
        ends = [(self.bound("at-least", prior), self.bound("at-most", prior)) for prior in PRIORS]
        return [Markup("{} to {}").format(*both) for both in ends]

    def bound(self, kind: str, prior: float) -> Markup:
        """Return a bound of a belief in percent; rounding never makes it look better than it is."""
        bound = belief_at_most if kind == "at-most" else belief_at_least
        thousandths = 1000 * bound(prior, self.epsilon.number())
        rounded = math.ceil(thousandths - 1e-9) if kind == "at-most" else math.floor(thousandths + 1e-9)
        data = Markup('<data value="{}" data-belief="{}" data-prior="{}">{:.1f} %</data>')
        return data.format(self.epsilon.place, kind, prior, rounded / 10)


def in_short(believed: Sequence[Believed]) -> tuple[Markup, Markup]:
    """Return the summary's cells: the epsilons, and what an even guess can become; of several the ends."""
    ends = believed if len(believed) <= SHOWN else (believed[0], believed[-1])
    joint = Markup(", " if len(believed) <= SHOWN else " to ")
    return joint.join(one.epsilon.shown() for one in ends), joint.join(one.bound("at-most", EVEN) for one in ends)


def each(words: str, epsilons: Iterable[Traced]) -> list[Believed]:
    """Return the different epsilons among some, in ascending order."""
    different = {one.number(): one for one in reversed([*epsilons]) if one}
    return [Believed(words=words, epsilon=different[value]) for value in sorted(different)]


class Kind(NamedTuple):
    """A kind of promise."""

    meaning: str  # In plain words
    limits: tuple[str, ...]  # What it does not cover
    loud: bool = False  # Whether a page warns of it


KINDS = {
    "local": Kind(
        "Nobody is trusted. Each device adds chance to its answer before anything leaves it, so that whatever it "
        "holds, every answer is almost as probable as with other data.",
        (
            "Several devices of one person, and several answers of one device, add up: each epsilon counts.",
            "Whoever can read a device itself, its memory or its clock.",
        ),
    ),
    "curator": Kind(
        "One party is trusted with the ratings or votes as they are. What it shows to others is private: it is "
        "almost as probable with one person more or less.",
        (
            "The trusted party itself: it sees everything as it is, and so does whoever breaks into it.",
            "Clients who put what they saw together: the epsilons of all of them add up.",
        ),
    ),
    "part": Kind(
        "The epsilon of this record covers only a part of what a device holds or says, as the guarantee tells. "
        "Nobody can read from it what a person loses in all.",
        ("Everything but the part that the guarantee names.",),
        loud=True,
    ),
    "none": Kind(
        "There is no guarantee. What people rated can be learned from what is released, by anybody who sees it.",
        ("Anything. Read no privacy into these numbers.",),
        loud=True,
    ),
    "deniability": Kind(
        "A device's answer leaves each single value deniable. That is not differential privacy: no epsilon "
        "bounds what an adversary learns, least of all one who knows more from elsewhere.",
        (
            "An adversary who knows some of a person's ratings, or sees several answers.",
            "Inferences about a person that no single value tells but many together do.",
        ),
        loud=True,
    ),
    "approximate": Kind(
        "One party is trusted with the ratings. What it publishes has Gaussian noise: the bound by epsilon "
        "holds but for a small probability delta, and what is said below about beliefs holds with that exception.",
        ("The trusted party itself, and the cases in which the bound by epsilon fails.",),
    ),
    "silent": Kind(
        "Nothing of private people is used, and nothing of them is released. Public people's ratings are public.",
        ("Public people: their ratings are there for everybody.",),
    ),
}
TRUSTED = {
    "local": "nobody",
    "curator": "whoever collects",
    "coordinator": "whoever collects",
    "two-tier": "nobody with private ratings",
    "public-rates": "nobody but whoever published totals of all ratings",
    "none": "whoever learns",
}
"""Who is trusted, by trust model."""
_PARTS = ("which items it rated is public", "one coordinate")
"""Words of guarantees whose epsilon is not of all that a device holds."""
EVERYWHERE = (
    "Devices that lie, or one party with many devices: a false but possible report counts like any other.",
    "Whatever a person does with a recommendation, such as a click or a purchase, is new data and not covered.",
    "The catalogue and the numbers that are named as public are public; take them from elsewhere than from people.",
    "This is a simulation: it shows what a protocol would release, and does not protect the data that it was fed.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise."""

    kind: str  # One of `KINDS`
    about: str = ""  # Whom or what it is about; empty where a record has but one
    guarantee: Traced | None = None  # The record's own words

    @property
    def unchecked(self) -> bool:
        """Whether nothing vouches for it but its author."""
        return self.guarantee is not None and UNCHECKED in self.guarantee.text()

    @property
    def meaning(self) -> str:
        """The promise in plain words."""
        claim = " Its channel is claimed by its author and was not checked: nothing vouches for the guarantee."
        return KINDS[self.kind].meaning + (claim if self.unchecked else "")

    @property
    def loud(self) -> bool:
        """Whether a page warns of it."""
        return KINDS[self.kind].loud or self.unchecked

    @property
    def limits(self) -> tuple[str, ...]:
        """What it does not cover."""
        return KINDS[self.kind].limits


def promised(record: Traced) -> Promise:
    """Return what an experiment's record promises."""
    guarantee = record.get("guarantee")
    kind = kind_of(guarantee.text() if guarantee else "none", record.get("trust_model").text())
    return Promise(kind=kind, guarantee=guarantee if guarantee else None)


def trusted(model: Traced) -> Markup:
    """Return who is trusted, in a word, and the name of that trust model."""
    return Markup("{} ({})").format(TRUSTED.get(model.text(), "somebody"), model) if model else NOTHING


def kind_of(guarantee: str, trust: str = "local") -> str:
    """Return which of `KINDS` a guarantee is, by its words and by who is trusted."""
    if guarantee == GUARANTEES[NONE]:
        return "silent"
    if guarantee.startswith("none"):
        return "none"
    if "not differential privacy" in guarantee:
        return "deniability"
    if any(words in guarantee for words in _PARTS):
        return "part"
    return "curator" if trust == TRUST_CURATOR else "local"


def merged(named: Iterable[tuple[str, str]]) -> list[Promise]:
    """Return the promises of several rows, from pairs of kind and name: one a kind, about all names that have it."""
    names: dict[str, list[str]] = {}
    for kind, name in dict.fromkeys(named):
        names.setdefault(kind, []).append(name)
    return [Promise(kind=kind, about=", ".join(several)) for kind, several in names.items()]
