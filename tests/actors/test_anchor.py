"""Anchor sensing's private bits and counts are the oracle's, bit for bit, and follow their exact moments."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from math import comb

import evidence
import numpy as np
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import PUBLIC, public_stream

from actors.device import Cohort
from actors.ratings import Ratings, RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.anchor import AnchorSensing
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.server.aggregation import aggregate


# Queries of anchor sensing, and the oracle's coins of turned signs.
def pair_query(pool: list[int], *, items: int, centres: list[int] | None = None) -> Query:
    held = None if centres is None else np.array(centres, np.int32)
    design = AnchorSensing(items=items, rated=2)
    return design.query(round_number=2, public_seed=PUBLIC, epsilon=None, pool=np.array(pool, np.int32), centres=held)


def turned_query(classes: int, items: int, levels: int, draw: np.random.Generator) -> Query:
    arrays = {
        "prior": draw.integers(-2, 3, classes),
        "lean": draw.integers(-1, 2, classes),
        "guess": draw.integers(-3, 4, (2 * classes, items)),
        "counts": draw.integers(-3, 4, (2 * classes, items)),
        "sensed": draw.integers(0, levels + 1, items),
    }
    return Query(
        design="anchor",
        items=items,
        round=5,
        public_seed=PUBLIC,
        epsilon=None,
        parameters={"levels": float(levels)},
        arrays={name: value.astype(np.int32) for name, value in arrays.items()},
    )


def oracle_coins(query: Query, device: int, item: int) -> tuple[int, bool]:
    levels, stream = int(query.parameters["levels"]), public_stream(query, device)
    bits = levels.bit_length() - 1
    lanes = [evidence.draw(stream, (item // 64) * (bits + 1) + k) >> item % 64 & 1 for k in range(bits + 1)]
    number = int("0" + "".join(map(str, lanes[1:])), 2)
    return 2 * lanes[0] - 1, number < int(query.arrays["sensed"][item])


UNIT = 32


def sign_of(total: int, coin: int) -> int:
    return int(total > 0) if total else evidence.draw(coin, 0) & 1


def oracle_pair(query: Query, device: int, ratings: dict[int, bool]) -> int:
    assert query.pool is not None
    pool, stream = query.pool.tolist(), worlds.public_stream(query, device)
    unit, centres = (1, [0] * len(pool)) if query.centres is None else (UNIT, query.centres.tolist())
    total = 0
    for number, (i, j) in enumerate(combinations(range(len(pool)), 2)):
        if pool[i] in ratings and pool[j] in ratings:
            one, other = ((unit if ratings[pool[at]] else -unit) - centres[at] for at in (i, j))
            sign = 2 * (evidence.draw(stream, number // 64) >> number % 64 & 1) - 1
            total += sign * one * other
    return sign_of(total, evidence.choice_stream(worlds.SECRET, device, query.id))


def oracle_turned(query: Query, device: int, ratings: dict[int, bool]) -> int:
    told, coin = query.arrays, evidence.choice_stream(worlds.SECRET, device, query.id)
    scores = told["prior"].tolist()
    kept = []
    for item, liked in ratings.items():
        sign, senses = oracle_coins(query, device, item)
        if senses:
            kept.append((sign, item, int(liked)))
        else:
            scores = [score + int(told["guess"][2 * k + liked, item]) for k, score in enumerate(scores)]
    best = [k for k, score in enumerate(scores) if score == max(scores)]
    k = best[evidence.below(coin, 1, len(best))] if len(best) > 1 else best[0]
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


@pytest.mark.parametrize("first", [0, 3])
def test_bits_of_many_pairs_are_the_oracles(first: int) -> None:
    """Every rating of a pool of twelve counts with its own weight, for stored and for synthetic devices."""
    world, draw = worlds.world(items=15, rated=14), np.random.default_rng(first)
    query = pair_query(list(range(first, first + 12)), items=15, centres=draw.integers(-UNIT, UNIT + 1, 12).tolist())
    users = [world.ratings(device) for device in range(60)]
    expected = [oracle_pair(query, device, user) for device, user in enumerate(users)]
    for ratings in (worlds.stored_ratings(users, range(60), 15), worlds.block_ratings(world)):
        assert bits_of(ratings, query, 0, 60) == expected


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 140), classes=st.integers(1, 4), power=st.integers(0, 6))
def test_stored_turned_bits_are_the_oracles(data: st.DataObject, items: int, classes: int, power: int) -> None:
    """Scores and sums are small whole numbers, so that ties of both are met often."""
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=6))
    query = turned_query(classes, items, 1 << power, np.random.default_rng(data.draw(st.integers(0, 99))))
    expected = [oracle_turned(query, device, user) for device, user in enumerate(users)]
    assert bits_of(worlds.stored_ratings(users, range(len(users)), items), query, 0, len(users)) == expected


@pytest.mark.parametrize("levels", [1, 4])
def test_every_rating_of_the_first_items_turns_its_bit_as_the_oracles(levels: int) -> None:
    """All that one can have rated of three items, by six devices each; a dislike of the first has the smallest code."""
    opinions = product((None, False, True), repeat=3)
    users = [{item: like for item, like in enumerate(one) if like is not None} for one in opinions] * 6
    query = turned_query(2, 3, levels, np.random.default_rng(levels))
    query = replace(query, arrays=query.arrays | {"sensed": np.array([levels, levels, 0], np.int32)})
    expected = [oracle_turned(query, device, user) for device, user in enumerate(users)]
    assert bits_of(worlds.stored_ratings(users, range(len(users)), 3), query, 0, len(users)) == expected


WORLD = worlds.world(items=150, rated=17, like=((0.9, 0.1, 0.5), (0.0, 1.0, 0.25)), shares=(0.3, 0.7))


@pytest.mark.parametrize("kind", ["pairs", "turned"])
def test_synthetic_devices_answer_as_stored_ones_of_the_same_ratings(kind: str) -> None:
    draw = np.random.default_rng(1)
    query = pair_query(list(range(3, 93)), items=150) if kind == "pairs" else turned_query(3, 150, 8, draw)
    users = [WORLD.ratings(device) for device in range(60)]
    stored = bits_of(worlds.stored_ratings(users, range(60), 150), query, 11, 40)
    assert bits_of(worlds.block_ratings(WORLD), query, 11, 40) == stored
    assert len(set(stored)) == 2


def test_counts_are_those_of_a_naive_sum() -> None:
    query = turned_query(2, 150, 8, np.random.default_rng(2))
    sensed, scores = np.zeros((2, 150), np.int64)
    bits = bits_of(worlds.block_ratings(WORLD), query, 0, 75)
    for device, bit in enumerate(bits):
        coins = [oracle_coins(query, device, item) for item in range(150)]
        sensed += [senses for _, senses in coins]
        scores += [senses and sign == 2 * bit - 1 for sign, senses in coins]
    statistic = aggregate(query, Cohort(worlds.block_ratings(WORLD), worlds.SECRET, 0, 75, None).answer(query, 0, 75))
    assert isinstance(statistic, AnchorStatistic)
    assert statistic.sensed.tolist() == sensed.tolist()
    assert statistic.scores.tolist() == scores.tolist()
    assert (statistic.answered, statistic.ones) == (75, sum(bits))


def test_the_contrast_is_that_of_adding_up_all_cases() -> None:
    """By hand: N = 6, M = 4, w = 3, no noise."""
    held = {h: Fraction(comb(2, h) * comb(2, 1 - h), comb(4, 1)) for h in (0, 1)}
    ties = {0: Fraction(1), 1: Fraction(comb(2, 1), 4)}  # one pair alone; three pairs, the other two even
    wanted = Fraction(3 * 2, 6 * 5) * sum(held[h] * ties[h] for h in held)
    assert pair_contrast(4, items=6, rated=3, epsilon=None) == pytest.approx(float(wanted), rel=1e-12)
    assert pair_contrast(4, items=6, rated=1, epsilon=None) == 0
