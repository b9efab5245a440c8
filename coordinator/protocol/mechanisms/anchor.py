"""Anchor sensing in public: signs of a pool's pairs, and signs that a guess of the device's own class turns.

`PairSigns`: every pair of the pool's items has a public sign, in the order of an upper triangle's rows, laid out as
`coordinator.protocol.public_draws` lays out items. The private bit is the sign of the sum over pairs that the
device rated: the pair's sign times both ratings, each counted from its item's centre, if there are centres.

`Anchor`: there are K classes of users. A rated item either serves the device's guess of its class or is sensed; see
`coordinator.protocol.public_draws`. With r = 0 for a dislike and 1 for a like, all of it whole numbers:

- ``prior[k] + sum guess[2 k + r, i]`` over rated items that are not sensed is the score of class k. The device guesses
  the class of the highest score; among equal ones its private coin chooses.
- The private bit is the sign of ``lean[k] + sum H_i counts[2 k + r, i]`` over rated items that are sensed, where k is
  the class that was guessed and ``H_i`` the item's public sign.

In both a private fair coin decides where the sum is 0, and randomized response under the whole epsilon releases the
bit.
"""

import numpy as np

from coordinator.protocol.checked import require_array
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query
from coordinator.protocol.pools import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.protocol.public_half import OneBit

MOST_CLASSES, MOST_LEVELS, MOST_POOL = 64, 64, 1024
"""User classes, levels of a sensing coin, and items of a pool of pairs, at most."""


class PairSigns(OneBit):
    """Pairs are those of the pool's items; ratings may be counted from centres."""

    name = "pair-signs"
    pooled = True
    centred = True

    def check(self, query: Query) -> None:
        if query.pool is not None and not 2 <= query.pool.size <= MOST_POOL:
            raise InputError(f"{query} is about pairs of {query.pool.size} items; give 2 to {MOST_POOL}")


class Anchor(OneBit):
    """Everything that a device adds up comes with the query, so that any learner can stand behind it."""

    name = "anchor"
    parameters = frozenset({LEVELS})
    arrays = frozenset({PRIOR, GUESS, COUNTS, LEAN, SENSED})

    def check(self, query: Query) -> None:
        levels, arrays = query.parameters[LEVELS], query.arrays
        if levels not in {1 << power for power in range(MOST_LEVELS.bit_length())}:
            raise InputError(f"{query} has {levels:g} levels; give a power of two, 1 to {MOST_LEVELS}")
        classes = require_array("prior of a query", arrays[PRIOR], np.int32, [None]).size
        if not 1 <= classes <= MOST_CLASSES:
            raise InputError(f"{query} has {classes} classes; give 1 to {MOST_CLASSES}")
        require_array("lean of a query", arrays[LEAN], np.int32, [classes])
        for name in (GUESS, COUNTS):
            require_array(f"{name} of a query", arrays[name], np.int32, [2 * classes, query.items])
        require_array("sensed of a query", arrays[SENSED], np.int32, [query.items], 0, levels)


PUBLIC = (PairSigns(), Anchor())
