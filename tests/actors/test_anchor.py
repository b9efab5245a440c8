"""Anchor sensing's private bits and counts are the oracle's, bit for bit, and follow their exact moments."""

from itertools import combinations

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples
from worlds import oracle_coins, pair_query, turned_query

from actors.ratings import Ratings, RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query

UNIT = 32


def sign_of(total: int, coin: int) -> int:
    return int(total > 0) if total else reference.draw(coin, 0) & 1


def oracle_pair(query: Query, device: int, ratings: dict[int, bool]) -> int:
    assert query.pool is not None
    pool, stream = query.pool.tolist(), worlds.public_stream(query, device)
    unit, centres = (1, [0] * len(pool)) if query.centres is None else (UNIT, query.centres.tolist())
    total = 0
    for number, (i, j) in enumerate(combinations(range(len(pool)), 2)):
        if pool[i] in ratings and pool[j] in ratings:
            one, other = ((unit if ratings[pool[at]] else -unit) - centres[at] for at in (i, j))
            sign = 2 * (reference.draw(stream, number // 64) >> number % 64 & 1) - 1
            total += sign * one * other
    return sign_of(total, reference.choice_stream(worlds.SECRET, device, query.id))


def oracle_turned(query: Query, device: int, ratings: dict[int, bool]) -> int:
    told, coin = query.arrays, reference.choice_stream(worlds.SECRET, device, query.id)
    scores = told["prior"].tolist()
    kept = []
    for item, liked in ratings.items():
        sign, senses = oracle_coins(query, device, item)
        if senses:
            kept.append((sign, item, int(liked)))
        else:
            scores = [score + int(told["guess"][2 * k + liked, item]) for k, score in enumerate(scores)]
    best = [k for k, score in enumerate(scores) if score == max(scores)]
    k = best[reference.below(coin, 1, len(best))] if len(best) > 1 else best[0]
    return sign_of(int(told["lean"][k]) + sum(s * int(told["counts"][2 * k + r, i]) for s, i, r in kept), coin)


def bits_of(ratings: Ratings, query: Query, first: int, count: int) -> list[int]:
    coins = Coins(as_words(worlds.SECRET), first, count, query.words)
    told: list[int] = (
        mechanism_of(query.design).sketch(query, RatingsBlock(ratings, coins), coins).private[:, 0].tolist()
    )
    return told


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(2, 140), centred=st.booleans())
def test_stored_pair_bits_are_the_oracles(data: st.DataObject, items: int, centred: bool) -> None:
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=6))
    pool = sorted(data.draw(st.sets(item, min_size=2)))
    centres = data.draw(st.lists(st.integers(-UNIT, UNIT), min_size=len(pool), max_size=len(pool)))
    query = pair_query(pool, items=items, centres=centres if centred else None)
    expected = [oracle_pair(query, device, user) for device, user in enumerate(users)]
    assert bits_of(worlds.stored_ratings(users, range(len(users)), items), query, 0, len(users)) == expected


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 140), classes=st.integers(1, 4), power=st.integers(0, 6))
def test_stored_turned_bits_are_the_oracles(data: st.DataObject, items: int, classes: int, power: int) -> None:
    """Scores and sums are small whole numbers, so that ties of both are met often."""
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=6))
    query = turned_query(classes, items, 1 << power, np.random.default_rng(data.draw(st.integers(0, 99))))
    expected = [oracle_turned(query, device, user) for device, user in enumerate(users)]
    assert bits_of(worlds.stored_ratings(users, range(len(users)), items), query, 0, len(users)) == expected


WORLD = worlds.world(items=150, rated=17, like=((0.9, 0.1, 0.5), (0.0, 1.0, 0.25)), shares=(0.3, 0.7))


@pytest.mark.parametrize("kind", ["pairs", "turned"])
def test_synthetic_devices_answer_as_stored_ones_of_the_same_ratings(kind: str) -> None:
    draw = np.random.default_rng(1)
    query = pair_query(list(range(3, 93)), items=150) if kind == "pairs" else turned_query(3, 150, 8, draw)
    users = [WORLD.ratings(device) for device in range(60)]
    stored = bits_of(worlds.stored_ratings(users, range(60), 150), query, 11, 40)
    assert bits_of(worlds.block_ratings(WORLD), query, 11, 40) == stored
    assert len(set(stored)) == 2
