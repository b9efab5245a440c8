"""Audits of a mechanism, by its name or one's own: every attack is made, and held against the claim and the channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from coordinator.protocol import second_order_mechanisms
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.channels import Likelihood, LogRatio
from coordinator.protocol.channels.channel import DUST, ROUNDED
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.own import Mechanism
from coordinator.server.mechanisms import found
from scenarios.scrutiny import second_order
from scenarios.scrutiny.attacks import PILOTS, Plan, inputs, looks, plans, plans_of
from scenarios.scrutiny.bounds import best_event, parts_of, power_of
from scenarios.scrutiny.mechanism import PUBLIC, TINY, Choice, Rated, Size, Subject, stored, subjects
from scenarios.scrutiny.sampling import Asking, largest_stated, play
from scenarios.scrutiny.verdicts import Attack, Audit, Failed

MOST_HELD = 1 << 24
"""Bits of releases and sketches that are held at once: of long ones there are fewer."""


def audited(
    subjects: Sequence[Subject], epsilon: Fraction, *, size: Size, releases: int, rounds: int, doubt: float
) -> Audit:
    """Make every attack on a mechanism.

    Parameters
    ----------
    subjects : sequence of Subject
        The mechanism as a run asks it first, then the other kinds of queries that it has, as about some items only.
    epsilon : Fraction
        What one release may cost [nats].
    size : Size
        Of the catalogue, and of what a device rated.
    releases : int
        How many releases each attack sees; fewer where they are long.
    rounds : int
        Queries that the attacks over several rounds see.
    doubt : float
        Probability that one of the bounds is wrong.
    """
    coins, main = np.random.default_rng(20261123), subjects[0]
    asking = Asking()
    asked = [_asked(subject, epsilon, size, rounds) for subject in subjects]
    first = asked[0][0]
    claimed = first.epsilon if main.public.private else None
    made = list(plans(asking, asked[0], size, releases=releases, coins=coins))
    for subject, queries in zip(subjects[1:], asked[1:], strict=True):
        kind = subject.label.removeprefix(main.label).strip()
        made += plans_of(kind, asking, queries, size, after=first, releases=releases, coins=coins)
    told = tuple(_attack(asking, plan, releases, claimed, doubt / len(made), coins) for plan in made)
    every = [query for queries in asked for query in queries]
    likelihood = isinstance(asking.stated(first).channel, Likelihood) and claimed is not None
    return Audit(
        design=main.label,
        guarantee=main.public.promise,
        epsilon=claimed,
        log_ratio=_exact(asking, every, inputs(size, coins)),
        confidence=1 - doubt,
        attacks=told,
        power=power_of(told, doubt / len(made)),
        dust=ROUNDED + DUST * claimed if likelihood and claimed is not None else Fraction(0),
        refused=next((refusal for query in every if (refusal := asking.stated(query).refusal)), ""),
    )


def _asked(subject: Subject, epsilon: Fraction, size: Size, rounds: int) -> tuple[Query, ...]:
    return tuple(subject.query(size, epsilon, round_number=number, public_seed=PUBLIC) for number in range(rounds))


def _exact(asking: Asking, queries: Sequence[Query], rows: Sequence[Rated]) -> LogRatio | None:
    """Return the largest log-ratio that the channel of any of these queries states; see `largest_stated`."""
    told = []
    for query in queries:
        sketches = [asking.sketch(query, stored([row], [0] * PILOTS, query.items))[0] for row in rows]
        told.append(largest_stated(asking, query, sketches))
    known = [one for one in told if one is not None]
    return max(known, key=float) if len(known) == len(told) else None


def _attack(
    asking: Asking, plan: Plan, releases: int, claimed: Epsilon, doubt: float, coins: np.random.Generator
) -> Attack:
    sketches = [asking.sketch(query, stored([()], [0], query.items))[0] for query in plan.queries]
    width = max(*(one.shape[1] for one in sketches), *(query.bits for query in plan.queries))
    devices = max(1000, min(releases // len(plan.queries), MOST_HELD // (width * len(plan.queries))))
    played = play(asking, plan.queries, plan.neighbours, devices, coins, fitted=plan.fitted, company=plan.company)
    parts = parts_of(played.victims.size, coins)
    found = best_event(looks(played, parts), played.secret[played.victims], parts, doubt)
    new = len({query.id for query in plan.queries})
    return Attack(
        name=plan.name,
        meaning=plan.meaning,
        times=new,
        epsilon=None if claimed is None else new * claimed,
        measured=found.nats,
        right=found.right,
        plays=found.plays,
        hits=found.hits,
        misses=found.misses,
        by=found.by,
    )


RELEASES, ROUNDS, CONFIDENCE = 1_000_000, 4, 0.999
FEWEST, MOST = 1000, 1 << 24
"""Releases that an attack may look at."""


def audit(
    design: str | Mechanism,
    *,
    epsilon: Epsilon | float | str = Fraction(1),
    settings: Choice | None = None,
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
        return audited(found, asked, size=size, releases=releases, rounds=rounds, doubt=1 - confidence)
    except Failed as told:
        raise InputError(f"design {found[0].label}: {told}") from None


def every_name() -> list[str]:
    """Return all mechanisms that are found: of the local model and the curator's, then those of two tiers."""
    return [*found(), *second_order_mechanisms.found()]


def all_audits(one: Callable[[str], Audit]) -> Iterator[Audit]:
    """Yield the audit of every mechanism with its default settings, one after the other."""
    yield from map(one, every_name())
