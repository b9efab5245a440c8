"""What the groups of devices are asked that tell pairs of liked items, from public numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

import numpy as np

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairs import MOST_LIKES, pairs_of
from coordinator.protocol.messages import Query
from coordinator.server.grouped_sets import GroupedSets, Step

if TYPE_CHECKING:
    from coordinator.server.statistics.groups import GroupStatistic

TYPICAL_LIKES = 20
"""Likes that a device keeps, unless its typical user rates so few items that these are more than half of them."""


class _Common(TypedDict):
    round_number: int
    public_seed: bytes
    epsilon: Epsilon


@dataclass(frozen=True, slots=True, kw_only=True)
class LikedPairs(GroupedSets):
    """The set mechanism over items and over pairs of items.

    Attributes
    ----------
    items, rated, chosen, counted_group
        See `GroupedSets`; ``chosen`` are pairs k in a release.
    pair_items, pair_likes : int
        Items M whose pairs are asked about, and likes w that a device keeps; see `PairsSettings`.
    first_group, second_group : float
        Shares of the devices; all others name pairs.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    pair_items: int = 200
    pair_likes: int = 0
    first_group: float = 0.2
    second_group: float = 0.15

    def __post_init__(self) -> None:
        GroupedSets.__post_init__(self)
        if self.items < 2:
            raise InputError(f"items is {self.items}; pairs needs at least 2")
        if self.pair_likes and not 2 <= self.pair_likes <= self.top:
            raise InputError(f"pair_likes is {self.pair_likes}; it must lie between 2 and {self.top}, the items asked")
        if self.pair_likes and self.counted_group:
            raise InputError(
                f"pair_likes is {self.pair_likes}, but devices of counted_group {self.counted_group:g} would tell it; "
                "give one of them"
            )
        if self.chosen > pairs_of(self.top):
            raise InputError(f"chosen is {self.chosen}; it must be at most the number of pairs, {pairs_of(self.top)}")
        if not self.first_group + self.second_group + 2 * self.counted_group < 1:
            told = f"{self.first_group:g} and second_group {self.second_group:g}"
            told += f", twice counted_group {self.counted_group:g}" if self.counted_group else ""
            raise InputError(f"first_group is {told}; leave some devices to name pairs, give less than 1 together")

    @property
    def top(self) -> int:
        """Items M whose pairs are asked about: all, where there are no more."""
        return min(self.pair_items, self.items)

    @property
    def kept(self) -> int:
        """Likes w among the M items that a device keeps, if no group of devices tells how many it likes."""
        return self.pair_likes or min(max(self.rated // 2, 2), TYPICAL_LIKES, self.top)

    @property
    def ranking(self) -> float:
        """Share of the devices whose answers rank all items."""
        return self.first_group + (0.0 if self.ranks_first else self.second_group)

    @property
    def ranks_first(self) -> bool:
        """Whether a group ranks all items first, because pairs are asked about some of them only."""
        return self.top < self.items

    @property
    def steps(self) -> tuple[Step, ...]:
        """Groups that rank items, that tell how many like the most liked, and that name pairs of these.

        With a counted group, devices tell how many of all items they like first, and then how many of the M.
        """
        from coordinator.server.statistics.groups import PAIRED, RANKED, SHARED, SIZED, SIZED_TOP  # noqa: PLC0415

        counted = self.counted_group > 0
        first = [(SIZED, self.counted_group)] * counted
        between = [(SIZED_TOP, self.counted_group)] * counted + [(SHARED, self.second_group)]
        return (*first, (RANKED, self.ranking), *(between if self.ranks_first else []), (PAIRED, 1.0))

    def most_liked(self, statistic: GroupStatistic) -> Indices | None:
        """Return the M items that most devices of the first group named, ascending; None for all."""
        if not self.ranks_first:
            return None
        counts = statistic.ranked[: self.items]
        top: Indices = np.sort(np.argsort(-counts, kind="stable")[: self.top]).astype(np.int32)
        return top

    def question(
        self, group: str, told: GroupStatistic | None, *, round_number: int, public_seed: bytes, epsilon: Epsilon
    ) -> Query:
        """Return what a group is asked; see `GroupedSets.question`."""
        from coordinator.server.statistics.groups import PAIRED, RANKED, SIZED, SIZED_TOP  # noqa: PLC0415 (numerical)

        common: _Common = {"round_number": round_number, "public_seed": public_seed, "epsilon": epsilon}
        pool = None if told is None or group in (SIZED, RANKED) else self.most_liked(told)
        if group in (SIZED, SIZED_TOP):
            return self.of_numbers(**common, pool=pool)
        likes: tuple[float, ...] = ()
        if self.counted_group and told is not None:
            likes = self.likes(SIZED if pool is None else SIZED_TOP, told, epsilon, pool)
        return (self.query if group == PAIRED else self.of_items)(**common, pool=pool, likes=likes)

    def query(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        likes: tuple[float, ...] = (),
    ) -> Query:
        """Return a query about the pairs of ``pool``, by default of the first M items.

        ``likes`` are the shares of devices that like 0, 1, ... of these, if they are known.
        """
        from coordinator.server.moments.sets import best_subset  # noqa: PLC0415 (numerical)

        if pool is None and self.ranks_first:
            pool = np.arange(self.top, dtype=np.int32)
        kept, chosen = self._sizes(likes, epsilon) if likes else (self.kept, self.chosen)
        pairs, own = pairs_of(self.top), pairs_of(kept)
        chosen = chosen or best_subset(pairs + own, own=own, epsilon=epsilon, share=own / pairs / 2)
        return self._asked(round_number, public_seed, epsilon, pool, (2, kept, chosen))

    def of_items(
        self,
        *,
        round_number: int,
        public_seed: bytes,
        epsilon: Epsilon,
        pool: Indices | None = None,
        likes: tuple[float, ...] = (),
    ) -> Query:
        """Return a query about single items, by default all; where pairs of them follow, devices keep as many likes."""
        from coordinator.server.moments.sets import best_sizes, sizes_for  # noqa: PLC0415 (numerical)

        many = self.items if pool is None else pool.size
        paired = many == self.top
        if likes:
            kept = self._sizes(likes, epsilon)[0] if paired else 0
            sizes = sizes_for(likes, many, epsilon=epsilon, kept=kept)
        else:
            kept = self.kept if paired else 0
            sizes = best_sizes(many, rated=min(self.rated, many), epsilon=epsilon, padded=kept)
        return self._asked(round_number, public_seed, epsilon, pool, (1, *sizes))

    def _sizes(self, likes: tuple[float, ...], epsilon: Epsilon) -> tuple[int, int]:
        """Return likes w that a device keeps, and pairs k in a release, for devices that like so many of the M."""
        from coordinator.server.moments.sets import sizes_for  # noqa: PLC0415 (numerical)

        return sizes_for(likes, self.top, together=2, epsilon=epsilon, chosen=self.chosen, most=MOST_LIKES)
