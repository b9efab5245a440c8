"""What a device refuses to answer, before anything is charged; a server may send anything."""

from __future__ import annotations

from actors.ratings import Ratings
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.questions import check_question


def check(query: Query, ratings: Ratings) -> Query:
    """Return a query with arrays of its own, which devices can answer as it stands.

    Raises
    ------
    InputError
        If the query does not fit its design (see `coordinator.protocol.questions`), is about another catalogue, or
        would make devices name private items.
    """
    query = Query.arrived(query)
    if query.items != ratings.items:  # first, because the other checks take longer in a larger catalogue
        raise InputError(f"{query} asks about {query.items} items, the devices' catalogue has {ratings.items}")
    half = check_question(query)
    if half.names_rated and not ratings.rated_public:
        raise InputError(f"{query} would have devices name items that they rated; which those are is private here")
    return query
