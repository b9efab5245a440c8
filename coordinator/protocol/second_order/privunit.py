"""PrivUnit over public candidates: which of them is near the second moment of a completed vector's direction."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Bits2, Bools, Floats, Floats2, Halves, Ints, Ints2, Words
from coordinator.protocol.budget import REPLACE, Epsilon, as_float
from coordinator.protocol.channels import LARGEST_EPSILON, SMALLEST_EPSILON, ExactChannel, LogRatio
from coordinator.protocol.checked import require_range
from coordinator.protocol.coins import significant
from coordinator.protocol.compiled import compiled, int64, uint64
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, basis_of
from coordinator.protocol.hashing import below, draw, siphash1
from coordinator.protocol.public_draws import candidate, candidates_key, gaussian, gaussian_levels
from coordinator.protocol.second_order import WHOLE, Coins, SecondOrderMechanism, SecondOrderQuery
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

FEWEST, MOST = 5, 13
"""There are 2 to the power ``FEWEST + ceil(3 epsilon / 4)`` vectors, `MOST` at most in the exponent."""
_ANGLES = 4096
_WIDE = 5050  # Dimensions up to which the angles of the table span a right angle
_BITS = 30  # Significant bits of a length: its last ones differ between processors


@dataclass(frozen=True, slots=True)
class CapChannel(ExactChannel):
    """PrivUnit over public candidates in ``dimension`` dimensions."""

    dimension: int  # d
    choice: ChoiceChannel  # Of the vectors and their opposites, ranked by how near they are to the private vector
    length: float  # Mean component of the named vector, whose length is 1, along the private one; it is divided by this

    @property
    def vectors(self) -> int:
        """Number of public vectors m; with their opposites there are 2 m answers."""
        return self.choice.choices // 2

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two private vectors' probabilities of one answer, exact."""
        return self.choice.log_ratio

    @property
    def second_moment(self) -> float:
        """``E |Z|^2`` of the unbiased release Z of a unit vector; ``|Z|`` is always the same."""
        return 1 / self.length**2


@functools.cache
def cap_channel(epsilon: Epsilon, dimension: int) -> CapChannel:
    """Return the epsilon-differentially private channel of a unit vector with the least second moment.

    >>> from fractions import Fraction
    >>> channel = cap_channel(Fraction(5), 55)
    >>> channel.vectors, channel.choice.best_count, round(channel.second_moment / 55, 2)
    (512, 34, 0.3)
    """
    nats = as_float(epsilon)
    if epsilon is None or epsilon > LARGEST_EPSILON:
        raise InputError(f"epsilon {nats:g} of one vector is above {LARGEST_EPSILON}; lower it, or use exact")
    if epsilon < SMALLEST_EPSILON:
        raise InputError(f"epsilon {nats:g} of one vector is below {float(SMALLEST_EPSILON):g}; raise it")
    vectors = 1 << min(FEWEST + math.ceil(epsilon * 3 / 4), MOST)
    nearest = _nearest(dimension, vectors)

    def length(best_count: int) -> float:
        return choice_channel(epsilon, choices=2 * vectors, best_count=best_count).contrast * nearest(best_count)

    low, high = 1, vectors
    while low < high:  # the length rises up to the best number, and falls from there on
        middle = (low + high) // 2
        low, high = (middle + 1, high) if length(middle) < length(middle + 1) else (low, middle)
    return CapChannel(
        dimension, choice_channel(epsilon, choices=2 * vectors, best_count=low), significant(length(low), _BITS)
    )


def _nearest(dimension: int, vectors: int) -> Callable[[int], float]:
    """Return the expected sum of the s largest of m sizes of cosines, as a function of s, 1 to m."""
    # A cosine is that of a fixed direction with a uniform one in d dimensions; the s largest hold one at an angle if at
    # most s - 1 of the m - 1 others lie nearer. The sum is an integral over angles. Most of them are almost right,
    # within about ``d^(-1/2)``: in many dimensions the table spans the last ones only, and all others have no mass in a
    # float.
    if dimension == 1:
        return float
    step = np.pi / 2 / _ANGLES * min(1.0, math.sqrt(_WIDE / dimension))
    angles = (np.arange(_ANGLES) + 0.5) * step + (np.pi / 2 - _ANGLES * step)
    cosines, log_sines = np.cos(angles), np.log(np.sin(angles))
    scale = math.lgamma(dimension / 2) - math.lgamma((dimension - 1) / 2) - math.log(math.pi) / 2
    mass = 2 * np.exp(scale + (dimension - 2) * log_sines) * cosines * step
    from scipy import special  # noqa: PLC0415 (settings load no scipy)

    below = special.betainc(0.5, (dimension - 1) / 2, cosines**2)

    def total(best_count: int) -> float:
        among = special.betainc(vectors - best_count, best_count, below) if best_count < vectors else 1.0
        return float(vectors * (mass * among).sum())

    return total


def unpack_moment(packed: Floats, rank: int) -> Floats2:
    """Return the symmetric matrix of a lower triangle with its inner product: off the diagonal times sqrt(2)."""
    rows, columns = np.tril_indices(rank)
    moment = np.zeros((rank, rank))
    moment[rows, columns] = packed / np.where(rows == columns, 1.0, math.sqrt(2))
    moment[columns, rows] = moment[rows, columns]
    return moment


@compiled
def directions(residuals: Floats2, basis: Floats2) -> Floats2:
    """Return ``u u^T / |u|^2`` of every device, packed to a vector of length 1 or 0, where ``u = basis^T r'``.

    Shapes: ``residuals`` (devices, m); ``basis`` (m, r).
    """
    rank = basis.shape[1]
    moments, taste = np.empty((residuals.shape[0], rank * (rank + 1) // 2)), np.empty(rank)
    for k in range(residuals.shape[0]):
        taste[:] = 0.0
        for item in range(basis.shape[0]):
            residual = residuals[k, item]
            for a in range(rank):
                taste[a] += residual * basis[item, a]
        energy = 0.0
        for a in range(rank):
            energy += taste[a] * taste[a]
        column, share = 0, 1.0 / energy if energy > 0.0 else 0.0
        for a in range(rank):
            for b in range(a + 1):
                moments[k, column] = taste[a] * taste[b] * share * (1.0 if a == b else math.sqrt(2.0))
                column += 1
    return moments


_GRID = 2.0**24


def named(vectors: Floats2, channel: CapChannel, query_id: bytes, coins: Coins) -> Halves:
    """Return the answers of devices: ``2 v`` for candidate v, ``2 v + 1`` for its opposite.

    Shapes: ``vectors`` (devices, d).
    """
    whole = np.rint(np.nan_to_num(np.clip(vectors, -1.0, 1.0)) * _GRID).astype(np.int64)
    best, picks = coins.whole() >= channel.choice.threshold, coins.whole(1)
    choice, key = channel.choice, candidates_key(query_id)
    return _name(whole, choice.choices // 2, choice.best_count, key, coins.first, gaussian_levels(), best, picks)


@compiled
def _name(
    vectors: Ints2, candidates: int, best_count: int, key: Words, first: int, levels: Ints, best: Bools, picks: Words
) -> Halves:
    cosines, answers = np.empty(candidates), np.empty(vectors.shape[0], np.uint16)
    for k in range(vectors.shape[0]):
        _compare(vectors[k], siphash1(key[0], key[1], uint64(first) + uint64(k)), levels, cosines)
        order = np.argsort(-np.abs(cosines), kind="mergesort")  # the nearest first; of those that tie the first
        rank = int64(below(picks[k], int64(0), best_count))
        if not best[k]:
            rank = best_count + int64(below(picks[k], int64(1), 2 * candidates - best_count))
        vector = order[rank] if rank < candidates else order[2 * candidates - 1 - rank]
        nearer = cosines[vector] >= 0.0
        answers[k] = 2 * vector + (nearer != (rank < candidates))
    return answers


@compiled
def _compare(vector: Ints, stream: np.uint64, levels: Ints, cosines: Floats) -> None:
    """Write the cosine of the angle between the vector, times its length, and every candidate."""
    for v in range(cosines.size):
        along, square = int64(0), int64(0)
        for a in range(vector.size):
            number = gaussian(draw(stream, uint64(v * vector.size + a)), levels)
            along += number * vector[a]
            square += number * number
        cosines[v] = along / np.sqrt(float(square))


class PrivUnit(SecondOrderMechanism):
    """Releases which of 2 m public unit vectors is near the second moment of the vector's direction, two bytes."""

    name, order = "privunit", 60
    guarantee = WHOLE
    neighbours = REPLACE
    takes_epsilon = True
    moment = True
    swept = ("5",)

    def size(self, query: SecondOrderQuery, features: ItemFeatures) -> int:
        return 2

    def channel(self, query: SecondOrderQuery, features: ItemFeatures) -> CapChannel:
        return cap_channel(query.epsilon, features.moments)

    def randomize(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> Bits2:
        answers = named(directions(vectors, basis_of(features)), self.channel(query, features), query.id, coins)
        return answers.astype("<u2")[:, None].view(np.uint8)

    def check(self, payloads: Bits2, query: SecondOrderQuery, features: ItemFeatures) -> None:
        choices = self.channel(query, features).choice.choices
        require_range("answers that name a candidate", _answers(payloads), 0, choices - 1)

    def moments(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats:
        """Return the unbiased estimates that named candidates stand for."""
        channel, moments = self.channel(query, features), np.empty((len(devices), features.rank, features.rank))
        for k, (device, answer) in enumerate(zip(devices.tolist(), _answers(payloads).tolist(), strict=True)):
            direction = candidate(query.id, device, answer // 2, channel.dimension) / channel.length
            moments[k] = unpack_moment(-direction if answer % 2 else direction, features.rank)
        return moments

    def rows(self, payloads: Bits2, devices: Ints, query: SecondOrderQuery, features: ItemFeatures) -> Floats2:
        """Return r rows whose second moment is that of all: noise is averaged first, then negative parts are cut."""
        basis = basis_of(features)
        gram = basis.T @ basis
        moments = self.moments(payloads, devices, query, features)
        size = features.items * features.common_h**2
        values, directions = np.linalg.eigh(sum(moments, np.zeros_like(gram)) * size)
        inside = directions * np.sqrt(np.maximum(values, 0))
        rows: Floats2 = inside.T @ np.linalg.pinv(gram, hermitian=True) @ basis.T
        return rows


def _answers(payloads: Bits2) -> Halves:
    return np.ascontiguousarray(payloads).view("<u2")[:, 0]


MECHANISMS = (PrivUnit(),)
