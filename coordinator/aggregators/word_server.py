"""The server that gets words: each device's vector, less what the device's seed expands to."""

import numpy as np

from coordinator.aggregators.gathering import ShareServer
from coordinator.protocol.arrays import Bits, Counts, read_only
from coordinator.protocol.hashing import add_rows
from coordinator.protocol.shares import WORDS_SERVER, WordShare


class WordServer(ShareServer[WordShare]):
    """Adds words up, which are uniform: it sees no device's vector, and no sum of some of them."""

    side = WORDS_SERVER

    def arrived(self, share: object) -> WordShare:
        """Return a share of words, checked."""
        return WordShare.arrived(share)

    def add(self, share: WordShare, heard: Bits, total: Counts) -> None:
        """Add words to a sum."""
        add_rows(share.rows(), heard, total)

    def rehearse(self, width: int) -> None:
        """Compile what adds words up."""
        add_rows(read_only(np.zeros((1, width), np.uint32)), np.ones(1, np.uint8), np.zeros(width, np.uint32))
