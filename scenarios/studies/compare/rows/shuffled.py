"""Rows under a shuffler, which takes away who sent what: a device's epsilon is the largest that keeps the central one.

Nobody is simulated device by device: sums of reports are drawn from the laws of local rows, and read by their
estimators, with the local epsilon and the number of values of a report that follow from how many devices are shuffled.
"""

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.mechanism import FIXED
from coordinator.protocol.noise import Dummies, least_dummies
from coordinator.protocol.trust_models import SHUFFLED
from scenarios.data.people import FilePeople
from scenarios.studies.compare.advisors import pair_constants, pair_design
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, LearnedScores, Liar, RowRequest, TabledRow
from scenarios.studies.compare.run_row import RunRow, tenth_share
from scenarios.studies.compare.worlds import FileWorld
from scenarios.theory.liars import share_to_lift

REPORTS = 12  # Reports of a device, composed as one plan: more save less and less; see `docs/explanation/shuffling.md`
FEW_LIKES = "set (few likes)"  # Sets as small as those of pairs: one of w likes is named, and w f is its variance
DEVIATIONS = 6  # Of the number of dummies; of more messages than that a shuffler knows that a device lies


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
    counts: Floats = np.rint(FilePeople(world.fold).totals(most, request.users, request.coins))
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
    liar = Liar(through, share_to_lift(through, tenth_share(world, most)))
    return replace(learned, messages=messages + mean, liar=liar)


@dataclass(frozen=True, slots=True)
class DummiesRow(TabledRow):
    """Messages with dummies."""

    def remarks(self, settings: Comparison) -> tuple[str, ...]:
        """Say what is left if the shuffler lies."""
        how = f"a device sends each of at most {settings.likes} likes as a message, hidden by everybody's dummies alone"
        return (f"{self.trust_model}: {self.mechanism}: no local epsilon is left if the shuffler lies: {how}",)


_shuffled = partial(RunRow, trust_model=SHUFFLED, approximate=True)
ROWS = (
    _shuffled(mechanism="subset", design="subset"),
    _shuffled(mechanism="set", design="set", settings=lambda settings, items: {"padded": min(settings.likes, items)}),
    _shuffled(
        mechanism=FEW_LIKES,
        design="set",
        settings=lambda settings, items: {"padded": pair_design(settings, items).device_likes},
    ),
    _shuffled(
        mechanism=f"set ({REPORTS} reports)",
        design="set",
        settings=lambda settings, items: {
            "padded": min(settings.likes, items),
            "policy": FIXED,
            "rounds": REPORTS,
            "answers_per_device": REPORTS,
        },
    ),
    DummiesRow(SHUFFLED, "ones", ones, BY_PEOPLE, approximate=True),
    _shuffled(mechanism="pairs", design="pairs", settings=pair_constants),
)
