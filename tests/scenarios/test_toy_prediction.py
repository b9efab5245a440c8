"""Predictions for full reveal and item queries: the coupon collector, exact recursions, and simulated ratings."""

from __future__ import annotations

import itertools
import math
from functools import cache

import numpy as np
import pytest
from scipy import stats

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.line import kmeans_on_line
from coordinator.server.mechanisms.toys import round_users
from coordinator.server.moments.blocks import BlockParameters
from scenarios.data.metrics import clustering_scores
from scenarios.theory.toy_prediction import (
    answers_for,
    query_accuracy,
    query_exact,
    query_users,
    reveal_accuracy,
    reveal_exact,
)


def model(like: list[list[float]], sizes: list[int], rated: int) -> BlockParameters:
    shares = np.full(len(like), 1 / len(like))
    return BlockParameters(rated=rated, like=np.array(like), class_shares=shares, cluster_sizes=np.array(sizes))


SURE = model([[1.0, 0.0]], [500, 500], 1)
"""Theorem 10's users: one rating each, which tells the item's cluster."""


def share_right(parameters: BlockParameters, seen: Ints, liked: Ints) -> float:
    """Decode simulated counts as the server does: shares of likes, the mean of all ratings for unseen items."""
    scores = np.where(seen > 0, liked / np.maximum(seen, 1), liked.sum() / max(1, seen.sum()))
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    found = kmeans_on_line(scores, parameters.cluster_sizes.size).astype(np.int64)
    return clustering_scores(found, labels).accuracy


def revealed(parameters: BlockParameters, users: int, share: float, generator: np.random.Generator) -> float:
    """Simulate full reveal, and the share of items right."""
    labels = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    count = generator.binomial(users, share)
    classes = generator.choice(parameters.class_shares.size, count, p=parameters.class_shares)
    rated = generator.random((count, parameters.items)).argsort(axis=1) < parameters.rated
    liked = rated & (generator.random(rated.shape) < parameters.like[classes][:, labels])
    return share_right(parameters, rated.sum(axis=0), liked.sum(axis=0))


def queried(parameters: BlockParameters, answers: int, generator: np.random.Generator) -> tuple[int, float]:
    """Simulate item queries until all items are learned: users, and the share of items right."""
    items, says_yes = parameters.items, parameters.rated / (2 * parameters.items)
    likes = np.repeat(parameters.class_shares @ parameters.like, parameters.cluster_sizes)
    seen, liked, users = np.zeros(items, np.int64), np.zeros(items, np.int64), 0
    while (pool := np.flatnonzero(seen < answers)).size:
        asked = round_users(int(pool.size), items=items, rated=parameters.rated)
        users += asked
        about = pool[generator.integers(0, pool.size, generator.binomial(asked, says_yes))]
        seen += np.bincount(about, minlength=items)
        liked += np.bincount(about[generator.random(about.size) < likes[about]], minlength=items)
    return users, share_right(parameters, seen, liked)


def test_sure_ratings_are_a_coupon_collector() -> None:
    """All items of one cluster seen: ``(1 - (1 - share/N)^U)^(N/2)``; the mean, of unseen items, is in the other."""
    for users in (3000, 6000, 12_000):
        unseen = (1 - 0.5 / 1000) ** users
        assert reveal_exact(SURE, users=users, share=0.5) == pytest.approx((1 - unseen) ** 500, rel=1e-6)
        assert reveal_accuracy(SURE, users=users, share=0.5) == pytest.approx(1 - unseen / 2, rel=1e-9)
    smaller = model([[1.0, 0.0]], [300, 700], 1)
    assert reveal_exact(smaller, users=9000, share=1) == pytest.approx((1 - (1 - 1 / 1000) ** 9000) ** 300, rel=1e-6)


def test_users_of_the_toy_grow_as_the_paper_says() -> None:
    """N ln(N/2) log2 N users for a chance of 1/e, whatever N; halving the share doubles the users."""
    for items in (1000, 10**6):
        parameters = model([[1.0, 0.0]], [items // 2, items // 2], 1)
        users = round(items * math.log(items / 2) * math.log2(items))
        assert reveal_exact(parameters, users=users) == pytest.approx(math.exp(-1), abs=0.01)
        share = 1 / math.log2(items)
        assert reveal_exact(parameters, users=2 * users, share=share / 2) == pytest.approx(math.exp(-1), abs=0.01)


def test_everybody_rates_everything_by_hand() -> None:
    """w = N = 200, three users reveal for sure: scores are Binomial(3, b) / 3, cut between 1/3 and 2/3."""
    parameters = model([[0.9, 0.1]], [100, 100], 200)
    right = 0.9**3 + 3 * 0.9**2 * 0.1
    assert reveal_accuracy(parameters, users=3, share=1) == pytest.approx(right, abs=1e-12)
    assert reveal_exact(parameters, users=3, share=1) == pytest.approx(right**200, rel=1e-9)


def test_a_sparse_reveal_by_enumeration() -> None:
    """Three users, w/N = 1/4: every pattern of ratings of one item; k-means over all cuts of the enumerated law."""
    parameters = model([[0.8, 0.3]], [120, 80], 50)
    law: dict[float, Floats] = {}
    for pattern in itertools.product((None, 1, 0), repeat=3):
        told = [value for value in pattern if value is not None]
        score = sum(told) / len(told) if told else 0.6
        for cluster, like in enumerate((0.8, 0.3)):
            chances = [0.75 if value is None else 0.25 * (like if value else 1 - like) for value in pattern]
            law.setdefault(score, np.zeros(2))[cluster] += math.prod(chances)
    points = np.array(sorted(law))
    mass = np.array([law[point] for point in points]).T * np.array([[0.6], [0.4]])
    total, moment = mass.sum(axis=0), mass.sum(axis=0) * points
    between = [moment[:c].sum() ** 2 / total[:c].sum() + moment[c:].sum() ** 2 / total[c:].sum()
               for c in range(1, points.size)]  # fmt: skip
    cut = 1 + int(np.argmax(between))
    right = mass[0, cut:].sum() + mass[1, :cut].sum()
    # the model's mean of all is 0.8 * 0.6 + 0.3 * 0.4 = 0.6
    assert reveal_accuracy(parameters, users=3, share=1) == pytest.approx(right, abs=1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("like", "sizes", "rated", "users"),
    [
        ([[0.9, 0.1]], [200, 200], 5, 1500),
        ([[0.9, 0.2], [0.6, 0.1]], [180, 120], 40, 150),
        ([[0.9, 0.2], [0.6, 0.1]], [360, 240], 540, 27),
        ([[0.8, 0.5, 0.2]], [120, 120, 120], 20, 900),
    ],
)
def test_kmeans_on_simulated_reveals(like: list[list[float]], sizes: list[int], rated: int, users: int) -> None:
    """Mean share of 24 runs, five standard errors: false alarm below 5e-5 (Student's t), at a fixed seed.

    5e-4 more is for the finite number of items. The twin, at a third fewer users, lies outside.
    """
    parameters, generator = model(like, sizes, rated), np.random.default_rng(5)
    shares = np.array([revealed(parameters, users, 0.5, generator) for _ in range(24)])
    radius = 5 * float(shares.std(ddof=1)) / math.sqrt(shares.size) + 5e-4
    assert abs(reveal_accuracy(parameters, users=users, share=0.5) - shares.mean()) < radius
    assert abs(reveal_accuracy(parameters, users=users * 2 // 3, share=0.5) - shares.mean()) > radius


def exact_users(items: int, rated: int) -> float:
    """Expected users of one-answer item queries by the exact recursion over the size of the pool."""

    @cache
    def after(pool: int) -> float:
        if not pool:
            return 0.0
        asked = round_users(pool, items=items, rated=rated)
        law = np.zeros(pool + 1)  # of the items learned in the round, one user after the other
        law[0] = 1.0
        for _ in range(asked):
            fresh = rated / (2 * items) * (pool - np.arange(pool + 1)) / pool
            law = law * (1 - fresh) + np.concatenate(([0.0], (law * fresh)[:-1]))
        rest = sum(float(law[learned]) * after(pool - learned) for learned in range(1, pool + 1))
        return (asked + rest) / (1 - float(law[0]))

    return after(items)


@pytest.mark.parametrize(("items", "rated"), [(2, 1), (5, 5), (12, 2), (40, 7)])
def test_expected_users_by_the_exact_recursion(items: int, rated: int) -> None:
    sizes = [items // 2, items - items // 2]
    found = query_users(model([[0.9, 0.1]], sizes, rated))
    assert found == pytest.approx(exact_users(items, rated), rel=0.01)


def test_users_of_large_catalogues() -> None:
    """Rounds of a quarter of a yes: ``1 / (1 - e^(-1/4))`` of them, ``N^2 / (2w)`` users each; then 2 N^2/w a yes."""
    for items, rated in ((10**5, 3), (10**9, 30)):
        parameters = model([[0.9, 0.1]], [items // 2, items // 2], rated)
        first = query_users(parameters)
        assert first == pytest.approx(items**2 / (2 * rated) / -math.expm1(-0.25), rel=1e-4)
        more = query_users(parameters, answers=5001) - query_users(parameters, answers=1)
        assert more == pytest.approx(5000 * 2 * items**2 / rated, rel=1e-4)


@pytest.mark.statistical
@pytest.mark.parametrize(("rated", "answers"), [(10, 1), (100, 3), (300, 7)])
def test_simulated_item_queries(rated: int, answers: int) -> None:
    """Means of 40 runs of users and shares right, five standard errors each: false alarm below 4e-5.

    5e-4 more is for the finite number of items. The twins: users of two answers more, share right of clusters at 0.86.
    """
    parameters, generator = model([[0.9, 0.1]], [150, 150], rated), np.random.default_rng(6)
    runs = np.array([queried(parameters, answers, generator) for _ in range(40)])
    mean, radius = runs.mean(axis=0), 5 * runs.std(axis=0, ddof=1) / math.sqrt(40)
    assert abs(query_users(parameters, answers=answers) - mean[0]) < radius[0]
    assert abs(query_users(parameters, answers=answers + 2) - mean[0]) > radius[0]
    assert abs(query_accuracy(parameters, answers=answers) - mean[1]) < radius[1] + 5e-4
    nearer = model([[0.86, 0.14]], [150, 150], rated)
    assert abs(query_accuracy(nearer, answers=answers) - mean[1]) > radius[1] + 5e-4


def test_sure_item_queries_are_all_right_and_one_answer_is_right_as_often_as_liked() -> None:
    assert query_exact(SURE) == pytest.approx(1, abs=1e-9)
    assert query_accuracy(model([[0.9, 0.1]], [500, 500], 1)) == pytest.approx(0.9, abs=0.002)
    assert query_accuracy(model([[0.9, 0.1], [0.1, 0.9]], [500, 500], 1)) == pytest.approx(0.5)
    assert reveal_accuracy(model([[0.9, 0.1], [0.1, 0.9]], [500, 500], 9), users=9000) == pytest.approx(0.5)


def test_smallest_odd_answers() -> None:
    parameters = model([[0.9, 0.1]], [500, 500], 30)
    for target in (0.5, 0.95):
        answers = answers_for(parameters, exact=target)
        assert answers % 2 == 1
        assert query_exact(parameters, answers=answers) >= target
        assert query_exact(parameters, answers=answers - 2) < target
    # majorities of exactly r answers, the law of large pools up to the last round's surplus
    needed = next(r for r in range(1, 99, 2) if stats.binom.sf(r // 2, r, 0.9) ** 1000 >= 0.95)
    assert abs(answers_for(parameters, exact=0.95) - needed) <= 2
    assert answers_for(parameters, accuracy=0.85) == 1
    with pytest.raises(InputError, match="too alike"):
        answers_for(model([[0.5, 0.5]], [50, 50], 3), accuracy=0.9)


def test_large_numbers() -> None:
    parameters = model([[0.9, 0.1]], [500_000_000, 500_000_000], 30)
    low, high = (reveal_exact(parameters, users=n * 10**9, share=0.5) for n in (1, 20))
    assert low < 0.01
    assert high > 0.99
    close = model([[0.5001, 0.5]], [500, 500], 30)
    gap = 1e-4 / 2 / math.sqrt(0.25 / (0.03 * 0.5 * 10**10))
    assert reveal_accuracy(close, users=10**10, share=0.5) == pytest.approx(stats.norm.cdf(gap), abs=1e-3)
    assert reveal_accuracy(close, users=10**15, share=0.5) == 1


def test_what_cannot_be_used_is_named() -> None:
    with pytest.raises(InputError, match="users = 0"):
        reveal_accuracy(SURE, users=0)
    with pytest.raises(InputError, match="reveal share is 0"):
        reveal_exact(SURE, users=5, share=0)
    with pytest.raises(InputError, match="answers = 0"):
        query_users(SURE, answers=0)
    with pytest.raises(InputError, match="give one of the two"):
        answers_for(SURE)
    with pytest.raises(InputError, match=r"target is 1\.0"):
        answers_for(SURE, exact=1.0)
