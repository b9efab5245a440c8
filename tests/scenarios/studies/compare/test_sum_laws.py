"""Sums of devices' answers and sums that are drawn from their law agree, and a wrong law does not."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import worlds
from evidence import counts_fit, student_radius
from mechanisms import GRR, OUE
from runs import likes, planted_ratings, present, write_movielens
from scipy import stats

from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol import trust_models
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.mechanisms.anchor import PairSigns
from coordinator.protocol.mechanisms.sets import CountedSet, Pairs
from coordinator.protocol.statistics.counts import SIZED, SIZED_TOP, GroupStatistic
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.conductor import run_rounds
from coordinator.server.rounds.rounds import QueryRounds
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.data.people import FilePeople
from scenarios.data.populations import populate
from scenarios.data.rating_split import fold_of
from scenarios.families.main.run import query_plan
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.design_rows import design_rows
from scenarios.studies.compare.row import AGGREGATE, DEVICES, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.local import PAIRS, SET
from scenarios.studies.compare.run_row import RunRow
from scenarios.studies.compare.worlds import FileWorld, world_of
from scenarios.theory.draws import Drawn

FURTHER = Comparison(ratings=Path("none.csv"), design=(OUE(), GRR(), "hadamard"))  # type: ignore[arg-type] # is read
ROWS = (*registered_rows().values(), *design_rows(FURTHER).values())
LOCAL = [row for row in ROWS if isinstance(row, RunRow) and row.trust_model == trust_models.LOCAL]
SEEDS, FEW_ITEMS = 12, 14


def file_world(folder: Path, rows: list[tuple[int, int, float]]) -> FileWorld:
    return world_of(Comparison(ratings=write_movielens(folder / "ratings.csv", rows), like_from=4), 0)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    return file_world(tmp_path_factory.mktemp("planted"), planted_ratings(users=60, items=30, each=12))


@pytest.fixture(scope="module")
def few_items(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    return file_world(tmp_path_factory.mktemp("few"), planted_ratings(users=80, items=FEW_ITEMS, each=9))


@pytest.fixture(scope="module")
def skewed(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    """400 people who like 2 to 9 of 120 items, the first ones most."""
    coins, weight = np.random.default_rng(0), 1 / np.arange(1, 121)
    weight /= weight.sum()
    rows = likes(coins.choice(120, size=coins.integers(3, 12), replace=False, p=weight) for _ in range(400))
    return file_world(tmp_path_factory.mktemp("skewed"), rows)


def request(epsilon: int | None, seed: int = 0, *, users: int = 6000, public: float = 0, **more: Any) -> RowRequest:
    settings = Comparison(ratings=Path("none.csv"), **{"likes": 6, **more})
    privacy = None if epsilon is None else Fraction(epsilon)
    return RowRequest(settings=settings, epsilon=privacy, users=users, public=public, seed=seed)


def differ(answered: Floats, sample: Floats) -> bool:
    """Whether means over seeds, a row each, differ in a column: false alarm 1e-6 if columns are normal (t-tests)."""
    varied = np.ptp(sample, axis=0) > 0
    return bool(stats.ttest_ind(answered[:, varied], sample[:, varied]).pvalue.min() < 1e-6 / varied.sum())


@pytest.mark.statistical
@pytest.mark.few(2)
@pytest.mark.parametrize("row", LOCAL, ids=lambda row: row.mechanism)
def test_the_law_is_that_of_devices(row: RunRow, planted: FileWorld) -> None:
    """False alarm 1e-6 a mechanism; the twin's likes are those of half of the people."""
    fold = planted.fold
    liked, train = fold.liked.where(fold.liked.owners % 2 > 0), fold.train.where(fold.train.owners % 2 > 0)
    other = replace(planted, fold=replace(fold, liked=liked, train=train))
    epsilon, users = (8, 2000) if "@" in row.mechanism else (4, 6000)  # classes of users' own are noisier, and slower

    def asked(seed: int) -> RowRequest:
        return request(epsilon, seed, users=users)

    answered = np.array([row.answered(planted, asked(seed)).model.score for seed in range(SEEDS)])
    same, wrong = (
        np.array([row.sampled(world, asked(first + seed)).model.score for seed in range(SEEDS)])
        for world, first in ((planted, 100), (other, 0))
    )
    assert not differ(answered, same)
    assert differ(answered, wrong)


@pytest.mark.statistical
def test_the_law_of_pairs_is_that_of_devices(few_items: FileWorld) -> None:
    """Weights of the model of pairs: false alarm 1e-6; the twin's epsilon is another."""

    def weights(epsilon: int, seeds: range, *, law: bool) -> Floats:
        learn = PAIRS.sampled if law else PAIRS.answered
        models = [learn(few_items, request(epsilon, seed, users=8000, likes=8)).model.near for seed in seeds]
        return np.array([model.weights.ravel() for model in models if model is not None])

    answered = weights(8, range(SEEDS), law=False)
    same, other = (weights(epsilon, range(100, 200), law=True) for epsilon in (8, 3))  # the law takes no time
    assert not differ(answered, same)
    assert differ(answered, other)


@pytest.mark.statistical
@pytest.mark.parametrize("pool", [None, np.arange(10, dtype=np.int32)])
def test_devices_report_numbers_of_likes_as_the_law_says(skewed: FileWorld, pool: Indices | None) -> None:
    """Counts of 40,000 devices lie within binomial bounds of the law, false alarm 1e-6; its twin knows another."""
    user = np.random.default_rng(1).integers(skewed.people, size=40_000).astype(np.int32)
    devices = StoredRatings(rows=skewed.fold.train, user=user, rated_public=False)
    design = CountedSet(items=skewed.items, rated=20, counted_group=0.5)
    query = design.of_numbers(round_number=0, public_seed=worlds.PUBLIC, epsilon=Fraction(2), pool=pool)
    answers = aggregate(query, Cohort(devices, worlds.SECRET, 0, user.size, Fraction(2)).answer(query, 0, user.size))
    assert isinstance(answers, GroupStatistic)
    counts = answers.of(SIZED if pool is None else SIZED_TOP).sums
    people, rates = FilePeople(skewed.fold), subsets_of(query).reports(query)
    shares, _ = Pairs().value_shares(query, people.among(pool))
    assert shares.sum() == pytest.approx(1)

    def alarms(contrast: float) -> bool:
        chances = (1 - contrast) / counts.size + contrast * shares
        return not counts_fit(counts, user.size, chances)

    assert not alarms(rates.contrast)
    assert alarms(0.9 * rates.contrast)
    sample = Pairs().law(query, people).draw(user.size, np.random.default_rng(2))
    assert isinstance(sample, GroupStatistic)
    assert sample.of(SIZED if pool is None else SIZED_TOP).sums.sum() == user.size


@pytest.mark.statistical
@pytest.mark.parametrize("devices", [0, 1_000_000])
def test_sets_of_the_size_that_devices_report_teach_more_than_declared_ones(devices: int, skewed: FileWorld) -> None:
    """Mean gain of correlations with popularity: false alarm 1e-6 by Student's law, where gains are 3 deviations."""

    def correlation(counted: float, seed: int) -> float:
        advised = SET.advise(skewed, request(3, seed, users=8000, likes=50, counted=counted, devices=devices))
        assert advised.simulated == (DEVICES if devices else AGGREGATE)
        return float(np.corrcoef(advised.popularity, skewed.popularity)[0, 1])

    gains = np.array([correlation(0.05, seed) - correlation(0.0, seed) for seed in range(14)])
    assert gains.mean() > student_radius(gains)


def test_pairs_ask_for_numbers_of_likes_as_well_and_two_tiers_do_not(skewed: FileWorld) -> None:
    one, other = (request(None, users=400, public=0.2, likes=8, counted=share) for share in (0.05, 0.0))
    design = resolve(PAIRS.scenario_of(skewed.items, one)).design
    assert design.counted_group == 0.05  # type: ignore[attr-defined] # it has such groups
    tiers = registered_rows()["two-tier: popularity with set"]
    assert tiers.advise(skewed, one).popularity.tolist() == tiers.advise(skewed, other).popularity.tolist()


def test_a_chance_that_rounding_put_above_one_is_one() -> None:
    """Without noise everybody agrees where all do: a mean may be above 1 by its last bits."""
    query: Any = SimpleNamespace(epsilon=None, pool=np.arange(3), centres=None)
    people: Any = SimpleNamespace(among=lambda _: people, pair_signs=lambda *_: np.array([1, -1]) * (1 + 2.0**-51))
    sums: Any = PairSigns().law(query, people).draw(1000, np.random.default_rng(0))
    assert sums.pairs.tolist() == [1000, 0]


SHUFFLED = {"trust": "shuffled", "expected_answers": 1}
RUNS: dict[str, dict[str, Any]] = {
    "local: set": {"design": "set", "padded": 6},
    "local: sign": {"design": "sign"},
    "local: subset": {"design": "subset"},
    "shuffled: set": {"design": "set", "padded": 6, "trust": "shuffled", "expected_answers": 1},
    "shuffled: pairs": {
        "design": "pairs",
        "pair_items": 20,
        "pair_likes": 3,
        "trust": "shuffled",
        "expected_answers": 1,
    },
    "two-servers: popularity": {"design": "totals", "most_likes": 6},
    "two-servers: pairs with EASE": {"design": "pair-totals", "pair_items": 20, "pair_likes": 3},
}


@pytest.mark.parametrize("name", RUNS)
@pytest.mark.parametrize("users", [60, 6000])
def test_a_row_is_a_run_whose_sums_are_drawn(name: str, users: int, tmp_path: Path) -> None:
    """To the last digit: `blindrec run` of the same file, seed and settings, with drawn sums in place of devices."""
    path = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=30, each=12))
    settings = Comparison(ratings=path, like_from=4, likes=6, top=20, co_liked=3, devices=0, held_out=0.25)
    asked = RowRequest(settings=settings, epsilon=Fraction(4), users=users, seed=3)
    row = registered_rows()[name]
    learned = row.advise(world_of(settings, 3), asked)

    files: dict[str, Any] = {"ratings": path, "like_from": 4, "held_out": 0.25, "seed": 3}
    files |= {} if row.trust_model == trust_models.LOCAL else {"delta": asked.delta}
    population = populate(Scenario(**files, **RUNS[name], rated=6, users=users, epsilon=4))
    spec, again = resolve(population.scenario), RowRequest(settings=settings, epsilon=Fraction(4), users=users, seed=3)
    people = FilePeople(fold_of(present(population.split)))
    if row.trust_model == "two-servers":
        people = people.sample(users, again.coins)
    process = QueryRounds(query_plan(spec), Drawn(people, again.coins))
    model = run_rounds(process, keep=lambda _: None).model
    assert np.array_equal(model.score, learned.popularity)
    if "pairs" in name:
        pool, _ = present(learned.before)
        assert np.array_equal(present(model.near).pool, pool)
