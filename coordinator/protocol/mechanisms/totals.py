"""Sums by two servers in public: what a device adds up to, and which noise of the published sums keeps its promise."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coordinator.protocol.arrays import Bools
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import ExactChannel, Likelihood
from coordinator.protocol.errors import InputError, WithheldError
from coordinator.protocol.mechanisms.sets import MOST_ITEMS, MOST_LIKES, TOGETHER, together
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import pairs_of, pool_size
from coordinator.protocol.public_half import ADD_REMOVE, REPLACE, PublicHalf, require_whole_parameter
from coordinator.protocol.shares import WORD_BYTES, require_readable
from coordinator.protocol.value_channels import PADDED

if TYPE_CHECKING:
    from coordinator.protocol.noise import NoiseLaw

DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS = "delta", "changes", "deviation", "honest", "least_answers"
"""Parameters of queries: the chance that the promise fails; coordinates of the sums that one person changes by one;
the standard deviation of a dose of Gaussian or Skellam noise, 0 where noise is Laplace's; devices whose shares of noise
make a dose, 0 where servers add it; and the fewest answers that are opened."""
SERVERS = 2  # Doses in a sum, where each server adds its own because it knows what it added
MOST_HONEST = 1 << 40
GRID = 1 << 12  # Steps of a deviation between one and two, so that all processors have the same one
_OF_ONE = "one device's ratings replaced by any others"
_BOTH = "if both of two servers collude, nothing is left"
PROMISES = {
    REPLACE: f"epsilon-differential privacy of the published sums, {_OF_ONE}, if one of two servers is honest; {_BOTH}",
    ADD_REMOVE: "epsilon-differential privacy of the published sums, one device added or removed, if one of two "
    f"servers is honest; {_BOTH}",
}
"""What two servers promise, by the relation of neighbours."""


@lru_cache(maxsize=256)
def dose(epsilon: Epsilon, delta: float, changes: int, *, devices: bool) -> float:
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
    >>> round(dose(Fraction(1), 1e-6, 100, devices=False), 2)
    42.25
    """
    if epsilon is None or not delta:
        return 0.0
    from coordinator.protocol.noise import gaussian_deviation, skellam_deviation

    least = (skellam_deviation if devices else gaussian_deviation)(changes=changes, epsilon=epsilon, delta=delta)
    step = 2.0 ** math.floor(math.log2(least)) / GRID
    return math.ceil(least / step) * step


@lru_cache(maxsize=256)
def _delta_of(deviation: float, changes: int, epsilon: Epsilon, *, devices: bool) -> float:
    from coordinator.protocol.noise import gaussian_delta, skellam_delta

    assert epsilon is not None  # looked at by the caller
    return (skellam_delta if devices else gaussian_delta)(deviation, changes=changes, epsilon=epsilon)


@lru_cache(maxsize=64)
def _law(epsilon: Epsilon, changes: int, deviation: float, honest: int) -> "NoiseLaw | None":
    """Return the law of one server's dose, or of one device's share of a dose that so many honest ones make."""
    from coordinator.protocol import noise

    if epsilon is None:
        return None
    if deviation:
        return noise.skellam_share(deviation, honest=honest) if honest else noise.discrete_gaussian(deviation)
    if honest:
        return noise.polya_share(epsilon, sensitivity=changes, honest=honest)
    return noise.discrete_laplace(epsilon, sensitivity=changes)


class SharedVector(PublicHalf):
    """A vector of zeros and ones that a device gives in shares alone; two servers publish the noisy sum."""

    shares = True
    promise = PROMISES[REPLACE]
    parameters = frozenset({PADDED, DELTA, CHANGES, DEVIATION, HONEST, LEAST_ANSWERS})

    def promise_under(self, neighbours: str) -> str:
        """Return the promise under the relation that the noise is calibrated for."""
        return PROMISES[neighbours]

    def width(self, query: Query) -> int:
        """Return the number of words of a device's vector."""
        raise NotImplementedError

    def ones(self, query: Query) -> int:
        """Return the most ones of a device's vector."""
        raise NotImplementedError

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

    def questions(self, query: Query) -> range:
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

    def neighbours(self, query: Query) -> str:
        """Return which data the promise takes as neighbours."""
        return ADD_REMOVE if query.parameters[CHANGES] == self.ones(query) else REPLACE

    def by_devices(self, query: Query) -> bool:
        """Return whether devices add shares of the noise, and the servers add none."""
        return query.parameters[HONEST] > 0

    def server_noise(self, query: Query) -> "NoiseLaw | None":
        """Return the law of the noise that each server adds; None where servers add none."""
        return None if self.by_devices(query) else self._noise(query, 0)

    def device_noise(self, query: Query) -> "NoiseLaw | None":
        """Return the law of a device's share of the noise; None where servers add it."""
        return self._noise(query, int(query.parameters[HONEST])) if self.by_devices(query) else None

    def _noise(self, query: Query, honest: int) -> "NoiseLaw | None":
        return _law(query.epsilon, int(query.parameters[CHANGES]), query.parameters[DEVIATION], honest)

    def deviation(self, query: Query, answered: int) -> float:
        """Return the standard deviation of all noise in the published sum of so many answers."""
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


def trusted_servers(honest: int) -> tuple[str, str]:
    """Say who is trusted with what where two servers add up, and what is left if that is misplaced.

    ``honest`` is how many devices' shares of noise make a dose, 0 where servers add it.
    """
    trusted = "one of two servers, not to show its shares to the other"
    left = "if both servers collude, nothing is left: together they read every device's vector"
    if honest:
        trusted += f", and {honest:,} devices, to add their noise"
        return trusted, f"{left}; if one opens other sums than was agreed, what devices add is too little noise"
    return trusted, f"{left}; if one lies, the other one's noise keeps the whole promise"


class Totals(SharedVector):
    """Likes of all items, at most so many a device; a device that likes more names some of them by private coins."""

    name = "totals"

    def width(self, query: Query) -> int:
        """Return the number of items."""
        return query.items

    def ones(self, query: Query) -> int:
        """Return the most likes of a device that count."""
        return require_whole_parameter(query, PADDED, query.items)


class PairVector(SharedVector):
    """Likes of all items, or which of a pool's items go together: its pairs, and each item with itself.

    Pairs are counted row by row of the upper triangle, with its diagonal; a device names at most so many likes of the
    pool by private coins, and all pairs of them.
    """

    name = "pair-totals"
    parameters = SharedVector.parameters | {TOGETHER}
    pooled = None

    def check(self, query: Query) -> None:
        """Refuse a query about pairs of nothing, of too many items, or of more likes than the pool has."""
        if require_whole_parameter(query, TOGETHER, 2) == 2:
            if query.pool is None or not 2 <= pool_size(query) <= MOST_ITEMS:
                raise InputError(f"{query} is about pairs of {pool_size(query)} items; name 2 to {MOST_ITEMS}")
        elif query.pool is not None:
            raise InputError(f"{query} is about likes of {pool_size(query)} items; ask about all, or about pairs")
        if query.parameters[PADDED] > MOST_LIKES:
            raise InputError(f"{query} has {PADDED} {query.parameters[PADDED]:g}; give at most {MOST_LIKES} likes")
        super().check(query)

    def width(self, query: Query) -> int:
        """Return the number of items, or of pairs and items of the pool."""
        items = pool_size(query)
        return items if together(query) == 1 else with_diagonal(items)

    def ones(self, query: Query) -> int:
        """Return the most likes of a device that count, or pairs of these with each like itself."""
        likes = require_whole_parameter(query, PADDED, pool_size(query))
        # w likes are w (w - 1) / 2 pairs and w items; each is one word of zero or one, so that one person replaced by
        # another turns at most that many words off and as many on: 2 of them under `REPLACE`, see `check`.
        return likes if together(query) == 1 else with_diagonal(likes)

    def words_about(self, query: Query, places: Bools) -> Bools:
        """Return which items, or which pairs with one of them, in the order of the words; see `SharedVector`."""
        if together(query) == 1:
            return places
        rows, columns = np.triu_indices(places.size)
        return places[rows] | places[columns]


def with_diagonal(items: int) -> int:
    """Return the number of pairs of so many items, and of the items themselves.

    >>> with_diagonal(400)
    80200
    """
    return pairs_of(items) + items


PUBLIC = (Totals(), PairVector())
