"""Local randomizers: private bits become a release through a public channel, with the device's own coins."""

from __future__ import annotations

from actors.seeds import release_coins
from coordinator.protocol.arrays import Bits2, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query


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
        for question in range(query.questions):
            coins = release_coins(master, first, bits.shape[0], query.words, question)
            bits[:, question] ^= coins < threshold
