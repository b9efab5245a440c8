"""Exact mutual information of tiny models: planted answers, and below every bound that applies."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, kl_div
from scipy.stats import binom

from coordinator.protocol.arrays import Bits, Bools, Floats
from scenarios.theory import bounds as information
from scenarios.theory.bounds import LearningProblem, check_epsilon


# Block models small enough to enumerate: every value of a user's data, and its law given the labels.
@dataclass(frozen=True, slots=True, kw_only=True)
class TinyModel:
    """A block model with one user class, small enough to enumerate; labels Z are uniform over `L^N`."""

    items: int
    rated: int
    like: tuple[float, ...] = (0.0, 1.0)


def possible_data(model: TinyModel) -> tuple[Bools, Bits]:
    """Every value of a user's data `(W, R)`, D of them."""
    rated, ratings = [], []
    for chosen in itertools.combinations(range(model.items), model.rated):
        for values in itertools.product((0, 1), repeat=model.rated):
            row, bits = np.zeros(model.items, dtype=np.bool_), np.zeros(model.items, dtype=np.uint8)
            row[list(chosen)], bits[list(chosen)] = True, values
            rated.append(row)
            ratings.append(bits)
    return np.array(rated), np.array(ratings)


def data_channel(model: TinyModel) -> Floats:
    """`P(data | labels)`, shape (L^N, D): rows sum to 1, columns in the order of `possible_data`."""
    rated, ratings = possible_data(model)
    labels = np.array(list(itertools.product(range(len(model.like)), repeat=model.items)))
    chance = np.asarray(model.like, dtype=np.float64)[labels]
    law = np.full((len(labels), len(rated)), 1.0 / math.comb(model.items, model.rated))
    for item in range(model.items):
        liked = chance[:, item, None]
        law *= np.where(rated[:, item], np.where(ratings[:, item] == 1, liked, 1.0 - liked), 1.0)
    return law


# Exact information of one answer about the clusters, by enumeration of tiny models; every bound must lie above.
def maxsense_bits(model: TinyModel, sensed: Sequence[int]) -> Bits:
    """MaxSense's private bit for every possible data, shape (D,): 1 if a sensed item was rated 1."""
    _, ratings = possible_data(model)
    return np.asarray(ratings[:, list(sensed)].any(axis=1), dtype=np.uint8)


def rated_equal_bits(model: TinyModel, pair: tuple[int, int]) -> Bits:
    """Pairwise-Preference's `rated-equal` bit, shape (D,): 1 if both items are rated, and rated equally."""
    rated, ratings = possible_data(model)
    one, other = pair
    both = rated[:, one] & rated[:, other]
    return np.asarray(both & (ratings[:, one] == ratings[:, other]), dtype=np.uint8)


def bit_release(bits: Bits, *, epsilon: float) -> Floats:
    """`P(released bit | data)`, shape (D, 2): kept with probability `e^eps / (1 + e^eps)` (Prop. 4 [2.4])."""
    check_epsilon(epsilon)
    keep = float(expit(epsilon))
    one = np.where(bits == 1, keep, 1.0 - keep)
    return np.stack([1.0 - one, one], axis=1)


def exact_information(model: TinyModel, release: Floats) -> float:
    """Mutual information `I(Z; S)` of the labels and one answer [nats].

    Examples
    --------
    >>> model = TinyModel(items=2, rated=2)
    >>> bits = rated_equal_bits(model, (0, 1))
    >>> round(exact_information(model, bit_release(bits, epsilon=float("inf"))), 9)  # one bit, ln 2
    0.693147181
    """
    law = data_channel(model) @ release
    return float(kl_div(law, law.mean(axis=0)).sum() / len(law))


def chi_square_information(model: TinyModel, release: Floats) -> float:
    """Lemma 9's bound on `I(Z; S)` [nats], `E_S[ sum_z P(z | S)^2 / P(z) ] - 1`.

    For certain ratings it is `E_S E[2^|I1 n I2| 1(Z1 = Z2 where both are rated) - 1]`, the form in the paper; the
    proof, `ln x <= x - 1`, is the same for uncertain ones.
    """
    law = data_channel(model) @ release
    mean = law.mean(axis=0)
    return float(((law - mean)[:, mean > 0] ** 2 / mean[mean > 0]).sum() / len(law))


def maxsense_information(model: TinyModel, *, epsilon: float, theta: float = 1.0) -> float:
    """`I(Z; S | H)` [nats]: MaxSense with its public sensing set, each item with probability `theta / w`."""
    told = 0.0
    for size in range(1, model.items + 1):  # by symmetry only the size of the sensing set matters
        release = bit_release(maxsense_bits(model, range(size)), epsilon=epsilon)
        weight = float(binom.pmf(size, model.items, theta / model.rated))
        told += weight * exact_information(model, release)
    return told


def pairwise_information(model: TinyModel, *, epsilon: float) -> float:
    """`I(Z; S | pair)` [nats]: Pairwise-Preference, `rated-equal`; the same for every pair."""
    return exact_information(model, bit_release(rated_equal_bits(model, (0, 1)), epsilon=epsilon))


def binary_entropy(chance: float) -> float:
    return -sum(p * math.log(p) for p in (chance, 1 - chance) if p > 0)


def problem_of(model: TinyModel, epsilon: float = 1.0) -> LearningProblem:
    return LearningProblem(items=model.items, rated=model.rated, epsilon=epsilon)


def private_bounds(model: TinyModel, epsilon: float) -> dict[str, float]:
    """Every bound in nats that holds for one epsilon-LDP answer."""
    every = [information.fano_information, information.tanh_information, information.capacity_information]
    every += [information.weak_scarce_information, information.scarce_information]
    every += [information.contraction_information, information.ratings_information]
    return {bound.__name__: bound(problem_of(model, epsilon)) for bound in every}


def staircase(model: TinyModel, *, epsilon: float, answers: int, seed: int, share: float) -> Floats:
    """A random epsilon-LDP channel with several answers: two odds, a factor e^epsilon apart, in every column.

    Columns are paired with their complements, so that rows have equal sums.
    """
    rng = np.random.default_rng(seed)
    count = len(possible_data(model)[0])
    chosen = rng.random((count, answers)) < share
    odds = np.where(chosen, math.exp(epsilon), 1.0)
    odds = np.hstack([odds, 1.0 + math.exp(epsilon) - odds])
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def test_maxsense_of_uncertain_ratings_by_hand() -> None:
    """One of two items sensed, one rated: P(S0 = 1 | Z) is half the sensed item's like."""
    model = TinyModel(items=2, rated=1, like=(0.1, 0.9))
    release = bit_release(maxsense_bits(model, [0]), epsilon=2.0)
    keep = math.exp(2) / (1 + math.exp(2))
    ones = [keep * half + (1 - keep) * (1 - half) for half in (0.05, 0.45)]
    planted = binary_entropy(sum(ones) / 2) - sum(map(binary_entropy, ones)) / 2
    assert exact_information(model, release) == pytest.approx(planted, rel=1e-12)


def test_pairwise_of_few_ratings_by_hand() -> None:
    """Both rated with probability w(w-1)/(N(N-1)), then equal or not: a Z-shaped channel."""
    model = TinyModel(items=5, rated=3)
    both = 3 * 2 / (5 * 4)
    planted = binary_entropy(both / 2) - binary_entropy(both) / 2
    assert pairwise_information(model, epsilon=math.inf) == pytest.approx(planted, rel=1e-12)
    assert exact_information(model, bit_release(rated_equal_bits(model, (1, 4)), epsilon=1.0)) == pytest.approx(
        pairwise_information(model, epsilon=1.0)
    )


def test_random_sensing_is_the_average_over_all_sets() -> None:
    model = TinyModel(items=4, rated=2)
    told = 0.0
    for sensed in itertools.chain.from_iterable(itertools.combinations(range(4), k) for k in range(5)):
        release = bit_release(maxsense_bits(model, sensed), epsilon=1.0)
        told += 0.25 ** len(sensed) * 0.75 ** (4 - len(sensed)) * exact_information(model, release)
    assert maxsense_information(model, epsilon=1.0, theta=0.5) == pytest.approx(told, rel=1e-12)


@pytest.mark.parametrize(("items", "rated"), [(2, 1), (2, 2), (5, 1), (5, 3), (5, 4), (8, 1), (8, 2), (8, 4), (8, 8)])
@pytest.mark.parametrize("epsilon", [0.1, 0.6, 1.0, 3.0])
def test_sketches_lie_below_every_bound(items: int, rated: int, epsilon: float) -> None:
    for like in ((0.0, 1.0), (0.1, 0.9), (0.3, 0.95)):
        model = TinyModel(items=items, rated=rated, like=like)
        nats = {"maxsense": maxsense_information(model, epsilon=epsilon)}
        nats["pairwise"] = pairwise_information(model, epsilon=epsilon)
        bounds = private_bounds(model, epsilon)
        if rated == 1:
            bounds["one_bit_information"] = information.one_bit_information(problem_of(model))
        for sketch, name in itertools.product(nats, bounds):
            assert nats[sketch] <= bounds[name], (sketch, name, like)


@settings(max_examples=examples(60))
@given(
    items=st.integers(2, 6),
    data=st.data(),
    epsilon=st.floats(0.05, 4),
    like=st.sampled_from([(0.0, 1.0), (0.1, 0.9), (0.2, 0.3), (0.0, 0.0, 1.0), (0.1, 0.5, 1.0)]),
    seed=st.integers(0, 10**6),
    share=st.floats(0.02, 0.5),
)
def test_any_private_channel_lies_below_every_bound(
    items: int, data: st.DataObject, epsilon: float, like: tuple[float, ...], seed: int, share: float
) -> None:
    rated = data.draw(st.integers(1, min(items, 4)))
    model = TinyModel(items=items, rated=rated, like=like)
    release = staircase(model, epsilon=epsilon, answers=3, seed=seed, share=share)
    assert np.log(release.max(axis=0) / release.min(axis=0)).max() <= epsilon + 1e-9
    told = exact_information(model, release)
    assert told <= chi_square_information(model, release) + 1e-15
    for name, bound in private_bounds(model, epsilon).items():
        assert told <= bound + 1e-15, name


@settings(max_examples=examples(60))
@given(items=st.integers(2, 7), seed=st.integers(0, 10**6), share=st.floats(0.05, 0.95), epsilon=st.floats(0.1, 50))
def test_any_one_bit_of_one_rating_lies_below_theorem_10(items: int, seed: int, share: float, epsilon: float) -> None:
    for like in ((0.0, 1.0), (0.1, 0.7), (0.0, 0.0, 1.0)):
        model = TinyModel(items=items, rated=1, like=like)
        bits = (np.random.default_rng(seed).random(2 * items) < share).astype(np.uint8)
        told = exact_information(model, bit_release(bits, epsilon=epsilon))
        assert told <= information.one_bit_information(problem_of(model)) + 1e-15


@settings(max_examples=examples(60))
@given(
    items=st.integers(2, 5),
    like=st.sampled_from([(0.0, 1.0), (0.1, 0.7), (0.0, 0.5, 1.0), (0.1, 0.5, 0.5, 0.9)]),
    epsilon=st.floats(0.05, 4),
    seed=st.integers(0, 10**6),
)
def test_adaptive_answers_lie_below_theorem_17(items: int, like: tuple[float, ...], epsilon: float, seed: int) -> None:
    """Four users, each asked by what was answered before, any clusters and ratings: below the row, and each step, too.

    A step is `Var F / N^2` at most, F subgaussian, so `4 (e^eps - 1)^2 (I + ln(2) / 2) / N` (Lemma 19, averaged).
    """
    model = TinyModel(items=items if len(like) < 4 else min(items, 4), rated=1, like=like)
    data, growth = data_channel(model), 4 * math.expm1(epsilon) ** 2 / model.items
    transcripts, told = np.ones((len(data), 1)), 0.0
    for user in range(1, 5):
        answers = [
            data @ staircase(model, epsilon=epsilon, answers=1, seed=seed + 1000 * user + past, share=0.5)
            for past in range(transcripts.shape[1])
        ]
        transcripts = np.hstack([transcripts[:, [past]] * answer for past, answer in enumerate(answers)])
        before, told = told, float(kl_div(transcripts, transcripts.mean(axis=0)).sum() / len(data))
        assert before - 1e-12 <= told <= before + growth * (before + math.log(2) / 2)
        assert told <= 2 * ((1 + 5 * growth) ** user - 1)
        assert told <= (1 + 10 * growth) ** user  # as the row reads it


def windows(size: int) -> Floats:
    """A channel of epsilon 1 from 256 clusterings: each answer is e times likelier on a window of so many."""
    odds = np.where((np.arange(256)[:, None] - np.arange(256)) % 256 < size, math.e, 1.0)
    return np.asarray(odds / odds.sum(axis=1, keepdims=True))


def test_capacity_is_reached_by_subset_selection() -> None:
    """Everything rated: 256 answers, each e^epsilon times likelier on a window of the 256 clusterings.

    The best window holds `(k - 1) / (e^eps - 1)` of them, `k = eps / (1 - e^-eps)`: 86.7 at epsilon 1.
    """
    model = TinyModel(items=8, rated=8)
    told = exact_information(model, windows(87))
    capacity = information.capacity_information(problem_of(model))
    assert 0.9999 * capacity < told <= capacity


def test_contraction_is_reached_in_chi_square() -> None:
    """w = N and the window of `1 / (1 + e^eps)`: sinh(eps/2)^2; a lone rating's private bit: tanh(eps/2)^2 / N."""
    model = TinyModel(items=8, rated=8)
    told = chi_square_information(model, windows(round(256 / (1 + math.e))))
    bound = information.contraction_information(problem_of(model))
    assert 0.9999 * bound < told <= bound
    lone = TinyModel(items=6, rated=1)
    release = bit_release(maxsense_bits(lone, range(6)), epsilon=1.0)
    assert chi_square_information(lone, release) == pytest.approx(math.tanh(0.5) ** 2 / 6)


def test_theorem_10_is_tight_within_a_factor_of_about_two() -> None:
    """The rating itself as the bit tells more than half of the bound."""
    model = TinyModel(items=8, rated=1)
    told = exact_information(model, bit_release(maxsense_bits(model, range(8)), epsilon=math.inf))
    assert 0.5 < told / information.one_bit_information(problem_of(model)) <= 1
