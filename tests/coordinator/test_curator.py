"""The trusted curator's noise, and the models that it publishes."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import statistical
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from thoroughness import examples

from actors.device import Cohort
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.server.decoding.curator import (
    LARGEST_SCALE,
    DiscreteLaplace,
    item_sensitivity,
    noisy_symmetric,
    noisy_totals,
    pair_sensitivity,
)
from coordinator.server.decoding.line import Curator
from coordinator.server.design import Decoding
from coordinator.server.mechanisms import aggregate, half_of
from coordinator.server.mechanisms.toys import Reveal
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import Ask, ServerState, absorb, total

SEED = bytes(range(16))
RATES = st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=1000)


def log_pmf(law: DiscreteLaplace, noise: ArrayLike) -> Floats:
    """The law: the logarithm of ``tanh(rate / 2) exp(-rate |k|)``."""
    size = np.abs(np.asarray(noise, float))
    peak = math.log(math.tanh(law.rate / 2))
    return np.where(size == 0, peak, peak - law.rate * np.maximum(size, 1))


@settings(max_examples=examples(60))
@given(RATES, st.integers(1, 10))
def test_the_law_sums_to_one_and_has_its_variance(budget: Fraction, sensitivity: int) -> None:
    noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
    reach = math.ceil(60 / noise.rate)
    values = np.arange(-reach, reach + 1)
    law = np.exp(log_pmf(noise, values))
    assert law.sum() == pytest.approx(1, rel=1e-9)
    assert law @ values**2 == pytest.approx(noise.variance, rel=1e-9)


@settings(max_examples=examples(60))
@given(RATES, st.integers(1, 50))
def test_the_largest_log_ratio_of_neighbours_is_epsilon(budget: Fraction, sensitivity: int) -> None:
    """One total moved by the whole sensitivity: the ratio is ``budget`` wherever noise has not the moved sign."""
    noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
    outcomes = np.arange(-3 * sensitivity, 3 * sensitivity + 1)
    ratios = log_pmf(noise, outcomes) - log_pmf(noise, outcomes - sensitivity)
    assert np.abs(ratios).max() == pytest.approx(float(budget), rel=1e-12)
    assert noise.epsilon(sensitivity) == budget
    assert noise.epsilon(2 * sensitivity) == 2 * budget


def test_neighbouring_users_on_every_outcome_of_tiny_totals() -> None:
    """Three items, w = 2: whatever a user adds, released triples differ in probability by epsilon at most, and do."""
    rated, budget = 2, Fraction(3, 2)
    noise = DiscreteLaplace(budget=budget, sensitivity=item_sensitivity(rated))
    outcomes = np.array(list(itertools.product(range(-4, 5), repeat=3)))
    losses = []
    for items in itertools.combinations(range(3), rated):
        for signs in itertools.product((-1, 1), repeat=rated):
            added = np.zeros(3, int)
            added[list(items)] = signs
            ratio = log_pmf(noise, outcomes).sum(axis=1) - log_pmf(noise, outcomes - added).sum(axis=1)
            losses.append(np.abs(ratio).max())
    assert losses == pytest.approx([1.5] * 12, rel=1e-12)


def test_sensitivities_by_brute_force() -> None:
    for rated in range(2, 5):
        signs = np.array(list(itertools.product((-1, 1), repeat=rated)))
        assert {int(np.abs(row).sum()) for row in signs} == {item_sensitivity(rated)}
        pairs = {int(np.abs(np.triu(np.outer(row, row), 1)).sum()) for row in signs}
        assert pairs == {pair_sensitivity(rated)}


def drawn(budget: Fraction) -> Ints:
    totals = np.zeros((200, 500), np.int64)
    noisy, _ = noisy_totals(totals, epsilon=budget, sensitivity=3, seed=SEED)
    return noisy.astype(np.int64).ravel()


def agrees(sample: Ints, budget: Fraction) -> bool:
    noise = DiscreteLaplace(budget=budget, sensitivity=3)
    middle = np.arange(-20, 21)
    law = np.exp(log_pmf(noise, middle))
    tail = (1 - law.sum()) / 2
    counts = np.bincount(np.clip(sample, -21, 21) + 21, minlength=43)
    return statistical.chi_square_fits(counts, np.concatenate(([tail], law, [tail])))


@pytest.mark.statistical
def test_the_sampler_draws_the_law() -> None:
    """Chi-square over 43 cells of 100 thousand draws, false alarm 1e-6; the twin draws at 5 % less noise."""
    assert agrees(drawn(Fraction(1)), Fraction(1))
    assert not agrees(drawn(Fraction(21, 20)), Fraction(1))


def test_noise_is_of_the_seed_and_no_noise_is_none() -> None:
    totals = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
    first, law = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED)
    again, _ = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED)
    other, _ = noisy_totals(totals, epsilon=Fraction(1), sensitivity=30, seed=SEED[::-1])
    assert first.shape == totals.shape
    assert np.array_equal(first, again)
    assert np.array_equal(first, np.rint(first))
    assert not np.array_equal(first, other)
    assert law.variance == pytest.approx(2 * 30**2, rel=1e-3)
    bare, law = noisy_totals(totals, epsilon=None, sensitivity=30, seed=SEED)
    assert np.array_equal(bare, totals)
    assert (law.variance, law.epsilon(1)) == (0, None)
    assert log_pmf(law, [0, 1, -2]).tolist() == [0, -math.inf, -math.inf]


def test_pairs_have_one_draw_each() -> None:
    totals = np.triu(np.arange(3600, dtype=np.int64).reshape(60, 60))
    noisy, _ = noisy_symmetric(totals, epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.array_equal(noisy, noisy.T)
    assert not noisy.diagonal().any()
    above = np.triu_indices(60, 1)
    noise = (noisy - totals)[above]
    assert np.unique(noise).size > 1000  # of 1770 draws of scale 1000
    exact, _ = noisy_symmetric(totals, epsilon=None, sensitivity=10, seed=SEED)
    assert np.array_equal(exact[above], totals[above])
    items, _ = noisy_totals(np.zeros(1770, np.int64), epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.mean(items == noise) < 0.05  # two kinds of release do not share coins


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="sensitivity is 0"):
        DiscreteLaplace(budget=Fraction(1), sensitivity=pair_sensitivity(1))
    with pytest.raises(InputError, match="epsilon 1e-12 asks for noise"):
        DiscreteLaplace(budget=Fraction(1, LARGEST_SCALE), sensitivity=2)
    with pytest.raises(InputError, match="seed has 3 bytes"):
        noisy_totals(np.zeros(2, np.int64), epsilon=None, sensitivity=1, seed=b"abc")
    with pytest.raises(InputError, match=r"shape \(2, 3\)"):
        noisy_symmetric(np.zeros((2, 3), np.int64), epsilon=None, sensitivity=1, seed=SEED)


def test_hardly_any_noise() -> None:
    noise = DiscreteLaplace(budget=Fraction(10**6), sensitivity=1)
    assert noise.variance == 0
    assert noisy_totals(np.arange(5), epsilon=Fraction(10**6), sensitivity=1, seed=SEED)[0].tolist() == [0, 1, 2, 3, 4]


ITEMS, RATED = 6, 3
MODEL_SEED = bytes(range(16))
DESIGNS = ["curator-items", "curator-pairs"]
Users = list[dict[int, bool]]


def state_of(name: str, users: Users) -> ServerState:
    """What the curator holds once these users told their ratings."""
    query = Reveal(name=name, items=ITEMS, most=RATED).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None)
    ratings, count = worlds.stored_ratings([*users, {0: True}], range(len(users)), ITEMS), len(users)
    release = Cohort(ratings, worlds.SECRET, 0, count, None).answer(query, 0, count)
    return absorb(ServerState(devices=count), Ask(query=query, first=0, stop=count), aggregate(query, release))


def published(name: str, users: Users, *, epsilon: Epsilon = Fraction(1), seed: bytes = MODEL_SEED) -> Model:
    curator = Curator(epsilon=epsilon, rated=RATED, seed=seed)
    learner = SumLearner(half=half_of(name), how=Decoding(clusters=2, decoder="totals", curator=curator))
    return learner.learn(state_of(name, users))[0]


def same(one: Model, other: Model) -> bool:
    """Whether score, error and clusters are equal to the last bit."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("score", "error", "cluster", "clusters")
    )


BASE: Users = [{0: True, 1: True, 4: False}, {0: True, 3: False}, {1: True, 2: True, 5: False}] * 5


@pytest.mark.parametrize("name", DESIGNS)
def test_noise_is_that_of_the_seed_and_comes_once(name: str) -> None:
    """The score is the exact totals and one draw of noise of the stated scale."""
    model, bare = published(name, BASE), published(name, BASE, epsilon=None)
    zeros = np.zeros(ITEMS, np.int64)
    if name == "curator-items":
        noise, _ = noisy_totals(zeros, epsilon=Fraction(1), sensitivity=item_sensitivity(RATED), seed=MODEL_SEED)
    else:
        square = np.zeros((ITEMS, ITEMS), np.int64)
        noise, _ = noisy_symmetric(square, epsilon=Fraction(1), sensitivity=pair_sensitivity(RATED), seed=MODEL_SEED)
        noise = noise.sum(axis=1)
    assert noise.any()
    np.testing.assert_array_equal(model.score, bare.score + noise)
    assert same(model, published(name, BASE))
    assert not np.array_equal(model.score, published(name, BASE, seed=bytes(16)).score)


def test_without_noise_the_scores_are_the_totals() -> None:
    items = [sum(2 * user[item] - 1 for user in BASE if item in user) for item in range(ITEMS)]
    assert published("curator-items", BASE, epsilon=None).score.tolist() == items
    pairs = [
        sum(
            1 if user[item] is like else -1
            for user in BASE
            if item in user
            for other, like in user.items()
            if other != item
        )
        for item in range(ITEMS)
    ]
    assert published("curator-pairs", BASE, epsilon=None).score.tolist() == pairs


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(50)])
def test_neighbours_with_the_same_totals_get_the_same_model(name: str, epsilon: Fraction) -> None:
    """Users whose ratings cancel out tell the totals nothing; so they may tell nothing else either.

    Among them one with no rating, and one with a single rating where pairs are summed: one user's worth of change.
    """
    silent: Users = [{}] if name == "curator-items" else [{2: True}]
    loud: Users = [{}] if name == "curator-items" else [{5: False}]
    assert same(published(name, [*BASE, *silent], epsilon=epsilon), published(name, [*BASE, *loud], epsilon=epsilon))
    cancel: Users = (
        [{0: True, 1: False}, {0: False, 1: True}]
        if name == "curator-items"
        else [{0: True, 1: True}, {0: True, 1: False}]
    )
    assert same(published(name, [*BASE, *cancel], epsilon=epsilon), published(name, [*BASE, {}, {}], epsilon=epsilon))


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(50)])
def test_a_user_who_is_added_tells_nothing_beyond_the_totals(name: str, epsilon: Fraction) -> None:
    """The guarantee is about a user added or removed: the exact number of users may not show in the model either."""
    assert same(published(name, BASE, epsilon=epsilon), published(name, [*BASE, {}], epsilon=epsilon))


@settings(max_examples=examples(30))
@given(
    users=st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=2, max_size=8),
    name=st.sampled_from(DESIGNS),
    data=st.data(),
)
def test_one_user_changes_totals_by_the_sensitivity_at_most(users: Users, name: str, data: st.DataObject) -> None:
    """Truncation included: L1 distance of the exact totals with and without any one user's ratings."""
    place = data.draw(st.integers(0, len(users) - 1))
    without: Users = [{} if k == place else user for k, user in enumerate(users)]
    totals = []
    for some in (users, without):
        statistic = total(state_of(name, some))
        if name == "curator-items":
            scores = worlds.scores_of(statistic)
            totals.append(2 * scores.scores - scores.sensed)
        else:
            pairs = worlds.pairs_of(statistic)
            totals.append(2 * pairs.agreed - pairs.pairs)
    most = item_sensitivity(RATED) if name == "curator-items" else pair_sensitivity(RATED)
    rated = min(RATED, len(users[place]))
    assert (
        np.abs(totals[0] - totals[1]).sum() == (rated if name == "curator-items" else rated * (rated - 1) // 2) <= most
    )


def test_the_curators_coins_do_not_show() -> None:
    curator = Curator(epsilon=Fraction(1), rated=RATED, seed=MODEL_SEED)
    for shown in (
        repr(curator),
        str(SumLearner(half=half_of("curator-items"), how=Decoding(clusters=2, decoder="totals", curator=curator))),
    ):
        assert repr(MODEL_SEED) not in shown
        assert MODEL_SEED.hex() not in shown
