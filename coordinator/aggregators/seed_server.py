"""The server that gets seeds: coins of devices, which it expands to the words that the other server's lack."""

import numpy as np

from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.arrays import Bits, Counts, read_only
from coordinator.protocol.hashing import add_expansions
from coordinator.protocol.shares import SEEDS_SERVER, SeedShare


class SeedServer(ShareServer[SeedShare]):
    """Expands seeds and adds up: what it gets does not depend on ratings at all."""

    side = SEEDS_SERVER

    def arrived(self, share: object) -> SeedShare:
        """Return a share of seeds, checked."""
        return SeedShare.arrived(share)

    def add(self, share: SeedShare, heard: Bits, total: Counts) -> None:
        """Add what seeds expand to."""
        add_expansions(share.keys(), heard, total)

    def rehearse(self, width: int) -> None:
        """Compile what expands seeds."""
        add_expansions(read_only(np.zeros((1, 2), np.uint64)), np.ones(1, np.uint8), np.zeros(width, np.uint32))
