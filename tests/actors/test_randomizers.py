"""The sampler is tied to the exact channel matrix, bit by bit and for every question."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import reference
import worlds
from statistical import rate_fits

from actors.device import Cohort
from actors.mechanisms import half_of
from actors.seeds import Coins
from coordinator.protocol.arrays import Bits2
from coordinator.protocol.channels import BitChannel, bit_channel
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query

MASTER = as_words(worlds.SECRET)
DEVICES = 400_000


def released(private: int, epsilon: Fraction) -> Bits2:
    """Releases of devices that all hold the same private bit: they like all items, or none, and sense both."""
    world = worlds.world(items=2, rated=2, like=((float(private), float(private)),))
    query = worlds.maxsense_query(items=2, sensing=1.0, epsilon=epsilon, round_number=private)
    return Cohort(worlds.block_ratings(world), world.secret, 0, DEVICES, None).answer(query, 0, DEVICES).unpacked()


def fits(epsilon: Fraction, channel: BitChannel) -> bool:
    """Whether devices that answer under ``epsilon`` release what the channel's matrix says, row by row."""
    return all(
        rate_fits(int((released(private, epsilon) == answer).sum()), DEVICES, float(channel.matrix[private][answer]))
        for private in (0, 1)
        for answer in (0, 1)
    )


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(4)])
def test_releases_follow_the_channel_matrix(epsilon: Fraction) -> None:
    """Clopper-Pearson, false alarm 1e-6 an entry, 400,000 devices a row.

    Twins: devices that answer under an epsilon larger by 0.08, or smaller by as much, are found out.
    """
    assert fits(epsilon, bit_channel(epsilon))
    assert not fits(epsilon + Fraction(8, 100), bit_channel(epsilon))
    assert not fits(epsilon - Fraction(8, 100), bit_channel(epsilon))


def many_questions(epsilon: Fraction | None, questions: int, round_number: int = 0) -> Query:
    return Query(
        design="multi-maxsense",
        items=questions,
        round=round_number,
        public_seed=worlds.PUBLIC,
        epsilon=epsilon,
        questions=questions,
        parameters={"set_size": 1},
    )


def flip(bits: Bits2, query: Query, first: int = 0) -> None:
    """Flip private bits, as the design's half does."""
    half_of(query.design).randomize(bits, query, Coins(MASTER, first, len(bits), query.words))


def test_every_question_has_the_oracles_coin_under_its_share_of_epsilon() -> None:
    query = many_questions(Fraction(3), 4)
    bits = np.tile(np.array([0, 1, 0, 1], np.uint8), (40, 1))
    flip(bits, query, 1000)
    flips = reference.flips(Fraction(3, 4))
    expected = [
        [
            question % 2 ^ (reference.release_coin(worlds.SECRET, device, query.id, question) < flips)
            for question in range(4)
        ]
        for device in range(1000, 1040)
    ]
    assert bits.tolist() == expected


@pytest.mark.statistical
def test_each_of_many_questions_is_flipped_at_its_share() -> None:
    """Six questions under epsilon 3: flip rate 1 / (1 + e^(1/2)) each; false alarm 1e-6 each. Twin: e^(0.55)."""
    bits = np.zeros((100_000, 6), np.uint8)
    flip(bits, many_questions(Fraction(3), 6))
    for question in range(6):
        ones = int(bits[:, question].sum())
        assert rate_fits(ones, 100_000, float(bit_channel(Fraction(1, 2)).flip_probability))
        assert not rate_fits(ones, 100_000, float(bit_channel(Fraction(11, 20)).flip_probability))


def test_no_noise_changes_nothing() -> None:
    bits = np.array([[0, 1], [1, 1], [0, 0]], np.uint8)
    kept = bits.copy()
    flip(bits, many_questions(None, 2))
    np.testing.assert_array_equal(bits, kept)


def test_a_share_that_cannot_be_expressed_is_refused() -> None:
    bits = np.zeros((3, 1), np.uint8)
    with pytest.raises(InputError, match="epsilon 31"):
        flip(bits, many_questions(Fraction(31), 1))
    assert not bits.any()
    flip(np.zeros((3, 2), np.uint8), many_questions(Fraction(31), 2))


def test_flips_do_not_depend_on_the_private_bit() -> None:
    zeros, ones = np.zeros((5_000, 3), np.uint8), np.ones((5_000, 3), np.uint8)
    query = many_questions(Fraction(1), 3)
    flip(zeros, query)
    flip(ones, query)
    np.testing.assert_array_equal(zeros, 1 - ones)
