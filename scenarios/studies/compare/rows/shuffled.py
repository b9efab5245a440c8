"""Rows under a shuffler, which takes away who sent what: a device's epsilon is the largest that keeps the central one.

Nobody is simulated device by device: sums of reports are drawn from the laws of local rows, and read by their
estimators, with the local epsilon and the number of values of a report that follow from how many devices are shuffled.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.mechanisms import mechanism_of, subsets_of
from coordinator.protocol.mechanisms.oracles import SHARE, Subsets
from coordinator.protocol.mechanisms.sets import together
from coordinator.protocol.messages import Query
from coordinator.protocol.noise import Dummies, least_dummies
from coordinator.protocol.trust_models import SHUFFLED
from coordinator.protocol.value_channels import PADDED
from coordinator.server.rounds.state import Ask
from scenarios.studies.compare import sum_laws as laws
from scenarios.studies.compare.advisors import pair_constants, pair_design
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import (
    AGGREGATE,
    BY_PEOPLE,
    LearnedScores,
    Liar,
    Row,
    RowRequest,
    TabledRow,
)
from scenarios.studies.compare.rows.local import LocalRow, liar_of
from scenarios.studies.compare.rows.trusted import contributors, counts_of, limited_likes
from scenarios.studies.compare.worlds import FileWorld
from scenarios.theory.liars import share_to_lift

FEW_LIKES = "set (few likes)"  # Sets as small as those of pairs: one of w likes is named, and w f is its variance
DEVIATIONS = 6  # Of the number of dummies; of more messages than that a shuffler knows that a device lies


def amplified(query: Query, devices: int, request: RowRequest) -> Query:
    """Return a query of subsets for so many devices shuffled together; see `shuffled_query`."""
    half = mechanism_of(query.design)
    assert isinstance(half, Subsets)  # rows here have such queries only
    own = half.own(query)
    items = half.values(query) - own
    # Of pairs the share is that of local pairs; of items that of a set, where a person's set has some of its likes only
    paired = query.design == "pairs" and together(query) == 2
    share = own / items / 2 if paired else SHARE * min(1.0, own / request.settings.likes)
    return subsets_of(query).amplified(query, devices, request.delta, share)


Padding: TypeAlias = Callable[[Comparison, int], int]
"""Takes the constants and the number of items; returns how many likes w a person's set of items has."""


@dataclass(frozen=True, slots=True)
class ShuffledRow(Row):
    """A local mechanism whose reports are shuffled, those of each of its groups of devices apart."""

    local: LocalRow
    padding: Padding | None = None  # Of the first group of pairs, which would be chosen for the central epsilon
    trust_model: str = SHUFFLED
    asks: frozenset[str] = BY_PEOPLE
    approximate: bool = True

    @property
    def mechanism(self) -> str:  # type: ignore[override] # the local row's
        """The mechanism's name."""
        return self.local.mechanism

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Draw the sums of shuffled reports, group by group; each group has its own n, local epsilon and k."""
        epsilons, liars = list[float](), list[Liar | None]()

        def shuffled(ask: Ask) -> Ask:
            query = amplified(self.padded(ask.query, request, world.items), ask.stop - ask.first, request)
            if query.epsilon is not None:
                epsilons.append(as_float(query.epsilon))
            liars.append(liar_of(query, world))
            return replace(ask, query=query)

        model = self.local.model_of_sample(world, request, shuffled)
        learned = self.local.advice(world, request, model, AGGREGATE)
        return replace(learned, epsilon_local=max(epsilons, default=None), messages=1.0, liar=liars[0])

    def padded(self, query: Query, request: RowRequest, items: int) -> Query:
        """Return a query about single items with the number of likes that is declared for them."""
        if self.padding is None or together(query) != 1:
            return query
        likes = self.padding(request.settings, items)
        return replace(query, parameters={**query.parameters, PADDED: float(likes)})


@lru_cache(maxsize=1 << 10)
def fewest(devices: int, likes: int, epsilon: Epsilon, delta: float) -> Dummies:
    """Return the fewest dummies of each device with which the counts keep (epsilon, delta)."""
    assert epsilon is not None  # else there are none
    return least_dummies(devices=devices, likes=likes, epsilon=epsilon, delta=delta)


def ones(world: FileWorld, request: RowRequest) -> LearnedScores:
    """Count messages that name an item: one of each who likes it, and dummies of everybody, ``Bin(m n, q)``.

    A person's likes are limited to ``likes``. What is not liked is never sent but as a dummy, so no epsilon is left if
    the shuffler says who sent what.
    """
    most = min(request.settings.likes, world.items)
    counts: Floats = np.rint(counts_of(limited_likes(world, request, contributors(world, request), most)))
    messages = float(counts.sum()) / request.users
    if request.epsilon is None:
        return replace(LearnedScores.noisy(counts, 0.0, AGGREGATE), messages=messages)
    dummies = fewest(request.users, most, request.epsilon, request.delta)
    thrown = dummies.coins * request.users
    named = counts + request.coins.binomial(thrown, dummies.rate, counts.size)
    noise = math.sqrt(thrown * dummies.rate * (1 - dummies.rate))
    learned = LearnedScores.noisy(named - thrown * dummies.rate, noise, AGGREGATE)
    # A shuffler sees how many messages a device sends and not what they name: all may name one item
    mean = world.items * dummies.per_item
    through = mean + DEVIATIONS * math.sqrt(mean * (1 - dummies.rate)) + most
    liar = Liar(through, share_to_lift(through, laws.tenth_share(world.fold, most)))
    return replace(learned, messages=messages + mean, liar=liar)


@dataclass(frozen=True, slots=True)
class DummiesRow(TabledRow):
    """Messages with dummies."""

    def remarks(self, settings: Comparison) -> tuple[str, ...]:
        """Say what is left if the shuffler lies."""
        how = f"a device sends each of at most {settings.likes} likes as a message, hidden by everybody's dummies alone"
        return (f"{self.trust_model}: {self.mechanism}: no local epsilon is left if the shuffler lies: {how}",)


def _device_likes(settings: Comparison, items: int) -> int:
    return pair_design(settings, items).device_likes


ROWS = (
    ShuffledRow(LocalRow("subset", "subset", laws.subset_counts)),
    ShuffledRow(
        LocalRow("set", "set", laws.set_counts, lambda settings, items: {"padded": min(settings.likes, items)}),
    ),
    ShuffledRow(LocalRow(FEW_LIKES, "set", laws.set_counts, lambda *names: {"padded": _device_likes(*names)})),
    DummiesRow(SHUFFLED, "ones", ones, BY_PEOPLE, approximate=True),
    ShuffledRow(LocalRow("pairs", "pairs", laws.group_counts, pair_constants), _device_likes),
)
