"""The forecast: how many people like a file's private advice takes, held against people that are counted and drawn."""

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import Command, planted_ratings, present, printed, refused, write_movielens

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedSet
from scenarios.show.tables import short
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.people_needed import (
    BEATS,
    FEWEST,
    NOISE,
    ROWS,
    RULE,
    USABLE,
    Forecast,
    ForecastRow,
    advise,
    by_formula,
    forecast_of,
    percent,
    show_forecast,
)
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows import local
from scenarios.studies.compare.rows.local import LocalRow
from scenarios.studies.compare.rows.trusted import popularity
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.sum_laws import mean_of_likers
from scenarios.studies.compare.worlds import world_of
from scenarios.studies.crossing import NORMAL

ONE = parse_epsilon("1")


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A file of two tastes: half of the people like one half of the items; the first items are rated most."""
    folder, coins = tmp_path_factory.mktemp("needs"), np.random.default_rng(1)
    often = 1 / np.arange(1, 31)

    def rating(liked: bool) -> float:
        return float(coins.choice([4, 5] if liked or coins.random() < 0.3 else [1, 2]))

    rows = [
        (user, int(item) + 30 * half, rating(half == user % 2))
        for user in range(FEWEST)
        for half in (0, 1)
        for item in coins.choice(30, size=8, replace=False, p=often / often.sum())
    ]
    kinds = folder / "kinds.csv"
    kinds.write_text("\n".join(["movieId,kind", *(f"{item + 1},{'ab'[item // 30]}" for item in range(60))]) + "\n")
    return Comparison(ratings=write_movielens(folder / "ratings.csv", rows), like_from=4.0, features=kinds, seeds=3)


@pytest.mark.statistical
def test_the_formula_leaves_a_tenth_of_the_share_as_noise(wanted: Comparison) -> None:
    """The spread of 4,000 estimates at the formula's number of people, false alarm 1e-6; half as many people fail."""
    fold = world_of(wanted, 0).fold
    people, items = round(by_formula(fold, wanted, ONE)), fold.liked.count
    share = np.sort(mean_of_likers(fold, np.ones(fold.liked.users)))[-10]  # nobody has more likes than a set
    design, coins = LikedSet(items=items, rated=50, padded=50), np.random.default_rng(3)
    rates = subset_rates(design.query(round_number=0, public_seed=bytes(16), epsilon=ONE))

    def spread(people: int) -> float:
        named = coins.binomial(people, rates.others + rates.contrast * share, 4000)
        return float((named / people - rates.others).std() / rates.contrast / share)

    assert spread(people) == pytest.approx(NOISE, rel=4.9 / np.sqrt(8000))
    assert spread(people // 2) != pytest.approx(NOISE, rel=4.9 / np.sqrt(8000))


def test_a_forecast_is_what_devices_reach(wanted: Comparison) -> None:
    """NDCG of 20,000 devices that answer, three splits, lies in the interval of the forecast; that of 500 does not."""
    low, high = Forecast(wanted).here(local.SET, ONE, 20_000, features=False)[1:]

    def answered(users: int) -> float:
        shares = []
        for split in Forecast(wanted).splits:
            request = RowRequest(settings=wanted, epsilon=ONE, users=users, seed=split.seed)
            both = local.SET.advise(split.world, request), popularity(split.world)
            private, plain = (score(split.world, advice, request, features=False).ndcg for advice in both)
            shares.append(private / plain)
        return float(np.mean(shares))

    assert low < answered(20_000) < high
    assert answered(500) < low


class Known(Forecast):
    """A forecast whose advice is worth ``log10(people) / 8`` in two splits, more or less."""

    def worth(self, row: LocalRow, epsilon: Epsilon, users: int) -> dict[bool, Floats2]:  # noqa: ARG002 (as its parent)
        middle = np.log10(users) / 8
        return {False: np.array([[middle * (1 + sign / 50)] * 4 for sign in (-1, 1)])}


@pytest.mark.parametrize("guess", [1.0, 3e4, 1e12])
def test_people_are_found_wherever_they_are_sought_first(wanted: Comparison, guess: float) -> None:
    people = present(Known(wanted).people(local.SET, ONE, features=False, share=0.5, guess=guess))
    assert people[0] == pytest.approx(1e4, rel=0.05)
    world = Known(wanted).splits[0].world
    tenth = np.sort(world.popularity)[-10] / world.people
    least = np.exp(2 * NORMAL * np.sqrt((1 - tenth) / tenth / world.people))  # whose file it is
    assert people[1] < people[0] / least < people[0] * least < people[2]
    assert Known(wanted).people(local.SET, ONE, features=False, share=2, guess=guess) is None


def forecast_row(mechanism: str, worth: tuple[float, float, float], **more: Any) -> ForecastRow:
    """A row of epsilon 1 with 610 people."""
    fixed: dict[str, Any] = {"rung": "local", "features": False, "epsilon": ONE, "people": 610, "share": 0.95}
    fixed |= {"needed": None, "to_beat": None, "by_formula": 1e4}
    return ForecastRow(mechanism=mechanism, worth=worth, **{**fixed, **more})


SET, PAIRS = forecast_row("set", (0.9, 0.85, 0.95)), forecast_row("pairs", (0.95, 0.7, 1.2))
BEST = "nothing is usable: set, the best,"
FAR = forecast_row("set", (0.514, -0.01, 0.7999), needed=(3.3e5, 2.1e5, 5.3e5))


@pytest.mark.parametrize(
    ("rows", "case", "use", "words"),
    [
        ([SET, PAIRS], "enough", "set", "use set: 90 % [85, 95] {}"),
        ([PAIRS], "undecided", None, "undecided: pairs (95 % [70, 120]) may reach 80 % {}"),
        (
            [FAR, forecast_row("pairs", (0.35, 0.08, 0.62))],
            "too few people",
            None,
            f"{BEST} is worth 51 % [0, 80.0] {{}}; 95 % take 330k [210k, 530k] people (set)",
        ),
        (
            [forecast_row("set", (0.1, 0.0, 0.2))],
            "out of reach",
            None,
            f"{BEST} is worth 10 % [0, 20] {{}}, and no number of people makes it 95 %",
        ),
    ],
)
def test_what_is_advised_reaches_the_rule_with_its_whole_interval(
    rows: list[ForecastRow], case: str, use: str | None, words: str
) -> None:
    advice = advise(rows)
    told = f"epsilon 1: {words.format('of popularity with 610 people')}"
    assert (advice.case, advice.use, advice.words) == (case, use, told)
    assert "at least 80 % of plain popularity with its whole interval" in RULE


def test_best_is_named_first_and_a_number_is_not_rounded_over_the_rule() -> None:
    better = forecast_row("MaxSense", (0.97, 0.81, 1.0))
    assert advise([SET, better]).use == "MaxSense"
    assert percent((0.8, USABLE - 0.001, USABLE + 0.001)) == "80 % [79.9, 80]"


def test_with_more_people_advice_becomes_usable(wanted: Comparison) -> None:
    few, many = (forecast_of(wanted, epsilons=(parse_epsilon("4"),), users=users) for users in (20, 10**7))
    assert [one.use for one in few.advice] == [None]
    best = max(many.rows, key=lambda row: row.worth[0])
    assert [one.use for one in many.advice] == [best.name]
    assert best.features
    assert present(best.to_beat)[0] < 10**7
    assert best.worth[0] > BEATS
    mechanisms = [row.mechanism for row in ROWS]
    assert {"set", "pairs", "MaxSense"} < {*mechanisms}
    assert [(row.mechanism, row.features) for row in many.rows] == [*product(mechanisms, (False, True))]


def test_more_privacy_takes_more_people_and_less_worth_fewer(wanted: Comparison) -> None:
    plain = wanted.model_copy(update={"features": None})
    people = [present(row.needed) for row in forecast_of(plain).rows if row.mechanism == "set"]
    assert people == sorted(people, reverse=True)
    assert all(low < middle < high for middle, low, high in people)
    half = next(row for row in forecast_of(plain, share=0.7).rows if row.mechanism == "set")
    assert present(half.needed)[0] < people[0][0]


def test_the_table_has_every_number_at_eighty_columns(wanted: Comparison) -> None:
    forecast = forecast_of(wanted, epsilons=(ONE,))
    shown = printed(lambda console: show_forecast(console, forecast))
    for row in forecast.rows:
        assert ("never" if row.needed is None else short(row.needed[0])) in shown
        assert percent(row.worth) in shown
    for words in (*(one.words for one in forecast.advice), RULE):
        assert words in " ".join(shown.split())


def test_of_too_few_people_and_of_noise_nothing_is_forecast(tmp_path: Path, blindrec: Command) -> None:
    """Whatever they rated: a person, too few with likes to hold out, and many to whom all items are alike."""
    coins = np.random.default_rng(0)
    noise = [
        (user, int(item), float(coins.integers(1, 6))) for user in range(700) for item in coins.permutation(40)[:14]
    ]
    lonely = [*noise[: 14 * 90], *((user, 1, 5.0) for user in range(90, 700))]
    files: dict[str, tuple[list[tuple[int, int, float]], str]] = {
        "one": (
            [(0, item, float(item % 5 + 1)) for item in range(40)],
            "the file has 1 person, and fewer than 400 say little",
        ),
        "few": (noise[: 14 * (FEWEST - 1)], "the file has 399 people, and fewer than 400 say little"),
        "likes": (lonely, "people with likes to hold out, and fewer than 400 say little"),
        "noise": (noise, "is not surely better than random lists"),
    }
    for name, (rows, why) in files.items():
        file = write_movielens(tmp_path / f"{name}.csv", rows)
        shown = blindrec("data", file)
        assert "nothing can be said; " in shown.words, name
        assert why in shown.words, name
        assert " use " not in shown.words
        assert (result := blindrec("plan", "--ratings", file, "--json", "-").result)["worth"] == []
        assert result["advice"] == []
        assert why in result["worth_not"]


def test_what_cannot_be_told_is_said(tmp_path: Path, blindrec: Command) -> None:
    few = write_movielens(tmp_path / "few.csv", planted_ratings(users=50, items=12, each=8))
    shown = blindrec("data", few)
    assert "nothing can be said; the file has 12 items" in shown.words
    assert blindrec("data", few, "--json", "-").result["worth"] == []
    assert "worth is 0; it must be above 0" in refused(blindrec, "plan", "--ratings", few, "--worth", 0)
    assert "worth is 0.9, which is about ratings files" in refused(blindrec, "plan", "--worth", 0.9)
    assert "features file" in refused(blindrec, "data", few, "--features", tmp_path / "none.csv")
