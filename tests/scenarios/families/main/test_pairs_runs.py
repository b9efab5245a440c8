"""Runs of pairs: three rounds over a file, the same on both backends and after any interruption, and better lists."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest
from golden.inside import share
from runs import Command, here, of_file, small, write_movielens

from actors.ratings import StoredRatings
from coordinator.server.rounds.rounds import Round
from scenarios.store.journal import Journal

if TYPE_CHECKING:
    from scenarios.backends.on_ray import OnRay

OF_PAIRS = ["run", "--design", "pairs", "--epsilon", "3", "--users", "900", "--pair-items", "8", "--workers", "1"]
OF_PAIRS += ["--json", "-"]


@pytest.fixture
def tastes(tmp_path: Path) -> Path:
    """People of two tastes, who like what they rate of their half of 30 items, mostly, and rated 14 of them."""
    world = np.random.default_rng(0)
    rows = [
        (user, int(item), 5.0 if (item % 2 == user % 2) == (world.random() < 0.95) else 1.0)
        for user in range(300)
        for item in world.choice(30, size=14, replace=False)
    ]
    return write_movielens(tmp_path / "ratings.csv", rows)


def test_three_rounds_over_a_file_and_no_device_answers_twice(tastes: Path, blindrec: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    found = blindrec(*OF_PAIRS, "--ratings", tastes, "--backend", "inprocess", "--out", out).result
    assert (found["policy"], found["rounds"], found["spent_max"], found["spent_mean"]) == ("groups", 3, 3, 3)
    rounds = pd.read_parquet(out / "rounds.parquet")
    assert rounds["pool"].tolist() == [30, 8, 8]
    assert rounds["asked"].tolist() == [180, 135, 585]
    assert rounds["first_device"].tolist() == [0, 180, 315]
    assert "rank" in pd.read_parquet(out / "items.parquet")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_run_goes_on_after_any_round(
    rounds: int, tastes: Path, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [*OF_PAIRS, "--ratings", tastes, "--backend", "inprocess", "--out"]
    whole, keep = blindrec(*flags, tmp_path / "whole").result, Journal.keep

    def interrupted(self: Journal, over: Round) -> None:
        keep(self, over)
        if over.ask.query.round == rounds:
            signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "keep", interrupted)
        assert blindrec(*flags, tmp_path / "out").code in (3, 130)
    resumed = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    for name in ("releases_sha256", "ndcg", "hit_rate", "spent_max", "top_50"):
        assert resumed[name] == whole[name]
    for name in ("rounds.parquet", "items.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.cluster
def test_ray_releases_the_same(
    tastes: Path, blindrec: Command, ray_session: OnRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(ray_session, monkeypatch)
    far, near = (blindrec(*OF_PAIRS, "--ratings", tastes, "--backend", place).result for place in ("ray", "inprocess"))
    assert (far["backend"], near["backend"]) == ("ray", "inprocess")
    for name in ("releases_sha256", "ndcg", "hit_rate", "top_50", "spent_max"):
        assert far[name] == near[name]


def test_lists_follow_taste_where_popularity_says_nothing(tastes: Path) -> None:
    """Every item is as popular as any other: half of a list by popularity is of a person's own taste, as by chance."""

    def of_own_taste(design: str) -> float:
        ran = here(of_file(tastes, design=design, epsilon=4, users=60_000))
        ratings, advice = ran.population.ratings, ran.advice
        assert isinstance(ratings, StoredRatings)
        return float((advice % 2 == ratings.user[: len(advice), None] % 2)[advice >= 0].mean())

    assert of_own_taste("set") < 0.6
    assert of_own_taste("pairs") > 0.8


def test_of_a_block_model_the_most_liked_items_are_asked_about() -> None:
    """The cluster that users like; a fifth of the devices finds it."""
    ran = here(small(design="pairs", epsilon=4, users=20_000, pair_items=20))
    near, truth = ran.outcome.model.near, ran.population.truth
    assert near is not None
    assert truth is not None
    assert ran.outcome.state.asked[0].stop == 4000
    assert near.pool.tolist() == np.flatnonzero(truth == 0).tolist()
