"""Layout: how many devices a cohort has and a call asks. It affects speed and never changes an answer."""

from __future__ import annotations

from dataclasses import dataclass

from coordinator.protocol.errors import InputError

LARGEST_BLOCK, WIDE_BLOCK = 1 << 19, 1 << 17
"""Most devices that one call asks for a bit each, and for more bits each, whose sketches take more memory."""
SMALLEST_BLOCK = 1 << 13
BLOCKS_A_WORKER = 8
MOST_BITS = 1 << 24
"""Most bits that one call brings back if devices answer many questions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How devices are divided among processes.

    Attributes
    ----------
    devices : int
        Number of devices.
    workers : int
        Device blocks that are computed at the same time.
    devices_per_actor : int
        Size of a cohort.
    """

    devices: int
    workers: int
    devices_per_actor: int

    def __post_init__(self) -> None:
        for name in ("devices", "workers", "devices_per_actor"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; it must be at least 1")

    @property
    def cohorts(self) -> list[tuple[int, int]]:
        """The cohorts, ``[first, stop)`` each."""
        return cut(0, self.devices, self.devices_per_actor)

    @property
    def block(self) -> int:
        """Most devices that one call asks for a bit each: a multiple of 8, so that packed bits are joined as bytes."""
        wanted = self.devices // (self.workers * BLOCKS_A_WORKER) // 8 * 8
        return min(max(wanted, SMALLEST_BLOCK), LARGEST_BLOCK)

    def block_of(self, bits: int) -> int:
        """Most devices that one call asks if each releases so many ``bits``; also a multiple of 8."""
        most = self.block if bits == 1 else min(self.block, WIDE_BLOCK)
        return min(most, max(MOST_BITS // bits // 8 * 8, 8))


def plan_layout(*, devices: int, workers: int, devices_per_actor: int | None) -> Layout:
    """Return a layout; by default each worker has one cohort."""
    if devices_per_actor is None:
        fair = -(-max(devices, 1) // max(workers, 1))
        devices_per_actor = -(-fair // 8) * 8
    return Layout(devices=devices, workers=workers, devices_per_actor=devices_per_actor)


def cut(first: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Cut ``[first, stop)`` into pieces of ``size``, the last one smaller where it does not fit."""
    return [(start, min(start + size, stop)) for start in range(first, stop, size)]
