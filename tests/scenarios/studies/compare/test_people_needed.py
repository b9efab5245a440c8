"""The recipe: how many people like a file's private advice takes, held against people that are counted and drawn."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from runs import Command, planted_ratings, present, printed, refused, write_movielens

from coordinator.protocol.arrays import Floats2
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedSet
from scenarios.show.tables import short
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.people_needed import BEATS, NOISE, Forecast, by_formula, needs, show_needs
from scenarios.studies.compare.row import RowRequest
from scenarios.studies.compare.rows.local import SET, LocalRow
from scenarios.studies.compare.rows.trusted import popularity
from scenarios.studies.compare.scoring import score
from scenarios.studies.compare.sum_laws import mean_of_likers
from scenarios.studies.compare.summary import mechanism_of
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
        for user in range(240)
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
    low, high = Forecast(wanted).here(SET, ONE, 20_000, features=False)[1:]

    def answered(users: int) -> float:
        shares = []
        for split in Forecast(wanted).splits:
            request = RowRequest(settings=wanted, epsilon=ONE, users=users, seed=split.seed)
            both = SET.advise(split.world, request), popularity(split.world)
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
    people = present(Known(wanted).people(SET, ONE, features=False, share=0.5, guess=guess))
    assert people[0] == pytest.approx(1e4, rel=0.05)
    world = Known(wanted).splits[0].world
    tenth = np.sort(world.popularity)[-10] / world.people
    least = np.exp(2 * NORMAL * np.sqrt((1 - tenth) / tenth / world.people))  # whose file it is
    assert people[1] < people[0] / least < people[0] * least < people[2]
    assert Known(wanted).people(SET, ONE, features=False, share=2, guess=guess) is None


def test_what_to_use_is_what_is_worth_most_with_the_people_here(wanted: Comparison) -> None:
    few, many = (needs(wanted, epsilons=(parse_epsilon("4"),), users=users) for users in (20, 10**7))
    assert {row["use"] for row in few} == {"volunteers or curator"}
    best = max(many, key=lambda row: float(row["here"]))
    assert {row["use"] for row in many} == {mechanism_of(best)}
    assert best["features"]
    assert best["people_to_beat"] < 10**7
    assert best["here"] > BEATS
    assert [(row["mechanism"], row["features"]) for row in many] == [*product(("set", "pairs"), (False, True))]


def test_more_privacy_takes_more_people_and_less_worth_fewer(wanted: Comparison) -> None:
    plain = wanted.model_copy(update={"features": None})
    rows = [row for row in needs(plain) if row["mechanism"] == "set"]
    people = [row["people"] for row in rows]
    assert people == sorted(people, reverse=True)
    assert all(row["people_low"] < row["people"] < row["people_high"] for row in rows)
    half = next(row for row in needs(plain, worth=0.7) if row["mechanism"] == "set")
    assert half["people"] < rows[0]["people"]


def test_the_table_has_every_number_at_eighty_columns(wanted: Comparison) -> None:
    rows = needs(wanted, epsilons=(ONE,))
    shown = printed(lambda console: show_needs(console, rows, None))
    for row in rows:
        assert ("never" if row["people"] is None else short(row["people"])) in shown
        assert f"{100 * row['here']:.0f} %" in shown


@pytest.mark.usefixtures("no_pairs")
def test_what_cannot_be_told_is_said(tmp_path: Path, blindrec: Command) -> None:
    few = write_movielens(tmp_path / "few.csv", planted_ratings(users=50, items=12, each=8))
    shown = blindrec("data", few)
    assert "nothing can be said; the file has 12 items" in shown.words
    assert blindrec("data", few, "--json", "-").result["worth"] == []
    assert "worth is 0; it must be above 0" in refused(blindrec, "plan", "--ratings", few, "--worth", 0)
    assert "worth is 0.9, which is about ratings files" in refused(blindrec, "plan", "--worth", 0.9)
    assert "features file" in refused(blindrec, "data", few, "--features", tmp_path / "none.csv")
