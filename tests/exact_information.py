"""Exact information of one answer about the clusters, by enumeration of tiny models; every bound must lie above."""

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, kl_div
from scipy.stats import binom
from tiny_model import TinyModel, data_channel, possible_data

from coordinator.protocol.arrays import Bits, Floats
from scenarios.theory.bounds import check_epsilon


def maxsense_bits(model: TinyModel, sensed: Sequence[int]) -> Bits:
    """MaxSense's private bit for every possible data, shape (D,): 1 if a sensed item was rated 1."""
    _, ratings = possible_data(model)
    return np.asarray(ratings[:, list(sensed)].any(axis=1), dtype=np.uint8)


def rated_equal_bits(model: TinyModel, pair: tuple[int, int]) -> Bits:
    """Pairwise-Preference's `rated-equal` bit, shape (D,): 1 if both items are rated, and rated equally."""
    rated, ratings = possible_data(model)
    one, other = pair
    both = rated[:, one] & rated[:, other]
    return np.asarray(both & (ratings[:, one] == ratings[:, other]), dtype=np.uint8)


def bit_release(bits: Bits, *, epsilon: float) -> Floats:
    """`P(released bit | data)`, shape (D, 2): kept with probability `e^eps / (1 + e^eps)` (Prop. 4 [2.4])."""
    check_epsilon(epsilon)
    keep = float(expit(epsilon))
    one = np.where(bits == 1, keep, 1.0 - keep)
    return np.stack([1.0 - one, one], axis=1)


def exact_information(model: TinyModel, release: Floats) -> float:
    """Mutual information `I(Z; S)` of the labels and one answer [nats].

    Examples
    --------
    >>> model = TinyModel(items=2, rated=2)
    >>> bits = rated_equal_bits(model, (0, 1))
    >>> round(exact_information(model, bit_release(bits, epsilon=float("inf"))), 9)  # one bit, ln 2
    0.693147181
    """
    law = data_channel(model) @ release
    return float(kl_div(law, law.mean(axis=0)).sum() / len(law))


def chi_square_information(model: TinyModel, release: Floats) -> float:
    """Lemma 9's bound on `I(Z; S)` [nats], `E_S[ sum_z P(z | S)^2 / P(z) ] - 1`.

    For certain ratings it is `E_S E[2^|I1 n I2| 1(Z1 = Z2 where both are rated) - 1]`, the form in the paper; the
    proof, `ln x <= x - 1`, is the same for uncertain ones.
    """
    law = data_channel(model) @ release
    mean = law.mean(axis=0)
    return float(((law - mean)[:, mean > 0] ** 2 / mean[mean > 0]).sum() / len(law))


def maxsense_information(model: TinyModel, *, epsilon: float, theta: float = 1.0) -> float:
    """`I(Z; S | H)` [nats]: MaxSense with its public sensing set, each item with probability `theta / w`."""
    told = 0.0
    for size in range(1, model.items + 1):  # by symmetry only the size of the sensing set matters
        release = bit_release(maxsense_bits(model, range(size)), epsilon=epsilon)
        weight = float(binom.pmf(size, model.items, theta / model.rated))
        told += weight * exact_information(model, release)
    return told


def pairwise_information(model: TinyModel, *, epsilon: float) -> float:
    """`I(Z; S | pair)` [nats]: Pairwise-Preference, `rated-equal`; the same for every pair."""
    return exact_information(model, bit_release(rated_equal_bits(model, (0, 1)), epsilon=epsilon))
