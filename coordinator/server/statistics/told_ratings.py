"""Sums of openly told ratings: item queries, the toy of full reveal, and the trusted curator's totals."""

from __future__ import annotations

import numpy as np
from numba import uint64

from coordinator.protocol.arrays import Bits, Bits2, Ints, Ints2, Words
from coordinator.protocol.bit_tricks import ones, zeros_below
from coordinator.protocol.coins import round_key
from coordinator.protocol.compiled import compiled, inlined
from coordinator.protocol.item_queries import item_queries
from coordinator.protocol.messages import Query, Release
from coordinator.server.statistics.columns import part_of, words_of
from coordinator.server.statistics.pairs import PairStatistic, check_items
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.statistic import no_answer

_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ALIKE = 1 << 32
"""Counts of devices stand below it, and counts of those that rated alike in units of it."""
_DENSE = 4
"""Where a device may rate more than such a part of the items, products of matrices count pairs faster."""


def aggregate_item_queries(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices said yes (``sensed``), and yes to "is it liked?" (``scores``)."""
    release.require(query)
    if query.pool is None:
        raise ValueError(f"{query} names no pool of items")
    key = round_key(query.public_seed, query.round)
    items, values = item_queries(key, release.first, release.count, query.pool)
    answered = release.answered_mask()
    yes = (release.unpacked()[:, 0] == 1) & answered
    return ScoreStatistic(
        sensed=np.bincount(items[yes], minlength=query.items),
        scores=np.bincount(items[yes & values], minlength=query.items),
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int(yes.sum()),
    )


@inlined
def _list_row(words: Words, start: int, items: int, most: int, told: Ints) -> int:
    """Write ``2 item``, and 1 more where it was liked, for each rating in a row of bits, the last item first.

    Return how many there are; -1 where more than ``most`` are rated, or one is liked that was not rated.
    """
    found = 0
    for word in range((items - 1) >> 6, -1, -1):
        place, beyond = start + 64 * word, uint64(max(0, 64 * word + 64 - items))
        rated = part_of(words, place >> 6, uint64(place & 63)) & (_ALL << beyond)
        liked = part_of(words, (place + items) >> 6, uint64((place + items) & 63)) & (_ALL << beyond)
        if liked & ~rated or found + ones(rated) > most:
            return -1
        while rated:
            bit = zeros_below(rated)
            told[found] = 2 * (64 * word + 63 - bit) + int((liked >> uint64(bit)) & uint64(1))
            rated &= rated - uint64(1)
            found += 1
    return found


@compiled
def _add_items(words: Words, most: int, answered: Bits, sensed: Ints, scores: Ints) -> int:
    """Count who rated and liked each item; return the first device whose row is no answer, -1 where there is none."""
    told = np.empty(most, np.int64)
    for k in range(answered.size):
        found = _list_row(words, 2 * sensed.size * k, sensed.size, most, told) if answered[k] else 0
        if found < 0:
            return k
        for number in told[:found]:
            sensed[number >> 1] += 1
            scores[number >> 1] += number & 1
    return -1


@compiled
def _add_pairs(words: Words, most: int, answered: Bits, counts: Ints2) -> int:
    """Count 1 for each device that rated both items of a pair, `_ALIKE` more if alike; return as `_add_items`."""
    told = np.empty(most, np.int64)
    for k in range(answered.size):
        found = _list_row(words, 2 * len(counts) * k, len(counts), most, told) if answered[k] else 0
        if found < 0:
            return k
        for low in range(found):
            for high in range(low):
                alike = (told[low] ^ told[high] ^ 1) & 1
                counts[told[low] >> 1, told[high] >> 1] += 1 + alike * _ALIKE
    return -1


def _refuse(query: Query, release: Release, wrong: int) -> None:
    """Raise an error if a device's row, if any, is no answer."""
    if wrong >= 0:
        most = int(query.parameters["most"])
        told = f"device {release.first + wrong} likes what it did not rate, or rated more than {most} items"
        raise no_answer(query, release, told)


def aggregate_revealed(query: Query, release: Release) -> ScoreStatistic:
    """Return for each item how many devices told that they rated it (``sensed``), and liked it (``scores``).

    Raises
    ------
    InputError
        If a device likes an item that it did not rate, or tells more ratings than were asked for.
    """
    release.require(query)
    answered, (sensed, scores) = release.answered_mask(), np.zeros((2, query.items), np.int64)
    most = int(query.parameters["most"])
    _refuse(query, release, _add_items(words_of(release), most, answered.view(np.uint8), sensed, scores))
    return ScoreStatistic(
        sensed=sensed,
        scores=scores,
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
        ones=int(scores.sum()),
    )


def aggregate_revealed_pairs(query: Query, release: Release) -> PairStatistic:
    """Return for each pair of items how many devices rated both, and how many of these alike.

    Raises
    ------
    InputError
        As `aggregate_revealed`.
    """
    check_items(query.items)
    if _DENSE * int(query.parameters["most"]) > query.items:
        asked = aggregate_revealed(query, release)  # refuses what is no answer
        pairs, agreed = _multiplied(release.unpacked() & release.answered_mask()[:, None], query.items)
        return PairStatistic(
            pairs=pairs, agreed=agreed, asked=asked.asked, answered=asked.answered, refused=asked.refused
        )
    release.require(query)
    answered, counts = release.answered_mask(), np.zeros((query.items, query.items), np.int64)
    most = int(query.parameters["most"])
    _refuse(query, release, _add_pairs(words_of(release), most, answered.view(np.uint8), counts))
    return PairStatistic(
        pairs=counts & (_ALIKE - 1),
        agreed=counts >> (_ALIKE.bit_length() - 1),
        asked=release.count,
        answered=int(answered.sum()),
        refused=release.refused,
    )


def _multiplied(bits: Bits2, items: int) -> tuple[Ints2, Ints2]:
    """Return how many devices rated both items of each pair, and how many of these alike, by products of matrices."""
    rated, liked = bits[:, :items].astype(np.float32), bits[:, items:].astype(np.float32)  # sums below 2**24 are exact
    disliked = rated - liked
    pairs, agreed = np.triu(rated.T @ rated, 1), np.triu(liked.T @ liked + disliked.T @ disliked, 1)
    return pairs.astype(np.int64), agreed.astype(np.int64)
