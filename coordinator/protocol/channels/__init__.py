"""Exact channels of local randomizers, in whole 64-bit coins: each with its epsilon, its chances and its sampler."""

from __future__ import annotations

from coordinator.protocol.channels.channel import (
    COIN,
    LARGEST_EPSILON,
    SMALLEST_EPSILON,
    BitChannel,
    Channel,
    CoinOf,
    LogRatio,
    Sampled,
    bit_channel,
    odds_within,
)
from coordinator.protocol.channels.independent import (
    IndependentBits,
    UnaryChannel,
    flipped_bits,
    independent_bits,
    unary_channel,
)
from coordinator.protocol.channels.matrix import Likelihood, MatrixChannel, matrix_channel
from coordinator.protocol.channels.values import (
    ChoiceChannel,
    KaryChannel,
    SubsetChannel,
    choice_channel,
    kary_channel,
    subset_channel,
)

__all__ = [
    "COIN",
    "LARGEST_EPSILON",
    "SMALLEST_EPSILON",
    "BitChannel",
    "Channel",
    "ChoiceChannel",
    "CoinOf",
    "IndependentBits",
    "KaryChannel",
    "Likelihood",
    "LogRatio",
    "MatrixChannel",
    "Sampled",
    "SubsetChannel",
    "UnaryChannel",
    "bit_channel",
    "choice_channel",
    "flipped_bits",
    "independent_bits",
    "kary_channel",
    "matrix_channel",
    "odds_within",
    "subset_channel",
    "unary_channel",
]
