"""Sign sensing's sums and bits are the oracle's, bit for bit, whatever the pool and however the devices are cut."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.block_model import Room, list_rated, mark_subset, room_for
from actors.device import Cohort
from actors.ratings import Ratings, RatingsBlock
from actors.seeds import Coins, ratings_streams
from coordinator.protocol.coins import as_words
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.sign import choose, to_bits
from coordinator.protocol.messages import Query
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel

MASTER = as_words(worlds.SECRET)
TWO_CLASSES = ((0.9, 0.1, 0.5), (0.0, 1.0, 0.25))
WORLDS = {
    "few rated": worlds.world(items=150, rated=7, like=TWO_CLASSES, shares=(0.3, 0.7)),
    "half rated": worlds.world(items=40, rated=20, like=TWO_CLASSES, shares=(0.5, 0.5)),
    "just above half": worlds.world(items=41, rated=21),
    "all but one": worlds.world(items=65, rated=64),
    "all": worlds.world(items=64, rated=64),
    "one of one": worlds.world(items=1, rated=1),
}


def sums_of(ratings: Ratings, query: Query, first: int, count: int) -> list[list[int]]:
    """What the project's devices add up."""
    private = (
        mechanism_of("sign")
        .sketch(
            query,
            RatingsBlock(ratings, Coins(MASTER, first, count, query.words)),
            Coins(MASTER, first, count, query.words),
        )
        .private
    )
    assert private.dtype == np.int32
    rows: list[list[int]] = private.tolist()
    return rows


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 140), vectors=st.sampled_from([1, 2, 8, 64]))
def test_stored_sums_are_the_oracles(data: st.DataObject, items: int, vectors: int) -> None:
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=4))
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=12))
    pool = sorted(data.draw(st.sets(item, min_size=1)))
    first = data.draw(st.integers(0, len(behind) - 1))
    query = worlds.sign_query(pool, items=items, vectors=vectors, round_number=3)
    expected = [worlds.signed_sums(query, device, users[behind[device]]) for device in range(first, len(behind))]
    found = sums_of(worlds.stored_ratings(users, behind, items), query, first, len(behind) - first)
    assert found == expected


@settings(max_examples=examples(40))
@given(data=st.data(), name=st.sampled_from(sorted(WORLDS)), vectors=st.sampled_from([1, 4]))
def test_ratings_counted_from_centres_are_the_oracles(data: st.DataObject, name: str, vectors: int) -> None:
    """A like counts 32 and a dislike -32, less the item's centre: sums, and the bits that follow, of both kinds."""
    world = WORLDS[name]
    pool = sorted(data.draw(st.sets(st.integers(0, world.items - 1), min_size=1)))
    centres = data.draw(st.lists(st.integers(-32, 32), min_size=len(pool), max_size=len(pool)))
    query = worlds.sign_query(pool, items=world.items, vectors=vectors, epsilon=Fraction(1), centres=centres)
    expected = [worlds.signed_sums(query, device, world.ratings(device)) for device in range(8)]
    stored = worlds.stored_ratings([world.ratings(device) for device in range(8)], range(8), world.items)
    for ratings in (worlds.block_ratings(world), stored):
        assert sums_of(ratings, query, 0, 8) == expected
        bits = Cohort(ratings, worlds.SECRET, 0, 8, None).answer(query, 0, 8).unpacked().tolist()
        assert bits == [worlds.named_bits(query, worlds.SECRET, k, sums) for k, sums in enumerate(expected)]


@settings(max_examples=examples(60))
@given(data=st.data(), items=st.one_of(st.integers(1, 24), st.integers(1, 300)), first=st.integers(0, 10**12))
def test_a_list_of_rated_items_is_the_marked_set(data: st.DataObject, items: int, first: int) -> None:
    """Also where most are rated, all of them, or one; one row of marks serves more devices than there are stamps.

    Nothing is written behind the room.
    """
    rated = data.draw(st.one_of(st.integers(1, items), st.sampled_from([1, items, items // 2 + 1])))
    more = [np.append(part, np.full(64, 7, part.dtype)) for part in room_for(items)]
    room, stamp, inverted = Room(*more), data.draw(st.integers(0, 255)), 2 * rated > items
    for stream in ratings_streams(MASTER, first, 300 if items < 20 else 5):
        stamp = list_rated(stream, items, rated, room, stamp)
        alone = room_for(items)
        mark_subset(stream, items, items - rated if inverted else rated, alone, 1)
        assert sorted(room.subset[:rated].tolist()) == np.flatnonzero((alone.marks[:items] == 1) != inverted).tolist()
    assert all((part[-64:] == 7).all() for part in room[1:])
    assert set(room.marks[-64:].tolist()) in ({7}, {0})  # all marks are cleared when stamps are used up


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("vectors", "kept"), [(1, 1), (2, 1), (4, 3), (8, 8)])
def test_released_bits_are_the_oracles(name: str, vectors: int, kept: int) -> None:
    world, epsilons = WORLDS[name], (None, Fraction(1), Fraction(1, 1000), Fraction(30))
    for pool, epsilon in zip(worlds.pools(world.items).values(), epsilons, strict=True):
        query = worlds.sign_query(pool, items=world.items, vectors=vectors, kept=kept, epsilon=epsilon)
        ratings, devices = worlds.block_ratings(world), range(500, 516)
        expected = [
            worlds.named_bits(query, worlds.SECRET, device, worlds.signed_sums(query, device, world.ratings(device)))
            for device in devices
        ]
        release = Cohort(ratings, worlds.SECRET, 500, 516, None).answer(query, 500, 516)
        assert release.unpacked().tolist() == expected
        assert (release.width, release.answered, release.refused, release.pairs) == (query.bits, None, 0, None)
        alone = Cohort(ratings, worlds.SECRET, 507, 508, None).answer(query, 507, 508)
        assert alone.unpacked().tolist() == [expected[7]]


@pytest.mark.parametrize("vectors", [1, 64])
def test_a_long_block_keeps_devices_apart(vectors: int) -> None:
    """More devices than there are stamps, in one call: what one left behind must not show in another's sum."""
    for world in (worlds.world(items=90, rated=2), worlds.world(items=90, rated=88)):
        query = worlds.sign_query(range(0, 90, 9), items=90, vectors=vectors)
        expected = [worlds.signed_sums(query, device, world.ratings(device)) for device in range(500, 520)]
        assert sums_of(worlds.block_ratings(world), query, 0, 520)[500:] == expected


# Sign sensing is private: its whole channel, from ratings to release, in exact fractions; and devices follow it.
ITEMS = 4


def all_ratings() -> list[dict[int, bool]]:
    """Everything that a device can hold: each item unrated, disliked or liked."""
    return [
        {item: opinion for item, opinion in enumerate(opinions) if opinion is not None}
        for opinions in itertools.product((None, False, True), repeat=ITEMS)
    ]


def largest_ratio(rows: set[worlds.Row]) -> Fraction:
    """Over all pairs of what devices may hold, and all that they may release."""
    ratios: list[Fraction] = [max(column) / min(column) for column in zip(*rows, strict=True)]
    return max(ratios)


@pytest.mark.parametrize("epsilon", [Fraction(1), Fraction(5), Fraction(1, 10**9)])
@pytest.mark.parametrize("vectors", [1, 2, 4])
def test_the_largest_log_ratio_of_the_whole_channel_is_epsilon(vectors: int, epsilon: Fraction) -> None:
    """Public signs of four devices, all 81 ratings of 4 items: never above epsilon, and for some signs equal to it.

    Equal: with one coin fewer that misses, the same ratio would be above.
    """
    for kept in range(1, vectors + 1):
        channel = choice_channel(epsilon, choices=2 * vectors, best_count=kept)
        query = worlds.sign_query(range(ITEMS), items=ITEMS, vectors=vectors, kept=kept, epsilon=epsilon)
        ratios = []
        for device in range(4):
            rows = {worlds.row_of(worlds.signed_sums(query, device, held), channel) for held in all_ratings()}
            assert {sum(row) for row in rows} == {1}
            ratios.append(largest_ratio(rows))
        best, other = channel.probabilities
        assert max(ratios) == best / other
        assert max(ratios) <= reference.exp_bounds(epsilon)[0]
        looser = ChoiceChannel(2 * vectors, kept, channel.misses - 1).probabilities
        assert looser[0] / looser[1] > reference.exp_bounds(epsilon)[1]


@pytest.mark.parametrize("vectors", [1, 2, 4])
def test_no_sums_at_all_give_away_more(vectors: int) -> None:
    """All vectors of sums from -3 to 3, whether signs can make them or not; a device of nothing rated is uniform."""
    for kept in range(1, vectors + 1):
        channel = choice_channel(Fraction(1), choices=2 * vectors, best_count=kept)
        wide = 3 if vectors < 4 else 1
        sums = itertools.product(range(-wide, wide + 1), repeat=vectors)
        rows = {one: worlds.row_of(one, channel) for one in sums}
        for one, row in rows.items():  # the oracle's order is +0, -0, +1, ...; bits name the sign first
            assert channel.chances(np.array(one, np.int32)) == [*row[1::2], *row[::2]]
        assert largest_ratio(set(rows.values())) == channel.probabilities[0] / channel.probabilities[1]
        assert set(rows[(0,) * vectors]) == {Fraction(1, 2 * vectors)}


@settings(max_examples=examples(40))
@given(data=st.data(), power=st.integers(0, 6), first=st.integers(0, 10**12))
def test_choices_are_the_oracles(data: st.DataObject, power: int, first: int) -> None:
    """Any sums, as large as can be, with ties; devices one at a time equal the block."""
    vectors = 1 << power
    total = st.one_of(st.integers(-2, 2), st.integers(-(2**31) + 1, 2**31 - 1))
    row = st.lists(total, min_size=vectors, max_size=vectors)
    sums = np.array(data.draw(st.lists(row, min_size=1, max_size=6)), np.int32)
    kept = data.draw(st.integers(1, vectors))
    epsilon = data.draw(st.none() | st.fractions(min_value=Fraction(1, 1000), max_value=30, max_denominator=1000))
    query = worlds.sign_query([0], items=1, vectors=vectors, kept=kept, epsilon=epsilon)
    channel = choice_channel(epsilon, choices=2 * vectors, best_count=kept)
    before = sums.copy()
    bits = to_bits(*choose(sums, channel, Coins(MASTER, first, len(sums), query.words)), vectors)
    told = [worlds.named_bits(query, worlds.SECRET, first + k, one) for k, one in enumerate(sums.tolist())]
    assert bits.tolist() == told
    np.testing.assert_array_equal(sums, before)
    for k in range(len(sums)):
        alone = to_bits(*choose(sums[k : k + 1], channel, Coins(MASTER, first + k, 1, query.words)), vectors)
        assert alone.tolist() == bits[k : k + 1].tolist()
