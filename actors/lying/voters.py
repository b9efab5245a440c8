"""Voters that lie: whatever a client likes, they agreed to vote for something else, at once or group after group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from actors.coins import Coins
from actors.lying.plot import liars_among
from actors.seeds import LIARS, private_coins
from actors.voters import Voters
from coordinator.protocol.arrays import Bits2, Bools, Bools2, Indices, Words
from coordinator.protocol.ballots import Ballot, Service

_NOTHING = np.zeros(2, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingVoters:
    """Voters of whom those lie whom a coin of their own chooses; the others vote as they would without them.

    A group of liars votes for a disliked object from its first round on, and before that for a liked one, so that it
    is not kicked out. Half of the liars are in group 0, a quarter in group 1, and so on: this is slow halving, of the
    spec of p-REC, section 7.

    Attributes
    ----------
    honest : Voters
        All voters, as they would vote.
    share : float
        Share of them that lies, 0 to 1.
    likes : mapping of int to ndarray of bool, shape (T, m)
        What each client likes. Liars know it, which is an upper bound.
    stage : int
        Rounds between the first lies of one group and of the next one; 0: all groups lie from the first round on.
    """

    honest: Voters
    share: float
    likes: Mapping[int, Bools2] = field(repr=False)
    stage: int

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.honest.users

    def check(self, service: Service) -> None:
        """Refuse a service that voters have no opinions about; see `actors.voters.Voters.check`."""
        self.honest.check(service)

    def cast(self, master: Words, ballot: Ballot, electors: Indices) -> Bits2:
        """Return votes; see `actors.voters.Voters.cast`."""
        votes = self.honest.cast(master, ballot, electors)
        if not electors.size:
            return votes
        low = int(electors[0])
        lying = self.lying(master, low, int(electors[-1]) + 1 - low)[electors - low]
        coins = private_coins(master, low, int(electors[-1]) + 1 - low, LIARS, _NOTHING, 1)[electors - low][lying]
        group = np.floor(-np.log2((coins.astype(np.float64) + 1) / 2.0**64)).astype(np.int64)
        rounds = np.arange(ballot.first, ballot.stop)
        likes = self.likes[ballot.service.client][rounds]
        wrong, right = likes.argmin(axis=1)[:, None], likes.argmax(axis=1)[:, None]
        votes[:, lying] = np.where(rounds[:, None] >= group * self.stage, wrong, right).astype(np.uint8)
        return votes

    def lying(self, master: Words, first: int, devices: int) -> Bools:
        """Return which of devices ``first`` on lie, bool, shape (devices,)."""
        found = np.zeros(devices, np.bool_)
        found[liars_among(Coins(master, first, devices, _NOTHING), self.share)] = True
        return found
