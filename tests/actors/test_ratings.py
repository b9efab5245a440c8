"""Ratings that devices draw for themselves follow the block model, and are the same whoever asks and when."""

import itertools

import numpy as np
import pytest
import worlds
from evidence import World, chi_square_fits, examples, rate_fits
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Bools2, Indices2, Ints
from coordinator.protocol.coins import as_words


def drawn(world: World, count: int, first: int = 0) -> tuple[Indices2, Bools2]:
    told = worlds.block_ratings(world).rated(as_words(world.secret), first, count)
    starts, items, likes = told.starts, told.items, told.values
    assert starts.tolist() == [world.rated * device for device in range(count + 1)]
    return items.reshape(count, world.rated), likes.reshape(count, world.rated)


def subset_counts(world: World, count: int) -> Ints:
    """How often each subset was drawn, in the order of `itertools.combinations`."""
    codes = (1 << drawn(world, count)[0].astype(np.int64)).sum(axis=1)
    wanted = [sum(1 << item for item in some) for some in itertools.combinations(range(world.items), world.rated)]
    counts = np.bincount(codes, minlength=1 << world.items)
    assert counts[wanted].sum() == count
    return counts[wanted]


@settings(max_examples=examples(40))
@given(data=st.data(), items=st.integers(1, 60), first=st.integers(0, 10**12))
def test_drawn_ratings_are_the_oracles(data: st.DataObject, items: int, first: int) -> None:
    rated = data.draw(st.integers(1, items))
    like = ((0.0, 0.3, 1.0), (0.9, 0.5, 0.1))
    share = data.draw(st.sampled_from([0.0, 0.25, 1.0]))
    world = worlds.world(items=items, rated=rated, like=like, shares=(share, 1 - share))
    chosen, likes = drawn(world, 5, first)
    for k in range(5):
        assert dict(zip(chosen[k].tolist(), likes[k].tolist(), strict=True)) == world.ratings(first + k)
        assert chosen[k].tolist() == world.rated_items(first + k)
    would = worlds.block_ratings(world).would_like(world.secret, np.tile(np.arange(-1, items, dtype=np.int32), (5, 1)))
    assert would.tolist() == [[False, *world.would_like(k, range(items)).values()] for k in range(5)]


@pytest.mark.few(2)
@pytest.mark.statistical
@pytest.mark.parametrize(("items", "rated"), [(6, 3), (6, 4), (7, 2), (5, 4)])
def test_subsets_are_uniform(items: int, rated: int) -> None:
    """Chi-square over all subsets, 400,000 devices; false alarm 1e-6.

    Twin: against a law in which subsets that hold item 0 are 5 % likelier, the same counts are refused.
    """
    counts = subset_counts(worlds.world(items=items, rated=rated), 400_000)
    assert chi_square_fits(counts, np.ones(counts.size))
    tilted = [1.05 if 0 in some else 1.0 for some in itertools.combinations(range(items), rated)]
    assert not chi_square_fits(counts, tilted)


@pytest.mark.statistical
def test_likes_follow_classes_and_clusters() -> None:
    """Rates of single likes and of pairs of likes, 200,000 devices; false alarm 1e-6 each.

    Pairs tell the class: two items of a cluster are both liked with probability sum_k alpha_k b_k^2, not the square
    of the mean. Twin: shares of the classes wrong by 0.02 are refused.
    """
    shares, like = (0.3, 0.7), ((0.9, 0.2), (0.3, 0.6))
    world = worlds.world(items=4, rated=4, like=like, shares=shares)
    chosen, likes = drawn(world, 200_000)
    assert (chosen == np.arange(4)).all()
    rates = {
        (0,): 0.3 * 0.9 + 0.7 * 0.3,
        (3,): 0.3 * 0.2 + 0.7 * 0.6,
        (0, 2): 0.3 * 0.81 + 0.7 * 0.09,
        (0, 1): 0.3 * 0.18 + 0.7 * 0.18,
        (1, 3): 0.3 * 0.04 + 0.7 * 0.36,
        (0, 1, 2, 3): 0.3 * 0.81 * 0.04 + 0.7 * 0.09 * 0.36,
    }
    for items, rate in rates.items():
        assert rate_fits(int(likes[:, list(items)].all(axis=1).sum()), 200_000, rate)
    assert not rate_fits(int(likes[:, [0, 2]].all(axis=1).sum()), 200_000, 0.32 * 0.81 + 0.68 * 0.09)
    assert not rate_fits(int(likes[:, 3].sum()), 200_000, 0.28 * 0.2 + 0.72 * 0.6)


# Stored ratings, CSR with users that stand behind several devices, against the oracle; and nothing shows them.
ITEMS = 12


def stored(users: list[dict[int, bool]], behind: list[int], items: int = ITEMS) -> StoredRatings:
    """The users' ratings; device i stands for user ``behind[i]``."""
    return StoredRatings(rows=worlds.likes(users, items), user=np.array(behind, np.int32))


@pytest.mark.parametrize(("first", "stop"), [(0, 3), (2, 3), (-1, 2)])
def test_a_cohort_of_devices_without_ratings_is_refused(first: int, stop: int) -> None:
    """Answering for them would read memory that is not theirs."""
    with pytest.raises((IndexError, ValueError)):
        Cohort(stored([{3: True}], [0, 0]), worlds.SECRET, first, stop, None)


def test_nothing_that_is_printed_shows_ratings_or_secrets() -> None:
    telling = stored([{3: True, 7: False, 11: True}], [0, 0])
    world = worlds.world(items=30, rated=6, like=((0.8125, 0.1875),), shares=(1.0,))
    drawn = worlds.block_ratings(world, users=2)
    for ratings in (telling, drawn):
        cohort = Cohort(ratings, worlds.SECRET, 0, 2, None)
        for shown in (repr(ratings), str(ratings), repr(cohort), repr(cohort.ledger)):
            told = shown.split(" object at 0x")[0]
            assert "array" not in told
            shows = [part in told for part in ("0.8125", "0.1875", "True", "False", "11", "[", worlds.SECRET.hex())]
            assert not any(shows)
