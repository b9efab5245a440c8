"""What a private device's release may hold: how many bytes, and which numbers, mechanism by mechanism."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.caps import CapChannel, cap_channel
from coordinator.protocol.checked import LARGEST, require_bytes, require_range, require_whole
from coordinator.protocol.features import ItemFeatures

LARGEST_TOLD = LARGEST**2
"""Absolute value of a number in a release at most: what is completed from large numbers may be larger."""


def moment_channel(features: ItemFeatures, epsilon: Epsilon) -> CapChannel:
    """Return PrivUnit's channel of an r x r moment: ``r (r + 1) / 2`` dimensions."""
    return cap_channel(epsilon, features.moments)


def check_payload(payload: object, mechanism: str, features: ItemFeatures, *, epsilon: Epsilon, own_h: bool) -> None:
    """Refuse bytes that no device answers with.

    Parameters
    ----------
    payload : bytes
        As somebody sent it; see `coordinator.protocol.second_order.SecondOrderRelease`.
    mechanism : str
        What was asked for.
    features : ItemFeatures
        The model that was asked about.
    epsilon : Fraction or None
        What it was asked under [nats].
    own_h : bool
        Whether the device's own h was asked for, too.

    Raises
    ------
    InputError
        If there are more or fewer of them, or they tell places outside of the scale, or numbers that are not finite.
    """
    items = features.items
    sizes = {"pmd": items, "laplace": 8 * items, "exact": 8 * items, "privunit": 2}
    packed = -(-items // 8)
    size = sizes.get(mechanism, packed + 8 * own_h)
    told = require_bytes(f"payload of {mechanism}", payload, size)
    if mechanism == "pmd":
        require_range("places in the scale", np.frombuffer(told, np.uint8), 0, len(features.scale or ()) - 1)
    elif mechanism == "privunit":
        choices = moment_channel(features, epsilon).choice.choices
        require_whole("answer that names a candidate", int.from_bytes(told, "little"), 0, choices - 1)
    elif mechanism in sizes:
        require_range(f"numbers of {mechanism}", np.frombuffer(told, "<f8"), -LARGEST_TOLD, LARGEST_TOLD)
    elif own_h:
        require_range("the device's own h", np.frombuffer(told[packed:], "<f8"), 0, LARGEST_TOLD)
