"""Which attacks are made on a mechanism of the local model: what is told apart, and what devices are asked for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.messages import Query
from scenarios.audit.neighbours import Neighbours, comparable, inputs, searched, stated_worst
from scenarios.audit.stated import Asking
from scenarios.conformance.subject import Size


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
    first = queries[0]
    named = half_of(first.design).names_rated
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


def plans_of(
    kind: str,
    asking: Asking,
    queries: tuple[Query, ...],
    size: Size,
    *,
    after: Query,
    releases: int,
    coins: np.random.Generator,
) -> Iterator[Plan]:
    """Yield the attacks on another kind of query, as that about some items only: alone, and after a first query.

    Parameters
    ----------
    kind : str
        What these queries are, as labels of subjects say it.
    asking : Asking
        How they are asked.
    queries : tuple of Query
        One for each round.
    size : Size
        Of the catalogue, and of what a device rated.
    after : Query
        The first query of a run, which stands in place of that of round 0 in the attack over several rounds.
    releases : int
        How many releases a search looks at.
    coins : numpy.random.Generator
        What is drawn at random.
    """
    first, told = queries[0], kind.replace("pool=some", "about some items only")
    rows = inputs(size, coins)
    pairs = comparable(rows, names_rated=half_of(first.design).names_rated)
    worst = stated_worst(asking, first, rows, pairs)
    found = searched(asking, first, rows, pairs, releases=releases, coins=coins)
    yield Plan(name=f"worst {kind}", meaning=f"the worst inputs, {told}", neighbours=worst, queries=(first,))
    yield Plan(
        name=f"searched {kind}",
        meaning=f"inputs found by search, {told}",
        neighbours=found,
        queries=(first,),
        fitted=False,
    )
    yield Plan(
        name=f"rounds {kind}",
        meaning=f"inputs found by search, in {len(queries)} rounds, from the second on {told}",
        neighbours=found,
        queries=(after, *queries[1:]),
        fitted=False,
    )
