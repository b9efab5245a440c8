"""Local randomizers: what is private becomes a release through a public channel, with the device's own coins."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from actors.choices import choose
from actors.seeds import RELEASE, private_coins
from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import bit_channel, choice_channel
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import to_bits

Randomizer = Callable[[Bits2 | Indices2, Query, Words, int], Bits2]
"""(what is private, query, master secret, first device) to released bits, uint8, shape (devices, bits)."""


def flip(private: Bits2 | Indices2, query: Query, master: Words, first: int) -> Bits2:
    """Return randomized responses, each bit's under an equal share of the query's epsilon and a coin of its own.

    Parameters
    ----------
    private : ndarray of uint8, shape (devices, questions)
        Private bits of devices ``first``, ``first + 1``, ...; they are used up.
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
    bits = private.view(np.uint8)
    threshold = bit_channel(query.epsilon_per_question).threshold
    if threshold:
        for question in range(query.questions):
            coins = private_coins(master, first, bits.shape[0], RELEASE, query.words, question)
            bits[:, question] ^= coins < threshold
    return bits


def name_vector(private: Bits2 | Indices2, query: Query, master: Words, first: int) -> Bits2:
    """Return the signed sign vector that each device names, through ``choice_channel(query.epsilon)``.

    Parameters
    ----------
    private : ndarray of int32, shape (devices, sign vectors)
        Signed sums of devices ``first``, ``first + 1``, ...
    query, master, first
        As for `flip`.
    """
    vectors, kept = int(query.parameters["vectors"]), int(query.parameters["kept"])
    channel = choice_channel(query.epsilon, choices=2 * vectors, kept=kept)
    positive, vector = choose(private.view(np.int32), query, channel, master, first)
    return to_bits(positive, vector, vectors)
