"""Halves of mechanisms: each name is one half's, and a share of epsilon is one that coins can express."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import worlds

from actors.device_half import DeviceHalf
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import CoinOf, Likelihood
from coordinator.protocol.coins import as_words
from coordinator.protocol.finding import RoomError, by_name
from coordinator.protocol.public_half import PublicHalf


class Unary(PublicHalf):
    name = "unary"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(RoomError, match="'unary' is declared by Unary and Unary"):
        by_name((Unary(), Unary()), lambda half: (half.name,))


def test_a_sampled_channel_gets_the_public_streams_and_the_private_coin(monkeypatch: pytest.MonkeyPatch) -> None:
    def sampler(private: Bits2 | Indices2, public: Words, coin: CoinOf) -> Bits2:
        assert public.tolist() == coins.streams(query).tolist()
        assert coin == coins.release
        return 1 - private.view(np.uint8)

    query = worlds.partition_query(1, 1, 1, Fraction(1))
    coins = Coins(as_words(worlds.SECRET), 0, 3, query.words)
    channel = Likelihood(claimed=query.epsilon, bits=1, likelihood=lambda *_: [], sampler=sampler)
    half = SimpleNamespace(private=True, channel=lambda _: channel)
    monkeypatch.setattr("actors.device_half.half_of", lambda _: half)
    assert DeviceHalf().randomize(np.zeros((3, 1), np.uint8), query, coins).all()
