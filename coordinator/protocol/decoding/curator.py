"""The trusted curator's noise: Laplace's mechanism on whole numbers, for totals of everybody's ratings."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon, as_float
from coordinator.protocol.errors import InputError

LARGEST_SCALE = 10**12  # Noise of a larger scale would not leave whole numbers whole in a float

_TOTALS, _PAIRS = 0, 1  # coins of the two kinds of release lie in different parts of one generator's sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Discrete Laplace noise (two-sided geometric), ``P(k)`` proportional to ``exp(-budget |k| / sensitivity)``.

    The whole-number version of Laplace noise of scale ``sensitivity / budget`` (slides of Banerjee et al., page 11;
    Dwork, McSherry, Nissim, Smith 2006): on totals that are whole numbers it is ``budget``-differentially private just
    as Laplace noise is, and has no low bits to leak (Ghosh, Roughgarden, Sundararajan 2009).

    >>> noise = DiscreteLaplace(budget=Fraction(1), sensitivity=30)
    >>> noise.epsilon(30), noise.epsilon(60)
    (Fraction(1, 1), Fraction(2, 1))
    >>> round(noise.variance), 2 * 30**2
    (1800, 1800)
    """

    budget: Epsilon  # Privacy parameter epsilon of the whole release [nats]; None for no noise
    sensitivity: int  # Most that one user changes the released totals by, summed over them (L1), at least 1

    def __post_init__(self) -> None:
        if self.sensitivity < 1:
            raise InputError(f"sensitivity is {self.sensitivity}; totals that nobody changes need no release")
        if self.budget is not None and not self.budget * LARGEST_SCALE >= self.sensitivity:
            raise InputError(
                f"epsilon {as_float(self.budget):g} asks for noise of scale above {LARGEST_SCALE:g}; raise it"
            )

    @property
    def rate(self) -> float:
        """Log-ratio of neighbouring probabilities [nats], ``budget / sensitivity``; infinite without noise."""
        return math.inf if self.budget is None else as_float(self.budget / self.sensitivity)

    @property
    def variance(self) -> float:
        """Variance of the noise, ``1 / (2 sinh(rate / 2)^2)``: close to ``2 / rate^2`` where the rate is small."""
        if self.rate > 1400:  # the square of the hyperbolic sine has left the floats, the variance long before
            return 0.0
        return 0.5 * math.sinh(self.rate / 2) ** -2

    def epsilon(self, change: int) -> Epsilon:
        """Return the privacy loss [nats] where one user changes the totals by ``change`` (L1); exact, None if infinite.

        It is the largest log-ratio of the probabilities of any outcome, and is attained.
        """
        return None if self.budget is None else self.budget * Fraction(change, self.sensitivity)

    def draw(self, count: int, generator: np.random.Generator) -> Ints:
        """Draw independent noise, shape (count,): the difference of two geometric variables."""
        if self.budget is None:
            return np.zeros(count, np.int64)
        # Exponential floats are inverted, so probabilities carry their rounding, about 1e-16. A deployment needs an
        # exact sampler (Canonne, Kamath, Steinke 2020); here the curator is simulated.
        stop = -math.expm1(-self.rate)
        return generator.geometric(stop, count) - generator.geometric(stop, count)


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalMoments:
    """A curator's noisy totals of items."""

    noise: DiscreteLaplace  # Of each total


def item_sensitivity(rated: int, *, neighbours: str) -> int:
    """Return the L1 sensitivity of item totals ``sum_u (2 R_ui - 1)`` of users with at most w ratings."""
    # A user adds +1 or -1 to each of at most w totals. Added or removed, it changes them by w in all. Replaced, by at
    # most w + w, and by no less if the same w items are rated the other way round, whatever the catalogue.
    return rated if _adds(neighbours) else 2 * rated


def pair_sensitivity(rated: int, *, items: int, neighbours: str) -> int:
    """Return the L1 sensitivity of pair totals (+1 both ratings equal, -1 unlike), each pair of items counted once."""
    # Users have at most w ratings of N items; one with a single rating changes no pair.
    # A user adds +1 or -1 to each of its w (w - 1) / 2 pairs; added or removed, it changes totals by that.
    pairs = rated * (rated - 1) // 2
    if _adds(neighbours):
        return pairs
    # Replaced, it rates w items before and w after, s of them both times. Pairs that are rated once change by 1 each:
    # w (w - 1) - s (s - 1) of them. A pair of shared items changes by 2 if it is rated alike once and unlike once, that
    # is, if one of its ratings was turned round and the other was not: so do floor(s^2 / 4) pairs at most. The sum
    # w (w - 1) - s (s - 1) + 2 floor(s^2 / 4) is the same for s = 0, 1 and 2, and falls from there on; and two sets of
    # w among N items share at least 2 w - N. Fewer ratings change no more: with b instead of b + 1 there are b pairs
    # fewer, and one shared item fewer, which brings back b at most.
    shared = max(0, 2 * rated - items)
    return 2 * pairs - shared * (shared - 1) + 2 * (shared**2 // 4)


def _adds(neighbours: str) -> bool:
    """Return whether neighbours differ in a user added or removed, and refuse what is no relation."""
    if neighbours not in (REPLACE, ADD_REMOVE):
        raise InputError(f"neighbours is {neighbours!r}; choose {REPLACE} or {ADD_REMOVE}")
    return neighbours == ADD_REMOVE


def noisy_totals(totals: Ints, *, epsilon: Epsilon, sensitivity: int, seed: bytes) -> tuple[Floats, DiscreteLaplace]:
    """Add independent discrete Laplace noise to totals: the curator's release, in whole numbers."""
    noise = DiscreteLaplace(budget=epsilon, sensitivity=sensitivity)
    # Laplace noise in floating point would leak through its low bits (Mironov 2012), so whole numbers are drawn.
    sample = noise.draw(totals.size, _generator(seed, _TOTALS)).reshape(totals.shape)
    return (totals + sample).astype(float), noise


def noisy_symmetric(totals: Ints, *, epsilon: Epsilon, sensitivity: int, seed: bytes) -> tuple[Floats, DiscreteLaplace]:
    """Add discrete Laplace noise to pair totals, shape (N, N), one draw a pair: the curator's release about pairs."""
    if totals.ndim != 2 or totals.shape[0] != totals.shape[1]:
        raise InputError(f"pair totals have shape {totals.shape}; they must be square, one row and column an item")
    noise = DiscreteLaplace(budget=epsilon, sensitivity=sensitivity)
    generator, noisy = _generator(seed, _PAIRS), np.zeros(totals.shape)
    for row in range(len(totals) - 1):
        after = slice(row + 1, None)
        noisy[row, after] = totals[row, after] + noise.draw(len(totals) - 1 - row, generator)
        noisy[after, row] = noisy[row, after]
    return noisy, noise


def _generator(seed: bytes, purpose: int) -> np.random.Generator:
    """Philox in counter mode, keyed by the seed; purposes are 2**192 blocks apart."""
    if len(seed) != 16:
        raise InputError(f"the curator's seed has {len(seed)} bytes; give 16")
    return np.random.Generator(np.random.Philox(key=int.from_bytes(seed, "little"), counter=purpose << 192))
