"""The devices' halves of two-tier mechanisms, a module each: completed vectors become the bytes of releases."""

import functools

import numpy as np

from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.finding import RoomError, by_name, declared
from coordinator.protocol.second_order import SecondOrderQuery


class SecondOrderDevice:
    """What devices do with one mechanism, or several; all of it works on a block of devices at once."""

    names: tuple[str, ...]  # Names of the mechanisms, as in `SecondOrderQuery.mechanism`

    def payloads(self, vectors: Floats2, query: SecondOrderQuery, features: ItemFeatures, coins: Coins) -> list[bytes]:
        """Return one payload a device.

        Shapes: ``vectors`` (devices, m).
        """
        raise NotImplementedError


def packed(signs: Bits2) -> list[bytes]:
    """Return the signs of every device as bytes: 1 for plus, most significant bit first."""
    return [row.tobytes() for row in np.packbits(signs, axis=1)]


@functools.cache
def registered() -> dict[str, SecondOrderDevice]:
    """Return what devices say, by the mechanism's name."""
    return by_name(declared(__name__, __path__, "DEVICE", SecondOrderDevice), lambda part: part.names)


def device_part_of(name: str) -> SecondOrderDevice:
    """Return the device's half of a mechanism that has a public one."""
    if (part := registered().get(name)) is None:
        raise RoomError(f"{__name__} has no half of {name!r}; declare it in a module there")
    return part
