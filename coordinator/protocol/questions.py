"""The one entrance of queries: both sides refuse a query that is none of its design before they use it."""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import half_of
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf


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
    if half.private:
        half.channel(query)
    elif query.epsilon is not None:
        raise InputError(f"{query} promises an epsilon, but the design is not private; ask it with epsilon inf")
    return half
