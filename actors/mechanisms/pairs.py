"""The set mechanism over pairs on devices: pairs of liked items, padded, and a subset that meets or avoids them."""

from __future__ import annotations

from actors.coins import Coins
from actors.halves import Sketched
from actors.liked_sets import liked_pairs, liked_sets
from actors.mechanisms.set import Set
from actors.ratings import Ratings
from coordinator.protocol.mechanisms.pairs import ranges_of, together
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import asked


class Pairs(Set):
    """The sketch holds exactly as many items, or pairs of them, on every device, or one range of numbers of likes."""

    names = ("pairs",)

    def sketch(self, query: Query, ratings: Ratings, coins: Coins) -> Sketched:
        """Return each device's set of items or of pairs, or its number of likes; see `actors.liked_sets`."""
        many = asked(query)
        sets = liked_sets(query, ratings, coins, ranges=0 if together(query) else ranges_of(many))
        return Sketched(liked_pairs(sets, many) if together(query) == 2 else sets)


DEVICE = (Pairs(),)
