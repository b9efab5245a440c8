"""Popularity: true shares counted by hand, ties settled as stated, and what runs and tables tell of lists."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statistical
from runs import here, of_file, planted_ratings, small, write_movielens
from scipy.stats import spearmanr

from actors.advice import recommend
from actors.ratings import StoredRatings
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.messages import Model
from scenarios.data.populations import liked_share, populate
from scenarios.families.main.main_columns import COLUMNS, record
from scenarios.families.main.run import MainResult
from scenarios.families.main.run_scores import rank_correlation, ranks, top_share
from scenarios.from_python import run as run_scenario
from scenarios.from_python import sweep
from scenarios.show import tables as report

RANKING = ["maxsense", "multi-maxsense", "sign", "grr", "oue", "olh", "hadamard", "subset", "set", "pairs"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=120, each=30))


@pytest.mark.parametrize("users", [20, 60, 500])
def test_the_share_of_devices_that_like_an_item_is_counted_device_by_device(file: Path, users: int) -> None:
    population = populate(of_file(file, users=users, held_out=2))
    ratings = population.ratings
    assert isinstance(ratings, StoredRatings)
    for first in (None, 7):
        devices = users if first is None else first
        told = ratings.rated(np.zeros(2, np.uint64), 0, devices)
        items, likes = told.items, told.values
        counts = np.bincount(items[likes], minlength=120)
        assert liked_share(population, first).tolist() == (counts / devices).tolist()


@pytest.mark.statistical
def test_in_a_block_model_it_is_the_probability_that_a_device_likes_the_item() -> None:
    """40 binomial counts at once, false alarm 1e-6; other classes' shares are told from these."""
    scenario = small(users=20_000, like="0.9,0.2;0.4,0.6", class_shares="0.7,0.3")
    population = populate(scenario)
    told = population.ratings.rated(as_words(derive(scenario.seed, "devices")), 0, 20_000)
    items, likes = told.items, told.values
    counts = np.bincount(items[likes], minlength=40)

    def fits(shares: np.ndarray) -> bool:
        bounds = [statistical.binomial_bounds(20_000, float(share), comparisons=40) for share in shares]
        return all(low <= count <= high for count, (low, high) in zip(counts, bounds, strict=True))

    assert fits(liked_share(population))
    assert not fits(liked_share(populate(scenario.model_copy(update={"class_shares": (0.3, 0.7)}))))


def test_equal_scores_are_ranked_by_item_and_ties_of_the_truth_count_for_whichever_was_taken() -> None:
    truth = np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    assert top_share(np.array([5.0, 1.0, 1.0, 4.0, 3.0]), truth, top=2) == 1.0  # items 0 and 3: fewer than 2 are above
    assert top_share(np.array([5.0, 1.0, 1.0, 3.0, 4.0]), truth, top=2) == 0.5
    assert top_share(np.zeros(5), truth, top=3) == 1.0  # items 0, 1 and 2
    assert top_share(np.zeros(5), truth[::-1], top=1) == 0.0
    assert top_share(-truth, truth) == 1.0  # all items, where there are fewer than 50


def test_rank_correlation_is_spearmans() -> None:
    scores, truth = np.array([3.0, 1.0, 2.0, 2.0, 9.0]), np.array([0.3, 0.1, 0.1, 0.4, 0.4])
    assert rank_correlation(scores, truth) == pytest.approx(float(spearmanr(scores, truth).statistic))
    assert rank_correlation(np.zeros(5), truth) is None
    assert rank_correlation(scores, np.ones(5)) is None


@pytest.mark.few(3)
@pytest.mark.parametrize("design", RANKING)
def test_many_devices_without_noise_learn_the_list(design: str, file: Path) -> None:
    asked = {"questions": 4} if design == "multi-maxsense" else {}
    result = run_scenario(of_file(file, design=design, users=30_000, epsilon="inf", **asked), progress=False)
    assert result["top_50"] >= 0.8
    assert result["rank_correlation"] > 0.6
    items = result.frame("items")
    assert items["rank"].tolist() == ranks(items["score"].to_numpy()).tolist()
    assert result["top_50"] == top_share(items["score"].to_numpy(), items["popularity"].to_numpy())


def advised(run: MainResult, model: Model) -> list[list[int]]:
    """What the advised devices of a run would draw from a model."""
    secret, devices = derive(run.scenario.seed, "devices"), len(run.advice)
    rated = run.population.ratings.rated(as_words(secret), 0, devices)
    found: list[list[int]] = recommend(model, rated, k=10).tolist()
    return found


@pytest.mark.parametrize("design", RANKING)
def test_devices_of_a_file_rank_by_score_whatever_the_clusters(design: str, file: Path) -> None:
    """Pairs keep their model of what goes together; of everything else advice is the list less what was rated."""
    run = here(of_file(file, design=design, users=600, epsilon=3))
    model, told = run.outcome.model, run.advice.tolist()
    if design == "pairs":
        assert told == advised(run, model)
    else:
        order = np.argsort(-model.score, kind="stable")
        rows = run.population.ratings.rated(np.zeros(2, np.uint64), 0, len(told))
        for device, advice in enumerate(told):
            own = rows.items[rows.starts[device] : rows.starts[device + 1]]
            assert advice == order[~np.isin(order, own)][:10].tolist()


def test_without_popularity_or_a_file_devices_follow_clusters(file: Path) -> None:
    """Classes of opposite taste: clusters and own ratings tell them apart, one list for all does not."""
    classes = small(like="0.9,0.1;0.1,0.9", class_shares="0.7,0.3", users=20_000, epsilon=4)
    for scenario in (of_file(file, design="pairwise", users=600, epsilon=3), classes):
        run = here(scenario)
        model = run.outcome.model
        listed = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)
        assert run.advice.tolist() == advised(run, model) != advised(run, listed)


def test_tables_tell_of_lists_where_items_differ(file: Path) -> None:
    one = record(here(of_file(file, users=900, epsilon=4)))
    told = dict(report.lines_of(one, COLUMNS))
    assert told["true top 50 items among the estimated"] == report.text_of(one["top_50"])
    assert told["rank correlation with popularity"] == report.text_of(one["rank_correlation"])
    planted = record(here(small()))
    assert planted["top_50"] == 1.0  # of 40 items
    assert "true top 50 items among the estimated" not in dict(report.lines_of(planted, COLUMNS))
    assert pd.DataFrame([planted])["rank_correlation"].notna().all()


def test_a_sweep_of_a_file_tells_the_users_of_its_list(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    grid = {
        "criteria": ["top"],
        "share": 0.8,
        "most_users": 200_000,
        "base": {"ratings": file.name, "epsilon": 3},
        "grid": [{"design": ["maxsense", "grr"]}],
    }
    swept = sweep(grid, seeds=1, progress=False)
    rows = swept.frame()
    assert rows[["design", "items", "rated", "criterion", "like"]].to_numpy().tolist() == [
        ["maxsense", 120, 24, "top", ""],  # a fifth of 30 is held out
        ["grr", 120, 24, "top", ""],
    ]
    assert (rows["users"] > 1000).all()
    assert {row["predicted"] for row in swept["settings"]} == {None}
    assert "0.8 of the top 50" in swept.plot().get_title()
