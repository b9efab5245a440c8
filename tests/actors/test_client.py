"""The client's device: it answers, one recommendation at a time, and shows nothing."""

from __future__ import annotations

import numpy as np
import pytest

from actors.voters import Client
from coordinator.protocol.errors import InputError

LIKES = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1]], np.bool_)


def test_it_likes_what_it_likes() -> None:
    client = Client(4, LIKES)
    assert [[client.answer(t, k) for k in range(3)] for t in range(4)] == LIKES.tolist()
    assert all(type(client.answer(t, 0)) is bool for t in range(4))


def test_what_random_recommendations_would_cost_is_known_to_the_experimenter() -> None:
    assert Client(0, LIKES).random_loss == pytest.approx(2 / 3 + 1 / 3 + 0 + 2 / 3)


@pytest.mark.parametrize(("nothing", "named", "rounds"), [([2], 2, 1), ([0, 3], 0, 2), ([1, 2, 3], 1, 3)])
def test_rounds_in_which_it_likes_nothing_are_refused_by_their_number(
    nothing: list[int], named: int, rounds: int
) -> None:
    likes = LIKES.copy()
    likes[nothing] = False
    with pytest.raises(InputError) as raised:
        Client(7, likes)
    words = f"round {named}: client 7 likes none of 3 objects (so in {rounds} rounds); leave such rounds out"
    assert str(raised.value) == words


def test_likes_are_not_shown() -> None:
    assert repr(Client(3, LIKES)) == "Client(number=3, rounds=4)"
