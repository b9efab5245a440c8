"""What the groups of devices are asked that tell pairs of liked items, from public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairs import TOGETHER, Pairs, pairs_of
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import SIDES
from coordinator.protocol.subset_form import CHOSEN, PADDED
from coordinator.server.server_half import check_shape

if TYPE_CHECKING:
    from coordinator.server.statistics.groups import GroupStatistic

TYPICAL_LIKES = 20
"""Likes that a device keeps, unless its typical user rates so few items that these are more than half of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairs:
    """The set mechanism over items and over pairs of items.

    Attributes
    ----------
    items, rated : int
        Number of items N, and how many of them a user rated, typically.
    pair_items, pair_likes, chosen : int
        Items M whose pairs are asked about, likes w that a device keeps, and pairs k in a release; see `PairsSettings`.
    first_group, second_group : float
        Shares of the devices; all others name pairs.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    pair_items: int = 200
    pair_likes: int = 0
    chosen: int = 0
    first_group: float = 0.2
    second_group: float = 0.15

    name: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if self.pair_likes and not 2 <= self.pair_likes <= self.top:
            raise InputError(f"pair_likes is {self.pair_likes}; it must lie between 2 and {self.top}, the items asked")
        if self.chosen > pairs_of(self.top):
            raise InputError(f"chosen is {self.chosen}; it must be at most the number of pairs, {pairs_of(self.top)}")
        if not self.first_group + self.second_group < 1:
            told = f"{self.first_group:g} and second_group {self.second_group:g}"
            raise InputError(f"first_group is {told}; leave some devices to name pairs, give less than 1 together")

    @property
    def top(self) -> int:
        """Items M whose pairs are asked about: all, where there are no more."""
        return min(self.pair_items, self.items)

    @property
    def kept(self) -> int:
        """Likes w among the M items that a device keeps."""
        return self.pair_likes or min(max(self.rated // 2, 2), TYPICAL_LIKES, self.top)

    @property
    def ranking(self) -> float:
        """Share of the devices whose answers rank all items."""
        return self.first_group + (0.0 if self.ranks_first else self.second_group)

    @property
    def ranks_first(self) -> bool:
        """Whether a group ranks all items first, because pairs are asked about some of them only."""
        return self.top < self.items

    def group_ends(self, devices: int) -> tuple[int, ...]:
        """Return where the groups of so many devices end, in order; the first groups have at least a device each."""
        first, second = round(self.first_group * devices), round((self.first_group + self.second_group) * devices)
        ends = (max(1, first), max(2, second)) if self.ranks_first else (max(1, second),)
        return (*(min(end, devices) for end in ends), devices)

    def most_liked(self, statistic: GroupStatistic) -> Indices | None:
        """Return the M items that most devices of the first group named, ascending; None for all."""
        if not self.ranks_first:
            return None
        counts = statistic.ranked[: self.items]
        top: Indices = np.sort(np.argsort(-counts, kind="stable")[: self.top]).astype(np.int32)
        return top

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None) -> Query:
        """Return a query about the pairs of ``pool``, by default of the first M items."""
        from coordinator.server.moments.sets import best_subset  # noqa: PLC0415 (numerical)

        if pool is None and self.ranks_first:
            pool = np.arange(self.top, dtype=np.int32)
        pairs, own = pairs_of(self.top), pairs_of(self.kept)
        chosen = self.chosen or best_subset(pairs + own, own=own, epsilon=epsilon, share=own / pairs / 2)
        sizes = {TOGETHER: 2.0, PADDED: float(self.kept), CHOSEN: float(chosen)}
        return self._asked(round_number, public_seed, epsilon, pool, sizes)

    def of_items(
        self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None
    ) -> Query:
        """Return a query about single items, by default all; where pairs of them follow, devices keep as many likes."""
        from coordinator.server.moments.sets import best_sizes  # noqa: PLC0415 (numerical)

        many = self.items if pool is None else pool.size
        kept = self.kept if many == self.top else 0
        own, chosen = best_sizes(many, rated=min(self.rated, many), epsilon=epsilon, padded=kept)
        sizes = {TOGETHER: 1.0, PADDED: float(own), CHOSEN: float(chosen)}
        return self._asked(round_number, public_seed, epsilon, pool, sizes)

    def _asked(
        self, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None, sizes: dict[str, float]
    ) -> Query:
        query = Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={SIDES: 1.0, **sizes},
            pool=pool,
        )
        half = Pairs()
        return replace(query, questions=half.questions(query).start, answer_bits=half.answer_bits(query))
