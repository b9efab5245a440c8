"""Rows of a comparison: what they know, learn from and spend, and that devices of a run rank as they do."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
from evidence import chi_square_fits, normal_radius, student_radius
from runs import Rating, likes, planted_ratings, present, write_movielens

from actors.advice import public_order
from actors.device import Cohort
from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.decoding.pair_model import ease_weights
from coordinator.protocol.mechanisms.anchor import AnchorSensing, PairSigns
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.pools import centres_of
from coordinator.protocol.rating_table import Likes, starts_of
from coordinator.protocol.statistics.signs import AnchorStatistic
from coordinator.protocol.trust_models import PUBLIC_RATES
from scenarios.data import people as file_people
from scenarios.data.people import FilePeople
from scenarios.data.populations import public_people
from scenarios.data.rating_split import LikesFold
from scenarios.families.two_tier.two_tier_scenario import needs_scale
from scenarios.studies.compare.advisors import MODELS, fit_model, pair_design
from scenarios.studies.compare.comparison_settings import COORDINATOR, Comparison
from scenarios.studies.compare.row import AGGREGATE, DEVICES, LearnedScores, RowRequest
from scenarios.studies.compare.rows import local, public_users, registered_rows
from scenarios.studies.compare.rows.local import PAIRS, Directions
from scenarios.studies.compare.rows.public_users import COMPLETIONS, KAPPAS, chosen_kappa, ratings_left, split_people
from scenarios.studies.compare.rows.trusted import item_change, laplace_noise, pair_change
from scenarios.studies.compare.run_row import RunRow, people_of
from scenarios.studies.compare.scoring import SERVED, TOP, ListScores, _lists, score
from scenarios.studies.compare.worlds import FileWorld, table_of, world_of

SEEDS, NOTHING = 30, Fraction(1, 1000)
NOWHERE = Comparison(ratings=Path("none.csv"))


def request(settings: Comparison = NOWHERE, **changes: Any) -> RowRequest:
    return RowRequest(**{"settings": settings, "epsilon": None, "users": 60, "public": 0, "seed": 0, **changes})


def file_of(folder: Path, rows: Iterable[Rating], **more: Any) -> Comparison:
    return Comparison(ratings=write_movielens(folder / "ratings.csv", rows), like_from=4, **more)


def scores_of(name: str, world: FileWorld, asked: Callable[[], RowRequest]) -> ListScores:
    return score(world, registered_rows()[name].advise(world, asked()), asked(), features=False)


def with_features(folder: Path, **more: Any) -> Comparison:
    lines = [f"{item + 1},Film {item} (19{50 + item}),{'Drama' if item % 3 else 'War|Drama'}" for item in range(30)]
    (folder / "movies.csv").write_text("movieId,title,genres\n" + "\n".join(lines) + "\n")
    return file_of(folder, planted_ratings(users=150, items=30, each=12), features=folder / "movies.csv", **more)


# What rows know


@pytest.fixture(scope="module")
def ordered(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """A file whose 300 items stand in the order of how many people like them, so that even this order is telling."""
    coins, often = np.random.default_rng(5), 1 / np.arange(1, 301)
    rows = likes(coins.choice(300, size=12, replace=False, p=often / often.sum()) for _ in range(60))
    return file_of(tmp_path_factory.mktemp("ordered"), rows, likes=12, paired=20, top=20, co_liked=10)


@pytest.mark.few(2)
@pytest.mark.statistical
@pytest.mark.parametrize("devices", [0, 10_000], ids=["drawn", "answered"])
@pytest.mark.parametrize("name", [name for name, row in registered_rows().items() if row.asks == {"epsilon", "scale"}])
def test_a_row_without_budget_is_worth_what_chance_is(name: str, devices: int, ordered: Comparison) -> None:
    """Student's law, false alarm 1e-6 a row. The twin: public totals know what is popular, whatever devices answer."""
    settings = ordered.model_copy(update={"devices": devices})
    world = world_of(settings, 0)

    def gap(seed: int) -> float:
        def asked() -> RowRequest:
            return request(settings, epsilon=NOTHING, users=120, seed=seed)

        return scores_of(name, world, asked).ndcg - scores_of("none: chance", world, asked).ndcg

    gaps = np.array([gap(seed) for seed in range(SEEDS)])
    assert (gaps.mean() > student_radius(gaps)) == name.startswith(PUBLIC_RATES)


@pytest.mark.parametrize("name", ["popularity", "item kNN", "EASE"])
def test_what_is_learned_from_public_people_knows_nothing_of_others(name: str, ordered: Comparison) -> None:
    row, asked, world = registered_rows()[f"two-tier: {name}"], request(ordered, public=0.2), world_of(ordered, 0)
    public, private = split_people(world, asked)
    matrices, own = [world.matrix.copy(), world.matrix.copy()], world.matrix[private]
    for changed, people in zip(matrices, (private, public), strict=True):
        changed.data[np.isin(np.repeat(np.arange(60), np.diff(changed.indptr)), people)] = 0
        changed.eliminate_zeros()

    def scores(matrix: Any) -> np.ndarray:
        learned: LearnedScores = row.advise(replace(world, matrix=matrix), asked)
        return learned.popularity if learned.scorer is None else np.asarray(learned.scorer(own))

    np.testing.assert_array_equal(scores(world.matrix), scores(matrices[0]))
    assert not np.array_equal(scores(world.matrix), scores(matrices[1]))


def test_equal_items_are_not_taken_in_the_order_of_the_file() -> None:
    first, again, other = (request(seed=seed).ranked(np.repeat([1.0, 2.0], 50)).tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert sorted(first[:50]) == list(range(50, 100)) != first[:50]


def test_every_row_stands_in_the_page_that_says_what_it_knows() -> None:
    page = (Path(__file__).parents[4] / "docs/explanation/worth.md").read_text(encoding="utf-8")
    section = page.partition("## What each row knows")[2].partition("\n## ")[0]
    listed = {
        (model.strip(), name.strip())
        for line in section.splitlines()
        if line.startswith("| `")
        for model, names in [line.replace("`", "").strip("|").split("|")[:2]]
        for name in names.split(";")
    }
    assert listed == {(row.trust_model, row.mechanism) for row in registered_rows().values()} | {("none", "ALS")} | {
        (COORDINATOR, name) for name in SERVED
    }


def lists_of_devices(world: FileWorld, model: Model, advised: LearnedScores) -> list[Any]:
    """Everybody's lists by a run's devices, without features and with them; they are those of the row."""
    people = np.arange(world.people)
    devices = StoredRatings(rows=world.fold.train, user=people.astype(np.int32), rated_public=False)
    cohort, order = Cohort(devices, bytes(16), 0, people.size, None), public_order(model.near, model.score)
    lists = [cohort.recommend(model, 0, people.size, TOP, one).tolist() for one in (None, world.features)]
    of_row = (_lists(world, advised, people, order.astype(np.int64), features=one) for one in (False, True))
    assert lists == [one.tolist() for one in of_row]
    return lists


@pytest.mark.parametrize("name", ["subset", "sign", "MaxSense", "set", "pairs"])
def test_a_row_gives_the_advice_of_a_run(name: str, tmp_path: Path) -> None:
    """With few likes in a few items lists differ from device to device; `pairs` asks about all items, or 20 of 30."""
    settings = with_features(tmp_path, likes=6)
    world, row = world_of(settings, 0), registered_rows()[f"local: {name}"]
    assert isinstance(row, RunRow)
    if name == "pairs":
        row = replace(row, settings=lambda *_: {"pair_items": 20})

    def asked() -> RowRequest:
        return request(settings, epsilon=Fraction(8), users=3000)

    model, advised = row.answered(world, asked()).model, row.advise(world, asked())
    one = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)  # as `run_job` hands it to devices
    for lists in lists_of_devices(world, one, advised):
        assert len(set(map(tuple, lists))) > world.people / 3


def test_a_librarys_factors_find_what_the_houses_models_find(tmp_path: Path) -> None:
    """Four tastes in ten items each of forty: models of items tell them apart, and popularity does not."""
    pytest.importorskip("implicit", reason="the package implicit is not installed; it is the extra `check`")
    coins = np.random.default_rng(2)
    rows = likes(10 * (person % 4) + coins.choice(10, 7, replace=False) for person in range(120))
    settings = file_of(tmp_path, rows, rank=4, ridge=5, neighbours=9)
    names = ("popularity", "SVD", "EASE", "ALS", "ALS")
    popular, svd, ridge, als, again = (
        scores_of(f"none: {name}", world_of(settings, 0), lambda: request(settings, users=120)).ndcg for name in names
    )
    assert als == again > 2 * popular
    assert als == pytest.approx(svd, abs=0.1)
    assert als == pytest.approx(ridge, abs=0.1)


# Ratings that are completed in two tiers

COMPLETED = {how: registered_rows()[f"two-tier: {name}"] for name, how in COMPLETIONS.items()}


@pytest.fixture
def two_tastes(tmp_path: Path) -> Comparison:
    """The items of one taste are liked by one half of the people, and disliked by the other."""
    coins = np.random.default_rng(1)
    rows = [
        (person, int(item), 5.0 if item % 2 == person % 2 else 1.0)
        for person in range(60)
        for item in coins.choice(40, 20, replace=False)
    ]
    return file_of(tmp_path, rows)


def test_ratings_are_those_that_are_not_held_out(two_tastes: Comparison) -> None:
    world, table = world_of(two_tastes, 0), table_of(two_tastes)
    rows = ratings_left(table, world)
    assert np.array_equal(rows.items, world.fold.train.items)
    assert np.array_equal(rows.values >= 4, world.fold.train.values)
    assert rows.items.size < table.ratings


def test_completed_ratings_find_taste_where_popularity_cannot(two_tastes: Comparison) -> None:
    """And each mechanism's devices answer what it asks: their scores differ."""
    world, asked = world_of(two_tastes, 0), request(two_tastes, public=0.3)
    popular = scores_of("two-tier: popularity", world, lambda: asked)
    assert popular.people == 42
    scores = []
    for row in COMPLETED.values():
        learned = row.advise(world, asked)
        assert score(world, learned, asked, features=False).ndcg > 1.3 * popular.ndcg
        scores.append(present(learned.scorer)(learned.holds[learned.people]))
    assert len(scores) == 3
    assert not any(np.allclose(scores[one], scores[other]) for one, other in ((0, 1), (0, 2), (1, 2)))


def test_files_without_ratings_have_no_completed_rows(tmp_path: Path) -> None:
    lines = "".join(f"{user},{item}\n" for user, item, _ in planted_ratings(users=20, items=30, each=12))
    (tmp_path / "seen.csv").write_text(lines)
    table = table_of(Comparison(ratings=tmp_path / "seen.csv", columns=("1", "2")))
    assert not any(row.fits(table) for row in COMPLETED.values())
    continuous = replace(table, values=np.linspace(-10, 10, table.ratings))
    without_scale = [how for how in COMPLETED if not needs_scale(how)]
    assert [how for how, row in COMPLETED.items() if row.fits(continuous)] == without_scale
    assert len(without_scale) < len(COMPLETED)


# A trusted curator

ITEMS, PEOPLE = 40, 2000


@pytest.fixture(scope="module")
def independent(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    """People like items independently of each other, the first ones most."""
    liked = np.random.default_rng(1).random((PEOPLE, ITEMS)) < np.linspace(0.6, 0.05, ITEMS)
    return world_of(file_of(tmp_path_factory.mktemp("independent"), likes(map(np.flatnonzero, liked))), 0)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> FileWorld:
    rows = planted_ratings(users=60, items=ITEMS, each=16)
    return world_of(file_of(tmp_path_factory.mktemp("planted"), rows), 0)


def curated(users: int, epsilon: int | None = None, seed: int = 3, **changes: Any) -> RowRequest:
    privacy = None if epsilon is None else Fraction(epsilon)
    return request(NOWHERE.model_copy(update=changes), epsilon=privacy, users=users, seed=seed)


def weights(world: FileWorld, asked: RowRequest) -> Floats2:
    scorer = present(registered_rows()["curator: pairs with EASE"].advise(world, asked).scorer)
    scores = scorer(np.eye(world.items, dtype=np.float32))
    np.fill_diagonal(scores, 0)
    return scores


def test_noise_in_pairs_is_shrunk_by_its_known_size(independent: FileWorld) -> None:
    """Where nothing goes together, what a like says of other items is their popularity; plain ridge has .14 here."""
    alike = []
    for seed in range(6):
        of_noise = weights(independent, curated(PEOPLE, 4, seed))
        for liked in range(0, ITEMS // 2, 2):
            rest = np.delete(np.arange(ITEMS), [liked, liked + 1])
            alike.append(np.corrcoef(of_noise[liked, rest], of_noise[liked + 1, rest])[0, 1])
    assert np.mean(alike) > 0.5


def test_without_noise_pairs_are_those_of_the_estimator(planted: FileWorld) -> None:
    likes = np.asarray(planted.matrix.todense(), np.float64)
    shares = likes.T @ likes / planted.people
    np.testing.assert_allclose(weights(planted, curated(planted.people, co_liked=30)), ease_weights(shares), atol=1e-6)


@pytest.mark.parametrize(("changes", "likes"), [({}, 20), ({"likes": 10}, 5), ({"top": 20, "co_liked": 7}, 7)], ids=str)
def test_a_curator_and_devices_count_pairs_of_as_many_items_and_likes(changes: dict[str, Any], likes: int) -> None:
    settings = NOWHERE.model_copy(update=changes)
    local, own = PAIRS.scenario_of(ITEMS, request(settings)), pair_design(settings, ITEMS)
    assert (local.value("pair_items"), local.value("pair_likes")) == (own.pair_items, own.pair_likes)
    assert own.device_likes == likes


@pytest.mark.parametrize("affordable", [True, False])
def test_likes_of_a_pool_are_limited(planted: FileWorld, monkeypatch: pytest.MonkeyPatch, *, affordable: bool) -> None:
    """Everybody who is sampled chooses anew; where these are too many, each choice stands for several people."""
    if not affordable:
        monkeypatch.setattr(file_people, "MOST_CHOSEN", 1)
    users, pool, coins = 10 * planted.people, np.arange(5, 25, dtype=np.int32), np.random.default_rng(3)
    asked = FilePeople(planted.fold).sample(users, coins)
    people, limited = present(asked.copies), asked.among(pool).limited(3, users, coins)
    assert people.sum() == users
    choices = people if affordable else np.minimum(people, file_people.FEWEST_CHOICES)
    rows = np.repeat(np.arange(planted.people), choices.astype(int))
    assert limited.shape == (rows.size, pool.size)
    full = np.minimum(np.asarray(planted.matrix[:, pool].sum(axis=1)), 3)
    np.testing.assert_array_equal(full[rows], np.diff(limited.indptr))
    np.testing.assert_allclose(limited.power(2).sum(axis=1), (people / np.maximum(choices, 1) * full)[rows])
    liked = np.asarray(planted.matrix[:, pool].todense())[rows]
    assert ((limited.todense() > 0) <= (liked > 0)).all()


@pytest.mark.statistical
def test_any_three_likes_of_six_are_chosen_alike() -> None:
    """Pearson's test over the 20 sets, false alarm 1e-6; the twin's sets that have the first like are 15 % likelier."""
    coins, draws = np.random.default_rng(6), 40_000
    rows = np.array([0, 6]), np.zeros(draws, np.int64), 3 * np.arange(draws + 1)
    places = file_people._choose(*rows, coins.random(3 * draws))
    sets, counts = np.unique(np.sort(places.reshape(draws, 3), axis=1), axis=0, return_counts=True)
    assert len(sets) == 20
    assert chi_square_fits(counts, np.ones(20))
    assert not chi_square_fits(counts, np.where(sets[:, 0] == 0, 1.15, 1.0))


def test_who_likes_none_of_the_paired_items_gets_what_most_like(planted: FileWorld) -> None:
    asked = curated(planted.people, top=16, co_liked=16)
    advised = registered_rows()["curator: pairs with EASE"].advise(planted, asked)
    assert advised.order is not None
    scores = present(advised.scorer)(np.zeros((1, planted.items), np.float32))[0]
    popularity = planted.popularity[advised.order[np.argsort(-scores[advised.order], kind="stable")]]
    assert (np.diff(popularity) <= 0).all()


def test_noise_hides_whose_ratings_are_replaced() -> None:
    """All pairs of people who like so many of seven items: noise is that of the two who are farthest apart."""
    most = 3
    sets = [np.array(likes) for likes in product((0, 1), repeat=7) if sum(likes) <= most]
    upper = np.triu_indices(7)
    totals = np.array([np.outer(likes, likes)[upper] for likes in sets])
    for change, vectors in ((pair_change, totals), (item_change, sets)):
        farthest = max(np.linalg.norm(one - other) for one, other in product(vectors, vectors))
        assert change(most) == pytest.approx(farthest)
    changed = max(int(np.abs(one - other).sum()) for one, other in product(sets, sets))
    assert laplace_noise(Fraction(2), most).epsilon(changed) == 2


@pytest.mark.parametrize("name", ["popularity (Gaussian)", "pairs with EASE"])
def test_two_gaussian_releases_spend_the_claim(planted: FileWorld, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise that is drawn, release by release, and delta at epsilon by the law of their composition."""
    spent: list[float] = []
    most = 20 if name == "pairs with EASE" else min(NOWHERE.likes, planted.items)

    class Coins(np.random.Generator):
        def normal(self, loc: float, scale: float, size: Any) -> Any:  # type: ignore[override]
            spent.append(((pair_change if np.ndim(size) else item_change)(most) / scale) ** 2)
            return super().normal(loc, scale, size)

    asked = curated(planted.people, 2)
    monkeypatch.setitem(asked.__dict__, "coins", Coins(np.random.PCG64(0)))
    registered_rows()[f"curator: {name}"].advise(planted, asked)
    far = math.sqrt(sum(spent))
    normal = scipy.stats.norm
    delta = normal.cdf(far / 2 - 2 / far) - math.exp(2) * normal.cdf(-far / 2 - 2 / far)
    assert delta == pytest.approx(asked.delta, rel=1e-6)


# Directions of taste

RATED_ITEMS = 12
POOL = np.arange(1, RATED_ITEMS, dtype=np.int32)
CENTRES = np.linspace(-20, 24, RATED_ITEMS - 1).astype(np.int32)


def raters(numbers: list[int]) -> FileWorld:
    """People who rated so many items, likes and dislikes at random."""
    coins, items, likes = np.random.default_rng(0), [], []
    for number in numbers:
        items.append(np.sort(coins.permutation(RATED_ITEMS)[:number]))
        likes.append(coins.random(number) < 0.6)
    starts, flat = starts_of(np.array(numbers)), np.concatenate(items).astype(np.int32)
    rows = Likes(starts=starts, items=flat, values=np.concatenate(likes), count=RATED_ITEMS)
    held = rows.where(rows.values).valued(None)
    return FileWorld(fold=LikesFold(train=rows, liked=held, holdout=held), matrix=None, features=None)


def query_of(epsilon: Epsilon, centres: np.ndarray) -> Query:
    design = AnchorSensing(items=RATED_ITEMS, rated=6)
    return design.query(round_number=2, public_seed=bytes(16), epsilon=epsilon, pool=POOL, centres=centres)


def means(world: FileWorld, centres: np.ndarray = CENTRES) -> Floats:
    return FilePeople(world.fold, POOL).pair_signs(*centres_of(query_of(None, centres)))


@pytest.mark.parametrize("number", [2, 3, 4, 5, 6, 7])
def test_the_law_of_directions_is_that_of_all_signs(number: int) -> None:
    """One person, with all signs of its pairs gone through; beyond ten pairs the law is within 4 % of that."""
    world = raters([number])
    rows, exact = world.fold.train, np.zeros((RATED_ITEMS - 1, RATED_ITEMS - 1))
    inside = [(int(i) - 1, 32 * (2 * int(like) - 1)) for i, like in zip(rows.items, rows.values, strict=True) if i]
    values = [(i, value - int(CENTRES[i])) for i, value in inside]
    pairs = [(i, j, a * b) for (i, a), (j, b) in combinations(values, 2)]
    signs = np.array(list(product((-1, 1), repeat=len(pairs))), np.int8)
    agreed = np.sign(signs @ np.array([size for *_, size in pairs], np.int64))
    for at, (i, j, _) in enumerate(pairs):
        exact[i, j] = np.mean(agreed * signs[:, at])
    upper, near = np.triu_indices(RATED_ITEMS - 1, 1), 1e-9 if len(pairs) <= 10 else 0.04
    assert means(world) == pytest.approx(exact[upper], rel=near, abs=1e-4)


@pytest.mark.statistical
def test_the_law_of_directions_is_that_of_devices() -> None:
    """False alarm 1e-6 over all pairs, of 300,000 answers to each; the twin's ratings are not centred."""
    world, users = raters([2, 3, 4, 5, 6, 9, 12] * 3), 300_000
    asked = curated(users, 4, 0, likes=6)
    query = query_of(asked.epsilon, CENTRES)
    answered = local.collected_sums(query, world, people_of(world, asked), asked)

    def drawn(centres: np.ndarray) -> Ints:
        law = PairSigns().law(query_of(asked.epsilon, centres), FilePeople(world.fold))
        sums = law.draw(users, np.random.default_rng(0))
        assert isinstance(sums, AnchorStatistic)
        return sums.pairs

    radius = normal_radius(np.sqrt(2 * users) / 2, comparisons=answered.pairs.size)
    assert np.abs(answered.pairs - drawn(CENTRES)).max() < radius
    assert np.abs(answered.pairs - drawn(0 * CENTRES)).max() > radius


@pytest.fixture(scope="module")
def directed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    more: dict[str, Any] = {"likes": 10, "devices": 200_000, "epsilon": (Fraction(8),), "paired": 20}
    return with_features(tmp_path_factory.mktemp("directed"), **more)


@pytest.mark.parametrize("name", ["local: directions", "public-rates: directions"])
@pytest.mark.parametrize("users", [100_000, 3_000_000])
def test_devices_rank_by_directions_as_the_row_does(name: str, users: int, directed: Comparison) -> None:
    world, row = world_of(directed, 0), registered_rows()[name]
    assert isinstance(row, Directions)
    asked = request(directed, epsilon=Fraction(8), users=users)
    model = row.learn(world, asked)
    advised = row.ranking_of(world, asked, model)
    assert advised.simulated == (DEVICES if users <= directed.devices else AGGREGATE)
    assert model.tastes is not None
    assert model.tastes.vectors.shape[1] >= 1
    assert lists_of_devices(world, model, advised)
    pool, limit = local.limit_of(directed, 0)
    first, exact = model.tastes.vectors[:, 0], limit.vectors[:, 0]
    cosine = abs(float(first[pool] @ exact)) / np.linalg.norm(first)
    assert cosine > (0.9 if row.rates_public else 0.8)


def test_everybody_of_a_file_answers_once_in_all_groups(directed: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epsilon is of a person: with as many people as the file has, no two devices are of the same one."""
    world, row, asking = world_of(directed, 0), registered_rows()["local: directions"], list[int]()
    held = StoredRatings.__init__

    def looked_at(self: StoredRatings, *, user: np.ndarray, **more: object) -> None:
        asking.extend(user.tolist())
        held(self, user=user, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredRatings, "__init__", looked_at)
    assert isinstance(row, Directions)
    row.learn(world, request(directed, epsilon=Fraction(8), users=world.people))
    assert sorted(asking) == list(range(world.people))


def test_too_few_people_have_no_direction_and_are_told(directed: Comparison) -> None:
    """At the threshold a direction is about to stand out: a quarter of it shows none, four times it does."""
    row, world = registered_rows()["public-rates: directions"], world_of(directed, 0)
    assert isinstance(row, Directions)
    enough, low = local.threshold(directed, 0, Fraction(1)), directed.model_copy(update={"devices": 0})
    assert f"{enough:,.0f} at epsilon 1" in row.remarks(directed.model_copy(update={"epsilon": (Fraction(1),)}))[0]
    for times, some in ((0.25, False), (4, True)):
        tastes = present(row.learn(world, request(low, epsilon=Fraction(1), users=round(times * enough))).tastes)
        assert (tastes.vectors.shape[1] > 0) == some


def test_rates_follow_from_likes_and_mean_ratings() -> None:
    """Without noise what devices tell gives the rates back; where all is noise, every item has the mean's."""
    rated, liked = np.array([0.8, 0.5, 0.4]), np.array([0.5, 0.0, -0.5])
    likes, error = rated * (1 + liked) / 2, np.zeros(3)
    scores = (likes, rated * liked / 0.5)
    liking, judging = (Model(cluster=np.zeros(3, np.int32), score=one, error=error, clusters=1) for one in scores)
    told = local.estimated_rates(liking, judging, 0.5)
    assert told.rated == pytest.approx(rated)
    assert told.liked == pytest.approx(liked)
    noisy = local.estimated_rates(replace(liking, error=error + 1), replace(judging, error=error + 1), 0.5)
    assert noisy.score == pytest.approx(np.full(3, likes.mean()))
    assert np.ptp(noisy.liked) == pytest.approx(0)


def test_a_constant_is_chosen_on_training_likes_where_none_is_declared(tmp_path: Path) -> None:
    """The best one around it on a part of the likes that it learns from; a declared one is taken as it is."""
    settings = file_of(tmp_path, planted_ratings(users=60, items=30, each=16))
    world, whole = world_of(settings, 0), RowRequest(settings=settings, epsilon=None, users=60, seed=0)
    before = world.matrix.copy()
    assert fit_model("EASE", world.matrix, whole)[1] == fit_model("EASE", before, whole)[1]
    np.testing.assert_array_equal(world.matrix.toarray(), before.toarray())
    ridge, places = fit_model("EASE", world.matrix, whole)[1], MODELS["EASE"].values
    assert ridge in places
    assert ridge != 200  # of sixty people
    declared = replace(whole, settings=settings.model_copy(update={"ridge": 7.0, "rank": 3}))
    assert [fit_model(name, world.matrix, declared)[1] for name in ("EASE", "SVD", "item kNN")] == [7, 3, 100]


def test_a_file_that_was_written_again_is_fitted_again(tmp_path: Path) -> None:
    """In one process, as from Python: what was learned of the file before says nothing of this one."""
    rows, learned = planted_ratings(users=60, items=30, each=16), list[list[Any]]()
    for ratings in (rows, rows[: len(rows) // 2], rows):
        settings = file_of(tmp_path, ratings)
        fit, kappa = public_users.settled(settings, 0.5, 1)[2], chosen_kappa(settings, 0.5, 1)
        learned.append([fit.features.digest, local.limit_of(settings, 1)[1].strengths.tolist(), kappa])
    assert learned[0] == learned[2]
    assert all(one != other for one, other in zip(learned[0], learned[1], strict=True))


def test_the_kappa_of_lifts_is_chosen_on_public_likes_alone(tmp_path: Path) -> None:
    """What private people like changes nothing, and pairs are added to those that are counted and to those expected."""
    settings = file_of(tmp_path, planted_ratings(users=60, items=30, each=16))
    kappas = {public: chosen_kappa(settings, public, 1) for public in (0.1, 0.5)}
    assert set(kappas.values()) <= set(KAPPAS)
    assert len(set(kappas.values())) > 1
    world = world_of(settings, 1)
    private = public_people(world.people, 0.5, 1)[1]
    world.matrix.data[np.repeat(np.isin(np.arange(world.people), private), np.diff(world.matrix.indptr))] = 0
    public_users._chosen_kappa.cache_clear()
    assert chosen_kappa(settings, 0.5, 1) == kappas[0.5]
    popularity, likes = np.array([0.4, 0.3]), scipy.sparse.csr_array(np.array([[1.0, 1], [1, 0], [0, 0], [0, 1]]))
    assert public_users.lifted(likes, popularity, 0.0)[0, 1] == pytest.approx(4 * 0.4 * 0.3 * 1 / (4 * 0.5 * 0.5))
    assert public_users.lifted(likes, popularity, 2.0)[0, 1] == pytest.approx(4 * 0.4 * 0.3 * 3 / (4 * 0.5 * 0.5 + 2))
