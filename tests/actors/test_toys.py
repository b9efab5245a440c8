"""Ratings told as they are: whose and which follow the flags, and bits stand where they belong."""

import numpy as np
import pytest

from actors.mechanisms.toys import NOTHING, rating_rows, revealed_ratings
from coordinator.protocol.rating_table import Likes


def test_only_devices_that_tell_tell_and_only_what_they_tell() -> None:
    starts, items = np.array([0, 3, 5, 5, 8]), np.array([4, 0, 2, 1, 3, 6, 5, 7], np.int32)
    likes = np.array([1, 0, 1, 1, 1, 0, 1, 0], np.bool_)
    told = np.array([1, 0, 1, 1, 1, 0, 1, 1], np.bool_)
    rated = Likes(starts=starts, items=items, values=likes, count=8)
    revealing = np.array([1, 0, 1, 1], np.bool_)
    numbers = revealed_ratings(rated, told & revealing[rated.owners])
    assert numbers.tolist() == [[9, 5, NOTHING], [NOTHING] * 3, [NOTHING] * 3, [11, 14, NOTHING]]


@pytest.mark.parametrize("items", [1, 8, 33, 64, 100])
def test_bits_tell_who_rated_what_and_liked_it(items: int) -> None:
    coins = np.random.default_rng(items)
    rated, liked = coins.random((2, 7, items)) < 0.5
    wanted = np.hstack([rated, rated & liked])
    rows = [[2 * item + int(liked[k, item]) for item in np.flatnonzero(rated[k])] for k in range(7)]
    numbers = np.array([row + [NOTHING] * (items + 1 - len(row)) for row in rows], np.int32)
    found = np.unpackbits(rating_rows(numbers, items))[: wanted.size].reshape(wanted.shape)
    np.testing.assert_array_equal(found, wanted)
