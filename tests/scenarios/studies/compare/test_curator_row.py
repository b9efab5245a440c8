"""The curator's rows: the estimator and constants of local pairs, people who are behind both releases, and lists."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from runs import planted_ratings, write_movielens

from coordinator.protocol.arrays import Floats2
from coordinator.server.decoding.pair_model import ease
from scenarios.studies.compare.advisors import pair_design
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows, trusted
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.rows.trusted import contributors, item_change, laplace_noise, limited_likes, pair_change
from scenarios.studies.compare.worlds import FileWorld, world_of

ITEMS, PEOPLE = 40, 2000


def world_of_rows(path: Path, rows: list[tuple[int, int, float]]) -> FileWorld:
    return world_of(Comparison(ratings=write_movielens(path / "ratings.csv", rows), like_from=4), 0)


@pytest.fixture
def independent(tmp_path: Path) -> FileWorld:
    """People like items independently of each other, the first ones most."""
    coins = np.random.default_rng(1)
    likes = coins.random((PEOPLE, ITEMS)) < np.linspace(0.6, 0.05, ITEMS)
    return world_of_rows(tmp_path, [(int(who), int(what), 5.0) for who, what in np.argwhere(likes)])


@pytest.fixture
def planted(tmp_path: Path) -> FileWorld:
    return world_of_rows(tmp_path, planted_ratings(users=60, items=ITEMS, each=16))


def request(epsilon: int | None, users: int, **changes: Any) -> RowRequest:
    wanted = Comparison(ratings=Path("none.csv"), **changes)
    return RowRequest(
        settings=wanted, epsilon=None if epsilon is None else Fraction(epsilon), users=users, public=0, seed=3
    )


def weights(world: FileWorld, request: RowRequest) -> Floats2:
    scorer = registered_rows()["curator: pairs with EASE"].advise(world, request).scorer
    assert scorer is not None
    scores = scorer(np.eye(world.items, dtype=np.float32))
    np.fill_diagonal(scores, 0)
    return scores


def test_noise_in_pairs_is_shrunk_by_its_known_size(independent: FileWorld) -> None:
    """Where nothing goes together, what a like says of other items is their popularity; plain ridge has .14 here."""
    alike = []
    for seed in range(6):
        of_noise = weights(independent, replace(request(4, PEOPLE), seed=seed))
        for liked in range(0, ITEMS // 2, 2):
            rest = np.delete(np.arange(ITEMS), [liked, liked + 1])
            alike.append(np.corrcoef(of_noise[liked, rest], of_noise[liked + 1, rest])[0, 1])
    assert np.mean(alike) > 0.5


def test_without_noise_pairs_are_those_of_the_estimator(planted: FileWorld) -> None:
    likes = np.asarray(planted.matrix.todense(), np.float64)
    found_weights = weights(planted, request(None, planted.people, co_liked=30))
    shares = likes.T @ likes / planted.people
    np.testing.assert_allclose(found_weights, ease(shares), atol=1e-6)


def test_a_curator_and_devices_count_pairs_of_as_many_items_and_likes(planted: FileWorld) -> None:
    row = registered_rows()["local: pairs"]
    assert isinstance(row, LocalRow)
    for changes in ({}, {"likes": 10}, {"top": 20, "co_liked": 7}):
        told = request(1, 60, **changes)
        local, own = row.scenario_of(planted.items, told), pair_design(told.settings, planted.items)
        assert local.value("pair_items") == own.pair_items
        assert local.value("pair_likes") == own.pair_likes
        assert own.device_likes == {(): 20, ("likes",): 5, ("top", "co_liked"): 7}[tuple(changes)]


def test_likes_are_limited_among_the_items_that_count(planted: FileWorld) -> None:
    told, pool = request(1, 10 * planted.people), np.arange(5, 25, dtype=np.int32)
    people = contributors(planted, told)
    limited = limited_likes(planted, told, people, 3, pool)
    assert people.sum() == told.users
    assert limited.shape == (trusted.COPIES * planted.people, pool.size)
    full = np.minimum(np.asarray(planted.matrix[:, pool].sum(axis=1)), 3)
    np.testing.assert_array_equal(np.tile(full, trusted.COPIES), np.diff(limited.indptr))
    whole = limited.power(2).sum(axis=1).reshape(trusted.COPIES, -1).sum(axis=0)
    np.testing.assert_allclose(whole, people * full)


def test_who_likes_none_of_the_paired_items_gets_what_most_like(planted: FileWorld) -> None:
    told = request(None, planted.people, top=16, co_liked=16)
    advised = registered_rows()["curator: pairs with EASE"].advise(planted, told)
    assert advised.scorer is not None
    assert advised.order is not None
    scores = advised.scorer(np.zeros((1, planted.items), np.float32))[0]
    ranked = advised.order[np.argsort(-scores[advised.order], kind="stable")]
    popularity = planted.popularity[ranked]
    assert (np.diff(popularity[16:]) <= 0).all()
    assert popularity[:16].min() >= popularity[16:].max()
    assert (np.diff(popularity[:16]) <= 0).all()


def test_noise_hides_whose_ratings_are_replaced() -> None:
    """All pairs of people who like so many of seven items: noise is that of the two who are farthest apart."""
    most = 3
    sets = [np.array(likes) for likes in product((0, 1), repeat=7) if sum(likes) <= most]
    upper = np.triu_indices(7)
    totals = np.array([np.outer(likes, likes)[upper] for likes in sets])
    assert pair_change(most) == pytest.approx(
        max(np.linalg.norm(one - other) for one, other in product(totals, totals))
    )
    assert item_change(most) == pytest.approx(max(np.linalg.norm(one - other) for one, other in product(sets, sets)))
    changed = max(int(np.abs(one - other).sum()) for one, other in product(sets, sets))
    assert laplace_noise(Fraction(2), most).epsilon(changed) == 2


@pytest.mark.parametrize("name", ["popularity (Gaussian)", "pairs with EASE"])
def test_both_releases_of_gaussian_noise_spend_no_more_than_is_claimed(
    planted: FileWorld, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The noise that is drawn, release by release, and delta at epsilon by the law of their composition."""
    spent: list[float] = []

    class Coins(np.random.Generator):
        def normal(self, loc: float, scale: float, size: Any) -> Any:  # type: ignore[override]
            spent.append(((pair_change if np.ndim(size) else item_change)(20) / scale) ** 2)
            return super().normal(loc, scale, size)

    told = request(2, planted.people)
    monkeypatch.setitem(told.__dict__, "coins", Coins(np.random.PCG64(0)))
    registered_rows()[f"curator: {name}"].advise(planted, told)
    far = math.sqrt(sum(spent))
    normal = scipy.stats.norm
    delta = normal.cdf(far / 2 - 2 / far) - math.exp(2) * normal.cdf(-far / 2 - 2 / far)
    assert delta == pytest.approx(trusted.DELTA, rel=1e-6)
