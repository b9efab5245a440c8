"""Runs over a file: features and public people's likes lift advice, and pairs are asked in three rounds."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from faults import stopped
from runs import Command, here, of_file, planted_ratings, present, refused, small, write_movielens

from actors.ratings import StoredRatings
from coordinator.protocol.decoding.estimates import PublicCounts
from scenarios.config.files import brief
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.families.main.main_columns import record
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import SET
from scenarios.studies.compare.rows.public_users import split_people
from scenarios.studies.compare.worlds import world_of

HERE = ("--backend", "inprocess", "--workers", "1")
OF_SETS: tuple[str, ...] = ("run", "--design", "set", "--epsilon", "4", "--users", "3000", "--like-from", "4")
OF_SETS = (*OF_SETS, "--held-out", "2", *HERE)


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """People who like what they rate of every second item, and nothing else; 60 items, of which they rated 20."""
    coins = np.random.default_rng(0)
    rows = [
        (user, item, 5.0 if item % 2 == user % 2 else 1.0)
        for user in range(200)
        for item in coins.choice(60, size=20, replace=False).tolist()
    ]
    return write_movielens(tmp_path / "ratings.csv", rows)


@pytest.fixture
def movies(tmp_path: Path) -> Path:
    path = tmp_path / "movies.csv"
    lines = [f'{item + 1},"Film, the {item}th (1990)",{"War" if item % 2 else "Drama"}' for item in range(59)]
    path.write_text("movieId,title,genres\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_features_lift_advice_and_change_nothing_that_is_asked(
    halves: Path, movies: Path, blindrec: Command, tmp_path: Path
) -> None:
    plain = blindrec(*OF_SETS, "--ratings", halves, "--json", "-").result
    out = tmp_path / "out"
    told = blindrec(*OF_SETS, "--ratings", halves, "--features", movies, "--out", out, "--json", "-").result
    assert plain["releases_sha256"] == told["releases_sha256"]
    assert plain["spent_max"] == told["spent_max"]
    assert told["ndcg"] > plain["ndcg"] + 5 * plain["ndcg_error"]
    assert (plain["from_the_file"], plain["rated"]) == ("items, rated", 18)
    items = pd.read_parquet(out / "items.parquet")
    assert items["title"].tolist() == [*(f"Film, the {item}th (1990)" for item in range(59)), "60"]
    lists = pd.read_parquet(out / "lists.parquet")
    assert lists.columns.tolist() == ["device", "place", "item", "title", "user_id", "item_id", "rank", "score"]
    assert lists.groupby("device")["place"].max().eq(10).all()
    assert (lists.merge(items, on="item")["title_x"] == lists.merge(items, on="item")["title_y"]).all()
    again = blindrec("run", out / "scenario.json", "--backend", "inprocess", "--json", "-").result
    assert again["ndcg"] == told["ndcg"]


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (("--design", "maxsense"), ""),
        (("--design", "curator-items", "--epsilon", "inf"), "but scores of curator-items are no popularity"),
    ],
)
def test_features_go_with_scores_that_are_popularity(
    more: tuple[str, ...], line: str, halves: Path, movies: Path, blindrec: Command
) -> None:
    wanted = (*OF_SETS[:1], *OF_SETS[5:], *more, "--ratings", halves, "--features", movies)
    if line:
        assert line in refused(blindrec, *wanted)
    else:
        assert blindrec(*wanted, "--json", "-").result["ndcg"] > 0


def test_features_need_a_file_of_ratings(movies: Path, blindrec: Command) -> None:
    line = f"features is {brief(movies)}, which is about ratings files; give --ratings too"
    assert line in refused(blindrec, *OF_SETS[:7], "--features", movies)


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


@pytest.mark.few(1)
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_run_goes_on_after_any_round(rounds: int, tastes: Path, blindrec: Command, tmp_path: Path) -> None:
    flags = [*OF_PAIRS, "--ratings", tastes, "--backend", "inprocess", "--out"]
    whole = blindrec(*flags, tmp_path / "whole").result
    stopped(blindrec, rounds, *flags, tmp_path / "out")
    resumed = blindrec("resume", tmp_path / "out", "--backend", "inprocess", "--json", "-").result
    for name in ("releases_sha256", "ndcg", "hit_rate", "spent_max", "top_50"):
        assert resumed[name] == whole[name]
    for name in ("rounds.parquet", "items.parquet"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_lists_follow_taste_where_popularity_says_nothing(tastes: Path) -> None:
    """Every item is as popular as any other: half of a list by popularity is of a person's own taste, as by chance."""

    def of_own_taste(design: str, users: int = 60_000, **more: int) -> float:
        ran = here(of_file(tastes, design=design, epsilon=4, users=users, **more))
        ratings, advice = ran.population.ratings, ran.advice
        assert isinstance(ratings, StoredRatings)
        assert record(ran)["clusters_follow"] is not None
        return float((advice % 2 == ratings.user[: len(advice), None] % 2)[advice >= 0].mean())

    assert of_own_taste("set") < 0.6
    assert of_own_taste("pairs") > 0.8
    assert of_own_taste("pair-totals", users=2000, pair_items=30, pair_likes=5) > 0.7


def test_of_a_block_model_the_most_liked_items_are_asked_about() -> None:
    """The cluster that users like; a fifth of the devices finds it."""
    ran = here(small(design="pairs", epsilon=4, users=20_000, pair_items=20))
    near, truth = present(ran.outcome.model.near), present(ran.population.truth)
    assert ran.outcome.state.asked[0].stop == 4000
    assert near.pool.tolist() == np.flatnonzero(truth == 0).tolist()


FLAGS = ("run", "--design", "set", "--like-from", "4", *HERE)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=300, items=40, each=15))


def test_weights_are_inverse_variances_by_hand() -> None:
    """Ten people, of whom six like item 0 and none item 1; sets of two hold 16 of their 24 likes."""
    public = PublicCounts(counts=np.array([6, 0]), sizes=np.array([4, 4, 4, 4, 1, 1, 1, 1, 2, 2]))
    found, error = public.posterior(np.array([0.3, 0.1]), np.array([0.05, 0.2]), 2)
    scale = 24 / 16
    for place, (count, told, noise) in enumerate([(6, 0.3, 0.05), (0, 0.1, 0.2)]):
        weights = np.array([100 / (count + 1), 1 / (scale * noise) ** 2])
        mean = weights @ [(count + 1) / 10, scale * told] / weights.sum()
        assert (found[place], error[place]) == pytest.approx((mean, weights.sum() ** -0.5), rel=1e-12)
    alone, _ = public.posterior(np.array([0.3, 0.1]), np.full(2, 1e9), 2)
    assert alone == pytest.approx([0.7, 0.1])
    private, _ = public.posterior(np.array([-0.3, 0.1]), np.zeros(2), 2)
    assert private == pytest.approx([0, 0.15])


def test_public_people_are_asked_nothing_and_lift_advice(file: Path, blindrec: Command) -> None:
    plain = blindrec(*FLAGS, "--ratings", file, "--epsilon", "0.5", "--json", "-").result
    told = blindrec(*FLAGS, "--ratings", file, "--epsilon", "0.5", "--public", "0.2", "--json", "-").result
    assert (plain["asked"], told["asked"]) == (300, 240)
    assert told["rank_correlation"] > plain["rank_correlation"] + 0.2
    assert told["ndcg"] > plain["ndcg"]
    public = present(populate(Scenario(design="set", ratings=file, like_from=4, public=0.2)).public)
    assert public.sizes.size == 60
    assert public.sizes.sum() == public.counts.sum()


def test_the_comparison_weighs_alike(file: Path) -> None:
    wanted = Comparison(ratings=file, like_from=4, likes=6)
    world, asked = world_of(wanted, 0), RowRequest(settings=wanted, epsilon=Fraction(2), users=300, public=0.2, seed=0)
    public, private = split_people(world, asked)
    liked = world.fold.liked.of(public)
    counts = PublicCounts(counts=liked.raters, sizes=liked.degrees)
    model = SET.answered(world.of(private), replace(asked, users=private.size)).model
    row = registered_rows()["two-tier: popularity with set"].advise(world, asked)
    assert row.popularity == pytest.approx(counts.weighed(model, 6).score, rel=1e-12)


@pytest.mark.parametrize("more", [("--design", "pairs"), ("--decoder", "posterior")])
def test_what_cannot_be_weighed_is_refused(more: tuple[str, str], file: Path, blindrec: Command) -> None:
    line = refused(blindrec, *FLAGS, *more, "--ratings", file, "--public", "0.2")
    assert "public is 0.2, which set weighs with popularity" in line
    assert "is about ratings files" in refused(blindrec, "run", "--design", "set", "--public", "0.2")
