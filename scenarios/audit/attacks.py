"""Every attack on a mechanism of the local model, made, and what it measured."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import Likelihood, LogRatio
from coordinator.protocol.channels.channel import DUST, ROUNDED
from coordinator.protocol.messages import Query
from scenarios.audit.bounds import best_event, parts_of, power_of
from scenarios.audit.laws import largest_stated
from scenarios.audit.looking import looks
from scenarios.audit.neighbours import PILOTS, inputs
from scenarios.audit.plans import Plan, plans, plans_of
from scenarios.audit.playing import play
from scenarios.audit.stated import Asking
from scenarios.audit.verdict import Attack, Audit
from scenarios.conformance.subject import PUBLIC, Rated, Size, Subject, stored

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
