"""Popularity: true shares counted by hand, ties settled as stated, and what runs and tables tell of lists."""

from dataclasses import replace
from pathlib import Path

import evidence
import numpy as np
import pandas as pd
import pytest
from evidence import sample, size
from hypothesis import given
from hypothesis import strategies as st
from runs import here, of_file, planted_ratings, small, split_of, write_movielens
from scipy import stats
from scipy.stats import spearmanr

from actors.advice import recommend
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.messages import Model
from scenarios.data.metrics import LEAST, SHUFFLES, Following, chance_of, share_between, what_clusters_follow
from scenarios.data.populations import liked_share, populate
from scenarios.data.rating_split import Split
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
    """40 binomial counts at once, false alarm 1e-6; the twin has as many of either class."""
    scenario = small(users=20_000, like="0.9,0.2;0.4,0.6", class_shares="0.7,0.3")
    population = populate(scenario)
    told = population.ratings.rated(as_words(derive(scenario.seed, "devices")), 0, 20_000)
    items, likes = told.items, told.values
    counts = np.bincount(items[likes], minlength=40)

    assert evidence.counts_fit(counts, 20_000, liked_share(population))
    other = liked_share(populate(scenario.model_copy(update={"class_shares": (0.5, 0.5)})))
    assert not evidence.counts_fit(counts, 20_000, other)


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


# Real catalogues: what planted clusters follow: popularity, taste, or nothing.


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


@pytest.mark.statistical
@pytest.mark.few(1)
@pytest.mark.parametrize("clusters", [2, 3])
def test_shuffled_labels_explain_as_much_as_an_f_test_says_of_normal_values(clusters: int) -> None:
    """500 normal values: the F test is exact; the count of 1999 shuffles is binomial, false alarm 1e-6 a case.

    The twin is told another chance, a tenth away.
    """
    cluster = (np.arange(500) % clusters).astype(np.int32)
    world = np.random.default_rng(clusters)
    for values in world.normal(size=(size(5, 2), 500)):
        share = share_between(values, cluster)
        exact = stats.beta.sf(share, (clusters - 1) / 2, (500 - clusters) / 2)
        more = round(chance_of(values, cluster) * (1 + SHUFFLES)) - 1
        assert evidence.rate_fits(more, SHUFFLES, exact)
        assert not evidence.rate_fits(more, SHUFFLES, exact + (0.1 if exact < 0.5 else -0.1))
        assert chance_of(values + cluster, cluster) == 1 / (1 + SHUFFLES)


@pytest.mark.statistical
def test_a_small_cluster_with_the_one_popular_item_is_chance() -> None:
    """Shuffled, a cluster of 5 in 300 holds it with probability 1/60; an F test would say 1e-16. 1e-6."""
    popular, cluster = (np.arange(300) == 0).astype(float), (np.arange(300) < 5).astype(np.int32)
    assert share_between(popular, cluster) > 4 * LEAST - 0.01
    more = round(chance_of(popular, cluster) * (1 + SHUFFLES)) - 1
    assert evidence.rate_fits(more, SHUFFLES, 1 / 60)
    assert not evidence.rate_fits(more, SHUFFLES, 1 / 25)


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
    for share in sample((0.01, 0.05, 0.2, 0.5) * 5, 2):
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
