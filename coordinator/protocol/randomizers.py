"""Randomizers as bounds on shuffling ask for them: the smallest bound that is known of a mechanism's channel."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np

from coordinator.protocol import amplification
from coordinator.protocol.channels import ExactChannel, IndependentBits, Likelihood, MatrixChannel
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Mechanism
from coordinator.protocol.messages import Query

TWO_LEVELS, FINITE, CLONES = "two levels", "finite channel", "any randomizer"
"""Bounds from above: of a channel whose chances have two levels, of one as a matrix, of anything under epsilon."""
MOST_INPUTS = 16  # Private values of a channel that is bounded as a matrix, where every pair of them is looked at


@dataclass(frozen=True, slots=True)
class Randomizer:
    """The randomizer of all devices at one local epsilon, as bounds ask for it."""

    bound: amplification.ShufflerBound
    name: str  # of the bound

    @property
    def below(self) -> amplification.LevelsFromBelow | None:
        """The bound from below, where the channel has two levels."""
        return amplification.LevelsFromBelow(self.bound) if isinstance(self.bound, amplification.TwoLevels) else None


def by_address(label: str) -> str:
    """Return why a shuffler cannot hide the devices of a design, and what to do."""
    return (
        f"design {label} asks each device what its public address says, so that a report is read by who sent it: "
        "shuffling hides nobody, and the central epsilon is the local one; let devices draw their own questions where "
        "they can (own-questions), or give grr, oue, subset or set"
    )


def randomizer_of(mechanism: Mechanism, query: Query, label: str) -> Randomizer:
    """Return the randomizer of a query's answers; refuse one whose question follows from an address."""
    if mechanism.addressed(query):
        raise InputError(by_address(label))
    if (levels := mechanism.levels(query)) is not None:
        return Randomizer(levels, TWO_LEVELS)
    if query.own_questions:  # a report is the pair of question and answer, whose channel is no matrix of answers
        return Randomizer(amplification.AnyRandomizer(), CLONES)
    channel = mechanism.channel(query)
    if isinstance(channel, Likelihood):
        raise InputError(by_address(label))
    return of_channel(channel)


def of_channel(channel: ExactChannel) -> Randomizer:
    """Return the randomizer that a channel is, with the smallest bound that is known of it."""
    if channel.log_ratio.factors is None:
        raise InputError("the channel tells two inputs apart for certain: it has no epsilon, and shuffling makes none")
    rows = _rows(channel)
    if rows is None:
        return Randomizer(amplification.AnyRandomizer(), CLONES)
    return Randomizer(amplification.FiniteChannel(tuple(map(tuple, rows))), FINITE)


def _rows(channel: ExactChannel) -> list[list[Fraction]] | None:
    """Return the channel's matrix, each different row once; None if it is too large to look at every pair."""
    if isinstance(channel, MatrixChannel):
        privates = [np.array([row]) for row in range(len(channel.rows))]
    elif isinstance(channel, IndependentBits) and 1 << channel.count <= MOST_INPUTS:
        most = channel.count if channel.ones is None else channel.ones
        privates = [np.array(bits) for bits in product((0, 1), repeat=channel.count) if sum(bits) <= most]
    else:
        return None
    rows = list(dict.fromkeys(tuple(channel.chances(private)) for private in privates))
    return [list(row) for row in rows] if 2 <= len(rows) <= MOST_INPUTS else None
