"""Two servers that add up pairs: sums of their law, both rounds within one epsilon, and the same on every layout."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from evidence import counts_fit, size, variance_fits
from messages import SEED
from runs import here, of_file, planted_ratings, present, small, write_movielens

from actors.ratings import StoredRatings
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import as_float
from coordinator.protocol.decoding.pair_model import from_sums, gram_matrix
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import World
from coordinator.protocol.mechanisms.totals import PairTotals, pair_places, with_diagonal
from coordinator.protocol.messages import Query
from coordinator.protocol.noise import gaussian_deviation
from coordinator.protocol.shared_vector import CHANGES
from coordinator.protocol.statistics.counts import PAIRED, RANKED, GroupStatistic
from scenarios.backends.selection import InProcess
from scenarios.backends.session import InMemoryRounds
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.families.main.main_columns import record
from scenarios.families.main.run import MainResult, run

POOL, LIKES = 9, 3


def shared(**changes: Any) -> Scenario:
    return small(**{"design": "pair-totals", "users": 401, "seed": SEED, "pair_items": POOL, **changes})


def sums_of(result: MainResult, group: str) -> Ints:
    assert isinstance(result.statistic, GroupStatistic)
    return result.statistic.of(group).sums


def pool_of(result: MainResult) -> Ints:
    return np.asarray(present(result.outcome.state.asked[1].query.pool), np.int64)


def queries(*, likes: int = LIKES, pool: int = POOL, neighbours: str = "replace") -> list[Query]:
    world = World(items=40, rated=12, users=100, clusters=2, epsilon=None, delta=1e-6)
    settings = {"pair_items": pool, "pair_likes": likes, "neighbours": neighbours}
    design = PairTotals.model_validate(settings).design(world)
    return [ask(round_number=0, public_seed=bytes(16), epsilon=Fraction(1)) for ask in (design.of_items, design.query)]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hundred people who rated twelve of 40 items, each once a device or several times."""
    rows = planted_ratings(users=100, items=40, each=12)
    return write_movielens(tmp_path_factory.mktemp("pairs") / "ratings.csv", rows)


def likes_of(result: MainResult, pool: Ints) -> Floats:
    """Which devices like each item of a pool, shape (devices, M)."""
    ratings = result.population.ratings
    assert isinstance(ratings, StoredRatings)
    own = np.zeros((ratings.rows.users, ratings.rows.count))
    own[ratings.rows.owners[ratings.rows.values], ratings.rows.items[ratings.rows.values]] = 1
    liked: Floats = own[ratings.user][:, pool]
    return liked


def test_without_noise_sums_are_the_pairs_of_the_most_liked_items(file: Path) -> None:
    """The twin: devices that keep two likes have other sums, and no larger ones."""
    exact, limited = (
        here(of_file(file, design="pair-totals", epsilon="inf", pair_items=POOL, pair_likes=likes, users=150))
        for likes in (POOL, 2)
    )
    pool = pool_of(exact)
    liked = likes_of(exact, pool)
    gram = (liked.T @ liked).astype(np.int64)
    assert sums_of(exact, PAIRED).tolist() == gram[np.triu_indices(POOL)].tolist()
    everything = sums_of(exact, RANKED)
    assert everything[pool].min() >= np.delete(everything, pool).max()
    fewer = sums_of(limited, PAIRED)
    assert fewer.sum() < gram[np.triu_indices(POOL)].sum()
    near = present(exact.outcome.model.near)
    same = from_sums(near.pool, gram.astype(float), 150, 0.0)
    assert np.array_equal(near.weights, same.weights)
    assert np.array_equal(gram_matrix(sums_of(exact, PAIRED), POOL), gram)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_noise_is_for_the_most_that_one_person_changes(neighbours: str) -> None:
    """By all pairs of sets of likes in a small pool; noise for one coordinate fewer is refused, as devices see it."""
    pool, chosen = 6, [np.array(own, np.int32)[None] for own in combinations(range(6), 2)]
    vectors = np.zeros((len(chosen) + 1, with_diagonal(pool)), np.int64)
    for row, own in enumerate(chosen):
        vectors[row, pair_places(own, pool)[0]] = 1
    others = vectors if neighbours == "replace" else np.zeros_like(vectors[:1])
    change = np.abs(vectors[:, None] - others[None])
    assert change.max() == 1  # so that as many coordinates change by one as the L1 sensitivity says
    items, pairs = queries(neighbours=neighbours, pool=pool, likes=2)
    assert change.sum(axis=2).max() == pairs.parameters[CHANGES] == (6 if neighbours == "replace" else 3)
    assert items.parameters[CHANGES] == (4 if neighbours == "replace" else 2)
    assert items.parameters["delta"] + pairs.parameters["delta"] == 1e-6
    for query in (items, pairs):
        least = gaussian_deviation(changes=int(query.parameters[CHANGES]), epsilon=Fraction(1), delta=5e-7)
        assert least <= query.parameters["deviation"] <= 1.001 * least
    mechanism = PairTotals()
    mechanism.check(pairs)
    for wrong in ({CHANGES: 4.0}, {"deviation": 0.99 * least}, {"together": 3.0}, {"padded": 7.0}):
        with pytest.raises(InputError):
            mechanism.check(replace(pairs, parameters={**pairs.parameters, **wrong}))
    with pytest.raises(InputError, match="name 2 to 400"):
        mechanism.check(replace(pairs, pool=None))
    with pytest.raises(InputError, match="ask about all"):
        mechanism.check(replace(items, pool=pairs.pool))


@pytest.mark.statistical
def test_sums_of_pairs_are_those_of_their_law(file: Path) -> None:
    """Of l likes in the pool w are named at random, which makes the total certain; false alarm 1e-6 of its parts.

    Likers of a pair name it with chances of their own, and their sum strays no further than a binomial one of the mean
    chance (Hoeffding, 1956). The twin: chances are a fifth less.
    """
    users = size(20_000, 4000)
    result = here(of_file(file, design="pair-totals", epsilon="inf", pair_items=30, pair_likes=LIKES, users=users))
    liked = likes_of(result, pool_of(result))
    number = liked.sum(axis=1)
    alone = np.minimum(1, LIKES / np.maximum(number, 1))
    both = np.minimum(1, LIKES * (LIKES - 1) / np.maximum(number * (number - 1), 1))
    means, likers, upper = (liked.T * both) @ liked, liked.T @ liked, np.triu_indices(30)
    np.fill_diagonal(means, liked.T @ alone)
    assert (number > LIKES).any()
    sums, chances = sums_of(result, PAIRED), (means / np.maximum(likers, 1))[upper]
    assert sums.sum() == round(means[upper].sum())
    assert counts_fit(sums, likers[upper], chances)
    assert not counts_fit(sums, likers[upper], 0.8 * chances)


@pytest.mark.statistical
def test_each_round_has_the_noise_of_both_servers_under_its_part_of_epsilon() -> None:
    """False alarm 1e-6 for either round's noise, of its stated deviation; the twin: one server's alone.

    All items are in the pool, so that the same pairs are added up with noise and without.
    """
    noisy, bare = (here(shared(epsilon=epsilon, pair_items=40, pair_likes=5)) for epsilon in (1, "inf"))
    result = record(noisy)
    noise = sums_of(noisy, PAIRED) - sums_of(bare, PAIRED)
    assert variance_fits(noise, result["pair_deviation"] ** 2)
    assert not variance_fits(noise, result["pair_deviation"] ** 2 / 2)
    # five likes and five others change ten counts by one under a tenth of epsilon, as nothing is chosen: two doses
    dose = gaussian_deviation(changes=10, epsilon=Fraction(1, 10), delta=5e-7)
    assert result["noise_deviation"] == pytest.approx(2**0.5 * dose, rel=1e-3)
    items = sums_of(noisy, RANKED) - sums_of(bare, RANKED)
    assert variance_fits(items, result["noise_deviation"] ** 2)


def test_pure_rounds_have_laplace_noise_under_their_parts() -> None:
    """Ten counts change by one under a tenth of epsilon, and thirty under the rest: two doses of scale 100 and 33."""
    result = record(here(shared(epsilon=1, delta=0, pair_items=40, pair_likes=5)))
    assert result["noise_deviation"] == pytest.approx(200, rel=0.01)
    assert result["pair_deviation"] == pytest.approx(2 * 30 / 0.9, rel=0.01)


def test_the_same_devices_answer_both_rounds_within_one_epsilon() -> None:
    result = here(shared(epsilon="1/3"))
    first, second = result.outcome.state.asked
    assert (first.query.epsilon, second.query.epsilon) == (Fraction(1, 12), Fraction(1, 4))
    assert (first.first, first.stop) == (second.first, second.stop) == (0, 401)
    assert first.query.parameters["delta"] == second.query.parameters["delta"] == 5e-7
    told = record(result)
    assert told["spent_max"] == told["epsilon"] == as_float(Fraction(1, 3))
    assert (told["asked"], told["refused"], told["policy"], told["rounds"]) == (802, 0, "two-rounds", 2)
    assert told["bytes_per_device"] == 4 * (40 + with_diagonal(POOL)) + 2 * 16
    assert told["guarantee"].startswith("(epsilon, delta)-differential privacy of the published sums")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"policy": "one-round"}, "takes two-rounds alone"),
        ({"pair_likes": 10}, "pair_likes is 10; it must lie between 1 and 9"),
        ({"answers_per_device": 2}, "asks once"),
    ],
)
def test_what_cannot_be_asked_is_refused(changes: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError, match=error):
        resolve(shared(**changes).complete())


def test_devices_noise_that_falls_short_in_the_second_round_leaves_popularity() -> None:
    """Which devices drop out is decided anew in each round; a round that falls short is not opened."""
    with pytest.raises(Exception, match="nothing is opened"):
        here(shared(noise="devices", dropout=0.4, expected_answers=0.9))
    learner = resolve(shared().complete()).learner
    rounds = InMemoryRounds()
    run(shared(), InProcess(1), rounds=rounds)
    first = rounds.rounds[0]
    model = PairTotals().learn(first.statistic, [first.ask.query], learner.how)  # type: ignore[attr-defined, arg-type] # of sums
    assert model.near is None
    assert np.array_equal(model.score, first.statistic.of(RANKED).sums)  # type: ignore[attr-defined] # of groups
