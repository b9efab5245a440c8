"""What a private device's release may hold: how many bytes, and which numbers, mechanism by mechanism."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.checked import LARGEST, require_bytes, require_range
from coordinator.protocol.features import ItemFeatures

LARGEST_TOLD = LARGEST**2
"""Absolute value of a number in a release at most: what is completed from large numbers may be larger."""


def check_payload(payload: object, mechanism: str, features: ItemFeatures, *, own_h: bool) -> None:
    """Refuse bytes that no device answers with.

    Parameters
    ----------
    payload : bytes
        As somebody sent it; see `coordinator.protocol.second_order.SecondOrderRelease`.
    mechanism : str
        What was asked for.
    features : ItemFeatures
        The model that was asked about.
    own_h : bool
        Whether the device's own h was asked for, too.

    Raises
    ------
    InputError
        If there are more or fewer of them, or they tell places outside of the scale, or numbers that are not finite.
    """
    items, moment = features.items, features.rank * (features.rank + 1) // 2
    numbers = {"laplace": 8 * items, "exact": 8 * items, "privunit": 8 * moment}
    packed = -(-items // 8)
    size = items if mechanism == "pmd" else numbers.get(mechanism, packed + 8 * own_h)
    told = require_bytes(f"payload of {mechanism}", payload, size)
    if mechanism == "pmd":
        require_range("places in the scale", np.frombuffer(told, np.uint8), 0, len(features.scale or ()) - 1)
    elif mechanism in numbers:
        require_range(f"numbers of {mechanism}", np.frombuffer(told, "<f8"), -LARGEST_TOLD, LARGEST_TOLD)
    elif own_h:
        require_range("the device's own h", np.frombuffer(told[packed:], "<f8"), 0, LARGEST_TOLD)
