"""Lists leave the house: other evaluators score them as blindrec does."""

import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from runs import Command, planted_ratings, refused, write_movielens

pytestmark = pytest.mark.usefixtures("undrawn")

UNIT = ["trust_model", "mechanism", "epsilon", "users", "public", "seed", "features"]
COLUMNS = [*UNIT, "user_id", "item_id", "rank", "score"]
HERE = ("--backend", "inprocess", "--workers", 1, "--json", "-")
COMPARED: tuple[object, ...] = ("--trust-models", "none,two-tier,local", "--mechanisms", "popularity,EASE,set")
COMPARED = (*COMPARED, "--public", 0.2, "--epsilon", 4, "--scale", 1, "--seeds", 3, "--like-from", 4)
RUN = ("run", "--design", "set", "--epsilon", 4, "--like-from", 4)
METRICS = ("hit_rate", "ndcg", "recall")
WITH_LENSKIT = pytest.mark.skipif(find_spec("lenskit") is None, reason="lenskit is not installed (extra lenskit)")
Scored = Callable[[pd.DataFrame, pd.DataFrame], dict[str, float]]


@pytest.fixture(scope="module")
def ratings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    return write_movielens(folder / "ratings.csv", planted_ratings(users=40, items=30, each=20))


@pytest.fixture(scope="module")
def movies(ratings: Path) -> Path:
    path = ratings.parent / "movies.csv"
    lines = [f'{item},"Film {item} (1990)",{"War" if item % 2 else "Drama"}' for item in range(1, 31)]
    path.write_text("movieId,title,genres\n" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


def folders(out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.read_parquet(out / "lists.parquet"), pd.read_parquet(out / "holdout.parquet")


def by_hand(lists: pd.DataFrame, holdout: pd.DataFrame) -> dict[str, float]:
    """Score lists of ten by their columns alone."""
    relevant = holdout.groupby("user_id")["item_id"].agg(set)
    scores = []
    for person, rows in lists.sort_values("rank").groupby("user_id"):
        hits = np.array([item in relevant[person] for item in rows["item_id"]], float)
        gains = 1 / np.log2(rows["rank"].to_numpy() + 1)
        best = (1 / np.log2(np.arange(2, 12)))[: len(relevant[person])].sum()
        patient = 0.15 * 0.85 ** (rows["rank"].to_numpy() - 1)
        scores.append((hits.max(), hits @ gains / best, hits.sum() / len(relevant[person]), hits @ patient))
    return dict(zip((*METRICS, "rbp"), np.mean(scores, axis=0).tolist(), strict=True))


def by_lenskit(lists: pd.DataFrame, holdout: pd.DataFrame) -> dict[str, float]:
    """Score lists of ten by lenskit's own metrics."""
    data, metrics = import_module("lenskit.data"), import_module("lenskit.metrics")
    ranked = data.ItemListCollection.from_df(lists[["user_id", "item_id", "rank", "score"]], ["user_id"])
    truth = data.ItemListCollection.from_df(holdout[["user_id", "item_id"]], ["user_id"])
    analysis = metrics.RunAnalysis()
    # lenskit's own discount is log2 of the rank, at least 1; ours, RecBole's and scikit-learn's log2(1 + rank)
    ndcg = metrics.NDCG(10, discount=lambda ranks: np.log2(ranks + 1))
    measured = {"hit_rate": metrics.Hit(10), "ndcg": ndcg, "recall": metrics.Recall(10), "rbp": metrics.RBP(10)}
    for name, metric in measured.items():
        analysis.add_metric(metric, name)
    with warnings.catch_warnings():  # of pandas about lenskit
        warnings.simplefilter("ignore")
        scores = analysis.measure(ranked, truth).list_metrics()
    return {name: float(scores[name].mean()) for name in (*METRICS, "rbp")}


@pytest.mark.parametrize("scored", [by_hand, pytest.param(by_lenskit, marks=WITH_LENSKIT)])
def test_lists_of_a_comparison_are_worth_elsewhere_what_they_are_here(
    scored: Scored, ratings: Path, movies: Path, blindrec: Command, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    blindrec("compare", ratings, *COMPARED, "--features", movies, "--out", out, "--lists", *HERE)
    lists, holdout = folders(out / "lists")
    assert lists.columns.tolist() == COLUMNS
    units = pd.read_parquet(out / "units.parquet").set_index(UNIT)
    seen = 0
    for unit, rows in lists.groupby(UNIT):
        seen += 1
        people = holdout[(holdout["seed"] == unit[5]) & holdout["user_id"].isin(rows["user_id"])]
        worth = scored(rows, people)
        assert scored is by_hand or worth["rbp"] == pytest.approx(by_hand(rows, people)["rbp"], abs=1e-9)
        for name in METRICS:
            assert worth[name] == pytest.approx(units[name].to_dict()[unit], abs=1e-9)
        assert (rows.sort_values("rank").groupby("user_id")["score"].diff().dropna() <= 1e-12).all()
    assert seen == len(units) > 12


@pytest.mark.parametrize("scored", [by_hand, pytest.param(by_lenskit, marks=WITH_LENSKIT)])
def test_lists_of_a_run_score_alike_elsewhere(scored: Scored, ratings: Path, blindrec: Command, tmp_path: Path) -> None:
    run = blindrec(*RUN, "--ratings", ratings, "--out", tmp_path / "out", *HERE).result
    lists, holdout = folders(tmp_path / "out")
    worth = scored(lists[lists["user_id"].isin(holdout["user_id"])], holdout)
    for name in METRICS[:2]:
        assert worth[name] == pytest.approx(run[name], abs=1e-9)


def test_lists_need_a_folder(ratings: Path, blindrec: Command) -> None:
    assert "give --out" in refused(blindrec, "compare", ratings, *COMPARED, "--lists")
