"""The attacks that are made on every mechanism of the local model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.budget import as_float
from coordinator.protocol.channels import Likelihood
from coordinator.protocol.channels.channel import DUST
from coordinator.protocol.messages import Query
from scenarios.audit.bounds import best_event, parts_of
from scenarios.audit.laws import largest_stated
from scenarios.audit.looking import looks
from scenarios.audit.neighbours import PILOTS, Neighbours, comparable, inputs, searched, stated_worst
from scenarios.audit.playing import play
from scenarios.audit.stated import Asking
from scenarios.audit.verdict import ROUNDED, Attack, Audit
from scenarios.conformance.subject import PUBLIC, Size, Subject, stored

MOST_HELD = 1 << 24
"""Bits of releases and sketches that are held at once: of long ones there are fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One attack before it is made."""

    name: str
    meaning: str
    neighbours: Neighbours
    queries: tuple[Query, ...]
    fitted: bool = True
    company: bool = False


def plans(
    asking: Asking, queries: tuple[Query, ...], size: Size, *, releases: int, coins: np.random.Generator
) -> Iterator[Plan]:
    """Yield the attacks; the worst neighbours are looked up in the channel, and others are searched for."""
    first, named = queries[0], asking.subject.public.names_rated
    rows = inputs(size, coins)
    pairs = comparable(rows, names_rated=named)
    worst = stated_worst(asking, first, rows, pairs)
    found = searched(asking, first, rows, pairs, releases=releases, coins=coins)
    rounds = f"in {len(queries)} rounds"
    yield Plan(
        name="worst", meaning="the two inputs that the channel tells apart best", neighbours=worst, queries=(first,)
    )
    yield Plan(
        name="searched",
        meaning="two inputs that were found by search",
        neighbours=found,
        queries=(first,),
        fitted=False,
    )
    yield Plan(
        name="repeat", meaning="the worst inputs, asked twice the same", neighbours=worst, queries=(first, first)
    )
    yield Plan(
        name="company",
        meaning="the worst inputs, beside devices whose inputs are known",
        neighbours=worst,
        queries=(first,),
        company=True,
    )
    yield Plan(name="rounds", meaning=f"the worst inputs, {rounds}", neighbours=worst, queries=queries)
    yield Plan(
        name="searched rounds",
        meaning=f"inputs found by search, {rounds}",
        neighbours=found,
        queries=queries,
        fitted=False,
    )
    for name, meaning, two in _inferences(size, named=named):
        yield Plan(name=name, meaning=f"{meaning}, {rounds}", neighbours=two, queries=queries)


def _inferences(size: Size, *, named: bool) -> Iterator[tuple[str, str, Neighbours]]:
    """Yield what is inferred of one device: whether it rated an item, and how; it likes all others, or none."""
    others = [tuple((item, like) for item in range(1, max(2, min(size.rated, size.items)))) for like in (False, True)]
    liked, disliked = ([((0, like), *rest) for rest in others] for like in (True, False))
    pairs = np.array([[0, 2], [1, 3]])
    if not named:
        yield "membership", "whether an item was rated", Neighbours((*liked, *others), pairs)
    yield "attribute", "whether an item is liked", Neighbours((*liked, *disliked), pairs)


def audited(subject: Subject, epsilon: Fraction, *, size: Size, releases: int, rounds: int, doubt: float) -> Audit:
    """Make every attack on a subject.

    Parameters
    ----------
    subject : Subject
        The mechanism.
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
    coins = np.random.default_rng(20261123)
    queries = tuple(subject.query(size, epsilon, round_number=number, public_seed=PUBLIC) for number in range(rounds))
    asking = Asking(subject, queries[0])
    claimed = as_float(queries[0].epsilon) if subject.public.private else None
    made = list(plans(asking, queries, size, releases=releases, coins=coins))
    told = tuple(_attack(asking, plan, releases, claimed, doubt / len(made), coins) for plan in made)
    rows = [asking.sketch(queries[0], stored([row], [0] * PILOTS, size.items))[0] for row in inputs(size, coins)]
    likelihood = isinstance(asking.channel, Likelihood) and claimed is not None
    return Audit(
        design=subject.label,
        guarantee=subject.public.promise,
        claimed=claimed,
        exact=largest_stated(asking, queries[0], rows),
        confidence=1 - doubt,
        attacks=told,
        dust=ROUNDED + float(DUST) * claimed if likelihood and claimed is not None else ROUNDED,
        refused=asking.refusal,
    )


def _attack(
    asking: Asking, plan: Plan, releases: int, claimed: float | None, doubt: float, coins: np.random.Generator
) -> Attack:
    width = max(
        asking.sketch(plan.queries[0], stored([()], [0], plan.queries[0].items))[0].shape[1], plan.queries[0].bits
    )
    devices = max(1000, min(releases // len(plan.queries), MOST_HELD // (width * len(plan.queries))))
    played = play(asking, plan.queries, plan.neighbours, devices, coins, fitted=plan.fitted, company=plan.company)
    parts = parts_of(played.victims.size, coins)
    found = best_event(looks(played, parts), played.secret[played.victims], parts, doubt)
    new = len({query.id for query in plan.queries})
    return Attack(
        name=plan.name,
        meaning=plan.meaning,
        times=new,
        claimed=None if claimed is None else new * claimed,
        measured=found.nats,
        right=found.right,
        plays=found.plays,
        by=found.by,
    )
