"""The project's objects, built from the oracle's worlds."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import reference
from reference import Gaps, World

from actors.ratings import BlockRatings, StoredRatings
from coordinator.aggregation import Statistic
from coordinator.pair_statistics import PairStatistic
from coordinator.protocol.arrays import Bits
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.sensing import sensing_table
from coordinator.statistics import ScoreStatistic

SECRET = reference.derive(0, "devices")
PUBLIC = reference.derive(0, "public")


def world(
    *,
    items: int,
    rated: int,
    like: Sequence[Sequence[float]] = ((0.9, 0.1),),
    shares: Sequence[float] = (1.0,),
    secret: bytes = SECRET,
) -> World:
    """A world whose items belong to the clusters in turn."""
    return World(
        secret=secret,
        rated=rated,
        like=tuple(tuple(row) for row in like),
        shares=tuple(shares),
        clusters=tuple(item % len(like[0]) for item in range(items)),
    )


def block_ratings(of: World, users: int = 1 << 20) -> BlockRatings:
    """The same world as the project's devices draw it."""
    return BlockRatings(
        users=users,
        rated_items=of.rated,
        like=np.array(of.like),
        class_shares=np.array(of.shares),
        clusters=np.array(of.clusters, np.int32),
        rated_public=True,  # so that devices can be asked every design; refusals have tests of their own
    )


def stored_ratings(users: Sequence[dict[int, bool]], behind: Sequence[int], items: int) -> StoredRatings:
    """The users' ratings in CSR; device i stands for user ``behind[i]``."""
    rows = [dict(sorted(user.items())) for user in users]
    return StoredRatings(
        items=items,
        starts=np.cumsum([0, *(len(row) for row in rows)]),
        rated_items=np.array([item for row in rows for item in row], np.int32),
        likes=np.array([like for row in rows for like in row.values()], np.bool_),
        user=np.array(behind, np.int32),
        rated_public=True,
    )


def maxsense_query(
    *, items: int, sensing: float, epsilon: Epsilon = None, round_number: int = 0, public_seed: bytes = PUBLIC
) -> Query:
    """A MaxSense query."""
    return Query(
        design="maxsense",
        items=items,
        round=round_number,
        public_seed=public_seed,
        epsilon=epsilon,
        parameters={"sensing": sensing},
    )


def public_stream(query: Query, device: int) -> int:
    """The oracle's public stream of a device in the query's round."""
    return reference.public_stream(query.public_seed, query.round, device)


def released(query: Query, secret: bytes, device: int, bits: Sequence[int]) -> list[int]:
    """What the oracle's device lets out of its private bits, one a question, each under an equal share."""
    share = query.epsilon_per_question
    flips = 0 if share is None else reference.flips(share)
    return [
        bit ^ (reference.release_coin(secret, device, query.id, question) < flips) for question, bit in enumerate(bits)
    ]


def gap_table(sensing: float) -> Gaps:
    """The project's alias table, as the oracle reads one."""
    table = sensing_table(sensing)
    codes = table.codes.tolist()
    return list(zip(table.thresholds.tolist(), codes[1::2], codes[::2], strict=True))


def sensing_sets(query: Query, devices: range) -> list[list[int]]:
    """The oracle's sensing sets of ``devices``."""
    table = gap_table(query.parameters["sensing"])
    return [reference.sensing_set(query.public_seed, query.round, device, query.items, table) for device in devices]


def expected_bits(of: World, query: Query, devices: range) -> list[int]:
    """The oracle's released bits of ``devices``."""
    flips = 0 if query.epsilon is None else reference.flips(Fraction(query.epsilon))
    return [
        reference.maxsense_bit(of.ratings(device), sensed)
        ^ (reference.release_coin(of.secret, device, query.id, 0) < flips)
        for device, sensed in zip(devices, sensing_sets(query, devices), strict=True)
    ]


def release_of(query: Query, bits: Sequence[int], *, first: int = 0, silent: Sequence[int] = ()) -> Release:
    """A release with these bits; the devices at positions ``silent`` did not answer."""
    heard = np.ones(len(bits), np.uint8)
    heard[list(silent)] = 0
    told: Bits = np.array(bits, np.uint8) * heard
    return Release(
        query_id=query.id,
        first=first,
        count=len(bits),
        questions=1,
        bits=pack(told),
        answered=pack(heard) if len(silent) else None,
        refused=len(silent),
    )


def scores_of(statistic: Statistic) -> ScoreStatistic:
    """The statistic, which is MaxSense's."""
    assert isinstance(statistic, ScoreStatistic)
    return statistic


def pairs_of(statistic: Statistic) -> PairStatistic:
    """The statistic, which is about pairs."""
    assert isinstance(statistic, PairStatistic)
    return statistic


def empty_statistic(items: int) -> ScoreStatistic:
    """The statistic of no device at all."""
    zeros = np.zeros(items, np.int64)
    return ScoreStatistic(sensed=zeros, scores=zeros, asked=0, answered=0, refused=0, ones=0)
