"""The base of sums by two servers: a vector of zeros and ones, and which noise keeps the promise about its sum."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from pydantic import Field

from coordinator.protocol import noise as noise_laws
from coordinator.protocol.arrays import Bools, Floats
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon, as_float
from coordinator.protocol.channels import ExactChannel, Likelihood
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.law import BlockPeople, Law, People
from coordinator.protocol.mechanism import ONE_ROUND, Mechanism, Neighbours, World, require_whole_parameter
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.moments.count_moments import SumMoments
from coordinator.protocol.noise import NoiseLaw
from coordinator.protocol.shares import WORD_BYTES, require_readable
from coordinator.protocol.statistics.counts import CountStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.protocol.value_channels import PADDED

DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS = "delta", "changes", "deviation", "honest", "least_answers"
"""Parameters of queries: the chance that the promise fails; coordinates of the sums that one person changes by one;
the standard deviation of a dose of Gaussian or Skellam noise, 0 where noise is Laplace's; devices whose shares of noise
make a dose, 0 where servers add it; and the fewest answers that are opened."""
SERVERS = 2  # Doses in a sum, where each server adds its own because it knows what it added
MOST_HONEST = 1 << 40
_OF_ONE = "one device's ratings replaced by any others"
_BOTH = "if both of two servers collude, nothing is left"
PROMISES = {
    REPLACE: f"epsilon-differential privacy of the published sums, {_OF_ONE}, if one of two servers is honest; {_BOTH}",
    ADD_REMOVE: "epsilon-differential privacy of the published sums, one device added or removed, if one of two "
    f"servers is honest; {_BOTH}",
}
"""What two servers promise, by the relation of neighbours."""


@lru_cache(maxsize=256)
def noise_scale(epsilon: Epsilon, delta: float, changes: int, *, devices: bool) -> float:
    """Return the deviation of a dose of noise that keeps (epsilon, delta), on a public grid; 0 for Laplace noise.

    Parameters
    ----------
    epsilon : Fraction or None
        [nats]; None for no noise.
    delta : float
        0 for discrete Laplace noise of L1 sensitivity ``changes``; else the noise is a discrete Gaussian, or a Skellam
        law where ``devices`` add it, whose shares add up exactly.
    changes : int
        Coordinates s of the sums that one person changes by one.

    Examples
    --------
    >>> from fractions import Fraction
    >>> round(noise_scale(Fraction(1), 1e-6, 100, devices=False), 2)
    42.25
    """
    if epsilon is None or not delta:
        return 0.0
    least = (noise_laws.skellam_deviation if devices else noise_laws.gaussian_deviation)(
        changes=changes, epsilon=epsilon, delta=delta
    )
    return noise_laws.on_public_grid(least)


@lru_cache(maxsize=256)
def _delta_of(deviation: float, changes: int, epsilon: Epsilon, *, devices: bool) -> float:
    assert epsilon is not None  # looked at by the caller
    return (noise_laws.skellam_delta if devices else noise_laws.gaussian_delta)(
        deviation, changes=changes, epsilon=epsilon
    )


@lru_cache(maxsize=64)
def _law(epsilon: Epsilon, changes: int, deviation: float, honest: int) -> NoiseLaw | None:
    """Return the law of one server's dose, or of one device's share of a dose that so many honest ones make."""
    if epsilon is None:
        return None
    if deviation:
        return noise_laws.skellam_share(deviation, honest=honest) if honest else noise_laws.discrete_gaussian(deviation)
    if honest:
        return noise_laws.polya_share(epsilon, sensitivity=changes, honest=honest)
    return noise_laws.discrete_laplace(epsilon, sensitivity=changes)


DEVICES = "devices"
IDEAL, NO_PROOFS = "ideal", "none"


class SharedVector(Mechanism):
    """A vector of zeros and ones that a device gives in shares alone; two servers publish the noisy sum.

    A sketch names the places of a vector's ones, each once; places from its end on, and negative ones, stand for
    nothing. What is written beside it: `query`, whose parameters are `PADDED` and those of `noise_terms`, `sketch`,
    and `decode`; by default a vector has a word for each item, and `PADDED` ones at most.
    """

    shares = True
    guarantee = PROMISES[REPLACE]
    parameters = frozenset({PADDED, DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS})
    decoders = ("totals",)
    policies = (ONE_ROUND,)
    trust = TWO_SERVERS
    bounded = False
    ranks = True

    neighbours: Neighbours = "replace"
    noise: Literal["servers", "devices"] = Field(
        default="servers",
        description="Two servers: who adds noise to sums, each server a full dose, or devices shares of one [servers].",
    )
    proofs: Literal["ideal", "none"] = Field(
        default="ideal",
        description="Two servers: a vector of a liar is checked by an ideal proof before it is shared, or by none "
        "[ideal].",
    )

    def relation(self) -> str:
        """Return the relation that the noise is calibrated for."""
        return self.neighbours

    @classmethod
    def label(cls, row: Mapping[str, Any]) -> str:
        """Return its name, with the relation of neighbours where that is not the one of all others."""
        return f"{cls.name}, {ADD_REMOVE}" if row.get("neighbours", REPLACE) == ADD_REMOVE else cls.name

    def likes_counted(self, world: World) -> int:
        """Return the most likes of a device that count in a world."""
        raise NotImplementedError

    def planned_ones(self, world: World, *, first: bool) -> int:
        """Return the most ones of a device's vector in the first period that a schedule asks, or in later ones."""
        return self.likes_counted(world)

    def honest_devices(self, world: World) -> tuple[int, int]:
        """Return how many devices are counted on for noise, and the fewest answers that are opened; 0 of servers'."""
        return honest_devices(world) if self.noise == DEVICES else (0, 0)

    def changes(self, ones: int) -> int:
        """Return how many coordinates of the sums one person changes by one, from the most ones of a vector."""
        return ones if self.neighbours == ADD_REMOVE else 2 * ones

    def noise_terms(self, world: World, epsilon: Epsilon, ones: int, delta: float) -> dict[str, float]:
        """Return the parameters of a query that say which noise its sums get."""
        changes, (honest, least_answers) = self.changes(ones), self.honest_devices(world)
        return {
            DELTA: 0.0 if epsilon is None else delta,
            CHANGES: float(changes),
            DEVIATION: noise_scale(epsilon, delta, changes, devices=honest > 0),
            HONEST: float(honest),
            LEAST_ANSWERS: float(least_answers),
        }

    def guarantee_under(self, neighbours: str) -> str:
        """Return the promise under the relation that the noise is calibrated for."""
        return PROMISES[neighbours]

    def width(self, query: Query) -> int:
        """Return the number of words of a device's vector."""
        return query.items

    def ones(self, query: Query) -> int:
        """Return the most ones of a device's vector."""
        return require_whole_parameter(query, PADDED, query.items)

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which words are about some of the items, by their places among those that are asked about."""
        return places

    def check(self, query: Query) -> None:
        """Refuse a query whose noise does not keep what it promises, or whose sums 32 bits do not hold."""
        values = query.parameters
        most = self.ones(query)
        changes = require_whole_parameter(query, CHANGES, 2 * most)
        if changes not in (most, 2 * most):
            raise InputError(
                f"{query} has {CHANGES} {changes}; a device of at most {most} ones changes so many or twice"
            )
        for name in (HONEST, LEAST_ANSWERS):
            if not (0 <= values[name] <= MOST_HONEST and values[name].is_integer()):
                raise InputError(f"{query} has {name} {values[name]:g}; give a whole number, 0 to {MOST_HONEST}")
        if self.by_devices(query) and values[LEAST_ANSWERS] < values[HONEST]:
            raise InputError(
                f"{query} opens {values[LEAST_ANSWERS]:g} answers, but noise needs {values[HONEST]:g}; raise it"
            )
        deviation, delta = values[DEVIATION], values[DELTA]
        if not 0 <= delta < 1 or deviation < 0 or bool(deviation) != (bool(delta) and query.epsilon is not None):
            raise InputError(
                f"{query} has {DELTA} {delta:g} and {DEVIATION} {deviation:g}; both are 0 for Laplace noise, and "
                "above 0 for Gaussian noise"
            )
        devices = self.by_devices(query)
        if deviation and (real := _delta_of(deviation, changes, query.epsilon, devices=devices)) > delta:
            raise InputError(
                f"{query} promises {DELTA} {delta:g}, but noise of deviation {deviation:g} keeps {real:.3g}; raise it"
            )
        require_readable(query, 1, self.deviation(query, 1))

    def question_range(self, query: Query) -> range:
        """Return the number of words, each of which is a question of 32 bits."""
        return range(self.width(query), self.width(query) + 1)

    def answer_bits(self, query: Query) -> int:
        """Return the bits of a word."""
        return 8 * WORD_BYTES

    def channel(self, query: Query) -> ExactChannel | Likelihood:
        """Refuse: noise is added to sums of shares, and no device's answer goes through a channel."""
        raise InputError(f"{query} is answered in shares, and through no channel of a device's own")

    def delta(self, query: Query) -> float:
        """Return the chance that the promise fails."""
        return query.parameters[DELTA]

    def relation_of(self, query: Query) -> str:
        """Return which data the promise takes as neighbours."""
        return ADD_REMOVE if query.parameters[CHANGES] == self.ones(query) else REPLACE

    def by_devices(self, query: Query) -> bool:
        """Return whether devices add shares of the noise, and the servers add none."""
        return query.parameters[HONEST] > 0

    def server_noise(self, query: Query) -> NoiseLaw | None:
        """Return the law of the noise that each server adds; None where servers add none."""
        return None if self.by_devices(query) else self._noise(query, 0)

    def device_noise(self, query: Query) -> NoiseLaw | None:
        """Return the law of a device's share of the noise; None where servers add it."""
        return self._noise(query, int(query.parameters[HONEST])) if self.by_devices(query) else None

    def _noise(self, query: Query, honest: int) -> NoiseLaw | None:
        return _law(query.epsilon, int(query.parameters[CHANGES]), query.parameters[DEVIATION], honest)

    def deviation(self, query: Query, answered: int) -> float:
        """Return the standard deviation of all noise in a published sum, by its number of answers."""
        values = query.parameters
        return noise_deviation(
            query.epsilon, int(values[CHANGES]), values[DEVIATION], honest=int(values[HONEST]), answered=answered
        )

    def require_enough(self, query: Query, answered: int) -> None:
        """Refuse to open a sum of fewer answers than the query says, or of more than words of 32 bits hold."""
        least = int(query.parameters[LEAST_ANSWERS])
        if answered < least:
            raise WithheldError(
                f"round {query.round} was withheld: {answered:,} devices answered, whose noise is enough from "
                f"{least:,} on; nothing is opened, expect fewer answers (expected_answers)"
            )
        require_readable(query, answered, self.deviation(query, answered))

    def count(self, query: Query, release: Release) -> Statistic:
        """Refuse: no device's answer comes to this server."""
        raise InputError(f"{query} is answered in shares for two servers, which publish their sums alone")

    def of_published(self, query: Query, totals: CountStatistic) -> Statistic:
        """Return the statistic of one round's totals: these, as they are."""
        return totals

    @property
    def has_law(self) -> bool:
        """Whether its sums are drawn from a law."""
        return type(self).draw_sums is not SharedVector.draw_sums

    def law(self, query: Query, people: People) -> Law:
        """Return the law of the published sums: of all who answer, and of what noise servers add."""
        if self.by_devices(query):
            raise InputError(f"{query} has devices add noise, whose sum has no law here; let servers add it")
        inside, noise = people.among(query.pool), self.server_noise(query)

        def draw(users: int, coins: np.random.Generator) -> Statistic:
            sums = np.rint(self.draw_sums(query, inside, users, coins)).astype(np.int64)
            for _ in range(SERVERS):
                sums += 0 if noise is None else noise.draw(coins.bytes(16), 0, sums.size)
            totals = CountStatistic(sums=sums, ones=0, devices=users, answered=users, refused=0)
            return self.of_published(query, totals)

        return Law(draw)

    def draw_sums(self, query: Query, people: People, users: int, coins: np.random.Generator) -> Floats:
        """Draw the sums of devices' vectors, without noise."""
        raise NotImplementedError

    def like_moments(self, world: World, epsilon: Epsilon, delta: float) -> SumMoments | None:
        """Return the moments of a total of each cluster, and of the noise."""
        if world.block is None:
            return None
        most, (honest, _) = self.likes_counted(world), self.honest_devices(world)
        changes = self.changes(most)
        one_dose = noise_scale(epsilon, delta, changes, devices=honest > 0)
        deviation = noise_deviation(epsilon, changes, one_dose, honest=honest, answered=world.users)
        level = BlockPeople.of(world.block).likers(lambda likes: np.minimum(1, most / likes))
        return SumMoments(level=level, noise=deviation**2)


def honest_devices(world: World) -> tuple[int, int]:
    """Return the assumed number of honest devices for noise, and how many answers contain that many.

    A share of the expected answers may come from liars, whose noise does not count.
    """
    expected, honest = Fraction(str(world.expected_answers)), 1 - Fraction(str(world.assume_malicious))
    devices = math.floor(world.users * expected * honest)
    if devices < 1:
        raise InputError(
            f"of {world.users} users {world.expected_answers:g} are expected to answer, {world.assume_malicious:g} of "
            "these to lie: nobody is left to add noise; let servers add it"
        )
    return devices, math.ceil(devices / honest)


def noise_deviation(epsilon: Epsilon, changes: int, deviation: float, *, honest: int, answered: int) -> float:
    """Return the deviation of all noise in a sum: two servers' doses, or a share of a dose of each answering device.

    >>> from fractions import Fraction
    >>> round(noise_deviation(Fraction(1), 20, 0.0, honest=500, answered=1000), 2)
    40.0
    """
    if epsilon is None:
        return 0.0
    variance = deviation**2
    if not deviation:
        rate = as_float(epsilon) / changes
        variance = 0.0 if rate > 1400 else 0.5 * math.sinh(rate / 2) ** -2
    return math.sqrt(variance * (answered / honest if honest else SERVERS))
