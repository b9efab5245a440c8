"""Rows between a curator and nobody: noise of two servers, shuffled reports, dummies, and which rows are measured."""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import normal_radius, size, variance_fits
from runs import Command, likes, planted_ratings, present, refused, write_movielens
from worlds import in_world

from benchmarks.worth import FILES, LIED_TO, SHOWN_RUNGS
from coordinator.protocol import shared_vector
from coordinator.protocol.amplification import best_set, shuffled_delta
from coordinator.protocol.arrays import Floats
from coordinator.protocol.budget import DELTA
from coordinator.protocol.composition import ShuffledRounds, plan_delta
from coordinator.protocol.mechanisms import mechanism_of, subsets_of
from coordinator.protocol.mechanisms.oracles import SHARE
from coordinator.protocol.mechanisms.sets import Set
from coordinator.protocol.mechanisms.totals import PairTotals
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.count_moments import best_subset
from coordinator.protocol.noise import dummies_delta, least_dummies
from coordinator.protocol.shared_vector import CHANGES, noise_scale
from coordinator.protocol.trust_models import LADDER
from coordinator.protocol.value_channels import PADDED, subset_channel
from scenarios.data.people import FilePeople
from scenarios.show.records import pictures_of
from scenarios.studies.compare.advisors import pair_design
from scenarios.studies.compare.comparison import comparison
from scenarios.studies.compare.comparison_settings import EVERY_MODEL, Comparison
from scenarios.studies.compare.row import AGGREGATE, LearnedScores, RowRequest
from scenarios.studies.compare.rows import registered_rows, shuffled, trusted, two_servers
from scenarios.studies.compare.run_row import RunRow
from scenarios.studies.compare.scoring import rows_of
from scenarios.studies.compare.worlds import FileWorld, world_of
from scenarios.theory.liars import likes_of_liar, share_to_lift

pytestmark = pytest.mark.usefixtures("undrawn")

ITEMS, SEEDS, LIKES = 60, size(120, 60), 12
ONE, FOUR = Fraction(1), Fraction(4)
ROWS = registered_rows()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    """90 people who like at most 12 of 60 items, the first ones most."""
    coins, weight = np.random.default_rng(0), 1 / np.arange(2, ITEMS + 2)
    weight /= weight.sum()
    rows = likes(coins.choice(ITEMS, size=coins.integers(4, LIKES), replace=False, p=weight) for _ in range(90))
    path = write_movielens(tmp_path_factory.mktemp("ladder") / "ratings.csv", rows)
    return world_of(Comparison(ratings=path, like_from=4), 0)


def request(epsilon: Fraction | None, seed: int = 0, *, users: int = 9000, **more: Any) -> RowRequest:
    settings = Comparison(ratings=Path("none.csv"), **{"likes": LIKES, "curated": LIKES, "top": 20, **more})
    return RowRequest(settings=settings, epsilon=epsilon, users=users, seed=seed)


def learned(name: str, world: FileWorld, epsilon: Fraction, users: int) -> list[LearnedScores]:
    return [ROWS[name].advise(world, request(epsilon, seed, users=users)) for seed in range(SEEDS)]


# Two servers


@pytest.mark.statistical
def test_each_of_two_servers_adds_a_full_dose(world: FileWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody is counted once, so that all else is noise: false alarm 1e-6. The twin lacks one server's."""

    def noise() -> Floats:
        every = learned("two-servers: popularity", world, FOUR, world.people)
        assert {one.simulated for one in every} == {AGGREGATE}
        return np.array([one.popularity for one in every]) - world.popularity

    one = noise_scale(FOUR, DELTA, 2 * LIKES, devices=False)
    assert variance_fits(noise(), 2 * one**2)
    stated = ROWS["two-servers: popularity"].advise(world, request(FOUR, users=world.people)).noise
    assert stated == pytest.approx(math.sqrt(2) * one)
    monkeypatch.setattr(shared_vector, "SERVERS", 1)
    assert not variance_fits(noise(), 2 * one**2)


def test_totals_that_change_where_a_person_is_replaced_are_counted(tmp_path: Path) -> None:
    """All pairs of people with at most three of six items; the two releases of pairs spend epsilon together."""
    sets = [np.array(likes) for likes in product((0, 1), repeat=6) if sum(likes) <= 3]
    tables = [np.outer(likes, likes)[np.triu_indices(6)] for likes in sets]
    single, paired = (max(int(np.abs(one - other).sum()) for one in of for other in of) for of in (sets, tables))
    path = write_movielens(tmp_path / "six.csv", likes([range(1 + person % 5) for person in range(30)] + [range(6)]))
    six, asked = world_of(Comparison(ratings=path, like_from=4), 0), request(ONE, likes=3, curated=3, co_liked=3)
    queries = [ask.query for row in two_servers.ROWS for ask in row.sampled(six, asked).state.asked]
    totals, laplace, choice, rest = queries
    assert [query.parameters[CHANGES] for query in queries] == [single, single, single, paired]
    assert [query.parameters["delta"] for query in queries] == [asked.delta, 0, asked.delta / 2, asked.delta / 2]
    assert present(choice.epsilon) + present(rest.epsilon) == totals.epsilon == laplace.epsilon == ONE


# A shuffler


def expected(name: str, world: FileWorld, users: int, counted_on: int) -> tuple[Floats, Floats]:
    """Mean and deviation of estimates by 'set' or 'subset', for a local epsilon and k computed for another n."""
    set_size = LIKES if name == "set" else 1
    best = best_set(items=ITEMS, padded=set_size, epsilon=ONE, devices=counted_on, delta=DELTA, share=SHARE)
    channel = subset_channel(best.local_epsilon, values=ITEMS + set_size, padded=set_size, subset_size=best.subset_size)
    mine, other = map(float, channel.rates)
    held = FilePeople(world.fold).likers(lambda likes: np.minimum(1.0, set_size / likes))
    named = other + (mine - other) * held
    return held, np.sqrt(named * (1 - named) / users) / (mine - other)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["set", "subset"])
def test_shuffled_reports_have_the_noise_of_the_local_epsilon_for_so_many(name: str, world: FileWorld) -> None:
    """Estimates in their deviations, false alarm 1e-6 each; half or twice as many would have another deviation."""
    users = 900
    estimates = np.array([one.popularity for one in learned(f"shuffled: {name}", world, ONE, users)])
    held, deviation = expected(name, world, users, users)
    strays = (estimates - held) / deviation
    assert np.abs(strays.mean(axis=0)).max() < normal_radius(1 / math.sqrt(SEEDS), comparisons=ITEMS)
    assert variance_fits(strays, 1.0)
    for wrong in (users // 2, 2 * users):
        _, other = expected(name, world, users, wrong)
        assert not variance_fits((estimates - held) / other, 1.0)


def asked_of(row: RunRow, world: FileWorld, epsilon: Fraction, users: int) -> list[tuple[Query, int]]:
    """What devices are asked, and how many of them."""
    asked = [(ask.query, ask.stop - ask.first) for ask in row.sampled(world, request(epsilon, users=users)).state.asked]
    advised = row.advise(world, request(epsilon, users=users))
    assert advised.messages == sum(devices for _, devices in asked) / users
    largest = max(float(query.epsilon) for query, _ in asked if query.epsilon is not None)
    assert advised.epsilon_local == advised.messages * largest
    return asked


REPORTS = f"set ({shuffled.REPORTS} reports)"
SHUFFLED_ROWS = [row for row in shuffled.ROWS if isinstance(row, RunRow) and row.mechanism != REPORTS]


@pytest.mark.parametrize("row", SHUFFLED_ROWS, ids=lambda row: row.mechanism)
def test_each_group_of_devices_has_the_local_epsilon_of_its_own_number(row: RunRow, world: FileWorld) -> None:
    """The central epsilon is certified for as many as are shuffled together, and for half as many it is not."""
    asked = asked_of(row, world, ONE, 20_000)
    assert sum(devices for _, devices in asked) == 20_000
    assert len(asked) == (3 if row.mechanism == "pairs" else 1)
    for query, devices in asked:
        levels = present(mechanism_of(query.design).levels(query))
        assert query.epsilon is not None
        assert query.epsilon > ONE
        delta = partial(shuffled_delta, levels, epsilon=ONE, local_epsilon=query.epsilon)
        assert delta(devices=devices) <= DELTA < delta(devices=devices // 2)
        channel: Any = mechanism_of(query.design).channel(query)
        assert channel.epsilon <= float(query.epsilon) + 1e-9


def test_reports_of_a_device_are_one_plan(world: FileWorld) -> None:
    """All reports together keep epsilon among so many devices, and do not among a half of them."""
    row = ROWS[f"shuffled: {REPORTS}"]
    assert isinstance(row, RunRow)
    asked = asked_of(row, world, ONE, 9000)
    assert [devices for _, devices in asked] == [9000] * shuffled.REPORTS
    assert len({query.id for query, _ in asked}) == shuffled.REPORTS
    (local,) = {query.epsilon for query, _ in asked}
    levels = present(mechanism_of("set").levels(asked[0][0]))
    assert local is not None
    plan = partial(ShuffledRounds, levels, local, rounds=shuffled.REPORTS)
    assert plan_delta([plan(devices=9000)], epsilon=ONE, delta=DELTA) <= DELTA
    assert plan_delta([plan(devices=4500)], epsilon=ONE, delta=DELTA) > DELTA


@pytest.mark.statistical
def test_reports_of_the_same_people_do_not_average_who_is_asked(world: FileWorld) -> None:
    """Estimates of 30 seeds in their deviations, false alarm 1e-6; with people of their own each they have less."""
    users, row = 900, ROWS[f"shuffled: {REPORTS}"]
    assert isinstance(row, RunRow)
    every = [row.advise(world, request(FOUR, seed, users=users)) for seed in range(30)]
    estimates = np.array([scores.popularity for scores in every])
    query = asked_of(row, world, FOUR, users)[0][0]
    channel: Any = mechanism_of("set").channel(query)
    named, other = map(float, channel.rates)
    held = FilePeople(world.fold).likers(lambda likes: np.minimum(1.0, LIKES / likes))
    rate = other + (named - other) * held
    reports = rate * (1 - rate) / (named - other) ** 2 / shuffled.REPORTS / users
    assert variance_fits((estimates - held) / np.sqrt(reports + held * (1 - held) / users), 1.0)
    assert not variance_fits((estimates - held) / np.sqrt(reports), 1.0)


def test_without_epsilon_nothing_is_amplified(world: FileWorld) -> None:
    free = request(None)
    for name in ("set", "subset", "pairs", "ones"):
        assert ROWS[f"shuffled: {name}"].advise(world, free).epsilon_local is None
    query = set_query(epsilon=None)
    assert subsets_of(query).amplified(query, 10, DELTA) is query
    exact = ROWS["shuffled: ones"].advise(world, request(None, users=world.people))
    assert exact.popularity.tolist() == world.popularity.tolist()


@pytest.mark.statistical
def test_dummies_hide_what_is_liked(world: FileWorld) -> None:
    """Counts less the mean of dummies, false alarm 1e-6 each; dummies of half as many devices are caught."""
    users = world.people
    every = learned("shuffled: ones", world, FOUR, users)
    fewest = least_dummies(devices=users, likes=LIKES, epsilon=FOUR, delta=DELTA)
    coins = fewest.coins * users
    variance = coins * fewest.rate * (1 - fewest.rate)
    noise = np.array([one.popularity for one in every]) - world.popularity
    assert abs(noise.mean()) < normal_radius(math.sqrt(variance / noise.size))
    assert variance_fits(noise, variance)
    assert not variance_fits(noise, variance / 2)
    assert every[0].noise == pytest.approx(math.sqrt(variance))
    assert every[0].epsilon_local is None
    assert every[0].messages == pytest.approx(world.popularity.sum() / users + ITEMS * coins * fewest.rate / users)
    assert dummies_delta(coins, fewest.rate, likes=LIKES, epsilon=FOUR) <= DELTA
    assert dummies_delta(coins // 2, fewest.rate, likes=LIKES, epsilon=FOUR) > DELTA


# Which rows are measured, and what a result says of them

FEW = ("--backend", "inprocess", "--like-from", 4, "--likes", 8, "--top", 20, "--devices", 0, "--json", "-")


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=50, items=30, each=16))


def test_the_ladder_is_five_trust_models(ratings: Path, blindrec: Command) -> None:
    def models(value: Any) -> tuple[str, ...]:
        return Comparison(ratings=ratings, trust_models=value).trust_models

    assert models("ladder") == models(["ladder", "local"]) == LADDER
    assert models("ladder,two-tier") == EVERY_MODEL[:6]
    unknown = refused(blindrec, "compare", ratings, "--trust-models", "ladders")
    assert unknown.startswith("trust_models: trust model 'ladders' is unknown; choose among none, curator, two-servers")


def test_a_row_whose_delta_would_promise_nothing_is_not_measured(ratings: Path, blindrec: Command) -> None:
    options = ("--trust-models", "ladder", "--mechanisms", "popularity,set,ones", "--epsilon", "2,inf")
    result = blindrec("compare", ratings, *FEW, *options, "--scale", "200,201", "--delta", "1e-4").result
    users: dict[str, set[int]] = {}
    for row in result["rows"]:
        users.setdefault(f"{row['trust_model']}: {row['mechanism']}", set()).add(row["users"])
    few, many = {10_000}, {10_000, 10_050}
    refused_there = {"two-servers: popularity", "shuffled: set", "shuffled: ones"}
    assert {name for name, of in users.items() if of == few} == refused_there
    assert users["curator: popularity"] == users["local: set"] == many
    assert {row["guaranteed"] for row in result["rows"]} == {True, False}
    assert all(row["guaranteed"] == (row["epsilon"] == 2) for row in result["rows"])
    (left,) = [line for line in result["remarks"] if "not measured" in line]
    assert left.endswith("not measured from 10,001 people on, where their delta, 0.0001, would exceed 1 / n")
    assert all(name in left for name in refused_there)


def test_published_tables_are_of_the_rows_that_they_name() -> None:
    for name, options in FILES.items():
        named = {*options["trust_models"].split(",")}
        assert {"two-servers", "shuffled", "ladder"}.isdisjoint(named) == (name != "ladder")
    listed = FILES["ladder"]["mechanisms"].split(",")
    assert {row.mechanism for row in ROWS.values() if row.trust_model in ("two-servers", "shuffled")} <= {*listed}
    for names in (SHOWN_RUNGS, LIED_TO):
        assert {*names} <= {*ROWS}


# Delta and the relation of neighbours


def offered(**settings: Any) -> set[str]:
    return {*rows_of(Comparison(ratings=Path("none.csv"), trust_models=LADDER, mechanisms=("all",), **settings))}


def test_delta_zero_leaves_laplace_noise_and_nothing_shuffled(ratings: Path, blindrec: Command) -> None:
    left = {"curator: popularity (Gaussian)", "two-servers: popularity"}
    left |= {name for name in ROWS if name.startswith("shuffled")}
    assert offered() - offered(delta=0) == left
    options = ("--trust-models", "ladder", "--mechanisms", "popularity,pairs with EASE,set", "--epsilon", 2)
    result = blindrec("compare", ratings, *FEW, *options, "--scale", 1, "--delta", 0).result
    names = {f"{row['trust_model']}: {row['mechanism']}" for row in result["rows"]}
    assert names == {
        *("none: popularity", "curator: popularity", "curator: pairs with EASE"),
        *("two-servers: pairs with EASE", "local: set"),
    }
    assert {row["delta"] for row in (*result["rows"], *result["people"])} == {None}
    (told,) = [line for line in result["remarks"] if "delta 0" in line]
    assert told.startswith("two-servers: popularity, shuffled: set: not measured with delta 0")
    nothing = refused(blindrec, "compare", ratings, "--trust-models", "shuffled", "--delta", 0)
    assert nothing.startswith("delta is 0, where none of these rows has a guarantee")


def test_a_delta_above_one_in_all_people_is_refused(ratings: Path, blindrec: Command) -> None:
    """With 50 people .02 is the largest; with a hundred times as many rows that need one are left out."""
    for scale, delta, most in ((1, 0.021, "0.02"), (10, 0.0021, "0.002")):
        said = refused(blindrec, "compare", ratings, "--scale", scale, "--delta", delta)
        people = f"{50 * scale:,} people"
        assert said.startswith(f"delta is {delta:g}; with {people} it must be at most 1 / people, {most}: a larger one")
    assert comparison({"ratings": ratings, "delta": 0.02, "scale": 1}).settings.delta == 0.02


def noise_of_pairs(model: str, world: FileWorld, **settings: Any) -> list[float]:
    asked, row = request(ONE, **settings), ROWS[f"{model}: pairs with EASE"]
    if isinstance(row, RunRow):
        queries = [ask.query for ask in row.sampled(world, asked).state.asked]
        return [PairTotals().deviation(query, asked.users) for query in queries]
    deviations: list[float] = []

    def look(*arguments: Any) -> LearnedScores:
        deviations.extend(noise.deviation for noise in arguments[2:4])
        return LearnedScores.noisy(world.popularity, 0.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trusted, "pairs_of_sums", look)
        row.advise(world, asked)
    return deviations


@pytest.mark.parametrize("model", ["curator", "two-servers"])
def test_who_adds_or_removes_a_person_needs_less_noise(model: str, world: FileWorld) -> None:
    """By half for Laplace noise, and by about the root of two for Gaussian noise; pairs by both of their releases."""
    less = {"popularity": 2**-0.5, "popularity (Laplace)": 0.5, "popularity (Gaussian)": 2**-0.5}
    less |= {"popularity": 0.5} if model == "curator" else {}
    for name, ratio in less.items():
        if (row := ROWS.get(f"{model}: {name}")) is not None:
            noise = [row.advise(world, request(ONE, relation=one)).noise for one in ("replace", "add-remove")]
            assert noise[1] / noise[0] == pytest.approx(ratio, rel=0.02), name
    replaced, added = (noise_of_pairs(model, world, relation=one) for one in ("replace", "add-remove"))
    assert added == pytest.approx([noise * 2**-0.5 for noise in replaced], rel=0.02)


def test_laplace_noise_of_pairs_is_for_all_their_totals(world: FileWorld) -> None:
    """With delta 0: nine tenths of epsilon for ``w (w + 1)`` totals, w being 6 here, and a tenth for 2 w counts."""
    rates = [math.exp(-1 / 10 / 12), math.exp(-9 / 10 / 42)]
    for model, doses in (("curator", 1), ("two-servers", 2)):
        expected = [math.sqrt(doses * 2 * one) / (1 - one) for one in rates]
        assert noise_of_pairs(model, world, delta=0) == pytest.approx(expected)


def test_rows_tables_and_pictures_say_relation_and_delta(
    ratings: Path, blindrec: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--trust-models", "ladder", "--mechanisms", "popularity,popularity (Laplace),set", "--epsilon", "1,2")
    ways = ("--scale", 1, "--relation", "add-remove", "--delta", "1e-5", "--details")
    file = ratings.with_name("result.json")
    monkeypatch.setenv("COLUMNS", "200")  # in fewer, columns stand below each other
    ended = blindrec("compare", ratings, *FEW[:-1], file, *options, *ways)
    result = json.loads(file.read_text(encoding="utf-8"))
    assert (result["neighbours"], result["delta"]) == ("add-remove", 1e-5)
    told = {(row["trust_model"], row["mechanism"]): (row["neighbours"], row["delta"]) for row in result["people"]}
    assert told == {
        ("curator", "popularity"): ("add-remove", None),
        ("two-servers", "popularity"): ("add-remove", 1e-5),
        ("two-servers", "popularity (Laplace)"): ("add-remove", None),
        ("shuffled", "set"): ("replace", 1e-5),
        ("local", "set"): ("replace", None),
    }
    assert {(row["trust_model"], row["mechanism"]): (row["neighbours"], row["delta"]) for row in result["rows"]} == {
        **told,
        ("none", "popularity"): (None, None),
    }
    assert any("added or removed, of all other rows" in line for line in result["remarks"])
    shown = " ".join(ended.out.split())
    for words in (
        "NDCG by people; neighbours add-remove, delta 0",
        "neighbours add-remove, delta 1e-05; popularity (Laplace): neighbours add-remove, delta 0",
        "NDCG by people; neighbours replace, delta 1e-05",
        "two-servers: popularity add-remove 1e-05",
    ):
        assert words in shown
    pictures = pictures_of("compare", result)
    assert pictures[0].name == "ladder"
    words = "neighbours add-remove (curator, two-servers), replace (shuffled, local); delta 0 or 1e-05"
    assert all(picture.heading.endswith(f"\n{words}") for picture in pictures)


def test_folders_of_before_go_on(ratings: Path) -> None:
    """What is as ever is not named in what a folder is of; another relation is another folder."""
    ever = comparison({"ratings": ratings}).content
    assert comparison({"ratings": ratings, "delta": "1e-6"}).content == {**ever, "delta": 1e-6}
    assert ever == comparison({"ratings": ratings, "relation": "replace"}).content
    assert not {"delta", "relation"} & ever.keys()
    assert comparison({"ratings": ratings, "relation": "add-remove"}).content == {**ever, "relation": "add-remove"}


def test_sets_of_few_likes_are_as_small_as_those_of_pairs(world: FileWorld) -> None:
    row = ROWS["shuffled: set (few likes)"]
    assert isinstance(row, RunRow)
    ((query, _),) = asked_of(row, world, ONE, 9000)
    assert query.parameters[PADDED] == pair_design(request(ONE).settings, world.items).device_likes == LIKES // 2
    ((larger, _),) = asked_of(ROWS["shuffled: set"], world, ONE, 9000)  # type: ignore[arg-type] # as above
    assert larger.parameters[PADDED] == LIKES


# Devices that lie


def set_query(subset_size: int = 0, epsilon: Fraction | None = ONE) -> Query:
    """What devices are asked for sets of 50 of 9,724 items."""
    design = in_world(Set, items=9724, rated=50, padded=50, chosen=subset_size)
    return design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)


def test_likes_that_one_liar_is_worth_are_those_of_the_reference() -> None:
    """198, 53 and 1 likes, within 2 %, and the shares of liars that follow for an item that a share of .139 likes.

    The reference names as many values as are best for that share; the row of the comparison 50, with 2 % more.
    """
    values = best_subset(9724 + 50, set_size=50, epsilon=ONE, share=0.139)
    asked = replace(request(ONE), settings=Comparison(ratings=Path("none.csv")))
    query = set_query()
    shuffled_query = subsets_of(query).amplified(query, 61_000, asked.delta)
    told = [likes_of_liar(set_query(values)), likes_of_liar(shuffled_query), 1.0]
    assert told == pytest.approx([198, 53, 1], rel=0.02)
    assert likes_of_liar(set_query()) == pytest.approx(198, rel=0.03)
    shares = [share_to_lift(likes or 0, 0.139) for likes in told]
    assert shares == pytest.approx([0.0007, 0.0026, 0.122], rel=0.02)


def test_rows_say_what_a_liar_is_worth(world: FileWorld) -> None:
    tenth = np.sort(world.popularity)[-10] / world.people  # nobody likes more than fit into a set
    few = {name: ROWS[name].advise(world, request(ONE, users=90_000)).liar for name in ROWS if "two-tier" not in name}
    known = {name: liar for name, liar in few.items() if liar is not None}
    for name, liar in known.items():
        if not any(part in name for part in ("few", "subset")):  # whose sets are smaller
            assert liar.share == pytest.approx(tenth / (tenth + liar.likes)), name
    assert {name for name, liar in known.items() if liar.likes == 1} == {
        *("curator: popularity", "two-servers: popularity", "two-servers: popularity (Laplace)")
    } | {"curator: popularity (Gaussian)"}
    assert known["shuffled: set"].likes < known["local: set"].likes
    dummies = least_dummies(devices=90_000, likes=LIKES, epsilon=ONE, delta=DELTA)
    mean = ITEMS * dummies.per_item
    assert known["shuffled: ones"].likes == pytest.approx(mean + 6 * math.sqrt(mean * (1 - dummies.rate)) + LIKES)
