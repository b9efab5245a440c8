"""Advice with public features on the device, by hand and against plain advice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import worlds

from actors.advice import recommend, recommend_featured
from actors.device import Cohort
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import ItemToItem, PublicFeatures
from coordinator.protocol.messages import Model

HAS = np.array([[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 0]], float)
FEATURES = PublicFeatures(names=("kind: a", "kind: b"), has=HAS)
MODEL = Model(
    cluster=np.zeros(6, np.int32),
    score=np.array([0.5, 0.4, 0.3, 0.36, 0.2, 0.1]),
    error=np.zeros(6),
    clusters=1,
)


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


def test_an_item_item_model_is_weighed_as_well_and_noise_is_damped() -> None:
    near = ItemToItem(
        pool=np.array([0, 3, 4], np.int32),
        liked=np.array([0.5, 0.36, 0.2]),
        weights=np.array([[0, 0.5, 0.45], [0.2, 0, 0.3], [0.1, 0.3, 0]]),
    )
    told, users = replace(MODEL, near=near), worlds.likes([{0: True}], 6)
    assert recommend_featured(told, FEATURES, users, k=2).tolist() == recommend(told, users, k=2).tolist() == [[3, 4]]
    many = PublicFeatures(names=("kind: c",), has=np.array([[0.0], [0], [0], [0], [1], [0]]))
    assert recommend_featured(told, many, worlds.likes([{4: True, 0: True}], 6), k=1).tolist() == [[3]]
    noisy = replace(MODEL, error=np.full(6, 10.0))
    few = worlds.likes([{4: True}], 6)
    assert recommend_featured(noisy, FEATURES, few, k=1).tolist() == [[0]]  # of noise alone, its cube counts


def test_any_layout_gets_the_same_lists() -> None:
    coins, items = np.random.default_rng(0), 60
    users = [
        {int(item): bool(coins.integers(2)) for item in coins.choice(items, size=coins.integers(0, 20), replace=False)}
        for _ in range(40)
    ]
    has = (coins.random((items, 7)) < 0.3).astype(float)
    features = PublicFeatures(names=tuple("abcdefg"), has=has)
    model = Model(cluster=np.zeros(items, np.int32), score=coins.random(items), error=np.zeros(items), clusters=1)
    ratings = worlds.stored_ratings(users, range(40), items)
    whole = Cohort(ratings, worlds.SECRET, 0, 40, None).recommend(model, 0, 40, 10, features)
    alone = [Cohort(ratings, worlds.SECRET, k, k + 1, None).recommend(model, k, k + 1, 10, features) for k in range(40)]
    assert whole.tolist() == np.concatenate(alone).tolist()
    with pytest.raises(InputError, match="features are of 6 items, the device's catalogue has 60"):
        Cohort(ratings, worlds.SECRET, 0, 40, None).recommend(model, 0, 40, 10, FEATURES)


@pytest.mark.parametrize(
    ("names", "has", "line"),
    [
        (("a",), HAS, "features of items"),
        (["a", "b"], HAS, "names of features are no tuple"),
        (("a", "b"), 2 * HAS, "features of items"),
    ],
)
def test_what_are_no_features_is_refused(names: tuple[str, ...], has: np.ndarray, line: str) -> None:
    with pytest.raises(InputError, match=line):
        PublicFeatures(names=names, has=has)
