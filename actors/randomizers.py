"""Local randomizers: private bits become a release through a public channel, with the device's own coins."""

from __future__ import annotations

import numpy as np

from actors.seeds import release_coin
from coordinator.protocol.arrays import Bits2, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.compiled import compiled
from coordinator.protocol.messages import Query


@compiled
def _flip(
    bits: Bits2,
    master: Words,
    query_id: Words,
    first: int,
    threshold: np.uint64,
) -> None:
    for k in range(bits.shape[0]):
        for question in range(bits.shape[1]):
            coin = release_coin(master, first + k, query_id, question)
            bits[k, question] ^= np.uint8(coin < threshold)


def randomize(bits: Bits2, query: Query, master: Words, first: int) -> None:
    """Randomized response in place, each bit under an equal share of the query's epsilon and a coin of its own.

    Parameters
    ----------
    bits : ndarray of uint8, shape (devices, questions)
        Private bits of devices ``first``, ``first + 1``, ...; become the released ones.
    query : Query
        Sets the channel, ``bit_channel(query.epsilon_per_question)``, and keys the coins.
    master : ndarray of uint64, shape (2,)
        The population's master secret.
    first : int
        Index of the first device.

    Raises
    ------
    InputError
        If the channel cannot be expressed.
    """
    threshold = bit_channel(query.epsilon_per_question).threshold
    if threshold:
        _flip(bits, master, query.words, first, threshold)
