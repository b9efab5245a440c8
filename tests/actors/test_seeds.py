"""Coins of different devices, questions, queries, purposes and seeds are the oracle's, and unrelated to each other."""

import functools
import itertools
from fractions import Fraction

import evidence
import numpy as np
import pytest
import worlds
from evidence import counts_fit, hoeffding_radius, normal_radius, rate_fits

from actors import seeds
from actors.seeds import RELEASE, device_secrets, private_coins, ratings_streams
from coordinator.protocol.arrays import Floats, Words
from coordinator.protocol.coins import as_words, derive, round_key
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.messages import Query

MANY = 1 << 16


def query(round_number: int) -> Query:
    return worlds.maxsense_query(items=9, sensing=0.5, epsilon=Fraction(1), round_number=round_number)


def coins(seed: int, round_number: int = 0, question: int = 0, first: int = 0) -> Words:
    return private_coins(as_words(derive(seed, "devices")), first, MANY, RELEASE, query(round_number).words, question)


def bits_of(words: Words) -> Floats:
    """The words' bits as -1 and 1, shape (words, 64)."""
    return np.unpackbits(words.view(np.uint8)).reshape(-1, 64).astype(np.float64) * 2 - 1


def equal_bits(one: Words, other: Words) -> float:
    """Share of the bits that two families have in common, device by device."""
    return 1 - float(np.bitwise_count(one ^ other).sum(dtype=np.int64)) / (64 * MANY)


@functools.cache
def families() -> dict[str, Words]:
    """Coins that could be related if a key were built carelessly: neighbours in every part of it."""
    master = as_words(derive(0, "devices"))
    secrets = device_secrets(master, 0, MANY)
    return {
        "seed 0": coins(0),
        "seed 1": coins(1),
        "seed 2": coins(2),
        "round 1": coins(0, round_number=1),
        "question 1": coins(0, question=1),
        "question 2": coins(0, question=2),
        "next devices": coins(0, first=MANY),
        "ratings": ratings_streams(master, 0, MANY),
        "secrets, low": secrets[0],
        "secrets, high": secrets[1],
        "public, round 0": device_streams(round_key(derive(0, "public"), 0), 0, MANY),
        "public, round 1": device_streams(round_key(derive(0, "public"), 1), 0, MANY),
        "public, seed 1": device_streams(round_key(derive(1, "public"), 0), 0, MANY),
    }


@pytest.mark.parametrize("first", [0, 5, 2**31 - 2, 2**40])
def test_coins_are_the_oracles(first: int) -> None:
    secret, asked = evidence.derive(7, "devices"), query(3)
    master = as_words(secret)
    devices = range(first, first + 4)
    low, high = device_secrets(master, first, 4)
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == [evidence.device_secret(secret, d) for d in devices]
    assert ratings_streams(master, first, 4).tolist() == [
        evidence.siphash_words(evidence.device_secret(secret, device), 1) for device in devices
    ]
    for question in (0, 1, 999):
        assert private_coins(master, first, 4, RELEASE, asked.words, question).tolist() == [
            evidence.release_coin(secret, device, asked.id, question) for device in devices
        ]


def test_no_two_coins_are_equal_anywhere() -> None:
    """Neither within a family nor between two: no shared multiset, which a seed that is only xored in would leave.

    A chance hit among 13 * 65,536 words of 64 bits has probability 2e-8.
    """
    everything = np.concatenate(list(families().values()))
    assert np.unique(everything).size == everything.size


@pytest.mark.statistical
def test_families_are_uncorrelated_device_by_device() -> None:
    """Share of equal bits between any two families, all bits of all devices; false alarm 1e-6 in all (Hoeffding).

    Twin: coins of which one device in two hundred has another seed's.
    """
    pairs = list(itertools.combinations(families().values(), 2))
    radius = hoeffding_radius(MANY * 64, false_alarm=1e-6 / len(pairs))
    for one, other in pairs:
        assert abs(equal_bits(one, other) - 0.5) < radius
    leaning = np.where(np.arange(MANY) % 200 == 0, families()["seed 0"], families()["seed 1"])
    assert abs(equal_bits(leaning, families()["seed 0"]) - 0.5) > radius


@pytest.mark.statistical
def test_bits_of_neighbouring_devices_and_of_one_word_are_uncorrelated() -> None:
    """All 64 x 64 correlations at device lags 0 to 2, and means, as normals; false alarm 1e-6 in all.

    Twin: a bit that copies its neighbour in one device of twenty is found.
    """
    radius = normal_radius(MANY**-0.5, comparisons=3 * (3 * 64 * 64 + 64))
    for family in ("seed 0", "ratings", "public, round 0"):
        signs = bits_of(families()[family])
        for lag in range(3):
            found = signs[: MANY - lag].T @ signs[lag:] / MANY
            off = found - np.eye(64) if lag == 0 else found
            assert np.abs(off).max() < radius
        assert np.abs(signs.mean(axis=0)).max() < radius
    signs[::20, 5] = signs[::20, 6]
    assert abs(float(signs[:, 5] @ signs[:, 6]) / MANY) > radius


@pytest.mark.statistical
def test_coins_are_uniform_where_flips_look() -> None:
    """Coins below a threshold, from 1/4096 to 1/2: binomial, false alarm 1e-6 in all.

    Twins: shares that are sixteen deviations larger, where six or so are let through.
    """
    powers = np.arange(1, 13)
    share, below = 2.0**-powers, np.uint64(1) << (64 - powers).astype(np.uint64)
    more = share + 16 * np.sqrt(share * (1 - share) / MANY)
    for words in (coins(0), coins(1), coins(0, question=1)):
        counts = (words[:, None] < below).sum(axis=0)
        assert counts_fit(counts, MANY, share, false_alarm=1e-6 / 3)
        for count, wrong in zip(counts.tolist(), more.tolist(), strict=True):
            assert not rate_fits(count, MANY, wrong, false_alarm=1e-6 / 36)


def test_derived_seeds_are_the_oracles_and_one_way() -> None:
    for parent in (0, 1, 2**64, b"sixteen bytes ok", b"x"):
        for purpose in ("public", "devices", "round 0"):
            assert derive(parent, purpose) == evidence.derive(parent, purpose)
    children = {derive(seed, purpose) for seed in range(50) for purpose in ("public", "devices", "world", "round 1")}
    assert len(children) == 200
    assert {len(child) for child in children} == {16}


def test_every_purpose_has_a_number_of_its_own() -> None:
    """Coins of different purposes must never be the same."""
    purposes = [int(value) for name, value in vars(seeds).items() if name.isupper() and isinstance(value, np.uint64)]
    assert len(purposes) >= 9
    assert sorted(purposes) == list(range(1, len(purposes) + 1))
