"""Mechanisms by name, as a private device runs them: a completed vector goes in, the bytes of its release come out.

What each promises stands in `coordinator.protocol.second_order_mechanisms.MECHANISMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from actors.second_order.coins import Coins
from actors.second_order.directions import directions
from actors.second_order.pmc import flipped_signs, own_h
from actors.second_order.pmd import candidate, candidate_values
from actors.second_order.privunit import named
from actors.second_order.rivals import corners, noisy_places
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.grid_noise import grid_laplace
from coordinator.protocol.payloads import moment_channel
from coordinator.protocol.second_order import SecondOrderQuery, basis_of, sslp_clip


class Asked(NamedTuple):
    """What devices are asked, about which public model, and the private coins that they answer with."""

    query: SecondOrderQuery
    features: ItemFeatures
    coins: Coins


Speaker = Callable[[Floats2, Asked], list[bytes]]
"""(residuals r' of devices, shape (devices, m); what they are asked) to one payload a device."""


def _packed(signs: Bits2) -> list[bytes]:
    return [row.tobytes() for row in np.packbits(signs, axis=1)]


def pmd(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release one of K candidate vectors; see `actors.second_order.pmd`."""
    values = candidate_values(asked.features)
    told = candidate(residuals, values, asked.coins, ratings=len(asked.features.scale or ()))
    return [row.tobytes() for row in told]


def pmc(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release the sign vector or its opposite, with bits flipped if there is an epsilon, and h if it is asked for.

    See `actors.second_order.pmc`.
    """
    told = _packed(flipped_signs(residuals, asked.coins, asked.query.epsilon))
    if not asked.query.own_h:
        return told
    return [signs + size.tobytes() for signs, size in zip(told, own_h(residuals).astype("<f8"), strict=True)]


def laplace(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release the clipped completed vector with Laplace noise on every coordinate; see `rivals.noisy_places`."""
    features, channel = asked.features, grid_laplace(asked.query.epsilon)
    width = features.highest - features.lowest
    shares = (residuals + (features.mean - features.lowest)) / width
    told = features.lowest + noisy_places(shares, channel, asked.coins) * (width / channel.steps)
    return [row.tobytes() for row in told.astype("<f8")]


def sslp(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release a corner of the cube; see `rivals.corners`. Its bound M is half the width of the range of ratings."""
    shares = residuals / sslp_clip(asked.features)
    return _packed(corners(shares, bit_channel(asked.query.epsilon), asked.coins))


def privunit(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release which public candidate is near the second moment of the vector's direction; see `privunit.named`."""
    query, features = asked.query, asked.features
    told = named(
        directions(residuals, basis_of(features)), moment_channel(features, query.epsilon), query.id, asked.coins
    )
    return [answer.tobytes() for answer in told.astype("<u2")]


def exact(residuals: Floats2, asked: Asked) -> list[bytes]:
    """Release the completed vector itself: no privacy."""
    return [row.tobytes() for row in (residuals + asked.features.mean).astype("<f8")]


SPEAKERS: dict[str, Speaker] = {
    "pmd": pmd,
    "pmc": pmc,
    "pmc-rr": pmc,
    "laplace": laplace,
    "sslp": sslp,
    "privunit": privunit,
    "exact": exact,
}
"""What each of `MECHANISMS` does on a device."""
