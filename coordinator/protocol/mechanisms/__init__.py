"""The public halves of mechanisms, a module each, found by themselves; and the one entrance of queries."""

from functools import cache

from coordinator.protocol.custom import public_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import by_name, declared
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf


@cache
def public_halves() -> dict[str, PublicHalf]:
    """Return every public half by what its queries are called, module by module in the order of their names."""
    return by_name(declared(__name__, __path__, "PUBLIC", PublicHalf), lambda half: (half.name,))


def half_of(name: str) -> PublicHalf:
    """Return the public half of a query's design: of a module here, or of a custom mechanism that was admitted."""
    if (half := public_halves().get(name) or public_of(name)) is None:
        raise InputError(f"design {name!r} is unknown to devices; they know {', '.join(public_halves())}")
    return half


def check_question(query: Query) -> PublicHalf:
    """Refuse a query that cannot be answered as it stands, whoever is asked."""
    Query.valid(query)
    half = half_of(query.design)
    for part, brought, needed in (
        ("parameters", query.parameters.keys(), half.parameters),
        ("arrays", query.arrays.keys(), half.arrays),
    ):
        if brought != needed:
            raise InputError(f"{query} has {part} {sorted(brought)}, not {sorted(needed)}")
    half.check(query)
    if query.own_questions:
        half.check_own_questions(str(query))
    most = half.questions(query)
    if not most.start <= query.questions < most.stop:
        possible = f"1 to {most.stop - 1}" if len(most) > 1 else str(most.start)
        raise InputError(f"{query} asks {query.questions} questions, the design has {possible}")
    if half.pooled is not None and (query.pool is not None) != half.pooled:
        raise InputError(f"{query} names {'no' if half.pooled else 'a'} pool of items, which the design cannot use")
    if query.centres is not None and not half.centred:
        raise InputError(f"{query} brings centres, which the design cannot use")
    if query.answer_bits != (bits := half.answer_bits(query)):
        raise InputError(f"{query} wants {query.answer_bits} bits an answer, it has {bits}")
    if half.private and not half.shares:
        half.channel(query)
    elif query.epsilon is not None and not half.private:
        raise InputError(f"{query} promises an epsilon, but the design is not private; ask it with epsilon inf")
    return half
