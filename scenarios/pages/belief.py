"""What epsilon means for one person: what somebody who believes something of them can come to believe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from scenarios.pages.traced import Traced, shown

PRIORS = (0.01, 0.1, 0.5)
"""How probable something was held to be before any answer was seen."""
EVEN = 0.5
SHOWN = 3
"""Epsilons that the summary shows one by one."""
NO_BOUND = 0.999
"""A bound from here on says nothing, and the page says that."""


def belief_at_most(prior: float, epsilon: float) -> float:
    """Return the largest probability that an answer under epsilon can lift a belief to.

    By Bayes' rule with the likelihood ratio at its bound: ``p e^eps / (1 - p + p e^eps)``.

    Parameters
    ----------
    prior : float
        The belief before, in (0, 1).
    epsilon : float
        Privacy parameter [nats], at least 0; infinite for none.

    >>> round(belief_at_most(0.5, 1.0), 4), round(belief_at_most(0.01, 1.0), 4), belief_at_most(0.1, math.inf)
    (0.7311, 0.0267, 1.0)
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
    """An epsilon of a record, and what it means.

    Attributes
    ----------
    words : str
        Whose it is, or of what.
    epsilon : Traced
        Privacy parameter [nats].
    """

    words: str
    epsilon: Traced

    @property
    def says_nothing(self) -> bool:
        """Whether even a fair coin can become as good as certain."""
        return belief_at_most(EVEN, self.epsilon.number()) > NO_BOUND

    def cells(self) -> list[Markup]:
        """Return a row of the table: whose, epsilon, and for each prior from where to where a belief can go."""
        return [Markup("{}").format(self.words), shown(self.epsilon), *(self.range(prior) for prior in PRIORS)]

    def range(self, prior: float) -> Markup:
        """Return from where to where a belief can go."""
        return Markup("{} to {}").format(self.told("at-least", prior), self.told("at-most", prior))

    def told(self, kind: str, prior: float) -> Markup:
        """Return a bound of a belief in percent; rounding never makes it look better than it is."""
        bound = belief_at_most if kind == "at-most" else belief_at_least
        thousandths = 1000 * bound(prior, self.epsilon.number())
        rounded = math.ceil(thousandths - 1e-9) if kind == "at-most" else math.floor(thousandths + 1e-9)
        told = Markup('<data value="{}" data-belief="{}" data-prior="{}">{:.1f} %</data>')
        return told.format(self.epsilon.place, kind, prior, rounded / 10)


def in_short(believed: Sequence[Believed]) -> tuple[Markup, Markup]:
    """Return the summary's cells: the epsilons, and what an even guess can become; of many the ends."""
    chosen = believed if len(believed) <= SHOWN else (believed[0], believed[-1])
    joint = Markup(", " if len(believed) <= SHOWN else " to ")
    epsilons = joint.join(shown(one.epsilon) for one in chosen)
    return epsilons, joint.join(one.told("at-most", EVEN) for one in chosen)


def each(words: str, epsilons: Sequence[Traced | None]) -> list[Believed]:
    """Return the different epsilons among some, in ascending order."""
    found = {one.number(): one for one in reversed(epsilons) if one is not None}
    return [Believed(words=words, epsilon=found[value]) for value in sorted(found)]
