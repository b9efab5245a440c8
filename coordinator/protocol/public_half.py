"""The public half of a mechanism: its queries, exact channel, promise, and randomizer as bounds on shuffling ask it."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import ClassVar

import numpy as np

from coordinator.protocol import amplification
from coordinator.protocol.channels import ExactChannel, IndependentBits, Likelihood, MatrixChannel, flipped_bits
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

REPLACE, ADD_REMOVE = "replace", "add-remove"
"""Neighbours: one person's ratings are replaced by any others, or one person is added or removed."""
LOCAL = "epsilon-local differential privacy of all that a device holds"
NOT_PRIVATE = "none: this design is not private, ratings are told as they are"


class PublicHalf:
    """What anyone may know of one kind of query; both sides hold a query against it before they use it."""

    name: str  # What queries of this kind are called, `Query.design`
    promise: ClassVar[str] = LOCAL  # What a device is promised at a finite epsilon, in words
    # Whether answers go through a local randomizer; what is not private is asked without an epsilon only
    private: ClassVar[bool] = True
    names_rated: bool = False  # Whether the release names items that the device rated; only where that is public
    # Names of the numbers and of the public arrays that a query must bring, no more and no less
    parameters: ClassVar[frozenset[str]] = frozenset()
    arrays: ClassVar[frozenset[str]] = frozenset()
    # Whether the query must name a pool of items (True), must not (False), or may (None)
    pooled: ClassVar[bool | None] = False
    # Whether the query may bring centres that ratings of the pool's items are counted from
    centred: ClassVar[bool] = False
    # Whether a device's question follows from its public address, as a sensing set does, unless the query has devices
    # draw their own. Where it follows, whoever reads a report must know its sender, and a shuffler cannot hide it
    by_address: ClassVar[bool] = False
    # Whether devices answer in shares alone, which two servers add up; see `coordinator.protocol.mechanisms.totals`
    shares: ClassVar[bool] = False

    def promise_under(self, neighbours: str) -> str:
        """Return the promise in words under a relation of neighbours; a device's own is always about replacement."""
        return self.promise

    def check(self, query: Query) -> None:
        """Refuse a query whose numbers no device can answer; names of parameters and the pool are checked before."""

    def questions(self, query: Query) -> range:
        """Return the numbers of questions that a query may ask."""
        return range(1, 2)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of one question's answer."""
        return 1

    def channel(self, query: Query) -> ExactChannel | Likelihood:
        """Return the exact channel that randomizes a device's private sketch, with its sampler.

        It is called for every block of devices, so a channel that takes long to make is cached by its parameters.
        An InputError says that coins cannot express it, or that the mechanism is not private and has no channel.
        """
        if not self.private:
            raise InputError(f"{query} is not private: ratings are told as they are, through no channel")
        raise NotImplementedError(f"{type(self).__name__} says no channel; give it a method that returns one")

    def addressed(self, query: Query) -> bool:
        """Return whether whoever reads a report needs its sender's address."""
        return self.by_address and not query.own_questions

    def check_own_questions(self, label: str) -> None:
        """Refuse a query, named by its label, that has devices draw their questions, where they cannot."""
        if self.names_rated:
            raise InputError(
                f"{label} has devices draw their own questions, but a release names items that its device rated, which "
                "are public and name the device; leave own questions out, or ask about pairs of all items"
            )
        if not self.by_address:
            raise InputError(
                f"{label} has devices draw their own questions, but no question of this design follows from a device's "
                "address in a way that a private coin could replace; leave own questions out"
            )

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        """Return the two levels of the channel's chances at the query's epsilon; None: it has others, or none is known.

        With them a shuffler's bound is smallest; see `coordinator.protocol.amplification.TwoLevels`. Where devices draw
        their own questions, a report is the pair of question and answer.
        """
        return None


class OneBit(PublicHalf):
    """One private bit about a question that a public coin of the device draws, flipped under the whole epsilon."""

    by_address = True

    def channel(self, query: Query) -> IndependentBits:
        """Return randomized response on the bit."""
        return flipped_bits(1, query.epsilon)

    def levels(self, query: Query) -> amplification.TwoLevels | None:
        """Return the levels of one bit about a question of one's own; two inputs' bits may always differ."""
        return amplification.one_bit_levels() if query.own_questions else None


def require_whole_parameter(query: Query, name: str, most: int) -> int:
    """Return a parameter that must be a whole number from 1 to ``most``."""
    value = query.parameters[name]
    if not (1 <= value <= most and float(value).is_integer()):
        raise InputError(f"{query} has {name} {value:g}; give a whole number, 1 to {most}")
    return int(value)


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


def randomizer_of(public: PublicHalf, query: Query, label: str) -> Randomizer:
    """Return the randomizer of a query's answers; refuse one whose question follows from an address."""
    if public.addressed(query):
        raise InputError(by_address(label))
    if (levels := public.levels(query)) is not None:
        return Randomizer(levels, TWO_LEVELS)
    if query.own_questions:  # a report is the pair of question and answer, whose channel is no matrix of answers
        return Randomizer(amplification.AnyRandomizer(), CLONES)
    channel = public.channel(query)
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
