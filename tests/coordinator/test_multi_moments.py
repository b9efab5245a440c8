"""Moments of Multi-MaxSense against enumeration, limits and one simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import chi2, hypergeom

from coordinator.protocol.arrays import Floats
from coordinator.protocol.errors import InputError
from coordinator.server.moments.blocks import (
    BlockParameters,
    SketchMoments,
    maxsense_moments,
    mean_product_in_a_set,
    multi_maxsense_moments,
)

TWO_CLASSES = np.array([[0.9, 0.3, 0.0], [0.2, 1.0, 0.6]])


def block(items: int, rated: int, like: tuple[float, ...] = (0.9, 0.1)) -> BlockParameters:
    """One class, two equal clusters."""
    sizes = np.full(2, items // 2)
    return BlockParameters(rated=rated, like=np.array([like]), class_shares=np.ones(1), cluster_sizes=sizes)


def disjoint_sets(items: frozenset[int], size: int, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """All ordered choices of disjoint sets."""
    if count == 0:
        yield ()
        return
    for first in itertools.combinations(sorted(items), size):
        for rest in disjoint_sets(items - set(first), size, count - 1):
            yield (first, *rest)


def enumerated(model: BlockParameters, size: int, questions: int, epsilon: float) -> tuple[Floats, Floats, Floats]:
    """P(S = 1 | i sensed), and the covariances of one user's contributions to the scores, paper's and centred.

    Summed over all rated sets, all ordered choices of disjoint sensing sets, and classes; given those the answers are
    independent.
    """
    labels = np.repeat(np.arange(model.cluster_sizes.size), model.cluster_sizes)
    contrast = math.tanh(epsilon / questions / 2)
    asked = list(disjoint_sets(frozenset(range(model.items)), size, questions))
    held = np.zeros((len(asked), questions, model.items))
    for case, sets in enumerate(asked):
        for question, members in enumerate(sets):
            held[case, question, list(members)] = 1
    rates, chances = [], []
    rated_sets = list(itertools.combinations(range(model.items), model.rated))
    for share, row in zip(model.class_shares, model.like, strict=True):
        for rated in rated_sets:
            factors = np.ones(model.items)
            factors[list(rated)] = 1 - row[labels[list(rated)]]
            silent = np.where(held > 0, factors, 1).prod(axis=2)
            rates.append((1 + contrast) / 2 - contrast * silent)
            chances.append(share / len(rated_sets) / len(asked))
    weights, answers = np.array(chances), np.array(rates)
    given = np.einsum("c,csq,sqi->i", weights, answers, held) / (questions * size / model.items)
    rate = float(np.einsum("c,csq->", weights, answers)) / questions
    moments = []
    for centre in (0.0, rate):
        shifted = np.einsum("csq,sqi->csi", answers - centre, held)
        square = np.einsum("c,csi,csj->ij", weights, shifted, shifted)
        own = np.einsum("c,csq,sqi,sqj->ij", weights, answers * (1 - answers), held, held)
        mean = np.einsum("c,csi->i", weights, shifted)
        moments.append(square + own - np.outer(mean, mean))
    return given, moments[0], moments[1]


def spread(covariance: Floats) -> float:
    """Half the variance of a difference, averaged over all pairs of items."""
    items = len(covariance)
    return (float(np.trace(covariance)) - float(covariance.sum()) / items) / (items - 1)


@pytest.mark.parametrize(("size", "questions"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (4, 1), (6, 1)])
@pytest.mark.parametrize("rated", [1, 3, 6])
@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_everything_equals_full_enumeration(size: int, questions: int, rated: int, epsilon: float) -> None:
    """Six items in clusters of 3, 1 and 2, two classes: rates, effects and both noises to rounding."""
    sizes = np.array([3, 1, 2])
    shares = np.array([0.3, 0.7])
    model = BlockParameters(rated=rated, like=TWO_CLASSES, class_shares=shares, cluster_sizes=sizes)
    moments = multi_maxsense_moments(model, set_size=size, questions=questions, epsilon=epsilon)
    given, paper, centred = enumerated(model, size, questions, epsilon)
    np.testing.assert_allclose(np.repeat(moments.given_sensed, sizes), given, rtol=1e-12)
    assert moments.answer_rate == pytest.approx(given.mean(), rel=1e-12)
    assert moments.noise_paper == pytest.approx(spread(paper), rel=1e-11, abs=1e-14)
    assert moments.noise_centred == pytest.approx(spread(centred), rel=1e-11, abs=1e-14)
    assert moments.sensing == pytest.approx(size * questions / 6)
    assert moments.epsilon == epsilon / questions
    keep = (1 + math.tanh(epsilon / questions / 2)) / 2
    released = keep * moments.private_rate + (1 - keep) * (1 - moments.private_rate)
    assert moments.answer_rate == pytest.approx(released, rel=1e-12)


def test_effects_are_exact_where_differences_of_rates_would_not_be() -> None:
    """A user rates one of a million items: no other item makes the set speak, and the effect has a closed form."""
    items, size = 1_000_000, 1000
    moments = multi_maxsense_moments(block(items, 1), set_size=size, questions=1, epsilon=math.inf)
    expected = 0.4 / items * (items - size) / (items - 1)  # half of the other items differ, by 0.8
    np.testing.assert_allclose(moments.effect, [expected, -expected], rtol=1e-9)


def test_one_question_of_a_large_catalogue_is_maxsense_up_to_a_shift() -> None:
    """Fixed or binomial set sizes differ by terms of order 1/N: here the contrast and noise within 1 %."""
    model = block(10_000, 30)
    fixed = multi_maxsense_moments(model, set_size=300, questions=1, epsilon=1)
    binomial = maxsense_moments(model, sensing=0.03, epsilon=1)
    assert np.ptp(fixed.effect) == pytest.approx(np.ptp(binomial.effect), rel=0.01)
    assert fixed.noise_paper == pytest.approx(binomial.noise_paper, rel=0.01)
    assert fixed.noise_centred == pytest.approx(binomial.noise_centred, rel=0.01)
    assert fixed.effect.sum() == pytest.approx(0, abs=1e-12)
    assert binomial.effect.sum() > 0.1 * np.ptp(binomial.effect)


def test_with_every_set_asked_both_scores_have_the_same_noise() -> None:
    """Then they differ by Q mean(S), the same for every item. One set less, and they do not."""
    whole = multi_maxsense_moments(block(120, 10), set_size=12, questions=10, epsilon=3)
    assert whole.noise_paper == pytest.approx(whole.noise_centred, rel=1e-12)
    nine = multi_maxsense_moments(block(120, 10), set_size=12, questions=9, epsilon=3)
    assert nine.noise_paper > 1.02 * nine.noise_centred


def test_a_smaller_last_set_counts_as_a_full_one() -> None:
    """ceil(N / s) questions are allowed and cover every item once; the rates are those of full sets."""
    partial = multi_maxsense_moments(block(100, 10), set_size=30, questions=4, epsilon=4)
    full = multi_maxsense_moments(block(100, 10), set_size=30, questions=1, epsilon=1)
    assert partial.sensing == 1
    assert partial.answer_rate == full.answer_rate
    np.testing.assert_array_equal(partial.effect, full.effect)
    nearly = multi_maxsense_moments(block(100, 10), set_size=25, questions=4, epsilon=4)
    assert partial.noise_centred == pytest.approx(nearly.noise_centred, rel=0.05)


def test_a_set_of_all_items_or_a_single_item_tells_nothing() -> None:
    for model, size in ((block(10, 3), 10), (block(10, 10), 10)):
        moments = multi_maxsense_moments(model, set_size=size, questions=1, epsilon=1)
        assert moments.effect.tolist() == [0, 0]
        assert moments.noise_centred == pytest.approx(0, abs=1e-15)
    one = BlockParameters(rated=1, like=np.array([[0.5]]), class_shares=np.ones(1), cluster_sizes=np.ones(1, np.int64))
    assert multi_maxsense_moments(one, set_size=1, questions=1, epsilon=1).effect.tolist() == [0]


@pytest.mark.parametrize(("population", "marked", "drawn"), [(40, 7, 12), (40, 30, 25), (5000, 900, 700), (9, 0, 4)])
def test_mean_over_a_set_equals_the_hypergeometric_sum(population: int, marked: int, drawn: int) -> None:
    """One cluster: the product is x^r, whose mean is a sum over the library's masses."""
    factor = 0.97
    both = np.arange(min(marked, drawn) + 1)
    expected = float(hypergeom.pmf(both, population, marked, drawn) @ factor**both)
    sizes = np.array([population])
    found = mean_product_in_a_set(np.array([factor]), sizes, population=population, marked=marked, set_size=drawn)
    assert found == pytest.approx(expected, rel=1e-9)


def simulated_scores(rated: int, size: int, questions: int, users: int, epsilon: float) -> tuple[Floats, Floats]:
    """Paper and centred scores of 400 items in two equal clusters, b = (0.9, 0.1), one run."""
    rng = np.random.default_rng(12)
    items = 400
    liked = np.zeros((users, items), dtype=bool)
    chosen = np.argpartition(rng.random((users, items)), rated, axis=1)[:, :rated]
    likes = rng.random((users, rated)) < np.where(chosen < items // 2, 0.9, 0.1)
    np.put_along_axis(liked, chosen, likes, axis=1)
    sets = np.argsort(rng.random((users, items)), axis=1)[:, : size * questions].reshape(users, questions, size)
    private = liked[np.arange(users)[:, None, None], sets].any(axis=2)
    answers = private ^ (rng.random((users, questions)) < 1 / (1 + math.exp(epsilon / questions)))
    scores = []
    for centre in (0.0, answers.mean()):
        weights = np.repeat(answers - centre, size, axis=1).ravel()
        scores.append(np.bincount(sets.ravel(), weights, minlength=items).astype(np.float64))
    return scores[0], scores[1]


def within_clusters(scores: Floats) -> float:
    """Sum of squares around the two clusters' means."""
    groups = scores.reshape(2, 200)
    return float(((groups - groups.mean(axis=1, keepdims=True)) ** 2).sum())


@pytest.mark.statistical
def test_score_variance_in_a_simulation() -> None:
    """Each bound fails by chance with probability 1e-6 (chi-square with N - 2 degrees of freedom): 4e-6 in all.

    Scores of one run are independent up to correlations of the order 1 / N. The twins, which must lie outside: the
    other decoder's noise where few sets are asked, and the noise without ``p^2 E[sigma^2]`` where every set is.
    """
    users, low, high = 6000, float(chi2.ppf(5e-7, 398)), float(chi2.isf(5e-7, 398))

    def fits(scores: Floats, noise: float) -> bool:
        return low < within_clusters(scores) / (users * noise) < high

    model = block(400, 10)
    few = multi_maxsense_moments(model, set_size=40, questions=2, epsilon=3)
    paper, centred = simulated_scores(10, 40, 2, users, epsilon=3)
    assert fits(paper, few.noise_paper)
    assert fits(centred, few.noise_centred)
    assert not fits(paper, few.noise_centred)
    assert not fits(centred, few.noise_paper)
    every = multi_maxsense_moments(model, set_size=40, questions=10, epsilon=10)
    paper, centred = simulated_scores(10, 40, 10, users, epsilon=10)
    assert fits(paper, every.noise_paper)
    assert fits(centred, every.noise_centred)
    assert not fits(paper, every.sensing * every.answer_rate)


@pytest.mark.statistical
def test_expected_scores_in_a_simulation() -> None:
    """The gap between the clusters' mean scores, within 5 standard deviations: false alarm 6e-7.

    The twin: half the privacy parameter, as if it were split over twice the questions.
    """

    def gap(moments: SketchMoments) -> float:
        return -float(np.diff(moments.expected_score(20_000, "centred"))[0])

    _, centred = simulated_scores(10, 40, 5, 20_000, epsilon=5)
    found = float(centred[:200].mean() - centred[200:].mean())
    moments = multi_maxsense_moments(block(400, 10), set_size=40, questions=5, epsilon=5)
    error = moments.score_deviation(20_000, "centred") * math.sqrt(2 / 200)
    assert abs(found - gap(moments)) < 5 * error
    half = multi_maxsense_moments(block(400, 10), set_size=40, questions=5, epsilon=2.5)
    assert abs(found - gap(half)) > 5 * error


def test_a_design_that_does_not_fit_is_refused_with_one_line() -> None:
    wrong = [(0, 1, 1.0), (11, 1, 1.0), (3, 0, 1.0), (3, 5, 1.0), (10, 2, 1.0), (3, 2, 0.0), (3, 2, math.nan)]
    for size, questions, epsilon in wrong:
        with pytest.raises(InputError) as caught:
            multi_maxsense_moments(block(10, 2), set_size=size, questions=questions, epsilon=epsilon)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="9 marked"):
        mean_product_in_a_set(np.ones(1), np.array([4]), population=4, marked=9, set_size=2)
