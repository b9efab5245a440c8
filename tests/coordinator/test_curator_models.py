"""The trusted curator's published model follows from the noisy totals, and from nothing else about the ratings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import worlds
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.device import Cohort
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.messages import Model
from coordinator.server.decoding.curator import item_sensitivity, noisy_symmetric, noisy_totals, pair_sensitivity
from coordinator.server.decoding.open_ratings import Curator
from coordinator.server.design import Decoding
from coordinator.server.mechanisms import aggregate, half_of
from coordinator.server.mechanisms.toys import Reveal
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import Ask, ServerState, absorb, total

ITEMS, RATED = 6, 3
SEED = bytes(range(16))
DESIGNS = ["curator-items", "curator-pairs"]
Users = list[dict[int, bool]]


def state_of(name: str, users: Users) -> ServerState:
    """What the curator holds once these users told their ratings."""
    query = Reveal(name=name, items=ITEMS, most=RATED).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None)
    ratings, count = worlds.stored_ratings([*users, {0: True}], range(len(users)), ITEMS), len(users)
    release = Cohort(ratings, worlds.SECRET, 0, count, None).answer(query, 0, count)
    return absorb(ServerState(devices=count), Ask(query=query, first=0, stop=count), aggregate(query, release))


def published(name: str, users: Users, *, epsilon: Epsilon = Fraction(1), seed: bytes = SEED) -> Model:
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
        noise, _ = noisy_totals(zeros, epsilon=Fraction(1), sensitivity=item_sensitivity(RATED), seed=SEED)
    else:
        square = np.zeros((ITEMS, ITEMS), np.int64)
        noise, _ = noisy_symmetric(square, epsilon=Fraction(1), sensitivity=pair_sensitivity(RATED), seed=SEED)
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
    curator = Curator(epsilon=Fraction(1), rated=RATED, seed=SEED)
    for shown in (
        repr(curator),
        str(SumLearner(half=half_of("curator-items"), how=Decoding(clusters=2, decoder="totals", curator=curator))),
    ):
        assert repr(SEED) not in shown
        assert SEED.hex() not in shown
