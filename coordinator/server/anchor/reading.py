"""What a round of turned signs tells of tables of like rates: a mean of every item, linear in the tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEVELS, SENSED
from coordinator.protocol.messages import Query
from coordinator.server.rounds.readings import AnchorRound

GUESS_UNIT = 256
"""Steps of a rating's log-likelihood in a guess."""
REACH = 9.0
"""A sum of public signs is taken to lie within so many standard deviations of 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A round's means of ``H_i S``, and how they depend on the table of like rates given the guess.

    For an item of cluster c the mean is ``offset_i + sum_k slopes[k, i] B[k, c]``, where B[k, c] is the share of likes
    among ratings of cluster c by devices that guess class k.

    Attributes
    ----------
    means, users : ndarray of float64, shape (N,)
        Mean over the devices that sensed an item, and how many these are; both are 0 where nobody did.
    slopes : ndarray of float64, shape (K, N)
        Share of the devices that guess k, times what a like adds to the mean over a dislike.
    offset : ndarray of float64, shape (N,)
        The mean if every rating is a dislike.
    controls : ndarray of bool, shape (N,)
        Decided items that were sensed all the same.
    """

    means: Floats
    users: Floats
    slopes: Floats2
    offset: Floats
    controls: Bools


def read_turned(told: AnchorRound, shares: Floats, *, rated: int, control: int) -> Reading:
    """Return what one round tells.

    Given that item i is sensed and rated, and that class k was guessed, the device's other ratings add up to a
    symmetric sum. So ``E[H_i S] = t (w / N) sum_k P(k) (B[k, c] G_k(counts of a like) + (1 - B[k, c]) G_k(counts of a
    dislike))``, where ``G_k(v) = P(|sum| < v) + P(|sum| = v) / 2`` is odd in v.

    Parameters
    ----------
    told : AnchorRound
        A round of turned signs.
    shares : ndarray of float64, shape (K,)
        Shares of the devices that guess each class.
    rated : int
        Number of items w that a device rated.
    control : int
        How often decided items are sensed.
    """
    query, statistic = told.query, told.statistic
    passes = passing(query, rated=rated) * bit_channel(query.epsilon).contrast * rated / query.items
    if len(passes) == 2:  # a plain round knows one class only
        passes = np.tile(passes, (shares.size, 1))
    return Reading(
        means=statistic.means,
        users=statistic.sensed.astype(np.float64),
        slopes=(passes[1::2] - passes[0::2]) * shares[:, None],
        offset=shares @ passes[0::2],
        controls=query.arrays[SENSED] == control,
    )


def guess_rates(query: Query) -> Floats2:
    """Return how probably devices that guess a class like each item, as the query's own guess has it, shape (K, N)."""
    guess = query.arrays[GUESS] / GUESS_UNIT
    rates: Floats2 = scipy.special.expit(guess[1::2] - guess[0::2])
    return rates


def passing(query: Query, *, rated: int) -> Floats2:
    """Return G_k of every number that an item may add, with its sign, shape (2 K, N).

    A device's other ``w - 1`` ratings are taken to be drawn independently, so that the sum's distribution is a power
    of one rating's, which Fourier transforms find exactly.
    """
    counts, sensed = query.arrays[COUNTS], query.arrays[SENSED] / query.parameters[LEVELS]
    rates, found = guess_rates(query), np.zeros((len(counts), query.items))
    for k in range(len(rates)):
        own = counts[2 * k : 2 * k + 2]
        chances = np.stack([1 - rates[k], rates[k]]) * sensed / query.items
        size = _ring(own, chances, rated)
        one = np.zeros(size)
        for sign in (1, -1):
            np.add.at(one, sign * own % size, chances / 2)
        one[0] += 1 - chances.sum()
        masses = scipy.fft.irfft(scipy.fft.rfft(one).real ** (rated - 1), size)[: size // 2]
        within = masses[0] + 2 * np.cumsum(np.append(0.0, masses[1:]))  # P(|sum| <= v)
        passes = np.append(0.0, (within[:-1] + within[1:]) / 2)
        found[2 * k : 2 * k + 2] = np.sign(own) * passes[np.minimum(np.abs(own), size // 2 - 1)]
    return found


def _ring(counts: Indices2, chances: Floats2, rated: int) -> int:
    """Return the length of a ring of whole numbers that sums hardly ever wrap around, a power of two."""
    spread = math.sqrt(rated * float((counts.astype(np.float64) ** 2 * chances).sum()))
    return 1 << math.ceil(math.log2(2 * (REACH * spread + 2.0 * int(np.abs(counts).max()) + 2)))
