"""What rows say together: people who reach plain popularity, how sure that number is, and the points of the figure."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import binomial_bounds, size
from matplotlib.figure import Figure
from matplotlib.markers import CARETDOWNBASE, CARETUPBASE
from runs import Command, planted_ratings, write_movielens

from coordinator.protocol.arrays import Floats
from coordinator.protocol.trust_models import PUBLIC_RATES
from scenarios.pages.page import best_of
from scenarios.pages.promises import promises_of
from scenarios.show.drawing import draw_picture
from scenarios.show.records import pictures_of
from scenarios.show.result_figures import BEATING, compared_points, ladder_points
from scenarios.studies.compare.comparison_settings import TRUST_MODELS, Comparison
from scenarios.studies.compare.rungs import is_of_rung
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores
from scenarios.studies.compare.summary import RESAMPLED_NOTE, _cell, _liar, needed, summarize
from scenarios.studies.compare.worlds import table_of
from scenarios.studies.crossing import BRACKET, FLANK, bracket, people_for, refined

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(autouse=True)
def _unfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scenarios.show.drawing._fold", lambda *_: None)  # headings, which no test looks at here


SEEDS = (0, 1, 2)


def unit(ndcg: float, *samples: float) -> CompareMeasurement:
    same: tuple[float, ...] = (ndcg,) * 3
    names = ("hit_rate", "ndcg", "recall")
    resampled: dict[str, tuple[float, ...]] = dict.fromkeys(names, samples or same)
    means: dict[str, Any] = dict.fromkeys(names, ndcg)
    one = ListScores(features=False, **means, coverage=0.5, people=50, resampled=resampled)
    return CompareMeasurement(scores=(one,), simulated=None, seconds=1.0)


@pytest.fixture
def result(tmp_path: Path) -> dict[str, Any]:
    path = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=50, items=30, each=16))
    units = {CompareKey("none", "popularity", "", 50, "", seed): unit(0.4) for seed in SEEDS}
    worth = {("set", "1"): (0.1, 0.2, 0.4), ("sign", "1"): (0.2, 0.1, 0.3), ("set", "inf"): (0.39, 0.4, 0.4)}
    for (mechanism, epsilon), heights in worth.items():
        for users, ndcg in zip((50, 500, 5000), heights, strict=True):
            units |= {CompareKey("local", mechanism, epsilon, users, "", seed): unit(ndcg) for seed in SEEDS}
        units |= {CompareKey("public-rates", "directions", epsilon, 500, "", seed): unit(0.9) for seed in SEEDS}
    units |= {CompareKey("curator", "pairs with EASE", "1", 5_000_000, "", seed): unit(0.35) for seed in SEEDS}
    units |= {CompareKey("two-tier", "EASE", "", 50, "0.2", seed): unit(0.3) for seed in SEEDS}
    models = (*TRUST_MODELS, PUBLIC_RATES)
    scales = (1.0, 10.0, 100.0, 1e5)
    wanted = Comparison(
        ratings=path, trust_models=models, mechanisms=("all",), worth=0.95, of="popularity", scale=scales
    )
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
    assert "Best with an epsilon: local, set at epsilon" in best_of(result["rows"])


def test_every_row_is_about_the_same_neighbours_and_has_the_delta_of_its_people(result: dict[str, Any]) -> None:
    told = {(row["trust_model"], row["mechanism"], row["epsilon"]): row for row in result["rows"]}
    assert {row["neighbours"] for row in result["rows"] if row["epsilon"] not in (None, "inf")} == {"replace"}
    assert {row["neighbours"] for row in result["rows"] if row["epsilon"] in (None, "inf")} == {None}
    assert (told["curator", "pairs with EASE", 1.0]["delta"], told["local", "set", 1.0]["delta"]) == (2e-8, None)
    assert result["warnings"] == [RESAMPLED_NOTE]
    assert {row["guaranteed"] for row in result["rows"] if row["epsilon"] in (None, "inf")} == {False}


def test_people_needed_have_the_delta_of_so_many_and_where_none_are_enough_of_the_most(tmp_path: Path) -> None:
    """A tenth of one over the people: 40 million, between 5 and 50 million; 50 million where the curve ends below."""
    path = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=50, items=30, each=16))
    units = {CompareKey("none", "popularity", "", 50, "", seed): unit(0.4) for seed in SEEDS}
    for epsilon, heights in (("1", (0.2, 0.4)), ("2", (0.2, 0.3))):
        for users, ndcg in zip((5_000_000, 50_000_000), heights, strict=True):
            key = CompareKey("curator", "pairs with EASE", epsilon, users, "", 0)
            units |= {key._replace(seed=seed): unit(ndcg) for seed in SEEDS}
    wanted = Comparison(ratings=path, worth=0.95, of="popularity", scale=(1e5, 1e6))
    reached, short = summarize(wanted, units, table_of(wanted))["people"]
    assert reached["users"] == pytest.approx(5e6 * 10**0.9, rel=0.02)  # .38 is nine tenths of the way up
    assert reached["delta"] * reached["users"] == pytest.approx(0.1)
    assert (short["users"], short["delta"]) == (None, pytest.approx(0.1 / 50_000_000))


def broken(result: dict[str, Any]) -> dict[str, Any]:
    """The same with a cell whose delta exceeds 1 / people, and is worth more than all others."""
    cells = [row for row in result["rows"] if row["trust_model"] == "curator"]
    return {**result, "rows": [*result["rows"], {**cells[0], "delta": 1e-6, "users": 6_000_000, "ndcg": 0.85}]}


def test_a_cell_without_a_guarantee_is_not_drawn_and_no_best(result: dict[str, Any]) -> None:
    points = compared_points(broken(result))
    assert points.loc[points["label"] == "curator", "x"].tolist() == [5_000_000]
    assert "6,000,000" not in best_of(broken(result)["rows"])


def test_warnings_name_the_cells_that_they_hold_for(result: dict[str, Any]) -> None:
    (none,) = [one.about for one in promises_of("compare", broken(result)) if one.kind == "none"]
    assert none.split(", ") == [
        "none: popularity",
        *(f"{name} without noise (epsilon inf)" for name in ("local: set", "public-rates: directions")),
        "curator: pairs with EASE where delta exceeds 1 / people",
    ]
    assert None not in Comparison(ratings=Path("none.csv")).epsilon


def test_a_curve_ends_where_the_guarantee_of_its_leader_does(result: dict[str, Any]) -> None:
    """What is left there is worse because of delta; a row that leads by worth alone ends no curve."""
    common = {**next(row for row in result["rows"] if row["trust_model"] == "curator"), "trust_model": "two-servers"}
    cells = {("Gaussian", 1e-6): {50: 0.2, 500: 0.3}, ("Laplace", None): {50: 0.1, 500: 0.1, 5000: 0.15}}
    rows = [
        {**common, "mechanism": mechanism, "delta": delta, "users": users, "ndcg": ndcg}
        for (mechanism, delta), worths in cells.items()
        for users, ndcg in worths.items()
    ]

    def curve(rows: list[dict[str, Any]]) -> list[tuple[int, float]]:
        points = compared_points({**result, "rows": rows})
        return list(zip(points["x"], points["y"], strict=True))

    assert curve(rows) == [(50, 0.2), (500, 0.3)]
    assert curve([{**row, "delta": None} for row in rows]) == [(50, 0.2), (500, 0.3), (5000, 0.15)]


def test_bounds_are_arrows_on_the_ladder(result: dict[str, Any]) -> None:
    """Below what was measured, and above; rows with public features are curves of their own."""
    common = {**next(row for row in result["people"] if row["epsilon"] == 1.0), "least": 50, "most": 5000}
    reached = {"users": 700, "users_low": None, "users_high": 950, "at_most": False}
    below, above = (
        {"users": users, "users_low": None, "users_high": users, "at_most": bool(users)} for users in (50, None)
    )
    people = [
        {**common, "trust_model": model, "epsilon": epsilon, "features": features, **ends}
        for model, epsilon, features, ends in (
            *(("curator", 1.0, False, below), ("curator", 2.0, False, below), ("shuffled", 1.0, False, reached)),
            *(("local", 1.0, False, above), ("local", 2.0, False, reached), ("local", 1.0, True, reached)),
        )
    ]
    points = ladder_points({**result, "people": people})
    told = [tuple(row) for row in points[["label", "x", "y", "bound"]].to_numpy().tolist()]
    assert told == [
        *(("curator", 1.0, 50.0, "<"), ("curator", 2.0, 50.0, "<"), ("shuffled", 1.0, 700.0, "")),
        *(("local", 1.0, 5000.0, ">"), ("local", 2.0, 700.0, ""), ("local + features", 1.0, 700.0, "")),
    ]
    figure, pictures = Figure(), pictures_of("compare", {**result, "people": people})
    draw_picture(next(one for one in pictures if one.name == "ladder"), figure)
    carets = [line for line in figure.axes[0].lines if line.get_marker() in (CARETDOWNBASE, CARETUPBASE)]
    assert {line.get_marker(): np.asarray(line.get_xdata()).tolist() for line in carets} == {
        CARETDOWNBASE: [1.0, 2.0],
        CARETUPBASE: [1.0],
    }
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["people in the file", "curator", "shuffled", "local", "local + features"]


def test_what_exceeds_popularity_is_told_seed_by_seed(result: dict[str, Any]) -> None:
    told = {(row["trust_model"], row["mechanism"], row["epsilon"], row["users"]): row for row in result["rows"]}
    row = told["local", "set", 1.0, 50]
    assert (row["over_popularity"], row["over_popularity_low"]) == (pytest.approx(-0.3), pytest.approx(-0.3))
    assert (row["ndcg_low"], row["ndcg_high"], row["seeds"]) == (pytest.approx(0.1), pytest.approx(0.1), 3)


def test_the_figure_has_the_best_row_of_each_trust_model(result: dict[str, Any]) -> None:
    points = compared_points(result)
    mine = points[(points["label"] == "local") & (points["epsilon"] == "1.0")]
    curve = list(zip(mine["x"], mine["y"].round(9), mine["mechanism"], strict=True))
    assert curve == [(50, 0.2, "sign"), (500, 0.2, "set"), (5000, 0.4, "set")]
    assert points.loc[points["label"] == "two-tier", "x"].tolist() == [10]  # who is public
    figure = Figure()
    draw_picture(pictures_of("compare", result)[0], figure)
    assert [axes.get_title() for axes in figure.axes] == ["epsilon 1 nats", "epsilon inf"]
    assert [text.get_text() for text in figure.axes[-1].texts] == ["no privacy: popularity"]


def test_the_figure_has_stars_where_a_row_beats_popularity(result: dict[str, Any]) -> None:
    def stars(least: float) -> tuple[list[int], list[str]]:
        ours = [{**row, "to_popularity_low": least if row["users"] == 5000 else None} for row in result["rows"]]
        figure = Figure()
        draw_picture(pictures_of("compare", {**result, "rows": ours})[0], figure)
        lines = [line for line in figure.axes[0].lines if line.get_marker() == "*"]
        words = [text.get_text() for text in figure.legends[0].get_texts()]
        return [int(x) for line in lines for x in np.asarray(line.get_xdata())], words

    at, words = stars(0.01)
    assert at == [5000]
    assert BEATING in words
    at, words = stars(0.0)
    assert at == []
    assert BEATING not in words


# Where a curve of worth crosses a height

PEOPLE, TRUTH, HEIGHT = 610, 47_000.0, 0.95


def worth(users: Any, truth: float = TRUTH) -> Any:
    """A curve as MovieLens has it, steep first and flat at the top; it is worth `HEIGHT` with so many people."""
    return 1 / (1 + (math.sqrt(0.05 / 0.95) * truth / users) ** 2) if np.all(users) else 0.0


def measured(grid: list[int], truth: float = TRUTH) -> list[int]:
    """All numbers of people that are measured for a grid's."""
    done: dict[int, float | None] = {users: worth(users, truth) for users in grid}
    while True:
        more = refined(grid, done, worth(truth, truth), PEOPLE)
        if all(users in done for users in more):
            return sorted([*grid, *more])
        done |= {users: worth(users, truth) for users in more}


@pytest.mark.parametrize("scales", [(1, 10, 100, 1000), (1, 100, 166), (1, 10_000), (100, 1000), (1, 2)])
def test_the_place_is_bracketed_within_a_factor_of_two(scales: tuple[int, ...]) -> None:
    grid = [PEOPLE * scale for scale in scales]
    every = measured(grid)
    few, many = bracket({users: worth(users) for users in every}, worth(TRUTH))
    if max(grid) < TRUTH:
        assert (every, many) == (grid, None)
        return
    assert few is not None
    assert many is not None
    assert few < TRUTH <= many <= BRACKET * few + 1
    assert len(every) - len(grid) <= 9
    place = every.index(few)
    for near, far in ((every[place - 1], few), (many, [*every, 0][place + 2])):
        assert far <= FLANK * near + 1
    assert not [users for users in every if users not in grid and users % PEOPLE == 0]  # else a grid's own row


def test_what_was_measured_for_another_grid_changes_nothing() -> None:
    grid = [PEOPLE, 1000 * PEOPLE]
    done: dict[int, float | None] = {users: worth(users) for users in (*measured(grid), 40_001, 50_001)}
    assert sorted([*grid, *refined(grid, done, worth(TRUTH), PEOPLE)]) == measured(grid)


def heights(coins: np.random.Generator, users: list[int], spread: float) -> tuple[dict[int, Floats], Floats]:
    """Curves of three splits and 100 samples each, whose own numbers of people scatter around the true one."""
    people, splits = coins.normal(0, spread, (1, 101)), coins.normal(0, spread, (3, 1))
    people[:, 0] = 0
    shift = coins.normal(0, spread) + splits + people
    return {one: worth(one / np.exp(shift)) for one in users}, np.ones((3, 101))


@pytest.mark.statistical
def test_intervals_hold_the_number_of_people() -> None:
    """Intervals of 95 %; fewer hold the truth with probability 1e-6. Half as wide they do not."""
    every = size(400, 150)
    coins, users = np.random.default_rng(2), [round(PEOPLE * 2**k) for k in range(16)]
    held = narrow = 0
    for _ in range(every):
        told = people_for(*heights(coins, users, 0.15), HEIGHT, 0.0)
        low, high = told["users_low"] or users[0], told["users_high"] or users[-1]
        held += low <= TRUTH <= high
        narrow += math.sqrt(low * told["users"]) <= TRUTH <= math.sqrt(high * told["users"])
    least, _ = binomial_bounds(every, 0.95)
    assert held >= least
    assert narrow < least


def test_cells_show_half_of_an_interval_and_liars_in_percent() -> None:
    assert _cell({"ndcg": 0.41, "ndcg_low": 0.38, "ndcg_high": 0.44}) == ".410±.03"
    assert _cell({"ndcg": 0.41, "ndcg_low": 0.408, "ndcg_high": 0.412}) == ".410±.002"
    assert _liar({"liar_likes": 195.2, "liar_share": 0.0012}) == "195 (0.12 %)"


def test_ends_beyond_what_was_measured_are_open_and_digits_are_those_that_are_known() -> None:
    coins, users = np.random.default_rng(2), [20_000, 40_000, 80_000]
    curves = {one: np.full((3, 101), worth(one)) for one in users}
    wide = people_for(curves, np.ones((3, 101)), HEIGHT, 1.0)
    assert (wide["users_low"], wide["users_high"]) == (None, None)
    assert needed(wide) == "50k [< 20k, > 80k]"
    sure = people_for(*heights(coins, [round(1000 * 1.2**k) for k in range(40)], 0.01), HEIGHT, 0.02)
    assert 45_000 <= sure["users"] <= 49_000
    assert sure["users"] % 1000 == 0
    assert sure["users_low"] < sure["users"] < sure["users_high"]


def test_an_interval_of_people_is_students_on_their_natural_logarithm() -> None:
    shifts = np.array([[-0.1], [0.0], [0.1]]) * np.ones((3, 101))  # of three splits; samples of people say the same
    curves = {users: (np.log(users) - shifts) / 20 for users in [1000 * 2**k for k in range(12)]}
    result = people_for(curves, np.ones((3, 101)), math.log(40_000) / 20, 0.0)
    reach = 4.3027 * 0.1 / math.sqrt(3)  # Student's factor of 95 % for three
    ends = [float(f"{40_000 * math.exp(sign * reach):.2g}") for sign in (-1, 1)]
    assert [result["users"], result["users_low"], result["users_high"]] == [40_000, *ends]


def test_a_coarse_grid_tells_what_a_fine_one_does(blindrec: Command, tmp_path: Path) -> None:
    """The command draws what it needs beyond the grid; its rows stay those of the grid."""
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=60, each=24))
    rows = ("--mechanisms", "popularity,subset", "--trust-models", "none,local", "--likes", 12, "--devices", 0)
    told = ("compare", ratings, "--backend", "inprocess", "--like-from", 4, *rows, "--epsilon", 2, "--json", "-")
    coarse, fine = (blindrec(*told, "--scale", scale).result for scale in ("1,10000", "1,3,10,30,100,300,1000,10000"))
    (one,), (other,) = coarse["people"], fine["people"]
    assert {row["users"] for row in coarse["rows"] if row["trust_model"] == "local"} == {60, 600_000}
    assert one["many"] <= BRACKET * one["few"] + 1
    assert (one["least"], one["most"]) == (60, 600_000)
    low, high = other["users_low"] or 60, other["users_high"] or 600_000
    assert low <= one["users"] <= high
    assert one["users_low"] is None or one["users_low"] < one["users"]


def test_volunteers_are_rows_in_which_the_others_send_nothing() -> None:
    settings = Comparison(ratings=Path("none.csv"), public=(0.01, 0.2))
    names = ("EASE", "trace norm", "PMC", "PMD", "lifts with set")
    epsilons = {name: "1" if name == "lifts with set" else "" for name in names}
    kept = {name for name in names if is_of_rung(settings, ("two-tier", name, epsilons[name], "0.01", False))}
    assert kept == {"EASE", "trace norm"}
    assert not is_of_rung(settings, ("two-tier", "EASE", "", "0.2", False))
