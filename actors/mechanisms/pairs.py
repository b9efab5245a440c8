"""The set mechanism over pairs on devices: pairs of liked items, padded, and a subset that meets or avoids them."""

from __future__ import annotations

from actors.coins import Coins
from actors.halves import Sketched
from actors.liked_sets import liked_pairs, liked_sets
from actors.mechanisms.set import Set
from actors.ratings import Ratings
from coordinator.protocol.mechanisms.pairs import together
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked


class Pairs(Set):
    """The sketch holds exactly as many items, or pairs of them, on every device."""

    names = ("pairs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's set of items or of pairs; see `actors.liked_sets`."""
        sets = liked_sets(query, ratings, coins)
        return Sketched(sets if together(query) == 1 else liked_pairs(sets, asked(query)))


DEVICE = (Pairs(),)
