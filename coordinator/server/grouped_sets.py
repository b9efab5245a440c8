"""Sets that groups of devices are asked for in turn, where the first one may tell how many items devices like."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, ClassVar, cast

from pydantic import Field

from coordinator.protocol.arrays import Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.pairs import TOGETHER, Pairs
from coordinator.protocol.messages import Query
from coordinator.protocol.one_item import SIDES
from coordinator.protocol.subset_form import CHOSEN, PADDED
from coordinator.server.server_half import check_shape

if TYPE_CHECKING:
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Ask, ServerState
    from coordinator.server.statistics.groups import GroupStatistic

CountedGroup = Annotated[
    float,
    Field(
        ge=0,
        lt=1,
        description="Set mechanism and pairs: share of devices that first tell how many items they like, from which "
        "sizes of sets follow; 0 for none [0].",
    ),
]
"""A setting that the set mechanism and pairs share."""
Step = tuple[str, float]
"""A group, and its share of the devices; the last group has all that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedSets(ABC):
    """Sets of items that groups of devices are asked for; subclasses define `steps` and `question`.

    Attributes
    ----------
    items, rated : int
        Number of items N, and how many of them a user rated, typically.
    chosen : int
        Values in a release of the last group; 0 for as many as have the least noise.
    counted_group : float
        Share of devices that tell how many items they like; 0 for none.

    Raises
    ------
    InputError
        If a parameter is outside its range.
    """

    items: int
    rated: int
    chosen: int = 0
    counted_group: float = 0.0

    name: ClassVar[str] = "pairs"

    def __post_init__(self) -> None:
        check_shape(self.items, self.rated)

    @property
    @abstractmethod
    def steps(self) -> tuple[Step, ...]:
        """The groups in the order in which they are asked."""

    @abstractmethod
    def question(
        self, group: str, told: GroupStatistic | None, *, round_number: int, public_seed: bytes, epsilon: Epsilon
    ) -> Query:
        """Return what a group is asked, from what earlier ones told."""

    def group_ends(self, devices: int) -> tuple[int, ...]:
        """Return where the groups of so many devices end, in order; the first groups have at least a device each."""
        shares = accumulate(share for _, share in self.steps[:-1])
        ends = (max(place, round(share * devices)) for place, share in enumerate(shares, 1))
        return (*(min(end, devices) for end in ends), devices)

    def of_numbers(
        self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None = None
    ) -> Query:
        """Return a query about how many items of ``pool`` a device likes, by default of all."""
        return self._asked(round_number, public_seed, epsilon, pool, (0, 1, 1))

    def likes(
        self, group: str, told: GroupStatistic, epsilon: Epsilon, pool: Indices | None = None
    ) -> tuple[float, ...]:
        """Return the shares of devices that like 0, 1, ... items of a pool, as a group told them."""
        from coordinator.server.decoding.like_numbers import number_shares, range_shares  # noqa: PLC0415 (numerical)

        query = self.of_numbers(round_number=0, public_seed=bytes(16), epsilon=epsilon, pool=pool)
        own, other = map(float, Pairs().channel(query).rates)
        many = self.items if pool is None else pool.size
        return tuple(number_shares(range_shares(told.of(group).sums, own, other), many).tolist())

    def _asked(
        self, round_number: int, public_seed: bytes, epsilon: Epsilon, pool: Indices | None, sizes: tuple[int, int, int]
    ) -> Query:
        """Return a query; ``sizes`` are items that make up a value, values of a device's set, and of a release."""
        query = Query(
            design=self.name,
            items=self.items,
            round=round_number,
            public_seed=public_seed,
            epsilon=epsilon,
            parameters={SIDES: 1.0, **dict(zip((TOGETHER, PADDED, CHOSEN), map(float, sizes), strict=True))},
            pool=pool,
        )
        half = Pairs()
        return replace(query, questions=half.questions(query).start, answer_bits=half.answer_bits(query))


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedSet(GroupedSets):
    """The set mechanism over all items, whose sizes follow from how many items a first group of devices likes."""

    def __post_init__(self) -> None:
        GroupedSets.__post_init__(self)
        if self.chosen > self.items:
            raise InputError(f"chosen is {self.chosen}; it must be at most the number of items, {self.items}")

    @property
    def steps(self) -> tuple[Step, ...]:
        """A group that tells numbers of likes, and all others."""
        from coordinator.server.statistics.groups import RANKED, SIZED  # noqa: PLC0415 (numerical)

        return (SIZED, self.counted_group), (RANKED, 1 - self.counted_group)

    def question(
        self, group: str, told: GroupStatistic | None, *, round_number: int, public_seed: bytes, epsilon: Epsilon
    ) -> Query:
        """Return what a group is asked; see `GroupedSets.question`."""
        (sized, _), _ = self.steps
        if told is None or group == sized:
            return self.of_numbers(round_number=round_number, public_seed=public_seed, epsilon=epsilon)
        likes = self.likes(sized, told, epsilon)
        return self.query(round_number=round_number, public_seed=public_seed, epsilon=epsilon, likes=likes)

    def query(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon, likes: tuple[float, ...] = ()) -> Query:
        """Return a query about all items; ``likes`` are shares of devices that like 0, 1, ... of them, if known."""
        from coordinator.server.moments.sets import best_sizes, sizes_for  # noqa: PLC0415 (numerical)

        if likes:
            sizes = sizes_for(likes, self.items, epsilon=epsilon, chosen=self.chosen)
        else:
            sizes = best_sizes(self.items, rated=self.rated, epsilon=epsilon, chosen=self.chosen)
        return self._asked(round_number, public_seed, epsilon, None, (1, *sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Each device is in one group, and answers one question under its whole epsilon.

    Which items later groups are asked about, and how large their sets are, follows from what earlier ones released.

    Attributes
    ----------
    design : GroupedSets
        What is asked, and where the groups end.
    epsilon : Fraction or None
        Privacy parameter of an answer [nats]; None for no noise.
    public_seed : bytes
        Sixteen bytes that key the public coins.
    """

    design: GroupedSets
    epsilon: Epsilon
    public_seed: bytes

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next group's round, or None once all groups, or all devices, were asked."""
        from coordinator.server.rounds.state import Ask, total  # noqa: PLC0415 (numerical)
        from coordinator.server.statistics.groups import GroupStatistic  # noqa: PLC0415 (numerical)

        ends, number, first = self.design.group_ends(state.devices), len(state.asked), state.fresh
        if number == len(ends) or first == state.devices:
            return None
        told = total(state) if state.asked else None
        assert told is None or isinstance(told, GroupStatistic)  # of no other design
        group, _ = self.design.steps[number]
        query = self.design.question(
            group, told, round_number=number, public_seed=self.public_seed, epsilon=self.epsilon
        )
        return Ask(query=query, first=first, stop=ends[number])


def groups_policy(setting: Setting) -> Groups:
    """Return the policy of a setting whose design asks groups in turn."""
    design = cast("GroupedSets", setting.design)  # no other mechanism has this policy
    return Groups(design=design, epsilon=setting.epsilon, public_seed=setting.public_seed)
