"""Both sides of a block in one function: the public sensing sets are made once instead of once a side.

Only the experimenter's process does this, which holds the devices and the server anyway. Devices charge the query and
make the same release as elsewhere, and the sums are those that the server would compute from it.
"""

from __future__ import annotations

import numpy as np

from actors.block_model import BlockModelRatings, Scratch, next_stamp, scratch_for, sense_and_like
from actors.device import Cohort, check
from actors.mechanisms import half_of, registered
from actors.ratings import BlockRatings, Ratings
from actors.seeds import TILE, Coins, ratings_streams
from coordinator.protocol.arrays import Bits, Bits2, Indices, Ints2, Words
from coordinator.protocol.coins import as_words, round_key
from coordinator.protocol.compiled import borrowing, compiled
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.sensing import SensingTable, items_of, sensing_of
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.statistics.scores import SetCounters, count_set, counters_for, move_out, score_statistic
from coordinator.server.statistics.statistic import Statistic

MAXSENSE = registered()["maxsense"]
"""The one mechanism whose two sides share their work here; every other goes message by message."""


def answer(
    query: Query, ratings: Ratings, secret: bytes, cohort: Cohort, first: int, stop: int
) -> tuple[Statistic, Release]:
    """Return the release of devices ``first`` to ``stop - 1`` of a cohort, and the server's statistic of it."""
    if not _shares(query, ratings, cohort):
        release = cohort.answer(query, first, stop)
        return aggregate(query, release), release
    assert isinstance(ratings, BlockRatings)
    booked = cohort.book(query, first, stop)
    bits, counts = _release_and_count_block(booked.query, ratings, secret, range(first, stop), booked.answering())
    release = booked.release(bits)
    return score_statistic(query, release, counts), release


def rehearse(query: Query, ratings: Ratings, secret: bytes, cohort: Cohort) -> None:
    """Compile the kernels that `answer` needs; nothing is charged and nothing is answered."""
    if not _shares(query, ratings, cohort):
        cohort.rehearse(query)
        aggregate(query, no_release(query))
        return
    assert isinstance(ratings, BlockRatings)
    query = check(query, ratings)
    _release_and_count_block(query, ratings, secret, range(cohort.first, cohort.first + 1), None)


def _shares(query: Query, ratings: Ratings, cohort: Cohort) -> bool:
    """Whether both sides' work on a query can share its public sets: MaxSense's, where devices draw their ratings.

    A cohort of another class, some of whose devices lie, answers for itself.
    """
    return type(cohort) is Cohort and isinstance(ratings, BlockRatings) and half_of(query.design) is MAXSENSE


def _release_and_count_block(
    query: Query, ratings: BlockRatings, secret: bytes, devices: range, answering: Bits | None
) -> tuple[Bits2, Ints2]:
    """Turn flips into released bits, and count; those who are silent keep their flips, and do not count."""
    coins = Coins(as_words(secret), devices.start, len(devices), query.words)
    bits = MAXSENSE.randomize(np.zeros((len(devices), 1), np.uint8), query, coins)
    heard = np.ones(len(bits), np.uint8) if answering is None else answering
    key, table, pool = round_key(query.public_seed, query.round), sensing_of(query), items_of(query)
    counts = np.zeros((2, table.items), np.int64)
    _release_and_count(ratings.model(), coins.master, key, table, pool, coins.first, heard, bits.reshape(-1), counts)
    return bits, counts


@compiled
def _release_and_count(
    model: BlockModelRatings,
    master: Words,
    key: Words,
    table: SensingTable,
    pool: Indices,
    first: int,
    heard: Bits,
    bits: Bits,
    counts: Ints2,
) -> None:
    """Turn flips into released bits, as `actors.block_model` makes them, and count as `scores` does."""
    scratch, tally, stamp, counted = scratch_for(model, table), counters_for(counts[0], counts[1]), 0, 0
    for start in range(0, bits.size, TILE):
        tile = slice(start, start + TILE)
        secret = ratings_streams(master, first + start, bits[tile].size)
        public = device_streams(key, first + start, secret.size)
        stamp, counted = _count_tile(
            model, secret, public, table, pool, heard[tile], bits[tile], scratch, stamp, tally, counted
        )
    move_out(tally.shared, tally.sensed, tally.scores)


@borrowing
def _count_tile(
    model: BlockModelRatings,
    secret: Words,
    public: Words,
    table: SensingTable,
    pool: Indices,
    heard: Bits,
    bits: Bits,
    scratch: Scratch,
    stamp: int,
    tally: SetCounters,
    counted: int,
) -> tuple[int, int]:
    """Do so with devices of these streams; return the last stamp, and how many devices the tally holds."""
    for k in range(bits.size):
        if heard[k]:
            stamp = next_stamp(scratch.room.marks, stamp)
            sensed_count, likes = sense_and_like(model, secret[k], public[k], table, pool, scratch, stamp)
            bits[k] ^= likes
            counted = count_set(scratch.sensed, sensed_count, bits[k], tally, counted)
    return stamp, counted
