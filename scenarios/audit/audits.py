"""Audits by the name of a mechanism: of the local model, of two tiers, or one's own; and of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from coordinator.protocol import second_order_mechanisms
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.own import Mechanism
from scenarios.audit import attacks, second_order
from scenarios.audit.verdict import Audit
from scenarios.conformance.finding import Told, subjects
from scenarios.conformance.subject import TINY, Size
from scenarios.conformance.verdicts import Failed
from scenarios.given.mechanisms import designs

RELEASES, ROUNDS, CONFIDENCE = 1_000_000, 4, 0.999
FEWEST, MOST = 1000, 1 << 24
"""Releases that an attack may look at."""


def audit(
    design: str | Mechanism,
    *,
    epsilon: Epsilon | float | str = Fraction(1),
    settings: Told | None = None,
    releases: int = RELEASES,
    rounds: int = ROUNDS,
    items: int = TINY.items,
    rated: int = TINY.rated,
    confidence: float = CONFIDENCE,
) -> Audit:
    """Attack a mechanism's real releases, and hold what they give away against its claim and its exact channel.

    An honest mechanism fails with probability ``1 - confidence`` at most (Clopper and Pearson, 1934, Bonferroni over
    the attacks); the event that an attack counts is chosen on other releases than those that measure it.

    Parameters
    ----------
    design : str or Mechanism
        A mechanism's name, also one of two tiers, or ``package.module:Name`` of one's own, or one's own itself.
    epsilon : Fraction, float or str
        What one release may cost [nats].
    settings : dict, optional
        Its settings that are not the default.
    releases : int
        How many releases each attack looks at; of long ones, and of two tiers, fewer.
    rounds : int
        Queries that the attacks over several rounds look at.
    items, rated : int
        Size of the catalogue, and how many items a device rated at most.
    confidence : float
        Probability that all lower bounds hold.

    Raises
    ------
    InputError
        If there is no such mechanism, or it cannot be asked so.
    """
    asked = epsilon if isinstance(epsilon, Fraction) else parse_epsilon(epsilon)
    if asked is None:
        raise InputError("epsilon is inf; an audit holds releases against a finite one")
    require_whole("releases", releases, FEWEST, MOST)
    require_whole("rounds", rounds, 2, 64)
    size = Size(
        items=require_whole("items", items, 2, MOST_ITEMS),
        rated=require_whole("rated", rated, 1, items),
        users=TINY.users,
    )
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence is {confidence:g}; give a probability from 0.5 to below 1")
    if isinstance(design, str) and design in second_order_mechanisms.found():
        if settings:
            raise InputError(f"{design} is a mechanism of two tiers, which has no settings here; leave them out")
        return second_order.audited(design, asked, releases=releases, doubt=1 - confidence)
    found = [replace(one, label=one.label.replace(" helpers=()", "")) for one in subjects(design, settings or {})]
    try:
        return attacks.audited(found, asked, size=size, releases=releases, rounds=rounds, doubt=1 - confidence)
    except Failed as told:
        raise InputError(f"design {found[0].label}: {told}") from None


def every_name() -> list[str]:
    """Return all mechanisms that are found: of the local model and the curator's, then those of two tiers."""
    return [*designs(), *second_order_mechanisms.found()]


def all_audits(one: Callable[[str], Audit]) -> Iterator[Audit]:
    """Yield the audit of every mechanism with its default settings, one after the other."""
    yield from map(one, every_name())
