"""Mechanisms: each name is that of one, and a likelihood's sampler gets what it needs."""

from fractions import Fraction

import numpy as np
import pytest
import worlds

from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import CoinOf, Likelihood
from coordinator.protocol.coins import as_words
from coordinator.protocol.finding import RoomError, by_name
from coordinator.protocol.mechanism import Mechanism


class Unary(Mechanism):
    name = "unary"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(RoomError, match="'unary' is declared by Unary and Unary"):
        by_name((Unary(), Unary()), lambda mechanism: mechanism.kinds)


def test_a_sampled_channel_gets_the_public_streams_and_the_private_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampler(private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
        assert public.tolist() == coins.streams(query).tolist()
        assert coin == coins.release
        return 1 - private.view(np.uint8)

    query = worlds.partition_query(1, 1, 1, Fraction(1))
    coins = Coins(as_words(worlds.SECRET), 0, 3, query.words)
    channel = Likelihood(claimed=query.epsilon, bits=1, likelihood=lambda *_: [], sampler=sampler)
    monkeypatch.setattr(Unary, "channel", lambda *_: channel)
    assert Unary().randomize(np.zeros((3, 1), np.uint8), query, coins).all()
