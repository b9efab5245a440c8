"""Subsets that devices release: how often they meet the device's set, which of them, and with how much noise."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
import worlds
from statistical import chi_square_fits, rate_fits, variance_fits

from actors.packed_releases import release_subsets
from actors.seeds import Coins
from coordinator.protocol.arrays import Bools2, Indices2
from coordinator.protocol.channels import COIN
from coordinator.protocol.coins import as_words
from coordinator.protocol.messages import unpack
from coordinator.protocol.value_channels import SubsetChannel, subset_channel

LISTED, AS_BITS = {"values": 40, "padded": 5, "subset_size": 4}, {"values": 40, "padded": 5, "subset_size": 9}
"""A subset as six bits a value that it holds, and as a bit a value."""


def drawn(channel: SubsetChannel, own: Indices2) -> Bools2:
    """Which values each device's subset holds; a list ascends, so that no value comes twice."""
    devices, (parts, bits) = len(own), channel.form
    packed = release_subsets(own, channel, Coins(as_words(worlds.SECRET), 7, devices, as_words(bytes(range(16)))))
    told = unpack(packed.tobytes(), devices * parts * bits).reshape(devices, parts, bits)
    if not channel.listed:
        held = told[:, :, 0].astype(np.bool_)
    else:
        named = (told.astype(np.int64) << np.arange(bits)[::-1]).sum(axis=2)
        assert (np.diff(named, axis=1) > 0).all()
        held = np.zeros((devices, channel.values), np.bool_)
        held[np.arange(devices)[:, None], named] = True
    assert (held.sum(axis=1) == channel.subset_size).all()
    return held


def same_set(devices: int, padded: int) -> Indices2:
    return np.tile(np.arange(1, 1 + padded, dtype=np.int32), (devices, 1))


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [LISTED, AS_BITS])
def test_subsets_meet_a_set_and_hold_values_as_often_as_stated(sizes: dict[str, int]) -> None:
    """Clopper-Pearson, false alarm 1e-6 a rate: meeting subsets, one own value, another; 100,000 devices, and twins."""
    devices, epsilon = 100_000, Fraction(1)
    held = drawn(subset_channel(epsilon, **sizes), same_set(devices, sizes["padded"]))
    counts = [int(told.sum()) for told in (held[:, 1:6].any(axis=1), held[:, 1], held[:, 0])]

    def fits(claimed: Fraction) -> bool:
        channel = subset_channel(claimed, **sizes)
        rates = [1 - channel.misses / COIN, *map(float, channel.rates)]
        return all(rate_fits(count, devices, rate) for count, rate in zip(counts, rates, strict=True))

    assert fits(epsilon)
    assert not fits(epsilon + Fraction(1, 8))
    assert not fits(epsilon - Fraction(1, 8))


@pytest.mark.statistical
@pytest.mark.parametrize("sizes", [(9, 3, 2), (9, 3, 4), (7, 1, 3), (70, 68, 2)])
def test_subsets_are_uniform_among_those_that_meet_and_those_that_avoid(sizes: tuple[int, int, int]) -> None:
    """Pearson's test, false alarm 1e-6 a class; the twin names an own value first and forgets what that doubles."""
    values, padded, chosen = sizes
    channel, own = (
        subset_channel(Fraction(2), values=values, padded=padded, subset_size=chosen),
        set(range(1, 1 + padded)),
    )
    found: dict[tuple[int, ...], int] = dict.fromkeys(itertools.combinations(range(values), chosen), 0)
    for row in drawn(channel, same_set(250_000, padded)):
        found[tuple(np.flatnonzero(row).tolist())] += 1
    for meets in (True, False):
        counts = {subset: count for subset, count in found.items() if own.isdisjoint(subset) != meets}
        if len(counts) > 1:
            assert chi_square_fits(list(counts.values()), np.ones(len(counts)))
    met = {subset: count for subset, count in found.items() if not own.isdisjoint(subset)}
    if padded > 1:
        assert not chi_square_fits(list(met.values()), [len(own.intersection(subset)) for subset in met])


@pytest.mark.statistical
def test_noise_grows_with_the_set_and_not_with_its_square() -> None:
    """Estimates of 400 items that 20,000 devices with sets of 10, 20 and 40 values tell: chi-square, false alarm 1e-6.

    Twins: the variances of sets that are twice and half as large. The variance doubles with the set, by the formula and
    as measured; that of epsilon split over the set's values would be four times as large.
    """
    items, devices, told = 400, 20_000, []
    for padded, chosen in ((10, 12), (20, 8), (40, 5)):
        channel = subset_channel(Fraction(1), values=items + padded, padded=padded, subset_size=chosen)
        own = np.random.default_rng(padded).random((devices, items)).argsort(axis=1)[:, :padded].astype(np.int32)
        liked = np.bincount(own.ravel(), minlength=items) / devices
        mine, other = (float(rate) for rate in channel.rates)
        estimate = (drawn(channel, own)[:, :items].mean(axis=0) - other) / (mine - other)
        rate = other + (mine - other) * padded / items
        stated = rate * (1 - rate) / (mine - other) ** 2
        sample = (estimate - liked) * np.sqrt(devices)
        given = (mine * (1 - mine) * padded + other * (1 - other) * (items - padded)) / items / (mine - other) ** 2
        assert variance_fits(sample, given)
        assert not variance_fits(sample, given * 2)
        assert not variance_fits(sample, given / 2)
        assert given < stated  # which items were liked is random, too
        told.append(stated)
    assert 1.7 < told[1] / told[0] < 2.3
    assert 1.7 < told[2] / told[1] < 2.3


def test_without_noise_a_subset_always_meets_the_set() -> None:
    held = drawn(subset_channel(None, **LISTED), same_set(3000, 5))
    assert held[:, 1:6].any(axis=1).all()
