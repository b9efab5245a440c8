"""What lists are worth to groups of people: groups add up to all, who is left out shows, and columns are read."""

import io
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from rich.console import Console
from runs import Command, planted_ratings, refused, write_movielens
from scipy import sparse

from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.differences import METRICS
from scenarios.studies.compare.people_groups import PARTS, _parts, groups_of, rarity
from scenarios.studies.compare.row import LearnedScores, RowRequest
from scenarios.studies.compare.scoring import CompareKey, GroupScores, ListScores, gini, score
from scenarios.studies.compare.who_pays import best_for_groups, show_who_pays, who_pays
from scenarios.studies.compare.worlds import world_of

pytestmark = pytest.mark.usefixtures("undrawn")

PEOPLE, ITEMS = 60, 30
Files = tuple[Path, Path]  # Of ratings, and of people
WORDS = ("--like-from", 4, "--backend", "inprocess", "--epsilon", 2, "--scale", 1, "--devices", 0, "--likes", 8)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    people = tmp_path / "people.csv"
    people.write_text("user,team\n" + "".join(f"{user + 1},{'red' if user % 3 else 'blue'}\n" for user in range(50)))
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=PEOPLE, items=ITEMS, each=16)), people


def settings_of(files: Files, **more: Any) -> Comparison:
    return Comparison(ratings=files[0], people_file=files[1], like_from=4.0, **more)


def test_groups_of_one_split_add_up_exactly(files: Files) -> None:
    settings = settings_of(files, by=("activity", "rarity", "team"))
    world, request = world_of(settings, 0), RowRequest(settings=settings, epsilon=None, users=PEOPLE, seed=0)
    scored = score(world, LearnedScores(popularity=world.popularity, floor=0.5), request, features=False)
    for by in ("activity", "rarity"):
        of = scored.groups[by]
        assert sum(one.people for one in of) == scored.people
        total = sum(one.people * one.numbers["ndcg"][0] for one in of if one.people)
        assert total / scored.people == pytest.approx(scored.ndcg, abs=1e-12)
    assert [one.group for one in scored.groups["team"]] == ["blue", "red"]
    assert sum(one.people for one in scored.groups["team"]) < scored.people  # ten people are in no line of the file


def test_a_row_that_serves_the_active_alone_is_seen(files: Files) -> None:
    settings = settings_of(files, by=("activity",))
    world, request = world_of(settings, 0), RowRequest(settings=settings, epsilon=None, users=PEOPLE, seed=0)
    place = groups_of(settings, world, "activity").of
    hidden = world.fold.holdout
    ones = np.ones(hidden.items.size) * (place[hidden.owners] == place.max())
    holds = sparse.csr_array((ones, hidden.items, hidden.starts), shape=(PEOPLE, ITEMS))
    learned = LearnedScores(popularity=world.popularity, floor=0.5, scorer=lambda own: own.toarray(), holds=holds)
    groups = score(world, learned, request, features=False).groups["activity"]
    of = [one.numbers["ndcg"][0] for one in groups if one.people]
    assert of[-1] == 1
    assert max(of[:-1]) < 0.9


def test_parts_are_of_training_ratings(files: Files) -> None:
    settings = settings_of(files)
    world = world_of(settings, 0)
    groups, rare = groups_of(settings, world, "rarity"), rarity(world)
    assert groups.names == PARTS
    assert rare[groups.of == 0].max() <= rare[groups.of == 3].min()
    ranks = [1 + np.sum(world.popularity > one) + (np.sum(world.popularity == one) - 1) / 2 for one in world.popularity]
    liked = world.fold.liked.items[world.fold.liked.starts[7] : world.fold.liked.starts[8]]
    assert rare[7] == pytest.approx(np.mean([ranks[item] for item in liked]))


@pytest.mark.parametrize(
    ("text", "by", "words"),
    [
        ("user,team\n1,red\n", "teem", "did you mean 'team'"),
        ("user,team\n1,red\n1,blue\n", "team", "names somebody twice"),
        ("user,team\n" + "".join(f"{user},{user}\n" for user in range(30)), "team", "a column of 30 values"),
        (None, "team", "give --people-file"),
    ],
)
def test_columns_that_are_wrong(blindrec: Command, files: Files, text: str | None, by: str, words: str) -> None:
    more = []
    if text is not None:
        files[1].write_text(text)
        more = ["--people-file", files[1]]
    assert words in refused(blindrec, "compare", files[0], *WORDS, "--mechanisms", "popularity", "--by", by, *more)


def test_no_row_without_noise_is_the_best_with_an_epsilon() -> None:
    common: dict[str, Any] = {"by": "activity", "group": "lowest tenth", "trust_model": "local", "users": 100}
    common |= {"to_popularity_low": -0.1, "to_popularity_high": 0.5}
    lines = [
        {**common, "mechanism": "set", "epsilon": 2.0, "to_popularity": 0.1},
        {**common, "mechanism": "pairs", "epsilon": 2.0, "to_popularity": 0.05},
        {**common, "mechanism": "pairs", "epsilon": "inf", "to_popularity": 0.3},
    ]
    (sentence,) = best_for_groups(lines)
    assert "local: set at epsilon 2 with" in sentence
    assert best_for_groups(lines[2:]) == []


def test_a_line_is_a_mean_over_splits_beside_popularity_among_the_same_group() -> None:
    """Every sample is .1 above popularity's in both splits, and differs from the means by the same in both rows."""
    strays = np.linspace(-0.05, 0.05, 21)

    def scores(level: float, people: int) -> ListScores:
        samples = tuple((level + np.append(0, strays)).tolist())
        lowest = GroupScores(group="lowest tenth", people=people, numbers=dict.fromkeys(METRICS, samples))
        numbers = dict.fromkeys((*METRICS, "recall"), samples[1:])
        means: dict[str, Any] = dict.fromkeys(numbers, level)
        return ListScores(
            features=False, **means, coverage=0.5, people=50, resampled=numbers, groups={"activity": (lowest,)}
        )

    def group(model: str, mechanism: str, level: float) -> list[Any]:
        measured = [(seed, scores(level + 0.02 * seed, 10 + 4 * seed)) for seed in (0, 1)]
        return [
            (CompareKey(model, mechanism, "1" if model == "local" else "", 50, "", seed), cast("Any", None), of)
            for seed, of in measured
        ]

    popular, private = group("none", "popularity", 0.3), group("local", "set", 0.4)
    rows = [
        {"trust_model": key.trust_model, "mechanism": key.mechanism, "epsilon": key.epsilon, "users": 50}
        | {"features": False, "public": None}
        for key in (of[0][0] for of in (popular, private))
    ]
    plain = {key.seed: of for key, _, of in popular}
    first, second = lines = who_pays(["activity"], rows, [popular, private], plain)
    assert (second["people"], second["ndcg"]) == (12.0, pytest.approx(0.41))
    assert second["ndcg_low"] < 0.41 - 2 * strays.std(ddof=1)
    names = ("to_popularity", "to_popularity_low", "to_popularity_high")
    assert [second[name] for name in names] == pytest.approx([0.1] * 3)
    assert [first[name] for name in names] == [None] * 3
    lines[1] |= {"ndcg_low": 0.38, "ndcg_high": 0.44}
    console = Console(width=120, record=True, file=io.StringIO())
    show_who_pays(console, lines, lambda row: str(row["mechanism"]))
    assert ".410±.030" in console.export_text()


def test_equal_numbers_are_in_one_part_of_people() -> None:
    """Of ten people a tenth is below 0 and half below .5: the five who have 0 are the lowest part, whoever is asked."""
    values = np.array([0, 3, 0, 1, 0, 2, 5, 0, 4, 0, np.nan])
    assert _parts(values).of.tolist() == [0, 2, 0, 2, 0, 2, 3, 0, 2, 0, -1]


def test_activity_counts_training_ratings_whether_liked_or_not(files: Files) -> None:
    settings = settings_of(files)
    world = world_of(settings, 0)
    rated = np.bincount(world.fold.train.owners, minlength=PEOPLE).astype(float)
    assert (rated > world.fold.liked.degrees).any()
    assert groups_of(settings, world, "activity").of.tolist() == _parts(rated).of.tolist()


def test_gini_is_that_of_shares() -> None:
    counts = np.array([0, 1, 2, 7])
    shares = np.abs(counts[:, None] - counts[None, :]).sum() / (2 * counts.size * counts.sum())
    assert gini(counts) == pytest.approx(shares)
