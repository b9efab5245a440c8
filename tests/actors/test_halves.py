"""Halves of mechanisms: each name is one half's, and a share of epsilon is one that coins can express."""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import worlds

from actors.device_half import DeviceHalf
from actors.mechanisms import half_of
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2, Indices2, Words
from coordinator.protocol.channels import CoinOf, Likelihood
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.finding import RoomError, by_name
from coordinator.protocol.messages import Query
from coordinator.protocol.public_half import PublicHalf


class Unary(PublicHalf):
    """A half that somebody declares once more."""

    name = "unary"


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(RoomError, match="'unary' is declared by Unary and Unary"):
        by_name((Unary(), Unary()), lambda half: (half.name,))


def test_a_share_that_cannot_be_expressed_is_refused() -> None:
    def flip(bits: Bits2, query: Query) -> None:
        half_of(query.design).randomize(bits, query, Coins(as_words(worlds.SECRET), 0, len(bits), query.words))

    bits = np.zeros((3, 1), np.uint8)
    with pytest.raises(InputError, match="epsilon 31"):
        flip(bits, worlds.partition_query(1, 1, 1, Fraction(31)))
    assert not bits.any()
    flip(np.zeros((3, 2), np.uint8), worlds.partition_query(2, 1, 2, Fraction(31)))


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
