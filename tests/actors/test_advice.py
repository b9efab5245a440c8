"""Advice on the device against brute force in plain Python: clusters by own share of likes, items by public score."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.advice import NOTHING, recommend, recommend_featured
from actors.device import Cohort
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import ItemToItem, PublicFeatures
from coordinator.protocol.messages import Model

User = dict[int, bool]


def model_of(cluster: list[int], score: list[float], clusters: int) -> Model:
    labels, errors = np.array(cluster, np.int32), np.ones(len(score))
    return Model(cluster=labels, score=np.array(score, float), error=errors, clusters=clusters)


def brute_force(model: Model, user: User, k: int) -> list[int]:
    """The documented order, item by item."""
    clusters, scores = model.cluster.tolist(), model.score.tolist()
    own = [[like for item, like in user.items() if clusters[item] == k] for k in range(model.clusters)]
    share = [Fraction(sum(likes) + 1, len(likes) + 2) for likes in own]
    unrated = [item for item in range(model.cluster.size) if item not in user]
    best = sorted(unrated, key=lambda k: (-share[clusters[k]], clusters[k], -scores[k], k))
    return (best + [NOTHING] * k)[:k]


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 9), clusters=st.integers(1, 4), k=st.integers(0, 11))
def test_advice_is_the_brute_force_order(data: st.DataObject, items: int, clusters: int, k: int) -> None:
    """Few scores, so that ties are common; a tie within a cluster goes to the lower item number."""
    cluster = data.draw(st.lists(st.integers(0, clusters - 1), min_size=items, max_size=items))
    score = data.draw(st.lists(st.sampled_from([-1.0, 0.0, 2.0]), min_size=items, max_size=items))
    users = data.draw(st.lists(st.dictionaries(st.integers(0, items - 1), st.booleans()), max_size=5))
    model = model_of(cluster, score, clusters)
    top = recommend(model, worlds.likes(users, model.cluster.size), k=k)
    assert top.shape == (len(users), k)
    assert top.tolist() == [brute_force(model, user, k) for user in users]


def test_a_rated_item_is_never_advised_and_none_twice_nor_otherwise_to_a_device_alone() -> None:
    world = worlds.world(items=60, rated=25)
    rng, ratings = np.random.default_rng(0), worlds.block_ratings(world)
    model = model_of(list(world.clusters), rng.normal(size=60).tolist(), 2)
    cohort = Cohort(ratings, world.secret, 0, 300, None)
    top = cohort.recommend(model, 0, 300, 10)
    for device in range(300):
        assert top[device].tolist() == brute_force(model, world.ratings(device), 10)
        assert len(set(top[device].tolist())) == 10
    for index in (0, 41, 299):
        alone = Cohort(ratings, world.secret, index, index + 1, Fraction(1))
        assert alone.recommend(model, index, index + 1, 7).tolist() == top[index : index + 1, :7].tolist()
    assert cohort.ledger.spent(0) == 0


def near_brute_force(model: Model, user: User, k: int) -> list[int]:
    """The documented order of a model of what goes together, item by item."""
    near = model.near
    assert near is not None
    place = {item: at for at, item in enumerate(near.pool.tolist())}
    own = [place[item] for item, like in user.items() if like and item in place]
    told = {item: sum(near.weights[one, at] for one in own) for item, at in place.items()}
    inside = sorted(place.keys() - user.keys(), key=lambda item: (-told[item], -near.liked[place[item]], item))
    outside = [item for item in range(model.cluster.size) if item not in place and item not in user]
    return (inside + sorted(outside, key=lambda item: (-model.score[item], item)) + [NOTHING] * k)[:k]


@settings(max_examples=examples(80))
@given(data=st.data(), items=st.integers(1, 9), k=st.integers(0, 11))
def test_advice_by_what_goes_together_is_the_brute_force_order(data: st.DataObject, items: int, k: int) -> None:
    """Few numbers, so that ties are common; a device without likes gets what most devices like."""
    few, everything = st.sampled_from([-1.0, 0.0, 0.5]), st.integers(0, items - 1)
    pool = sorted(data.draw(st.sets(everything)))
    weights = data.draw(st.lists(few, min_size=len(pool) ** 2, max_size=len(pool) ** 2))
    near = ItemToItem(
        pool=np.array(pool, np.int32),
        liked=np.array(data.draw(st.lists(few, min_size=len(pool), max_size=len(pool))), float),
        weights=np.array(weights, float).reshape(len(pool), len(pool)),
    )
    score = data.draw(st.lists(few, min_size=items, max_size=items))
    model = replace(model_of([0] * items, score, 1), near=near)
    users = data.draw(st.lists(st.dictionaries(everything, st.booleans()), max_size=5))
    top = recommend(model, worlds.likes(users, items), k=k)
    assert top.tolist() == [near_brute_force(model, user, k) for user in users]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"pool": np.array([1, 0], np.int32)}, "not ascending"),
        ({"pool": np.array([0, 3], np.int32)}, "outside 0 to 2"),
        ({"liked": np.zeros(3)}, "shares of a model"),
        ({"weights": np.zeros((2, 3))}, "weights of a model"),
        ({"weights": np.full((2, 2), np.nan)}, "no numbers"),
    ],
)
def test_a_model_of_what_goes_together_that_does_not_fit_is_refused(changes: dict[str, Any], line: str) -> None:
    good: dict[str, Any] = {"pool": np.array([0, 2], np.int32), "liked": np.zeros(2), "weights": np.zeros((2, 2))}
    whole = replace(model_of([0, 0, 0], [1, 2, 3], 1), near=ItemToItem(**good))
    with pytest.raises(InputError, match=line):
        replace(whole, near=ItemToItem(**{**good, **changes}))


# Advice with public features on the device, by hand and against plain advice.
HAS = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 0]], float)
FEATURES = PublicFeatures(names=("kind: a", "kind: b"), has=HAS)
MODEL = replace(model_of([0] * 6, [0.5, 0.4, 0.3, 0.36, 0.2, 0.1], 1), error=np.zeros(6))


def test_scores_are_multiplied_by_how_own_likes_exceed_popular_ones() -> None:
    """By hand: a device that likes items 3 and 4, another one that likes nothing."""
    users = [{4: True, 0: False}, {}, {0: True, 1: True, 2: True, 3: False}]
    rates = 0.99 * np.array([1.2, 0.56]) / 1.86 + 0.01 * HAS.mean(axis=0)
    lists = []
    for user in users:
        liked = [item for item, like in user.items() if like]
        profile = (HAS[liked].sum(axis=0) + 10 * rates) / (len(liked) + 10)
        worth = MODEL.score * np.prod(np.where(HAS > 0, np.sqrt(profile / rates), 1), axis=1)
        lists.append([item for item in np.argsort(-worth) if item not in user][:3])
    found = recommend_featured(MODEL, FEATURES, worlds.likes(users, 6), k=3).tolist()
    assert found[:2] == lists[:2] == [[3, 1, 2], [0, 1, 3]]
    assert found[2] == [4, 5, -1] == [*lists[2], -1]
    plain = recommend(MODEL, worlds.likes(users, 6), k=3).tolist()
    assert plain[0] == [1, 3, 2]


def test_any_layout_gets_the_same_lists() -> None:
    coins, items = np.random.default_rng(0), 60
    users = [
        {int(item): bool(coins.integers(2)) for item in coins.choice(items, size=coins.integers(0, 20), replace=False)}
        for _ in range(40)
    ]
    has = (coins.random((items, 7)) < 0.3).astype(float)
    features = PublicFeatures(names=tuple("abcdefg"), has=has)
    model = replace(model_of([0] * items, coins.random(items).tolist(), 1), error=np.zeros(items))
    ratings = worlds.stored_ratings(users, range(40), items)
    whole = Cohort(ratings, worlds.SECRET, 0, 40, None).recommend(model, 0, 40, 10, features)
    alone = [Cohort(ratings, worlds.SECRET, k, k + 1, None).recommend(model, k, k + 1, 10, features) for k in range(40)]
    assert whole.tolist() == np.concatenate(alone).tolist()
    with pytest.raises(InputError, match="features are of 6 items, the device's catalogue has 60"):
        Cohort(ratings, worlds.SECRET, 0, 40, None).recommend(model, 0, 40, 10, FEATURES)


def test_what_are_no_features_is_refused() -> None:
    names: Any = ["a", "b"]
    with pytest.raises(InputError, match="names of features are no tuple"):
        PublicFeatures(names=names, has=HAS)
    for few, has in ((("a",), HAS), (("a", "b"), 2 * HAS)):
        with pytest.raises(InputError, match="features of items"):
            PublicFeatures(names=few, has=has)
