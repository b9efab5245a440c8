"""The set mechanism's private sets: exactly as many values on every device, its likes or some of them, and dummies."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import worlds
from evidence import chi_square_fits

from actors.ratings import Ratings, RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.channels import odds_within
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms import check_question, mechanism_of
from coordinator.protocol.mechanisms.sets import liked_pairs, liked_sets
from coordinator.protocol.messages import Query
from coordinator.protocol.value_channels import SubsetChannel, subset_channel

ITEMS = 12


def query_of(padded: int, pool: list[int] | None = None) -> Query:
    numbers = {"sides": 1, "likes": 0.5, "padded": padded, "chosen": 2}
    query = worlds.maxsense_query(items=ITEMS, sensing=1, epsilon=Fraction(1), pool=pool)
    return replace(query, design="set", parameters=numbers)


def sets_of(query: Query, ratings: Ratings, devices: int) -> list[list[int]]:
    coins = Coins(as_words(worlds.SECRET), 0, devices, query.words)
    return liked_sets(query, RatingsBlock(ratings, coins), coins).tolist()


@pytest.mark.parametrize("pool", [None, [1, 2, 5, 7, 8, 9, 11]])
@pytest.mark.parametrize("kind", ["stored", "drawn"])
def test_every_set_has_exactly_as_many_values_all_of_them_likes_or_dummies(kind: str, pool: list[int] | None) -> None:
    world = worlds.world(items=ITEMS, rated=9, like=((0.8, 0.3),))
    block = worlds.block_ratings(world, 300)
    told = block.rated(as_words(worlds.SECRET), 0, 300)
    starts, items, likes = told.starts, told.items, told.values
    rows = [dict(zip(items[a:b].tolist(), likes[a:b].tolist(), strict=True)) for a, b in itertools.pairwise(starts)]
    ratings: Ratings = block if kind == "drawn" else worlds.stored_ratings(rows, range(300), ITEMS)
    asked, seen = pool or list(range(ITEMS)), set()
    for padded in (1, 3, 7):
        for row, own in zip(rows, sets_of(query_of(padded, pool), ratings, 300), strict=True):
            liked = {asked.index(item) for item in asked if row.get(item)}
            kept = [value for value in own if value < len(asked)]
            assert len(own) == padded == len(set(own))
            assert set(kept) <= liked
            assert len(kept) == min(len(liked), padded)
            assert own[len(kept) :] == [len(asked) + place for place in range(padded - len(kept))]
            seen.add(len(liked) - padded)
    assert min(seen) < 0 < max(seen)


@pytest.mark.statistical
def test_whoever_likes_more_keeps_any_of_them_alike() -> None:
    """Pearson's test over the ten pairs of five likes, false alarm 1e-6; the twin's first pair is 15 % rarer."""
    devices = 40_000
    ratings = worlds.stored_ratings([dict.fromkeys((0, 2, 3, 7, 11), True)], [0] * devices, ITEMS)
    found: dict[tuple[int, ...], int] = {}
    for own in sets_of(query_of(2), ratings, devices):
        found[tuple(sorted(own))] = found.get(tuple(sorted(own)), 0) + 1
    assert len(found) == 10
    assert chi_square_fits(list(found.values()), np.ones(10))
    assert not chi_square_fits(list(found.values()), [0.85, *[1.0] * 9])


# Pairs of likes on devices: exactly as many values on every device, and releases that follow the exact channel.
PAIR_ITEMS, POOL = 9, (1, 3, 4, 8)  # Six pairs of the pool's items; with three likes kept each device has three values


def pairs_query(*, kept: int = 3, chosen: int = 2, epsilon: Fraction = Fraction(1)) -> Query:
    numbers = {"sides": 1.0, "together": 2.0, "padded": float(kept), "chosen": float(chosen)}
    plain = worlds.maxsense_query(items=PAIR_ITEMS, sensing=1, epsilon=epsilon, round_number=2, pool=POOL)
    query, half = replace(plain, design="pairs", parameters=numbers), mechanism_of("pairs")
    return replace(query, questions=half.question_range(query).start, answer_bits=half.answer_bits(query))


def channel_of(query: Query) -> SubsetChannel:
    channel = check_question(query).channel(query)
    assert isinstance(channel, SubsetChannel)
    return channel


def test_pairs_of_less_than_two_are_refused() -> None:
    right = pairs_query()
    mechanism_of("pairs").check(right)
    with pytest.raises(InputError, match="pairs of 1 items; give 2"):
        mechanism_of("pairs").check(replace(right, pool=np.array([3], np.int32)))
    with pytest.raises(InputError, match="1; give 2"):
        mechanism_of("pairs").check(replace(right, parameters=right.parameters | {"padded": 1.0}))


def test_every_device_has_as_many_pairs_all_of_its_own_likes_or_dummies() -> None:
    """Numbers of pairs go by the rows of an upper triangle, as the server reads them."""
    likes = [set(own) for many in range(5) for own in itertools.combinations(POOL, many)]
    rows = [{item: item in own for item in (0, 1, 3, 4, 7, 8)} for own in likes]
    number = {pair: place for place, pair in enumerate(itertools.combinations(range(4), 2))}
    assert [list(pair) for pair in number] == np.transpose(np.triu_indices(4, 1)).tolist()
    for kept in (2, 3, 4):
        query = pairs_query(kept=kept, chosen=1)
        ratings = worlds.stored_ratings(rows, range(len(rows)), PAIR_ITEMS)
        coins = Coins(as_words(worlds.SECRET), 0, len(rows), query.words)
        sets = liked_sets(query, RatingsBlock(ratings, coins), coins)
        every = kept * (kept - 1) // 2
        for own, mine, pairs in zip(likes, sets.tolist(), liked_pairs(sets, 4).tolist(), strict=True):
            held = sorted(place for place in mine if place < 4)
            assert {POOL[place] for place in held} <= own
            wanted = {number[pair] for pair in itertools.combinations(held, 2)}
            assert set(pairs) == wanted | set(range(6, 6 + every - len(wanted)))
            assert len(pairs) == every


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_no_two_devices_are_farther_apart_than_epsilon_and_some_are_as_far(epsilon: Fraction) -> None:
    """Over all likes among the pool, in exact fractions; the twin's sets are not padded, and break the promise."""
    query = pairs_query(epsilon=epsilon)
    channel, sets = channel_of(query), set[tuple[int, ...]]()
    for many in range(5):
        for own in itertools.combinations(range(4), many):
            for kept in itertools.combinations(own, 3) if many > 3 else [own]:
                told = np.array([[*kept, *range(4, 7 - len(kept))]], np.int32)
                sets.add(tuple(sorted(liked_pairs(told, 4)[0].tolist())))
    assert len(sets) == 1 + 6 + 4  # no pair, one pair, three pairs
    rows = [channel.chances(np.array(own)) for own in sets]
    assert all(sum(row) == 1 for row in rows)
    largest = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True) if any(column))
    assert largest == channel.ratio
    assert channel.log_ratio.within(epsilon)
    assert not channel.log_ratio.within(epsilon - Fraction(1, 10**12))
    unpadded = [subset_channel(epsilon, values=9, padded=size, subset_size=2) for size in (1, 3)]
    alone, full = (one.chances(np.array(own)) for one, own in zip(unpadded, ([5], [0, 1, 3]), strict=True))
    assert max(one / other for one, other in zip(alone, full, strict=True) if other) > odds_within(epsilon) * 103 / 100
