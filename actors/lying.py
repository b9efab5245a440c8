"""Devices with liars among them, for each family: who lies, and how a block of them answers.

Liars of the main family make up ratings or answers. Voters agreed to vote for something else than a client
likes, at once or group after group. Private devices of two tiers made up one vector together, and answer about it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from actors import lies
from actors.device import Cohort, Reports, ones_in, reports_of, sketch_of
from actors.private_cohort import PrivateCohort
from actors.ratings import StoredRatings
from actors.seeds import LIARS, Coins, private_coins
from actors.shares import noisy, vectors_of
from actors.voters import Voters
from coordinator.protocol.arrays import (
    Bits,
    Bits2,
    Bools,
    Bools2,
    Floats,
    Floats2,
    Indices,
    Indices2,
    Ints,
    Words,
    Words32,
)
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.rating_table import Rows, RowTable
from coordinator.protocol.shared_vector import SharedVector

PROFILES = 8192  # How many different made-up users there are; further liars repeat the ratings of one of them


def made_up(collusion: lies.Collusion, devices: int, *, rated_public: bool = False) -> StoredRatings:
    """Return the ratings that every device would claim if it lied."""
    # A made-up user rated as many items as others did: first wished ones, in turn, each as wished, and then, if it has
    # ratings left, other items, in turn, which it dislikes, so that they do not hide its likes. Where clusters have no
    # order, half of its ratings at most are of wished items, and of the others it likes the first cluster: there its
    # rating of an item counts only beside its ratings of others.
    wished, rest = (np.flatnonzero(collusion.wishes != 0), np.flatnonzero(collusion.wishes == 0))
    coins = np.random.default_rng(0)
    wished_count = min(collusion.rated if collusion.ordered else -(-collusion.rated // 2), wished.size)
    liked = (collusion.wishes if collusion.ordered else collusion.claims) > 0
    promoted = _in_turn(coins.permutation(wished), wished_count)
    others = _in_turn(coins.permutation(rest), collusion.rated - wished_count)
    items = np.sort(np.concatenate([promoted, others], axis=1), axis=1)
    starts = np.arange(len(items) + 1, dtype=np.int64) * items.shape[1]
    rows = RowTable(starts=starts, items=items.ravel(), values=liked[items.ravel()], count=collusion.wishes.size)
    user = (np.arange(devices) % PROFILES).astype(np.int32)
    return StoredRatings(rows=rows, user=user, rated_public=rated_public)


def _in_turn(items: Ints, each: int) -> Indices2:
    """Return ``each`` items, or all where there are fewer, for each made-up user; all items equally often."""
    each = min(each, items.size)
    if not each:
        return np.empty((PROFILES, 0), np.int32)
    turns = np.arange(PROFILES)[:, None] * each + np.arange(each)
    turn_items: Indices2 = items[turns % items.size].astype(np.int32)
    return turn_items


class LyingCohort(Cohort):
    """Devices as in `Cohort`; each lies or not by its own coin, and liars follow their `Collusion`."""

    def __init__(self, *block: Any, collusion: lies.Collusion, **settings: Any) -> None:
        super().__init__(*block, **settings)
        self.collusion = collusion

    def _reports(self, query: Query, first: int, stop: int) -> Reports:
        coins = self._coins(query, first, stop)
        liars = lies.liars_among(coins, self.collusion.share)
        if not liars.size:
            return super()._reports(query, first, stop)
        lie = lies.lie_about(query.design)
        if lie is None or self.collusion.makes_up == lies.RATINGS:
            return self._of_made_up_ratings(query, coins, liars)
        private, able, pairs = sketch_of(query, self._ratings, coins)
        own_pairs = None if pairs is None else pairs[liars]
        view = lies.LiarsView(query=query, collusion=self.collusion, coins=coins, liars=liars, pairs=own_pairs)
        bits = mechanism_of(query.design).packed(private, query, coins)
        lies.put_rows(bits, liars, lie.answers(view, lies.rows_of(bits, query.bits, liars)))
        return Reports(bits, able, pairs)

    def _vectors(self, query: Query, mechanism: SharedVector, coins: Coins, heard: Bits) -> Words32:
        """Return devices' vectors; liars add no noise to theirs, which nobody counts on."""
        liars = lies.liars_among(coins, self.collusion.share)
        if not liars.size:
            return super()._vectors(query, mechanism, coins, heard)
        width = mechanism.width(query)
        vectors = vectors_of(ones_in(query, self._ratings, coins), width)
        if self.collusion.makes_up == lies.RATINGS:
            made_up_ones: Indices2 = np.ascontiguousarray(ones_in(query, self._made_up, coins)[liars])
            vectors[liars] = vectors_of(made_up_ones, width)
        else:
            view = lies.LiarsView(query=query, collusion=self.collusion, coins=coins, liars=liars)
            vectors[liars] = promoting(view, mechanism)
        honest = heard.copy()
        honest[liars] = 0
        noisy(query, mechanism, coins, honest, vectors)
        return vectors

    @cached_property
    def _made_up(self) -> StoredRatings:
        return made_up(self.collusion, self._ratings.users, rated_public=self._ratings.rated_public)

    def _of_made_up_ratings(self, query: Query, coins: Coins, liars: Ints) -> Reports:
        """Return the reports if liars answer as their devices would with made-up ratings."""
        honest, made_up_reports = reports_of(query, self._ratings, coins), reports_of(query, self._made_up, coins)
        lies.put_rows(honest.bits, liars, lies.rows_of(made_up_reports.bits, query.bits, liars))
        able, pairs = honest.able, honest.pairs
        if made_up_reports.able is not None or able is not None:
            able = np.ones(coins.devices, np.bool_) if able is None else able
            able[liars] = True if made_up_reports.able is None else made_up_reports.able[liars]
        if pairs is not None and made_up_reports.pairs is not None:
            pairs[liars] = made_up_reports.pairs[liars]
        return Reports(honest.bits, able, pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LyingVoters:
    """Voters that lie or not, each by its own coin; honest ones vote as they would without liars.

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

    def cast_votes(self, master: Words, ballot: Ballot, voters: Indices) -> Bits2:
        """Return votes; see `actors.voters.Voters.cast_votes`."""
        votes = self.honest.cast_votes(master, ballot, voters)
        if not voters.size:
            return votes
        first = int(voters[0])
        lying = self.lying(master, first, int(voters[-1]) + 1 - first)[voters - first]
        coins = private_coins(master, first, int(voters[-1]) + 1 - first, LIARS, lies.NO_QUERY, 1)[voters - first][
            lying
        ]
        group = np.floor(-np.log2((coins.astype(np.float64) + 1) / 2.0**64)).astype(np.int64)
        rounds = np.arange(ballot.first, ballot.stop)
        likes = self.likes[ballot.service.client][rounds]
        wrong, right = likes.argmin(axis=1)[:, None], likes.argmax(axis=1)[:, None]
        votes[:, lying] = np.where(rounds[:, None] >= group * self.stage, wrong, right).astype(np.uint8)
        return votes

    def lying(self, master: Words, first: int, devices: int) -> Bools:
        """Return which of devices ``first`` on lie, bool, shape (devices,)."""
        liars = np.zeros(devices, np.bool_)
        liars[lies.liars_among(Coins(master, first, devices, lies.NO_QUERY), self.share)] = True
        return liars


LOUD = 10.0  # Ratio of a liar's residuals to the average of public users', where a mechanism releases their size


@dataclass(frozen=True, slots=True, kw_only=True)
class Poison:
    """The agreement of lying private devices."""

    share: float  # Share of the private devices that lie, 0 to 1
    # The vector that all liars claim to have, 1 or -1 an item, in units of `LOUD` times the public h; shape (m,)
    signs: Floats = field(repr=False)


class PoisoningCohort(PrivateCohort):
    """Private devices that lie or not, each by its own coin; the local randomizer stays."""

    def __init__(self, *block: Any, poison: Poison, **settings: Any) -> None:
        super().__init__(*block, **settings)
        self.poison = poison

    def _vectors(self, features: ItemFeatures, ratings: Rows, coins: Coins) -> Floats2:
        vectors = super()._vectors(features, ratings, coins)
        which = lies.liars_among(coins, self.poison.share)
        vectors[which] = LOUD * features.common_h * self.poison.signs
        return vectors


def poisoned(poison: Poison, master: Words, devices: int) -> int:
    """Return how many of a population's private devices lie; for the experimenter."""
    return int(lies.liars_among(Coins(master, 0, devices, lies.NO_QUERY), poison.share).size)


def proven(vectors: Words32, most: int) -> Words32:
    """Return vectors after an ideal proof: zeros and ones with at most ``most`` ones pass, all others become 0."""
    honest = (vectors <= 1).all(axis=1) & (vectors.sum(axis=1, dtype=np.int64) <= most)
    return np.where(honest[:, None], vectors, np.uint32(0))


def promoting(view: lies.LiarsView, mechanism: SharedVector) -> Words32:
    """Return liars' vectors, uint32, shape (n, width): as much for the wished items as the check of vectors lets pass.

    With an ideal proof a liar has at most `SharedVector.ones` ones, on words about wished items, in turn where there
    are more. Without one it adds to all of them what `Collusion.overflow` says: so much that one liar's item comes
    first, and so little that all liars' sum keeps its sign.
    """
    width, most = mechanism.width(view.query), mechanism.ones(view.query)
    wished = np.flatnonzero(mechanism.words_about(view.query, view.wishes > 0))
    vectors = np.zeros((view.liars.size, width), np.uint32)
    if not wished.size:
        return vectors
    if overflow := view.collusion.overflow:
        vectors[:, wished] = overflow
        return vectors
    each = min(most, wished.size)
    turns = (view.choices % np.uint64(wished.size)).astype(np.int64)[:, None] + np.arange(each)
    np.put_along_axis(vectors, wished[turns % wished.size], np.uint32(1), axis=1)
    return proven(vectors, most)
