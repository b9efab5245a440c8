"""Liars of the other families: voters of p-REC, and private devices of two tiers that poison item features.

Voters agreed to vote for something else than a client likes, at once or group after group; private devices made up one
vector together, and answer about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actors.lying.lies import liars_among
from actors.second_order.cohort import PrivateCohort
from actors.seeds import LIARS, Coins, private_coins
from actors.voters import Voters
from coordinator.protocol.arrays import Bits2, Bools, Bools2, Floats, Floats2, Indices, Words
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rating_table import Rows

_NOTHING = np.zeros(2, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingVoters:
    """Voters each of which lies or not by its own coin; the others vote as they would without liars.

    A group of liars votes for a disliked object from its first round on, and before that for a liked one, so that it
    is not kicked out. Half of the liars are in group 0, a quarter in group 1, and so on: this is slow halving, of the
    spec of p-REC, section 7.
    """

    honest: Voters  # All voters, as they would vote if none lied
    share: float  # Share of the voters that lie, 0 to 1
    # What each client likes, shape (T, m). Liars know it, so the harm that they do is an upper bound
    likes: Mapping[int, Bools2] = field(repr=False)
    # Rounds from the first lie of one group to that of the next one; with 0 all groups lie from the first round on
    stage: int

    @property
    def users(self) -> int:
        """Number of devices."""
        return self.honest.users

    def check(self, service: Service) -> None:
        """Refuse a service that voters have no opinions about; see `actors.voters.Voters.check`."""
        self.honest.check(service)

    def cast(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:
        """Return votes; see `actors.voters.Voters.cast`."""
        votes = self.honest.cast(master, ballot, voters)
        if not voters.size:
            return votes
        first = int(voters[0])
        lying = self.lying(master, first, int(voters[-1]) + 1 - first)[voters - first]
        coins = private_coins(master, first, int(voters[-1]) + 1 - first, LIARS, _NOTHING, 1)[voters - first][lying]
        group = np.floor(-np.log2((coins.astype(np.float64) + 1) / 2.0**64)).astype(np.int64)
        rounds = np.arange(ballot.first, ballot.stop)
        likes = self.likes[ballot.service.client][rounds]
        wrong, right = likes.argmin(axis=1)[:, None], likes.argmax(axis=1)[:, None]
        votes[:, lying] = np.where(rounds[:, None] >= group * self.stage, wrong, right).astype(np.uint8)
        return votes

    def lying(self, master: Words, first: int, devices: int) -> Bools:
        """Return which of devices ``first`` on lie, bool, shape (devices,)."""
        liars = np.zeros(devices, np.bool_)
        liars[liars_among(Coins(master, first, devices, _NOTHING), self.share)] = True
        return liars


LOUD = 10.0  # Ratio of a liar's residuals to the average of public users', where a mechanism releases their size


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """The agreement of lying private devices."""

    share: float  # Share of the private devices that lie, 0 to 1
    # The vector that all liars claim to have, 1 or -1 an item, in units of `LOUD` times the public h; shape (m,)
    signs: Floats = field(repr=False)


class PoisoningCohort(PrivateCohort):
    """Private devices each of which lies or not by its own coin; the local randomizer stays."""

    def __init__(self, *block: Any, poison: Poison, **settings: Any) -> None:
        super().__init__(*block, **settings)
        self.poison = poison

    def _vectors(self, features: ItemFeatures, own: Rows, coins: Coins) -> Floats2:
        vectors = super()._vectors(features, own, coins)
        which = liars_among(coins, self.poison.share)
        vectors[which] = LOUD * features.common_h * self.poison.signs
        return vectors


def poisoned(poison: Poison, master: Words, devices: int) -> int:
    """Return how many of a population's private devices lie; for the experimenter."""
    return int(liars_among(Coins(master, 0, devices, np.zeros(2, np.uint64)), poison.share).size)
