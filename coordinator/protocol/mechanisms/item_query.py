"""Item queries in public: "is (i, z) your rating?", asked without any noise (after Theorem 10 [4.3])."""

from __future__ import annotations

from coordinator.protocol.public_half import NOT_PRIVATE, PublicHalf


class ItemQuery(PublicHalf):
    """Items are drawn from the query's pool."""

    name = "item-query"
    promise = NOT_PRIVATE
    private = False
    pooled = True


PUBLIC = (ItemQuery(),)
