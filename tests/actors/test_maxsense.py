"""Multi-MaxSense on devices: bits of random partitions against the oracle, however devices are cut; what it costs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import evidence
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import partition_query

from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.messages import Query


def expected(query: Query, secret: bytes, device: int, ratings: Mapping[int, bool]) -> list[int]:
    if query.design == "maxsense":
        sets = worlds.sensing_sets(query, range(device, device + 1))
    else:
        sets = evidence.partition(worlds.public_stream(query, device), query.items, int(query.parameters["set_size"]))
    bits = [evidence.maxsense_bit(dict(ratings), some) for some in sets[: query.questions]]
    return worlds.released(query, secret, device, bits)


@pytest.mark.parametrize("design", ["maxsense", "multi-maxsense"])
@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 80))
def test_releases_of_stored_users_are_the_oracles(data: st.DataObject, items: int, design: str) -> None:
    """Of MaxSense about a pool or about all items, or of sets of a size."""
    item = st.integers(0, items - 1)
    users = data.draw(st.lists(st.dictionaries(item, st.booleans(), max_size=12), min_size=1, max_size=5))
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=20))
    first, epsilon = data.draw(st.integers(0, len(behind) - 1)), data.draw(st.sampled_from([None, Fraction(2)]))
    if design == "maxsense":
        pool, sensing = data.draw(st.none() | st.sets(item, min_size=1).map(sorted)), st.sampled_from([0.05, 0.5, 1.0])
        query = worlds.maxsense_query(items=items, sensing=data.draw(sensing), pool=pool, epsilon=epsilon)
    else:
        size = data.draw(st.integers(1, min(11, items)))
        query = partition_query(items, size, data.draw(st.integers(1, -(-items // size))), epsilon)
    cohort = Cohort(worlds.stored_ratings(users, behind, items), worlds.SECRET, first, len(behind), None)
    told = [expected(query, worlds.SECRET, device, users[behind[device]]) for device in range(first, len(behind))]
    assert cohort.answer(query, first, len(behind)).unpacked().tolist() == told


@pytest.mark.parametrize("kind", ["block model", "stored"])
@pytest.mark.parametrize("design", ["maxsense", "multi-maxsense"])
def test_long_blocks_keep_devices_apart(design: str, kind: str) -> None:
    """Six hundred devices in one call, more than there are stamps: what one left behind must not show later."""
    world, users = worlds.world(items=600, rated=1), [{(7 * device) % 600: True} for device in range(600)]
    ratings: Ratings = worlds.stored_ratings(users, range(600), 600)
    if kind == "block model":
        ratings, users = worlds.block_ratings(world), [world.ratings(device) for device in range(600)]
    plain = worlds.maxsense_query(items=600, sensing=0.2, pool=range(0, 600, 2))
    query = plain if design == "maxsense" else partition_query(600, 100, 3)
    expectation = [expected(query, worlds.SECRET, device, users[device]) for device in range(0, 600, 5)]
    bits = Cohort(ratings, worlds.SECRET, 0, 600, None).answer(query, 0, 600).unpacked()
    assert bits[::5].tolist() == expectation
    assert 0 < int(bits.sum()) < 600


def largest_ratio(matrices: Sequence[Sequence[Sequence[Fraction]]]) -> Fraction:
    """Largest ratio of two private vectors' probabilities of one released vector, by enumeration, exact."""
    vectors = list(itertools.product((0, 1), repeat=len(matrices)))
    joint = [
        [math.prod(matrix[a][b] for matrix, a, b in zip(matrices, private, told, strict=True)) for told in vectors]
        for private in vectors
    ]
    return max(Fraction(one[k], other[k]) for one in joint for other in joint for k in range(len(vectors)))


@pytest.mark.parametrize("questions", [1, 2, 3, 4])
@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1), Fraction(10, 3)])
def test_the_joint_channel_of_all_bits_has_epsilon(questions: int, epsilon: Fraction) -> None:
    """Exact enumeration: no pair of private vectors is told apart by more than epsilon, and one by all but a hair."""
    query = partition_query(40, 5, questions, epsilon)
    assert query.epsilon_per_question == epsilon / questions
    ratio = largest_ratio([bit_channel(query.epsilon_per_question).matrix] * questions)
    assert ratio <= evidence.exp_bounds(epsilon)[1]
    assert ratio >= evidence.exp_bounds(epsilon * (1 - Fraction(1, 10**6)))[0]
    if questions > 1:
        assert largest_ratio([bit_channel(epsilon).matrix] * questions) > evidence.exp_bounds(epsilon)[1]
