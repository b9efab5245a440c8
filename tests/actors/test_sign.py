"""Sign sensing's sums and bits are the oracle's, bit for bit, whatever the pool and however the devices are cut."""

import itertools
from collections.abc import Sequence
from fractions import Fraction

import evidence
import numpy as np
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import public_stream, row_of

from actors.device import Cohort
from actors.ratings import Ratings, RatingsBlock
from actors.seeds import Coins
from coordinator.protocol.coins import as_words
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.messages import Query
from coordinator.protocol.value_channels import ChoiceChannel, choice_channel


def signed_sums(query: Query, device: int, ratings: dict[int, bool]) -> list[int]:
    """The oracle's signed sums of a device over the pool's items that it rated, one a sign vector."""
    assert query.pool is not None
    stream, pool = public_stream(query, device), query.pool.tolist()
    unit, centres = (1, [0] * len(pool)) if query.centres is None else (32, query.centres.tolist())
    opinions = {
        place: (unit if ratings[item] else -unit) - centres[place] for place, item in enumerate(pool) if item in ratings
    }
    return [
        sum(evidence.sign(stream, a, place, len(pool)) * told for place, told in opinions.items())
        for a in range(int(query.parameters["vectors"]))
    ]


def named_bits(query: Query, secret: bytes, device: int, sums: Sequence[int]) -> list[int]:
    """What the oracle's device releases: the sign of the vector that it names, then its number, highest bit first."""
    kept, others = int(query.parameters["kept"]), 2 * len(sums) - int(query.parameters["kept"])
    misses = 0 if query.epsilon is None else evidence.misses(query.epsilon, kept, others)
    stream = evidence.choice_stream(secret, device, query.id)
    best = evidence.release_coin(secret, device, query.id, 0) >= misses
    rank = evidence.below(stream, 0, kept) if best else kept + evidence.below(stream, 1, others)
    sign, vector = evidence.named(sums, rank, stream)
    return [int(sign > 0), *(vector >> k & 1 for k in reversed(range(query.answer_bits - 1)))]


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
    expected = [signed_sums(query, device, users[behind[device]]) for device in range(first, len(behind))]
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
    expected = [signed_sums(query, device, world.ratings(device)) for device in range(8)]
    stored = worlds.stored_ratings([world.ratings(device) for device in range(8)], range(8), world.items)
    for ratings in (worlds.block_ratings(world), stored):
        assert sums_of(ratings, query, 0, 8) == expected
        bits = Cohort(ratings, worlds.SECRET, 0, 8, None).answer(query, 0, 8).unpacked().tolist()
        assert bits == [named_bits(query, worlds.SECRET, k, sums) for k, sums in enumerate(expected)]


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize(("vectors", "kept"), [(1, 1), (2, 1), (4, 3), (8, 8)])
def test_released_bits_are_the_oracles(name: str, vectors: int, kept: int) -> None:
    world, epsilons = WORLDS[name], (None, Fraction(1), Fraction(1, 1000), Fraction(30))
    for pool, epsilon in zip(worlds.pools(world.items).values(), epsilons, strict=True):
        query = worlds.sign_query(pool, items=world.items, vectors=vectors, kept=kept, epsilon=epsilon)
        ratings, devices = worlds.block_ratings(world), range(500, 516)
        expected = [
            named_bits(query, worlds.SECRET, device, signed_sums(query, device, world.ratings(device)))
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
        expected = [signed_sums(query, device, world.ratings(device)) for device in range(500, 520)]
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
            rows = {row_of(signed_sums(query, device, held), channel) for held in all_ratings()}
            assert {sum(row) for row in rows} == {1}
            ratios.append(largest_ratio(rows))
        best, other = channel.probabilities
        assert max(ratios) == best / other
        assert max(ratios) <= evidence.exp_bounds(epsilon)[0]
        looser = ChoiceChannel(2 * vectors, kept, channel.misses - 1).probabilities
        assert looser[0] / looser[1] > evidence.exp_bounds(epsilon)[1]
