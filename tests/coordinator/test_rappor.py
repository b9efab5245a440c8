"""RAPPOR: the error that it states is exact given the filters, which tell all items apart."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.channels import COIN
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import World
from coordinator.protocol.mechanisms.rappor import Rappor
from coordinator.protocol.messages import Query

WORLD = World(items=6, rated=3, users=1000, clusters=2, epsilon=Fraction(8))
SHARES = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05])  # Of devices with each item as their value; others have none


def query_of(rappor: Rappor) -> Query:
    return rappor.query(WORLD, round_number=0, public_seed=bytes(range(16)), epsilon=WORLD.epsilon)


def filters_of(rappor: Rappor, query: Query) -> Floats2:
    """The bits that each item sets, shape (bits, N)."""
    bits = np.zeros((query.questions, query.items))
    bits[rappor._positions(query), np.arange(query.items)] = 1
    return bits


def covariance(rappor: Rappor, query: Query) -> Floats2:
    """The exact covariance of the bits of one device's report, by going through its values."""
    channel, filters = rappor.channel(query), filters_of(rappor, query)
    values = np.append(filters, np.zeros((query.questions, 1)), axis=1)  # and an empty filter
    chances = np.append(SHARES, 1 - SHARES.sum())
    means = np.where(values == 1, channel.if_one / COIN, channel.if_zero / COIN)
    mean = means @ chances
    exact: Floats2 = np.diag((means * (1 - means)) @ chances) + (means * chances) @ means.T - np.outer(mean, mean)
    return exact


def exact_variances(rappor: Rappor, query: Query) -> Floats:
    """The variances of one device's estimates of items, by the covariance of its bits."""
    _, contrast = rappor._rates(query)
    inverse = np.linalg.pinv(filters_of(rappor, query)) / contrast
    variances: Floats = np.diag(inverse @ covariance(rappor, query) @ inverse.T)
    return variances


@pytest.mark.parametrize("bits", [0, 10])
def test_the_variance_is_exact_given_the_filters(bits: int) -> None:
    rappor = Rappor(filter_bits=bits)
    query = query_of(rappor)
    shared = filters_of(rappor, query).sum(axis=1).max() > 1
    assert shared == (bits > 0)
    stated, exact = rappor._variance(query, SHARES), exact_variances(rappor, query)
    assert np.allclose(stated, exact, rtol=1e-9)
    if shared:  # as if no bit were shared, it would be wrong
        unshared = Rappor()
        assert not np.allclose(unshared._variance(query_of(unshared), SHARES), exact, rtol=1e-2)


def test_filters_tell_all_items_apart() -> None:
    for seed in range(20):
        query = replace(query_of(Rappor(filter_bits=10)), public_seed=bytes([seed]) * 16)
        assert np.linalg.matrix_rank(filters_of(Rappor(), query)) == 6
    with pytest.raises(InputError, match="shares of 6 items follow from 7 bits at least"):
        Rappor(filter_bits=6).check_world(WORLD)
