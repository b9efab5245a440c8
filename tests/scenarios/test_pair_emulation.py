"""Emulated pair statistics: their moments, the decoder's own eigenvectors and clusters, its share of items right."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import pytest
import statistical
from numpy.random import default_rng

from coordinator.protocol.arrays import Floats, Ints
from coordinator.server.decoding.spectral import decode_affinity, decode_pairs
from coordinator.server.moments.pairs import pair_signal
from coordinator.server.statistics.pairs import PairStatistic
from scenarios.data.metrics import clustering_scores
from scenarios.theory import pair_emulation
from scenarios.theory.pair_emulation import emulated_shares, leading_vectors
from scenarios.theory.partition import best_partition

RATES = np.array([[0.7, 0.4], [0.4, 0.6]])
SIZES = np.array([14, 26])
TRUTH = np.repeat([0, 1], SIZES)
UPPER = np.triu_indices(TRUTH.size, 1)
KIND = (TRUTH[UPPER[0]], TRUTH[UPPER[1]])


@pytest.mark.statistical
@pytest.mark.parametrize("decoder", ["centred", "paper"])
@pytest.mark.parametrize("each", [0.7, 20.0, 40.0])
def test_entries_have_the_moments_of_the_statistic(decoder: str, each: float) -> None:
    """400 draws, Poisson and normal: mean and variance by kind of pair, false alarm 1e-6 for all twelve together.

    The twin: the moments at 5 % more users stray beyond every radius of the mean that is not 0.
    """
    generator, users = default_rng(3), round(each * len(KIND[0]))
    draws = np.array(
        [
            pair_emulation._entries(RATES[KIND], each, centred=decoder == "centred", generator=generator)
            for _ in range(400)
        ]
    )
    signal, more = (pair_signal(RATES, SIZES, users=round(users * k), decoder=decoder) for k in (1, 1.05))
    for one, other in ((0, 0), (0, 1), (1, 1)):
        found = draws[:, (KIND[0] == one) & (KIND[1] == other)].ravel()
        mean, variance = signal.means[one, other], signal.variances[one, other]
        radius = statistical.normal_radius(math.sqrt(variance / found.size), comparisons=12)
        assert abs(found.mean() - mean) < radius + 0.002 * each  # the rate itself is estimated
        fourth = (found - found.mean()) ** 2
        spread = statistical.normal_radius(float(fourth.std()) / math.sqrt(found.size), comparisons=12)
        assert abs(fourth.mean() - variance) < spread + 0.002 * each
        if decoder == "paper":
            assert abs(found.mean() - more.means[one, other]) > radius


@pytest.mark.parametrize("items", [30, 5, 3])
def test_profiles_are_the_eigenvectors_largest_in_magnitude(items: int) -> None:
    matrix = default_rng(4).normal(size=(items, items))
    matrix = matrix + matrix.T
    values, vectors = np.linalg.eigh(matrix)
    wanted = vectors[:, np.argsort(-np.abs(values))[:3]]
    found = leading_vectors(matrix, 3)
    assert np.abs(wanted.T @ found) == pytest.approx(np.eye(3), abs=1e-9)


def affinities(count: int, users: int) -> list[Floats]:
    """Affinity matrices near the threshold."""
    generator, found = default_rng(6), []
    for _ in range(count):
        entries = pair_emulation._entries(RATES[KIND], users / len(KIND[0]), centred=True, generator=generator)
        found.append(pair_emulation._symmetric(entries, TRUTH.size))
        assert found[-1][UPPER] == pytest.approx(entries)
        assert (found[-1] == found[-1].T).all()
        assert not np.diag(found[-1]).any()
    return found


def test_clusters_are_those_of_the_decoder() -> None:
    """Both look for the best of ten starts; of 60 matrices above the threshold all but a few are cut alike."""
    coins, same = default_rng(7), 0
    for matrix in affinities(60, 2000):
        points, none = leading_vectors(matrix, 2), np.empty((0, 2, 2))
        ours, _ = best_partition(points, np.ones(TRUTH.size), none, coins.random((10, 2, 2)))
        same += clustering_scores(ours, decode_affinity(matrix, clusters=2, error=1).cluster).exact
    assert same >= 56


def decoded(sizes: Ints, *, users: int, decoder: str, runs: int) -> Floats:
    """Shares right of the decoder itself, every answer drawn by itself."""
    generator, shares = default_rng(9), []
    for _ in range(runs):
        place = generator.integers(len(KIND[0]), size=users)
        yes = generator.random(users) < RATES[KIND][place]
        pairs, agreed = np.zeros((2, TRUTH.size, TRUTH.size), np.int64)
        pairs[UPPER] = np.bincount(place, minlength=len(KIND[0]))
        agreed[UPPER] = np.bincount(place[yes], minlength=len(KIND[0]))
        statistic = PairStatistic(pairs=pairs, agreed=agreed, devices=users, answered=users, refused=0)
        found = decode_pairs(statistic, clusters=sizes.size, decoder=decoder)
        shares.append(clustering_scores(found.cluster, TRUTH).accuracy)
    return np.array(shares)


@pytest.mark.statistical
@pytest.mark.parametrize(("decoder", "users"), [("centred", 700), ("paper", 3000)])
def test_shares_are_those_of_the_decoder(decoder: str, users: int) -> None:
    """200 runs against 1000 draws: means within 5 joint standard errors (false alarm 6e-7, normal).

    The twin: half as many users give a mean outside.
    """
    wanted = decoded(SIZES, users=users, decoder=decoder, runs=200)
    found, twin = (
        np.array(list(islice(emulated_shares(RATES, SIZES, users=u, decoder=decoder, generator=default_rng(1)), 1000)))
        for u in (users, users / 2)
    )
    error = math.sqrt(wanted.var(ddof=1) / wanted.size + found.var(ddof=1) / found.size)
    assert abs(wanted.mean() - found.mean()) < 5 * error
    assert abs(wanted.mean() - twin.mean()) > 5 * error


def test_no_answers_put_all_items_into_one_cluster() -> None:
    shares = emulated_shares(RATES, SIZES, users=1e-9, decoder="paper", generator=default_rng(2))
    assert next(shares) == 26 / 40
