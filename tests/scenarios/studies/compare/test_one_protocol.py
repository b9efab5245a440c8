"""One protocol: every command that scores lists holds out the same likes, and prints one worth of popularity."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from evidence import THOROUGH
from runs import Command, present, refused

from scenarios.data.datasets import read_ratings
from scenarios.data.rating_split import Split, hold_out
from scenarios.studies.compare import rungs

pytestmark = pytest.mark.usefixtures("undrawn")

PEOPLE, ITEMS, EACH = 60, 40, 14
HERE = ("--backend", "inprocess", "--workers", 1, "--json", "-")
COMPARED = ("--trust-models", "none", "--mechanisms", "popularity", "--seeds", 3)
TIERS = ("--holdout", 0.2, "--mechanism", "none", "--public", 20, "--rank", 2, "--regularisation", 1, "--iterations", 1)
SAME = ("popularity_hit_rate", "popularity_ndcg", "held_out", "split_by")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People who come one after the other, each for a while, with many items equally popular."""
    coins, path = np.random.default_rng(0), tmp_path_factory.mktemp("log") / "log.csv"
    rows = [
        (person, item, coins.integers(1, 6), 40 * person + coins.integers(0, 900))
        for person in range(PEOPLE)
        for item in coins.choice(ITEMS, size=EACH, replace=False)
    ]
    pd.DataFrame(rows, columns=["who", "what", "stars", "when"]).to_csv(path, index=False)
    return path


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "flags",
    [(), ("--like-from", 4, "--split-by", "time"), ("--like-from", 3, "--split-by", "global-time")],
    ids=["random, above one's mean", "time", "global-time"],
)
def test_every_command_prints_the_same_worth_of_popularity_and_the_same_people(
    flags: tuple[str, ...], log: Path, blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The people are few, and by design no item is much more popular than others
    monkeypatch.setattr(rungs, "_too_few", lambda *_: None)
    monkeypatch.setattr("scenarios.studies.compare.comparison.why_no_answer", lambda *_: None)
    monkeypatch.setattr("scenarios.studies.plan_of_file.QUICK", ("popularity", "set"))
    read = (*flags, "--columns", "who,what,stars,when")
    compared = blindrec("compare", log, *COMPARED, *read, "--out", tmp_path / "out", *HERE).result
    units = pd.read_parquet(tmp_path / "out" / "units.parquet").set_index("seed")
    mean = compared["rows"][0]
    figures = {"popularity_hit_rate": mean["hit_rate"], "popularity_ndcg": mean["ndcg"]}
    figures |= {"held_out": 0.2, "split_by": compared["split_by"]}
    assert 0 < mean["hit_rate"] < 1
    described = blindrec("data", log, *read, "--json", "-").result
    planned = blindrec("plan", "--ratings", log, *read, *HERE).result
    for result in (described, planned):
        plain = next(row for row in result["rows"] if row["mechanism"] == "popularity")
        assert {name: plain[name] for name in ("hit_rate", "ndcg")} == {
            name: mean[name] for name in ("hit_rate", "ndcg")
        }
        assert {name: result[name] for name in SAME[2:]} == {name: figures[name] for name in SAME[2:]}
    for seed in (0, 2) if THOROUGH else (2,):
        unit = units.loc[seed].to_dict()
        figures |= {"popularity_hit_rate": float(unit["hit_rate"]), "popularity_ndcg": float(unit["ndcg"])}
        run = blindrec("run", "--design", "set", "--ratings", log, *read, "--seed", seed, *HERE).result
        tiers = blindrec("two-tier", "--ratings", log, *TIERS, *read, "--seed", seed, *HERE).result
        for result in (run, tiers):
            assert {name: result[name] for name in SAME} == figures
            assert result["evaluated"] == int(unit["people"])
            assert result.get("people_left_out") == compared.get("people_left_out")


def split_by_date(log: Path, held_out: float = 0.2) -> Split:
    table = read_ratings(log, columns=("who", "what", "stars", "when"), times=True)
    return hold_out(table, held_out=held_out, like_from=3, seed=0, split_by="global-time")


@pytest.mark.parametrize("held_out", [0.1, 0.2, 0.5])
def test_after_the_date_nobody_learns_anything(log: Path, held_out: float) -> None:
    rows, split = pd.read_csv(log), split_by_date(log, held_out)
    date = present(split.train.times).max()
    before = rows[rows["when"] <= date]
    assert (rows["when"] > date).mean() == pytest.approx(held_out, abs=0.01)
    assert split.train.user_labels.tolist() == sorted(map(str, set(before["who"])), key=int)
    assert split.left_out == PEOPLE - before["who"].nunique()
    assert split.train.ratings == len(before)
    likes = before[before["stars"] >= 3].groupby("what").size()
    assert split.popularity.tolist() == [likes.get(int(item), 0) for item in split.train.item_labels]
    later = rows[(rows["when"] > date) & (rows["stars"] >= 3) & rows["who"].isin(before["who"])]
    assert split.holdout.items.size == len(later)
    assert split.evaluated.size == later["who"].nunique()
    assert split.test.items.size == (rows["who"].isin(before["who"]) & (rows["when"] > date)).sum()


def test_a_date_leaves_out_who_and_what_comes_after_it(log: Path, blindrec: Command) -> None:
    split = split_by_date(log)
    assert split.left_out > 0
    read = (*COMPARED, "--split-by", "global-time", "--like-from", 3, "--columns", "who,what,stars,when")
    compared = blindrec("compare", log, *read, *HERE).result
    assert (compared["people_in_file"], compared["people_left_out"]) == (PEOPLE - split.left_out, split.left_out)
    assert f"{split.left_out} people of the file rated nothing before it" in compared["remarks"][0]
    run = ("run", "--ratings", log, "--split-by", "global-time", "--columns", "who,what,stars,when", *HERE)
    assert "but a date holds out a share" in refused(blindrec, *run, "--held-out", 2)
    assert "no column of times" in refused(blindrec, *run, "--columns", "who,what,stars")


def test_a_like_by_the_mean_of_all_is_one_by_the_mean_of_what_is_left(log: Path) -> None:
    """So that whole numbers of likes, chosen before the split, are likes by training ratings alone as well."""
    table = read_ratings(log, columns=("who", "what", "stars"))
    split = hold_out(table, held_out=3, like_from=None, seed=1)
    means = np.bincount(split.train.owners, split.train.values) / split.train.degrees
    assert (split.test.values > means[split.test.owners]).all()
    assert split.test.items.tolist() == split.holdout.items.tolist()


@pytest.mark.parametrize("held_out", [2, 0.2])
def test_by_time_everybodys_latest_likes_are_held_out(log: Path, held_out: float) -> None:
    """A number of them, where more are left, or a fifth."""
    table = read_ratings(log, columns=("who", "what", "stars", "when"), times=True)
    split = hold_out(table, held_out=held_out, like_from=3, seed=1, split_by="time")
    likes = pd.read_csv(log).query("stars >= 3").sort_values("when")
    for person in range(PEOPLE):
        rows = likes[likes["who"] == person]
        held = split.holdout.block(person, person + 1).items
        assert {int(split.train.item_labels[item]) for item in held} <= set(rows["what"])
        some = (2 if len(rows) > 2 else 0) if held_out == 2 else max(1, len(rows) // 5) if len(rows) > 1 else 0
        cut = rows["when"].iloc[-some] if some else np.inf
        assert held.size == some
        assert rows.set_index("what").loc[[int(split.train.item_labels[item]) for item in held], "when"].ge(cut).all()
