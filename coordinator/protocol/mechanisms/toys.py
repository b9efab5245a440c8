"""Open ratings in public: item queries, full reveal, and what devices send to a trusted curator."""

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import ADD_REMOVE, NOT_PRIVATE, REPLACE, PublicHalf, require_whole_parameter


class ItemQuery(PublicHalf):
    """Items are drawn from the query's pool."""

    name = "item-query"
    promise = NOT_PRIVATE
    private = False
    pooled = True


CURATOR = {
    REPLACE: "epsilon-differential privacy of the published model, one user's ratings replaced by any others; the "
    "curator sees every rating",
    ADD_REMOVE: "epsilon-differential privacy of the published model, one user added or removed (2 epsilon: one user's "
    "ratings replaced); the curator sees every rating",
}
"""What a curator promises, by its relation of neighbours."""


class Reveal(PublicHalf):
    """A bit for each item that is rated, and one for each that is liked: at most ``most`` ratings, of some devices."""

    promise = NOT_PRIVATE
    private = False
    parameters = frozenset({"share", "most"})

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, query: Query) -> None:
        require_whole_parameter(query, "most", query.items)
        if not 0 < (share := query.parameters["share"]) <= 1:
            raise InputError(f"{query} has share {share:g}; it must lie in (0, 1]")

    def questions(self, query: Query) -> range:
        return range(2 * query.items, 2 * query.items + 1)


class ToCurator(Reveal):
    """What devices send to a trusted curator, without noise; the curator adds noise to what it publishes."""

    promise = CURATOR[REPLACE]

    def promise_under(self, neighbours: str) -> str:
        """Return the promise under the relation that the curator's noise is calibrated for."""
        return CURATOR[neighbours]


PUBLIC = (ItemQuery(), Reveal("full-reveal"), ToCurator("curator-items"), ToCurator("curator-pairs"))
