"""The recipe: how many people a list by popularity and one by pairs take, held against counts that are drawn."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from runs import planted_ratings, write_movielens

from coordinator.protocol.budget import parse_epsilon
from coordinator.server.liked_pairs import LikedPairs
from coordinator.server.mechanisms.set import LikedSet
from coordinator.server.mechanisms.subset import subset_rates
from scenarios.compare.needs import ENOUGH, EPSILONS, LIKES, needs, pair_signal, pairs_begin, tenth_share, used
from scenarios.compare.needs_table import show_needs
from scenarios.data.datasets import RatingTable, read_ratings
from scenarios.data.rating_split import judge_likes


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> RatingTable:
    path = tmp_path_factory.mktemp("needs") / "ratings.csv"
    return read_ratings(write_movielens(path, planted_ratings(users=300, items=60, each=30)))


def test_the_tenth_share_is_counted(table: RatingTable) -> None:
    likes = judge_likes(table, 4.0)
    shares = np.zeros(table.count)
    for user in range(table.users):
        own = table.items[(table.owners == user) & likes]
        shares[own] += min(1.0, 5 / max(own.size, 1)) / table.users
    assert tenth_share(table, likes, 5) == pytest.approx(np.sort(shares)[-10])


@pytest.mark.statistical
def test_so_many_people_leave_a_tenth_of_the_share_as_noise(table: RatingTable) -> None:
    """The spread of 4,000 estimates at the formula's number of people, false alarm 1e-6; half as many people fail."""
    (row,) = (row for row in needs(table, like_from=4.0) if row["epsilon"] == "1")
    rated = min(LIKES, table.count)
    share, coins = tenth_share(table, judge_likes(table, 4.0), rated), np.random.default_rng(3)
    design = LikedSet(items=table.count, rated=rated, padded=rated)
    rates = subset_rates(design.query(round_number=0, public_seed=bytes(16), epsilon=parse_epsilon("1")))

    def spread(people: int) -> float:
        named = coins.binomial(people, rates.others + rates.contrast * share, 4000)
        return float((named / people - rates.others).std() / rates.contrast / share)

    assert spread(row["people"]) == pytest.approx(ENOUGH, rel=4.9 / np.sqrt(8000))
    assert spread(row["people"] // 2) != pytest.approx(ENOUGH, rel=4.9 / np.sqrt(8000))


def test_more_privacy_takes_more_people_and_keeps_less(table: RatingTable) -> None:
    rows = needs(table, like_from=4.0)
    assert [row["epsilon"] for row in rows] == list(EPSILONS)
    for name, sign in (("people", -1), ("people_for_pairs", -1), ("kept", 1)):
        told = [sign * row[name] for row in rows]
        assert told == sorted(told), name
    assert all(row["people_low"] < row["people"] < row["people_high"] for row in rows)


def test_pairs_begin_where_their_signal_is_the_edge_of_noise(tmp_path: Path) -> None:
    """Two tastes have a signal; the same likes dealt to people at random have next to none."""
    lines = [f"{user},{item},{5 if user % 2 == item % 2 else 2}" for user in range(200) for item in range(20)]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["userId,movieId,rating", *lines]) + "\n")
    table = read_ratings(path)
    likes, design = judge_likes(table, 4.0), LikedPairs(items=20, rated=20, pair_likes=10)
    (signal, share), (dealt, _) = (
        pair_signal(table, one, design) for one in (likes, np.random.default_rng(0).permutation(likes))
    )
    assert signal == pytest.approx(4.5 + 18 / 19 / 4)  # nine like items at 1/2 - alpha/4, ten others at -alpha/4
    assert share == pytest.approx(9 / 38)
    assert dealt < 0.3
    begin = pairs_begin((signal, share), design, parse_epsilon("2"))
    assert pairs_begin((2 * signal, share), design, parse_epsilon("2")) == pytest.approx(begin / 4)
    assert pairs_begin((0.0, share), design, parse_epsilon("2")) == np.inf


def test_what_to_use_follows() -> None:
    assert [used(0.2, False), used(0.7, False), used(0.7, True)] == ["volunteers or curator", "set", "pairs"]  # noqa: FBT003


def test_a_file_in_which_nothing_is_liked_has_no_recipe(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text("userId,movieId,rating\n1,1,2\n1,2,1\n2,1,2\n")
    assert needs(read_ratings(path), like_from=4.0) == []
    show_needs(Console(file=StringIO()), [])


def test_the_table_has_every_number_at_eighty_columns(table: RatingTable) -> None:
    rows, shown = needs(table, like_from=4.0), StringIO()
    show_needs(Console(file=shown, width=80), rows)
    for row in rows:
        for name in ("people", "people_for_pairs"):
            assert f" {row[name]:,} " in shown.getvalue()
