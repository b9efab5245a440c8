"""Runs over a file whose devices weigh scores by public features: better lists, titles, and what was asked the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import Command, refused, write_movielens

from scenarios.config.files import brief

OF_SETS: tuple[str, ...] = (
    "run",
    "--design",
    "set",
    "--epsilon",
    "4",
    "--users",
    "3000",
    "--like-from",
    "4",
    "--held-out",
    "2",
)
OF_SETS = (*OF_SETS, "--backend", "inprocess", "--workers", "1")


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
    assert lists.columns.tolist() == ["device", "place", "item", "title"]
    assert lists.groupby("device")["place"].max().eq(10).all()
    assert (lists.merge(items, on="item")["title_x"] == lists.merge(items, on="item")["title_y"]).all()
    again = blindrec("run", out / "scenario.json", "--backend", "inprocess", "--json", "-").result
    assert again["ndcg"] == told["ndcg"]


def test_a_declared_number_of_ratings_is_not_the_files(halves: Path, blindrec: Command) -> None:
    found = blindrec(*OF_SETS, "--ratings", halves, "--rated", 18, "--json", "-").result
    assert found["from_the_file"] == "items"
    printed = blindrec(*OF_SETS, "--ratings", halves)
    assert "public constants taken from the file │ items, rated" in printed.words


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
