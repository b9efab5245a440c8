"""Two-tier rivals, as a device does them: exact vectors, Laplace noise, PrivUnit and SSLP."""

import math

import numpy as np

from actors.second_order.mechanisms import SecondOrderDevice, packed
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Bools, Floats, Floats2, Halves, Indices2, Ints, Ints2, Words, Words2
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.compiled import compiled, int64, uint64
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.hashing import below, draw, siphash1
from coordinator.protocol.public_draws import candidates_key, gaussian, gaussian_levels
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_channels import CapChannel, GridLaplace, basis_of, grid_laplace
from coordinator.protocol.second_order_mechanisms.rivals import channel_of, sslp_clip


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


class Exact(SecondOrderDevice):
    """Releases the completed vector itself."""

    names = ("exact",)

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        return [row.tobytes() for row in (vectors + features.mean).astype("<f8")]


def noisy_places(shares: Floats2, channel: GridLaplace, coins: Coins) -> Indices2:
    """Return coordinates with Laplace noise, as steps of the channel's grid.

    Shapes: ``shares`` (devices, m).
    """
    return _add_noise(shares, channel.steps, channel.beyond, channel.at_least, coins.places(shares.shape[1]))


@compiled
def _add_noise(shares: Floats2, steps: int, beyond: int, at_least: Words, coins: Words2) -> Indices2:
    sign_bit, places = uint64(1) << uint64(63), np.empty(shares.shape, np.int32)
    for k in range(shares.shape[0]):
        for item in range(shares.shape[1]):
            share = shares[k, item]
            grid_step = round(min(share, 1.0) * steps) if share > 0.0 else 0  # 0 if it is not a number, too
            coin = coins[k, item]
            size = at_least.size - np.searchsorted(at_least, coin & (sign_bit - uint64(1)), side="right")
            noisy = grid_step + (size if coin >= sign_bit else -size)
            places[k, item] = min(max(noisy, -beyond), steps + beyond)
    return places


class Laplace(SecondOrderDevice):
    """Releases the clipped completed vector with Laplace noise on every coordinate."""

    names = ("laplace",)

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        channel, width = grid_laplace(query.epsilon), features.highest - features.lowest
        shares = (vectors + (features.mean - features.lowest)) / width
        values = features.lowest + noisy_places(shares, channel, coins) * (width / channel.steps)
        return [row.tobytes() for row in values.astype("<f8")]


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


class PrivUnit(SecondOrderDevice):
    """Releases which public candidate is near the second moment of the vector's direction."""

    names = ("privunit",)

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        moments = directions(vectors, basis_of(features))
        answers = named(moments, channel_of(features, query.epsilon), query.id, coins)
        return [answer.tobytes() for answer in answers.astype("<u2")]


_UNIT = 2.0**-53


def corners(shares: Floats2, channel: BitChannel, coins: Coins) -> Bits2:
    """Return SSLP's corners of the cube: 1 for +B, 0 for -B (Duchi, Jordan and Wainwright, 2013).

    A corner v~ is drawn around the private vector, then a uniform corner z; z is turned to v~'s side with probability
    ``e^eps / (1 + e^eps)`` and to the other side otherwise. A z at right angles to v~ is left alone.

    Shapes: ``shares`` (devices, m).
    """
    items = shares.shape[1]
    return _corners(shares, coins.whole() < channel.threshold, coins.places(items), coins.fair(items))


@compiled
def _corners(shares: Floats2, turned: Bools, coins: Words2, fair: Words2) -> Bits2:
    bits = np.empty(shares.shape, np.uint8)
    for k in range(shares.shape[0]):
        agreement = 0
        for item in range(shares.shape[1]):
            near = float(coins[k, item] >> uint64(11)) * _UNIT < 0.5 + 0.5 * shares[k, item]
            bit = (fair[k, item >> 6] >> uint64(item & 63)) & uint64(1)
            bits[k, item] = bit
            agreement += 1 if near == (bit == uint64(1)) else -1
        if agreement != 0 and (agreement > 0) == turned[k]:
            for item in range(shares.shape[1]):
                bits[k, item] ^= 1
    return bits


class Sslp(SecondOrderDevice):
    """Releases a corner of the cube; the vector is clipped at half the width of the range of ratings."""

    names = ("sslp",)

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        shares = vectors / sslp_clip(features)
        return packed(corners(shares, bit_channel(query.epsilon), coins))


DEVICE = (Exact(), Laplace(), PrivUnit(), Sslp())
