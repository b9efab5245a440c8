"""How many items devices like, from what a group of them told of it: shares of ranges, and of numbers within these."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Floats, Ints

PRIOR = 1.0
"""Devices that are thought to have said each range without noise: where hardly anybody answered, ranges are alike."""
STEPS = 1000
"""Steps of expectation and maximisation."""


def range_shares(counts: Ints, own: float, other: float) -> Floats:
    """Return the most probable share of devices in each range, float64, shape (K,), none of them 0.

    Parameters
    ----------
    counts : ndarray of int64, shape (K,)
        Devices that released each range.
    own, other : float
        Probability that a device releases its own range, and any other one.

    Examples
    --------
    >>> range_shares(np.array([0, 997, 0]), 1.0, 0.0).tolist()
    [0.001, 0.998, 0.001]
    """
    shares = np.full(counts.size, 1 / counts.size)
    for _ in range(STEPS):
        weight = counts / (other + (own - other) * shares)
        found = shares * (other * weight.sum() + (own - other) * weight)
        shares = (found + PRIOR) / (counts.sum() + PRIOR * counts.size)
    return shares


def number_shares(shares: Floats, most: int) -> Floats:
    """Return the share of devices that like 0, 1, ... items, shape (numbers,); within a range l has the weight 1 / l.

    Parameters
    ----------
    shares : ndarray of float64, shape (K,)
        Of devices in each range; the i-th ends before ``2**i``, and so does the last, which is open.
    most : int
        Number of items that are asked about.

    Examples
    --------
    >>> number_shares(np.array([0.1, 0.2, 0.3, 0.4]), 5).round(3).tolist()
    [0.1, 0.2, 0.18, 0.12, 0.222, 0.178]
    """
    numbers = np.zeros(min(most, 2 ** (shares.size - 1) - 1) + 1)
    numbers[0] = shares[0]
    for place, share in enumerate(shares[1:].tolist()):
        liked = np.arange(1 << place, min(2 << place, numbers.size))
        numbers[liked] = share / liked / (1 / liked).sum()
    return numbers
