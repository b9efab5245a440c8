"""Shares on devices: a vector hidden by a seed of the device's own coins, one share for each of two servers; compiled.

Both shares follow from (device, query): whoever asks again, in whatever blocks, gets the same ones.
"""

import hmac

import numpy as np

from actors.seeds import Coins
from coordinator.protocol.arrays import Bits, Indices2, Words, Words2, Words32
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import borrowing, compiled, uint32, uint64
from coordinator.protocol.errors import PermitError
from coordinator.protocol.hashing import LOW, hide, siphash1
from coordinator.protocol.messages import Query
from coordinator.protocol.shared_vector import SharedVector
from coordinator.protocol.shares import SIDES


def share_permit(secret: bytes, side: str) -> bytes:
    """Return the permit that lets one server have its shares, and no others; it is derived from the master secret."""
    return derive(secret, f"shares for the server of {side}")


def side_of(permit: object, secret: bytes) -> str:
    """Return which server a permit is of; raise PermitError if it is of neither."""
    for side in SIDES:
        if type(permit) is bytes and hmac.compare_digest(permit, share_permit(secret, side)):
            return side
    raise PermitError("devices give each of two servers its own shares, against its own permit, and nobody else any")


@compiled
def vectors_of(places: Indices2, width: int) -> Words32:
    """Return vectors with a one at each of a device's places; places outside of them stand for nothing."""
    # Shapes: ``places`` (devices, k).
    vectors = np.zeros((len(places), width), np.uint32)
    for k in range(len(places)):
        for coordinate in places[k]:
            if 0 <= coordinate < width:
                vectors[k, coordinate] += uint32(1)
    return vectors


@borrowing
def _draw(high: Words, low: Words, key0: np.uint64, key1: np.uint64, lane: np.uint64) -> int:
    """Return a draw as `coordinator.protocol.noise.NoiseLaw` has it, counted from its lowest value."""
    coin = siphash1(key0, key1, lane)
    if high.size == 0 or coin < high[0]:
        return 0
    below, above = 0, high.size  # The number of thresholds below the coin
    while below < above:
        middle = (below + above) >> 1
        if high[middle] < coin:
            below = middle + 1
        else:
            above = middle
    if below == high.size or high[below] != coin:
        return below
    other = siphash1(key0, key1, lane + uint64(1))
    while below < high.size and high[below] == coin and low[below] <= other:
        below += 1
    return below


@compiled
def add_noise(
    high: Words, low: Words, lowest: int, keys: Words2, heard: Bits, vectors: Words32, two_sided: bool
) -> None:
    """Add to each answering device's words its own share of noise, a draw of a law for every word."""
    # Shapes: ``keys`` (devices, 2), two words of private coins.
    for k in range(len(vectors)):
        if heard[k]:
            key0, key1 = keys[k, 0], keys[k, 1]
            for coordinate in range(vectors.shape[1]):
                lane = uint64(4) * uint64(coordinate)
                noise = _draw(high, low, key0, key1, lane)
                if two_sided:
                    noise -= _draw(high, low, key0, key1, lane + uint64(2))
                else:
                    noise += lowest
                vectors[k, coordinate] += uint32(uint64(noise) & LOW)


def noisy(query: Query, mechanism: SharedVector, coins: Coins, heard: Bits, vectors: Words32) -> None:
    """Add shares of noise to devices' vectors where a query wants them from devices."""
    if (law := mechanism.device_noise(query)) is not None:
        add_noise(law.high, law.low, law.lowest, coins.noise_keys(), heard, vectors, law.two_sided)


def words_to_share(coins: Coins, heard: Bits, vectors: Words32) -> Words32:
    """Return the words for the server of words: vectors less what devices' seeds expand to; they are overwritten."""
    hide(coins.share_keys(), heard, vectors)
    return vectors


def seeds_to_share(coins: Coins, heard: Bits) -> bytes:
    """Return the seeds for the server of seeds, 16 bytes a device; that of a silent device is 0."""
    keys = coins.share_keys()
    keys[heard == 0] = 0
    return keys.astype("<u8").tobytes()
