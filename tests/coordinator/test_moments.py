"""Moments against enumeration, exact integers, the recorded figures and one simulation."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm
from thoroughness import examples

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import BlockParameters, SketchMoments, maxsense_moments, mean_product

SPLIT = np.array([[0.9, 0.1]])


def block(items: int, rated: int) -> BlockParameters:
    """One class, two equal clusters, b = (0.9, 0.1)."""
    sizes = np.full(2, items // 2)
    return BlockParameters(rated=rated, like=SPLIT, class_shares=np.ones(1), cluster_sizes=sizes)


def right_share(moments: SketchMoments, users: int, decoder: str) -> float:
    """Share on the right side of the midpoint, two clusters."""
    gap = abs(moments.given_sensed[0] - moments.given_sensed[1])
    return float(norm.cdf(gap / 2 / moments.estimate_deviation(users, decoder)))


def enumerated(parameters: BlockParameters, sensing: float, epsilon: float) -> tuple[float, Floats]:
    """q and P(S = 1 | i sensed) per item, summed over all rated sets, sensing sets and ratings."""
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    items, contrast = parameters.items, math.tanh(epsilon / 2)
    rated_sets = list(itertools.combinations(range(items), parameters.rated))
    rate, joint = 0.0, np.zeros(items)
    for share, row in zip(parameters.class_shares, parameters.like, strict=True):
        for sensed in itertools.product((False, True), repeat=items):
            held = sum(sensed)
            chance = share * sensing**held * (1 - sensing) ** (items - held) / len(rated_sets)
            for rated in rated_sets:
                silent = math.prod(1 - row[labels[i]] for i in rated if sensed[i])
                answer = chance * ((1 + contrast) / 2 - contrast * silent)
                rate += answer
                joint += answer * np.array(sensed)
    return rate, joint / sensing


@pytest.mark.parametrize("rated", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_rates_equal_full_enumeration(rated: int, epsilon: float) -> None:
    like = np.array([[0.9, 0.3, 0.0], [0.2, 1.0, 0.6]])
    sizes = np.array([3, 1, 2])
    model = BlockParameters(rated=rated, like=like, class_shares=np.array([0.3, 0.7]), cluster_sizes=sizes)
    moments = maxsense_moments(model, sensing=0.35, epsilon=epsilon)
    rate, per_item = enumerated(model, 0.35, epsilon)
    assert moments.answer_rate == pytest.approx(rate, rel=1e-12)
    np.testing.assert_allclose(np.repeat(moments.given_sensed, sizes), per_item, rtol=1e-12)
    np.testing.assert_allclose(moments.effect, moments.given_sensed - rate, rtol=1e-9, atol=1e-12)
    keep = (1 + math.tanh(epsilon / 2)) / 2
    released = keep * moments.private_rate + (1 - keep) * (1 - moments.private_rate)
    assert moments.answer_rate == pytest.approx(released, rel=1e-12)


@settings(max_examples=examples(200))
@given(data=st.data())
def test_mean_product_equals_the_mean_over_all_subsets(data: st.DataObject) -> None:
    sizes = np.array(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    value = st.one_of(st.sampled_from([0.0, 1.0, 1e-14]), st.floats(1e-3, 1.5))
    factors = np.array([data.draw(value) for _ in sizes])
    chosen = data.draw(st.integers(0, int(sizes.sum())))
    subsets = list(itertools.combinations(np.repeat(factors, sizes).tolist(), chosen))
    expected = math.fsum(math.prod(subset) for subset in subsets) / len(subsets)
    assert mean_product(factors, sizes, chosen) == pytest.approx(expected, rel=1e-11, abs=0)


@pytest.mark.parametrize(
    ("over_1024", "sizes", "chosen"),
    [
        ((1023, 1019), (500_000, 500_000), 1000),
        ((512, 768), (300_000, 700_000), 300),
        ((1, 1024), (50, 50), 70),
        ((256, 1024), (1, 999), 1000),
        ((1022, 1023), (2000, 2000), 3990),
    ],
)
def test_mean_product_equals_exact_integers(over_1024: tuple[int, int], sizes: tuple[int, int], chosen: int) -> None:
    choices = [[1], [1]]
    for side, (factor, size) in enumerate(zip(over_1024, sizes, strict=True)):
        for j in range(chosen):
            choices[side].append(choices[side][-1] * (size - j) // (j + 1))
        choices[side] = [count * factor**j for j, count in enumerate(choices[side])]
    total = sum(choices[0][j] * choices[1][chosen - j] for j in range(chosen + 1))
    exact = Fraction(total, math.comb(sum(sizes), chosen) * 1024**chosen)
    found = mean_product(np.array(over_1024) / 1024, np.array(sizes), chosen)
    assert abs(Fraction(found) / exact - 1) < Fraction(1, 10**10)


def test_ten_clusters_equal_two_when_their_factors_coincide() -> None:
    two = mean_product(np.array([0.9997, 0.9999]), np.array([400_000, 600_000]), 3000)
    ten = mean_product(np.repeat([0.9997, 0.9999], [4, 6]), np.full(10, 100_000), 3000)
    assert ten == pytest.approx(two, rel=1e-10)


@pytest.mark.parametrize(
    ("rated", "theta", "users", "centred", "paper"),
    [(30, 1, 2_000_000, 0.9589, 0.901), (5, 1, 6_000_000, 0.884, 0.810), (10, 3, 6_000_000, 0.842, 0.726)],
)
def test_recorded_formula_figures(rated: int, theta: int, users: int, centred: float, paper: float) -> None:
    moments = maxsense_moments(block(1000, rated), sensing=theta / rated, epsilon=1)
    assert right_share(moments, users, "centred") == pytest.approx(centred, abs=0.0005)
    assert right_share(moments, users, "paper") == pytest.approx(paper, abs=0.0005)


@pytest.mark.parametrize(("users", "centred", "paper"), [(500_000, 0.973, 0.931), (400_000, 0.957, 0.907)])
def test_recorded_brute_force_without_noise(users: int, centred: float, paper: float) -> None:
    """Figures of 40 simulated seeds, whose standard error is about 0.001 (centred) and 0.002 (paper)."""
    moments = maxsense_moments(block(1000, 30), sensing=1 / 30, epsilon=math.inf)
    assert right_share(moments, users, "centred") == pytest.approx(centred, abs=0.002)
    assert right_share(moments, users, "paper") == pytest.approx(paper, abs=0.004)


def test_the_product_form_of_the_paper_is_off_at_small_w() -> None:
    """Rated items are a subset, not independent draws: the difference is about theta^2 mean(b^2) / (2 w)."""
    exact = 1 - maxsense_moments(block(1000, 5), sensing=0.2, epsilon=math.inf).private_rate
    product = (1 - 0.2 * 5 / 1000 * 0.9) ** 500 * (1 - 0.2 * 5 / 1000 * 0.1) ** 500
    assert 1 - exact / product == pytest.approx(0.25 / (2 * 5), rel=0.2)


def simulated_scores(rated: int, sensing: float, users: int) -> tuple[Floats, Floats]:
    """Paper and centred scores of 400 items in two equal clusters, epsilon 1, one run."""
    rng = np.random.default_rng(5)
    likes = np.repeat(SPLIT[0], 200)
    order = rng.random((users, 400))
    chosen = order <= np.partition(order, rated - 1, axis=1)[:, rated - 1 : rated]
    sensed = rng.random((users, 400)) < sensing
    private = (chosen & sensed & (rng.random((users, 400)) < likes)).any(axis=1)
    answers = private ^ (rng.random(users) < 1 / (1 + math.e))
    scores = sensed.T @ np.column_stack((answers, answers - answers.mean()))
    return scores[:, 0], scores[:, 1]


@pytest.mark.statistical
def test_score_variance_and_mean_in_a_simulation() -> None:
    """False alarm below 1e-5 by chi-square quantiles; the twin is the other decoder's variance, twice as large.

    The scores of a run are independent enough: their correlation is of the order of 1 / N.
    """
    users, sensing = 12_000, 0.1
    paper, centred = simulated_scores(10, sensing, users)
    moments = maxsense_moments(block(400, 10), sensing=sensing, epsilon=1)
    low, high = float(chi2.ppf(1e-6, 398)), float(chi2.isf(1e-6, 398))
    for scores, own, other in ((paper, "paper", "centred"), (centred, "centred", "paper")):
        groups = scores.reshape(2, 200)
        squares = float(((groups - groups.mean(axis=1, keepdims=True)) ** 2).sum())
        assert low < squares / moments.score_deviation(users, own) ** 2 < high
        assert not low < squares / moments.score_deviation(users, other) ** 2 < high
    radius = norm.isf(1e-6) * moments.score_deviation(users, "centred") / math.sqrt(200)
    expected = moments.expected_score(users, "centred")
    assert np.all(np.abs(centred.reshape(2, 200).mean(axis=1) - expected) < radius)
    assert np.any(np.abs(centred.reshape(2, 200).mean(axis=1) - expected[::-1]) > radius)


def test_scores_and_estimates_agree() -> None:
    moments = maxsense_moments(block(100, 10), sensing=0.1, epsilon=1)
    users, p, q = 1000, 0.1, moments.answer_rate
    np.testing.assert_allclose(moments.expected_score(users, "paper"), users * p * moments.given_sensed)
    np.testing.assert_allclose(moments.expected_score(users, "centred"), (users - 1) * p * (moments.given_sensed - q))
    assert moments.estimate_deviation(users, "paper") == pytest.approx(math.sqrt(q * (1 - p) / (users * p)))
    assert moments.estimate_deviation(users, "centred") == pytest.approx(math.sqrt(q * (1 - q) * (1 - p) / (users * p)))


def test_opposed_classes_leave_no_effect_difference() -> None:
    """delta_min = 0: MaxSense sees the same rate in both clusters."""
    like = np.array([[0.9, 0.1], [0.1, 0.9]])
    model = BlockParameters(rated=10, like=like, class_shares=np.full(2, 0.5), cluster_sizes=np.full(2, 50))
    effect = maxsense_moments(model, sensing=0.1, epsilon=1).effect
    assert effect[0] == pytest.approx(effect[1], rel=1e-12)
    assert effect[0] > 0.001


def test_wrong_input_is_refused_with_one_line() -> None:
    one, two = np.ones(1), np.array([5, 5])
    wrong = [
        {"rated": 0, "like": SPLIT, "class_shares": one, "cluster_sizes": two},
        {"rated": 11, "like": SPLIT, "class_shares": one, "cluster_sizes": two},
        {"rated": 2, "like": SPLIT.T, "class_shares": one, "cluster_sizes": two},
        {"rated": 2, "like": SPLIT * 2, "class_shares": one, "cluster_sizes": two},
        {"rated": 2, "like": SPLIT * np.nan, "class_shares": one, "cluster_sizes": two},
        {"rated": 2, "like": SPLIT, "class_shares": one / 2, "cluster_sizes": two},
        {"rated": 2, "like": SPLIT, "class_shares": one, "cluster_sizes": np.array([5, 0])},
    ]
    for arguments in wrong:
        with pytest.raises(InputError) as caught:
            BlockParameters(**arguments)  # type: ignore[arg-type]  # a table of mixed types
        assert "\n" not in str(caught.value)
    for sensing, epsilon in ((0.0, 1.0), (1.0, 1.0), (0.5, 0.0), (0.5, math.nan)):
        with pytest.raises(InputError):
            maxsense_moments(block(10, 2), sensing=sensing, epsilon=epsilon)
    moments = maxsense_moments(block(10, 2), sensing=0.5, epsilon=1)
    with pytest.raises(InputError, match="median"):
        moments.expected_score(10, "median")
    with pytest.raises(InputError, match="users = 0"):
        moments.score_deviation(0, "paper")
    with pytest.raises(InputError, match="no subset"):
        mean_product(np.ones(1), np.array([3]), 4)
