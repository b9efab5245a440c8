"""What each design may ask, in public: both sides refuse a query that is none of its design before they use it."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.channels import bit_channel
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.partition import partition_size
from coordinator.protocol.sensing import sensing_table
from coordinator.protocol.signs import MOST_VECTORS, answer_bits

AGREEMENTS = ("rated-equal", "equal", "positive")
"""The three readings of the agreement bit (spec section 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is public of one design.

    Attributes
    ----------
    questions : int or None
        Bits that a device answers; None: as many as the query asks for.
    parameters : frozenset of str
        Names of the numbers that a query must bring, no more and no less.
    pooled : bool or None
        Whether the query must name a pool of items (True), must not, or may (None).
    private : bool
        Whether bits go through a local randomizer; what is not private is asked without an epsilon only.
    names_rated : bool
        Whether the release names items that the device rated; only where that is public.
    """

    questions: int | None = 1
    parameters: frozenset[str] = frozenset()
    pooled: bool | None = False
    private: bool = True
    names_rated: bool = False


KINDS = {
    "maxsense": Kind(parameters=frozenset({"sensing"}), pooled=None),
    "sign": Kind(parameters=frozenset({"vectors", "kept"}), pooled=True),
    "multi-maxsense": Kind(questions=None, parameters=frozenset({"set_size"})),
    **{f"pairwise-{name}": Kind() for name in AGREEMENTS},
    **{f"pairwise-{name}-of-rated": Kind(names_rated=True) for name in AGREEMENTS},
    "item-query": Kind(pooled=True, private=False),
    **dict.fromkeys(
        ("full-reveal", "curator-items", "curator-pairs"),
        Kind(questions=None, parameters=frozenset({"share", "most"}), private=False),
    ),
}
"""Every design that devices can be asked."""


def check_question(query: Query) -> Kind:
    """Refuse a query that cannot be answered as it stands, whoever is asked.

    Parameters
    ----------
    query : Query
        As somebody sent it.

    Returns
    -------
    Kind
        What is public of its design.

    Raises
    ------
    InputError
        If it is no query, its design is unknown, its pool, questions or parameters are none of the design, or its
        epsilon cannot be expressed.
    """
    Query.arrived(query)
    if (kind := KINDS.get(query.design)) is None:
        raise InputError(f"design {query.design!r} is unknown to devices; they know {', '.join(KINDS)}")
    if query.items < 2 and query.design.startswith("pairwise"):
        raise InputError(f"{query} asks about pairs, the catalogue has {query.items} item")
    if query.parameters.keys() != kind.parameters:
        raise InputError(f"{query} has parameters {sorted(query.parameters)}, not {sorted(kind.parameters)}")
    _check_numbers(query)
    most = _questions(query, kind)
    if not most.start <= query.questions < most.stop:
        told = f"1 to {most.stop - 1}" if len(most) > 1 else str(most.start)
        raise InputError(f"{query} asks {query.questions} questions, the design has {told}")
    if kind.pooled is not None and (query.pool is not None) != kind.pooled:
        raise InputError(f"{query} names {'no' if kind.pooled else 'a'} pool of items, which the design cannot use")
    _check_signs(query)
    if query.epsilon is not None and not kind.private:
        raise InputError(f"{query} promises an epsilon, but the design is not private; ask it with epsilon inf")
    bit_channel(query.epsilon_per_question)
    return kind


def _check_numbers(query: Query) -> None:
    given = query.parameters
    if "sensing" in given:
        sensing_table(given["sensing"])
    for name in ("set_size", "most"):
        if name in given and not (1 <= given[name] <= query.items and float(given[name]).is_integer()):
            raise InputError(f"{query} has {name} {given[name]:g}; give a whole number, 1 to {query.items}")
    if "share" in given and not 0 < given["share"] <= 1:
        raise InputError(f"{query} has share {given['share']:g}; it must lie in (0, 1]")


def _questions(query: Query, kind: Kind) -> range:
    """Return the numbers of questions that a query may ask."""
    if kind.questions is not None:
        return range(kind.questions, kind.questions + 1)
    if "set_size" in query.parameters:
        return range(1, partition_size(query.items, int(query.parameters["set_size"])) + 1)
    return range(2 * query.items, 2 * query.items + 1)


def _check_signs(query: Query) -> None:
    """Refuse sign vectors, centres and bits of an answer that do not fit each other."""
    vectors = 1
    if "vectors" in query.parameters:
        given, kept = query.parameters["vectors"], query.parameters["kept"]
        if given not in {1 << power for power in range(MOST_VECTORS.bit_length())}:
            raise InputError(f"{query} has {given:g} sign vectors; give a power of two, 1 to {MOST_VECTORS}")
        if not (1 <= kept <= given and float(kept).is_integer()):
            raise InputError(f"{query} keeps {kept:g} signed vectors; give a whole number, 1 to {given:g}")
        vectors = int(given)
    elif query.centres is not None:
        raise InputError(f"{query} brings centres, which the design cannot use")
    if query.answer_bits != answer_bits(vectors):
        raise InputError(f"{query} wants {query.answer_bits} bits an answer, it has {answer_bits(vectors)}")
