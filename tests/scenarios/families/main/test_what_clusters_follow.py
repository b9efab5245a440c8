"""Real catalogues: what planted clusters follow: popularity, taste, or nothing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import split_of
from scipy import stats
from thoroughness import size

from coordinator.protocol.arrays import Floats
from scenarios.data.metrics import LEAST, SHUFFLES, Following, chance_of, share_between, what_clusters_follow
from scenarios.data.rating_split import Split

POPULARITY = np.repeat([0, 1], 20).astype(np.int32)
TASTE = np.tile([0, 1], 20).astype(np.int32)
NEITHER = np.tile([0, 0, 1, 1], 10).astype(np.int32)


def planted(raters: tuple[int, int], share: tuple[float, float], rare: bool = False) -> Split:
    """Items whose number of raters goes with POPULARITY and whose share of likes goes with TASTE, both exactly.

    With ``rare`` there are 40 items more, with four raters each, and their likes contradict everything.
    """
    rows: list[list[tuple[int, bool]]] = [[] for _ in range(max(raters))]
    for item in range(40):
        many = raters[POPULARITY[item]]
        for user in range(many):
            rows[user].append((item, user < share[TASTE[item]] * many))
    for item in range(40, 80 if rare else 40):
        for user in range(4):
            rows[user].append((item, item % 3 == 0))
    return split_of(rows, [[] for _ in rows], 80 if rare else 40)


def test_clusters_by_the_number_of_ratings_follow_popularity() -> None:
    found = what_clusters_follow(POPULARITY, POPULARITY, planted((10, 100), (0.4, 0.6)))
    assert (found.popularity, found.taste) == pytest.approx((1, 0), abs=1e-12)
    assert (found.verdict, found.noiseless_ari) == ("popularity", 1)
    unlike = what_clusters_follow(POPULARITY, NEITHER, planted((10, 100), (0.4, 0.6)))
    assert unlike.noiseless_ari < 0.05
    assert unlike.verdict == "noise"


def test_clusters_by_the_share_of_likes_follow_taste() -> None:
    found = what_clusters_follow(TASTE, TASTE, planted((20, 40), (0.2, 0.8)))
    assert (found.popularity, found.taste) == pytest.approx((0, 1), abs=1e-12)
    assert found.verdict == "taste"


def test_clusters_that_explain_nothing_are_noise_though_they_agree_with_those_without_noise() -> None:
    nothing = what_clusters_follow(NEITHER, NEITHER, planted((10, 100), (0.4, 0.6)))
    assert (nothing.popularity, nothing.taste) == pytest.approx((0, 0), abs=1e-12)
    assert nothing.by_chance == pytest.approx((1, 1))
    assert (nothing.noiseless_ari, nothing.verdict) == (1, "noise")


@pytest.mark.few(1)
@pytest.mark.parametrize("clusters", [2, 3])
def test_shuffled_labels_explain_as_much_as_an_f_test_says_of_normal_values(clusters: int) -> None:
    """500 normal values: the F test is exact; 1999 shuffles meet it within 5 standard errors (false alarm 3e-6)."""
    cluster = (np.arange(500) % clusters).astype(np.int32)
    world = np.random.default_rng(clusters)
    for values in world.normal(size=(5, 500)):
        share = share_between(values, cluster)
        exact = stats.beta.sf(share, (clusters - 1) / 2, (500 - clusters) / 2)
        radius = 5 * math.sqrt(exact * (1 - exact) / SHUFFLES) + 1 / SHUFFLES
        assert abs(chance_of(values, cluster) - exact) < radius
        assert chance_of(values + cluster, cluster) == 1 / (1 + SHUFFLES)


def test_a_small_cluster_with_the_one_popular_item_is_chance() -> None:
    """Shuffled, a cluster of 5 in 300 holds it with probability 1/60; an F test would say 1e-16. 5 standard errors."""
    popular, cluster = (np.arange(300) == 0).astype(float), (np.arange(300) < 5).astype(np.int32)
    assert share_between(popular, cluster) > 4 * LEAST - 0.01
    assert abs(chance_of(popular, cluster) - 1 / 60) < 5 * math.sqrt(1 / 60 / SHUFFLES)


def catalogue(items: int, seed: int) -> tuple[Split, Floats]:
    """Ratings of a long-tailed catalogue, half of them likes at random, and how many ratings each item has."""
    world = np.random.default_rng(seed)
    raters = np.minimum(200, np.ceil(world.pareto(1.2, items) * 2 + 1)).astype(int)
    rows: list[list[tuple[int, bool]]] = [[] for _ in range(200)]
    for item, many in enumerate(raters.tolist()):
        for user in world.choice(200, many, replace=False).tolist():
            rows[user].append((item, bool(world.random() < 0.5)))
    return split_of(rows, [[] for _ in rows], items), raters.astype(float)


def test_clusters_of_nothing_are_noise_and_planted_ones_are_not() -> None:
    """False alarm below 2 * CHANCE for each of at most 20 labellings of nothing, 0.04 in all, for this fixed seed."""
    split, raters = catalogue(600, seed=4)
    world = np.random.default_rng(5)
    for share in (0.01, 0.05, 0.2, 0.5) * size(5, 1):
        nothing = (world.random(600) < share).astype(np.int32)
        assert what_clusters_follow(nothing, nothing, split).verdict == "noise"
    planted_ones = (np.log(raters) + world.normal(size=600) > np.log(raters).mean()).astype(np.int32)
    assert what_clusters_follow(planted_ones, planted_ones, split).verdict == "popularity"


def test_one_cluster_or_as_many_as_items_explain_nothing() -> None:
    values = np.arange(9.0)
    assert chance_of(values, np.zeros(9, np.int32)) == 1
    assert chance_of(values, np.arange(9, dtype=np.int32)) == 1


def test_items_that_few_rated_say_nothing_of_taste() -> None:
    cluster = np.concatenate([TASTE, np.arange(40) // 20]).astype(np.int32)
    assert what_clusters_follow(cluster, cluster, planted((20, 40), (0.2, 0.8), rare=True)).taste == pytest.approx(1)
    lonely = planted((2, 3), (0.5, 1.0))
    assert what_clusters_follow(TASTE, TASTE, lonely).taste == 0


@pytest.mark.parametrize(
    ("popularity", "taste", "ari", "chance", "verdict"),
    [
        (0.5, 0.4, 0.06, (0.0, 0.0), "popularity"),
        (0.4, 0.5, 0.06, (0.0, 0.0), "taste"),
        (0.4, 0.4, 0.06, (0.0, 0.0), "taste"),
        (0.9, 0.1, 0.04, (0.0, 0.0), "noise"),
        (0.9, 0.1, -0.01, (0.0, 0.0), "noise"),
        (0.9, 0.1, 0.9, (0.0, 0.9), "popularity"),
        (0.1, 0.9, 0.9, (0.9, 0.0), "taste"),
        (0.1, 0.9, 0.9, (0.9, 0.9), "noise"),
        (0.008, 0.004, 1.0, (0.0, 0.0), "noise"),
        (0.5, 0.1, 0.9, (0.9, 0.0), "taste"),
        (0.1, 0.04, 0.9, (0.9, 0.0), "noise"),
    ],
)
def test_the_verdict(popularity: float, taste: float, ari: float, chance: tuple[float, float], verdict: str) -> None:
    found = Following(popularity=popularity, taste=taste, noiseless_ari=ari, by_chance=chance)
    assert found.verdict == verdict


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2)), min_size=2, max_size=12))
def test_the_share_between_is_what_lies_not_within(pairs: list[tuple[int, int]]) -> None:
    values = [value for value, _ in pairs]
    own = [[value for value, mine in pairs if mine == label] for _, label in pairs]
    within = sum((value - sum(group) / len(group)) ** 2 for value, group in zip(values, own, strict=True))
    spread = sum((value - sum(values) / len(values)) ** 2 for value in values)
    found = share_between(np.array(values, float), np.array([label for _, label in pairs], np.int32))
    assert found == pytest.approx(1 - within / spread if spread else 0, abs=1e-9)
