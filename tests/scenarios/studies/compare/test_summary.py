"""What rows say together: how many people reach plain popularity, and the points of the figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from runs import planted_ratings, write_movielens

from scenarios.pages.page import section_of_comparison
from scenarios.pages.schema import SCHEMAS, Subject
from scenarios.show.drawing import draw_picture
from scenarios.show.figures import pictures_of
from scenarios.show.result_figures import compared_points
from scenarios.studies.compare.comparison_settings import PUBLIC_RATES, TRUST_MODELS, Comparison
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores
from scenarios.studies.compare.summary import summarize
from scenarios.studies.compare.worlds import table_of

Units = dict[CompareKey, CompareMeasurement]


SEEDS = (0, 1, 2)


def unit(ndcg: float, *samples: float) -> CompareMeasurement:
    same: tuple[float, ...] = (ndcg,) * 3
    resampled = dict.fromkeys(("hit_rate", "ndcg", "recall"), samples or same)
    one = ListScores(
        features=False, hit_rate=ndcg, ndcg=ndcg, recall=ndcg, coverage=0.5, people=50, resampled=resampled
    )
    return CompareMeasurement(scores=(one,), simulated=None, seconds=1.0)


@pytest.fixture
def result(tmp_path: Path) -> dict[str, Any]:
    path = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=50, items=30, each=16))
    units: Units = {CompareKey("none", "popularity", "", 50, "", seed): unit(0.4) for seed in SEEDS}
    worth = {("set", "1"): (0.1, 0.2, 0.4), ("sign", "1"): (0.2, 0.1, 0.3), ("set", "inf"): (0.39, 0.4, 0.4)}
    for (mechanism, epsilon), heights in worth.items():
        for users, ndcg in zip((50, 500, 5000), heights, strict=True):
            units |= {CompareKey("local", mechanism, epsilon, users, "", seed): unit(ndcg) for seed in SEEDS}
        units |= {CompareKey("public-rates", "directions", epsilon, 500, "", seed): unit(0.9) for seed in SEEDS}
    units |= {CompareKey("curator", "pairs with EASE", "1", 5_000_000, "", seed): unit(0.35) for seed in SEEDS}
    units |= {CompareKey("two-tier", "EASE", "", 50, "0.2", seed): unit(0.3) for seed in SEEDS}
    wanted = Comparison(ratings=path, trust_models=(*TRUST_MODELS, PUBLIC_RATES))
    return summarize(wanted, units, table_of(wanted))


def test_people_are_interpolated_on_a_logarithm_and_rounded_to_what_is_known(result: dict[str, Any]) -> None:
    needed = {(row["mechanism"], row["epsilon"]): (row["users"], row["at_most"]) for row in result["people"]}
    assert needed["set", 1.0] == (round(500 * 10 ** ((0.38 - 0.2) / 0.2), -3), False)  # 3,972 of 50 people of a file
    assert needed["sign", 1.0] == (None, False)
    assert needed["set", "inf"] == (50, True)


def test_who_knows_public_totals_is_no_part_of_a_best_of_or_of_people_needed(result: dict[str, Any]) -> None:
    """Its rows are there, and worth more than all others; nothing is made of them."""
    assert max(result["rows"], key=lambda row: float(row["ndcg"]))["trust_model"] == "public-rates"
    assert "public-rates" not in {row["trust_model"] for row in result["people"]}
    points = compared_points(result)
    assert "directions" not in {*points["mechanism"]}
    assert points["y"].max() < 0.9
    documents = {"result": result}
    told = section_of_comparison(Subject(number=1, path=Path("one"), schema=SCHEMAS["compare"], documents=documents))
    assert "directions" not in str(told.result)
    assert 'mechanism">set<' in str(told.result)


def test_every_row_is_about_the_same_neighbours_and_a_large_delta_is_told(result: dict[str, Any]) -> None:
    told = {(row["trust_model"], row["mechanism"], row["epsilon"]): row for row in result["rows"]}
    assert {row["neighbours"] for row in result["rows"] if row["epsilon"] not in (None, "inf")} == {"replace"}
    assert {row["neighbours"] for row in result["rows"] if row["epsilon"] in (None, "inf")} == {None}
    assert (told["curator", "pairs with EASE", 1.0]["delta"], told["local", "set", 1.0]["delta"]) == (1e-6, None)
    (warning,) = [line for line in result["remarks"] if "delta" in line]
    assert warning.startswith("curator: pairs with EASE: from 5,000,000 people on its delta, 1e-06, exceeds 1 / n")


def test_what_exceeds_popularity_is_told_seed_by_seed(result: dict[str, Any]) -> None:
    told = {(row["trust_model"], row["mechanism"], row["epsilon"], row["users"]): row for row in result["rows"]}
    row = told["local", "set", 1.0, 50]
    assert (row["over_popularity"], row["over_popularity_low"]) == (pytest.approx(-0.3), pytest.approx(-0.3))
    assert (row["ndcg_low"], row["ndcg_high"], row["seeds"]) == (pytest.approx(0.1), pytest.approx(0.1), 3)


def test_the_figure_has_the_best_row_of_each_trust_model(result: dict[str, Any]) -> None:
    points = compared_points(result)
    mine = points[(points["label"] == "local") & (points["epsilon"] == "1.0")]
    assert list(zip(mine["x"], mine["y"].round(9), mine["mechanism"], strict=True)) == [
        (50, 0.2, "sign"),
        (500, 0.2, "set"),
        (5000, 0.4, "set"),
    ]
    assert points.loc[points["label"] == "two-tier", "x"].tolist() == [10]  # who is public
    figure = Figure()
    draw_picture(pictures_of("compare", result)[0], figure)
    assert [axes.get_title() for axes in figure.axes] == ["epsilon 1 nats", "epsilon inf"]
    assert [text.get_text() for text in figure.axes[-1].texts] == ["no privacy: popularity"]
