"""Mechanisms, one class each, found by what their modules declare; and the one entrance of queries."""

from functools import cache

from coordinator.protocol.custom_adapter import adapter_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.protocol.mechanism import Mechanism
from coordinator.protocol.mechanisms.oracles import Subsets
from coordinator.protocol.messages import Query


@cache
def mechanisms() -> dict[str, type[Mechanism]]:
    """Return every mechanism by its name, module by module in the order of their names."""
    kinds = [type(part) for part in declared(__name__, __path__, "MECHANISMS", Mechanism) if part.title]
    fields: dict[str, tuple[type[Mechanism], str]] = {}
    for kind in kinds:
        for name, field in kind.model_fields.items():
            other, meant = fields.setdefault(name, (kind, repr(field)))
            if meant != repr(field):
                raise RoomError(f"{other.name} and {kind.name} share the setting {name}; give it one type and one text")
    return by_name(kinds, lambda kind: (kind.name,))


@cache
def by_query() -> dict[str, Mechanism]:
    """Return the mechanism that answers and counts queries of each name, module by module."""
    return by_name(declared(__name__, __path__, "MECHANISMS", Mechanism), lambda mechanism: mechanism.kinds)


def mechanism_of(name: str) -> Mechanism:
    """Return what answers and counts queries of that name: a mechanism here, or a custom one that was admitted."""
    if (mechanism := by_query().get(name) or adapter_of(name)) is None:
        raise InputError(f"design {name!r} is unknown to devices; they know {', '.join(by_query())}")
    return mechanism


def subsets_of(query: Query) -> Subsets:
    """Return the mechanism of a query that is answered by subsets of values."""
    mechanism = mechanism_of(query.design)
    assert isinstance(mechanism, Subsets)  # of no other query
    return mechanism


def check_question(query: Query) -> Mechanism:
    """Refuse a query that cannot be answered as it stands, whoever is asked."""
    Query.valid(query)
    mechanism = mechanism_of(query.design)
    for part, brought, needed in (
        ("parameters", query.parameters.keys(), mechanism.parameters),
        ("arrays", query.arrays.keys(), mechanism.arrays),
    ):
        if brought != needed:
            raise InputError(f"{query} has {part} {sorted(brought)}, not {sorted(needed)}")
    mechanism.check(query)
    if query.own_questions:
        mechanism.check_own_questions(str(query))
    most = mechanism.question_range(query)
    if not most.start <= query.questions < most.stop:
        possible = f"1 to {most.stop - 1}" if len(most) > 1 else str(most.start)
        raise InputError(f"{query} asks {query.questions} questions, the design has {possible}")
    if mechanism.pooled is not None and (query.pool is not None) != mechanism.pooled:
        raise InputError(
            f"{query} names {'no' if mechanism.pooled else 'a'} pool of items, which the design cannot use"
        )
    if query.centres is not None and not mechanism.centred:
        raise InputError(f"{query} brings centres, which the design cannot use")
    if query.answer_bits != (bits := mechanism.answer_bits(query)):
        raise InputError(f"{query} wants {query.answer_bits} bits an answer, it has {bits}")
    if mechanism.randomizes and not mechanism.shares:
        mechanism.channel(query)
    elif query.epsilon is not None and not mechanism.randomizes:
        raise InputError(f"{query} promises an epsilon, but the design is not private; ask it with epsilon inf")
    return mechanism
