"""Decoders of scores, pairs and open ratings, and the trusted curator's noise."""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import combinations, pairwise

import evidence
import numpy as np
import pytest
import worlds
from evidence import World, examples, normal_radius, variance_fits
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from threadpoolctl import threadpool_info, threadpool_limits
from worlds import in_world

from actors.device import Cohort
from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.budget import ADD_REMOVE, REPLACE, Epsilon
from coordinator.protocol.decoding.curator import (
    LARGEST_SCALE,
    DiscreteLaplace,
    item_sensitivity,
    noisy_symmetric,
    noisy_totals,
    pair_sensitivity,
)
from coordinator.protocol.decoding.estimates import others_share, read_sets, read_signs
from coordinator.protocol.decoding.line import DECODERS, Curator, decode, decode_affinity, kmeans_on_line
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Decoding
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.moments.sign_moments import optimal_best_count, sign_contrast
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.value_channels import choice_channel
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.state import Ask, ServerState, absorb, total


def test_scores_and_standard_errors_are_the_documented_formulas() -> None:
    """``sum H S`` and ``sum H (S - mean S)`` over the devices that answered."""
    sensed, scores = np.array([180, 171, 0]), np.array([60, 30, 0])
    statistic = ScoreStatistic(sensed=sensed, scores=scores, devices=1000, answered=900, refused=100, ones=225)
    variance = 900 * 0.2 * 0.8 * 0.25
    for name, expected, spread in (("paper", [60, 30, 0], variance), ("centred", [15, -12.75, 0], variance * 0.75)):
        score, error = DECODERS[name](statistic, 0.2)
        assert score.tolist() == expected
        assert error == pytest.approx(spread**0.5)
    assert [decoder(worlds.empty_statistic(3), 0.2)[1] for decoder in DECODERS.values()] == [0, 0]


@pytest.mark.parametrize("far", [1e3, 1e7])
def test_a_score_far_out_hides_no_cluster(far: float) -> None:
    scores = np.array([0.0, 1, 2, 10, 11, 12, 20, 21, far])
    assert kmeans_on_line(scores, 4).tolist() == [3, 3, 3, 2, 2, 2, 1, 1, 0]


def test_nobody_answered_is_one_cluster_and_no_error() -> None:
    model = decode(worlds.empty_statistic(5), sensing=0.5, clusters=2, decoder="centred")
    assert model.cluster.tolist() == [0] * 5
    assert model.score.tolist() == model.error.tolist() == [0] * 5


SEED = bytes(range(16))


def log_pmf(law: DiscreteLaplace, noise: ArrayLike) -> Floats:
    """The law: the logarithm of ``tanh(rate / 2) exp(-rate |k|)``."""
    size = np.abs(np.asarray(noise, float))
    peak = math.log(math.tanh(law.rate / 2))
    return np.where(size == 0, peak, peak - law.rate * np.maximum(size, 1))


def changes(name: str, items: int, rated: int, neighbours: str) -> Ints:
    """All changes of published totals between neighbours, a row each: users with at most ``rated`` ratings, all."""
    votes: Ints = np.array(list(itertools.product((-1, 0, 1), repeat=items)))
    votes = votes[np.count_nonzero(votes, axis=1) <= rated]
    if name == "curator-pairs":
        upper = np.triu_indices(items, 1)
        votes = votes[:, upper[0]] * votes[:, upper[1]]
    return votes if neighbours == ADD_REMOVE else (votes[:, None] - votes).reshape(-1, votes.shape[1])


def largest_loss(noise: DiscreteLaplace, change: Ints) -> float:
    """Largest log-ratio of any outcome's probabilities, of totals with independent noise that changed by any row."""
    outcomes = np.arange(-6, 7)
    each = [np.abs(log_pmf(noise, outcomes) - log_pmf(noise, outcomes - by)).max() for by in range(3)]
    return float(np.array(each)[np.abs(change)].sum(axis=1).max())


def sensitivity_of(name: str, items: int, rated: int, neighbours: str) -> int:
    if name == "curator-items":
        return item_sensitivity(rated, neighbours=neighbours)
    return pair_sensitivity(rated, items=items, neighbours=neighbours)


@pytest.mark.parametrize("neighbours", [REPLACE, ADD_REMOVE])
@pytest.mark.parametrize("name", ["curator-items", "curator-pairs"])
def test_published_totals_lose_epsilon_between_neighbours_neither_more_nor_less(name: str, neighbours: str) -> None:
    """Over all users of tiny catalogues, in some of which any two share many items. Twin: noise of half the scale."""
    budget = Fraction(3, 2)
    for items, rated in ((4, 2), (3, 3), (4, 3), (5, 3), (6, 3), (4, 4), (5, 4), (5, 5)):
        change, sensitivity = changes(name, items, rated, neighbours), sensitivity_of(name, items, rated, neighbours)
        noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
        assert largest_loss(noise, change) == pytest.approx(1.5, rel=1e-12)
        half = DiscreteLaplace(budget=2 * budget, sensitivity=sensitivity)
        assert largest_loss(half, change) == pytest.approx(3, rel=1e-12)


def drawn(budget: Fraction) -> Ints:
    totals = np.zeros((200, 500), np.int64)
    noisy, _ = noisy_totals(totals, epsilon=budget, sensitivity=3, seed=SEED)
    return noisy.astype(np.int64).ravel()


def agrees(sample: Ints, budget: Fraction) -> bool:
    noise = DiscreteLaplace(budget=budget, sensitivity=3)
    middle = np.arange(-20, 21)
    law = np.exp(log_pmf(noise, middle))
    tail = (1 - law.sum()) / 2
    counts = np.bincount(np.clip(sample, -21, 21) + 21, minlength=43)
    return evidence.chi_square_fits(counts, np.concatenate(([tail], law, [tail])))


@pytest.mark.statistical
def test_the_sampler_draws_the_law() -> None:
    """Chi-square over 43 cells of 100 thousand draws, false alarm 1e-6; the twin draws at 5 % less noise."""
    assert agrees(drawn(Fraction(1)), Fraction(1))
    assert not agrees(drawn(Fraction(21, 20)), Fraction(1))


def test_pairs_have_one_draw_each() -> None:
    totals = np.triu(np.arange(3600, dtype=np.int64).reshape(60, 60))
    noisy, _ = noisy_symmetric(totals, epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.array_equal(noisy, noisy.T)
    assert not noisy.diagonal().any()
    above = np.triu_indices(60, 1)
    noise = (noisy - totals)[above]
    assert np.unique(noise).size > 1000  # of 1770 draws of scale 1000
    exact, _ = noisy_symmetric(totals, epsilon=None, sensitivity=10, seed=SEED)
    assert np.array_equal(exact[above], totals[above])
    items, _ = noisy_totals(np.zeros(1770, np.int64), epsilon=Fraction(1, 100), sensitivity=10, seed=SEED)
    assert np.mean(items == noise) < 0.05  # two kinds of release do not share coins


ITEMS, RATED = 6, 3
DESIGNS = ["curator-items", "curator-pairs"]
Users = list[dict[int, bool]]


def state_of(name: str, users: Users) -> ServerState:
    """What the curator holds once these users told their ratings."""
    query = worlds.reveals_query(name, items=ITEMS, most=RATED)
    ratings, count = worlds.stored_ratings([*users, {0: True}], range(len(users)), ITEMS), len(users)
    release = Cohort(ratings, worlds.SECRET, 0, count, None).answer(query, 0, count)
    return absorb(ServerState(devices=count), Ask(query=query, first=0, stop=count), aggregate(query, release))


def published(
    name: str, users: Users, *, epsilon: Epsilon = Fraction(1), neighbours: str = REPLACE, seed: bytes = SEED
) -> Model:
    curator = Curator(epsilon=epsilon, rated=RATED, neighbours=neighbours, seed=seed)
    learner = SumLearner(mechanism=mechanism_of(name), how=Decoding(clusters=2, decoder="totals", curator=curator))
    return learner.learn(state_of(name, users))[0]


def same(one: Model, other: Model) -> bool:
    """Whether score, error and clusters are equal to the last bit."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("score", "error", "cluster", "clusters")
    )


BASE: Users = [{0: True, 1: True, 4: False}, {0: True, 3: False}, {1: True, 2: True, 5: False}] * 5


@pytest.mark.parametrize(("neighbours", "sensitivity"), [(REPLACE, 6), (ADD_REMOVE, 3)])
@pytest.mark.parametrize("name", DESIGNS)
def test_noise_is_that_of_the_seed_and_comes_once(name: str, neighbours: str, sensitivity: int) -> None:
    """The score is the exact totals and one draw of noise of the stated scale: 3 ratings, or 3 pairs, a user."""
    model = published(name, BASE, neighbours=neighbours)
    bare = published(name, BASE, epsilon=None, neighbours=neighbours)
    zeros = np.zeros(ITEMS, np.int64)
    if name == "curator-items":
        noise, _ = noisy_totals(zeros, epsilon=Fraction(1), sensitivity=sensitivity, seed=SEED)
    else:
        square = np.zeros((ITEMS, ITEMS), np.int64)
        noise, _ = noisy_symmetric(square, epsilon=Fraction(1), sensitivity=sensitivity, seed=SEED)
        noise = noise.sum(axis=1)
    assert noise.any()
    np.testing.assert_array_equal(model.score, bare.score + noise)
    assert same(model, published(name, BASE, neighbours=neighbours))
    assert not np.array_equal(model.score, published(name, BASE, neighbours=neighbours, seed=bytes(16)).score)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(50)])
def test_neighbours_with_the_same_totals_get_the_same_model(name: str, epsilon: Fraction) -> None:
    """Users whose ratings cancel out tell the totals nothing; so they may tell nothing else either.

    Among them one with no rating, and one with a single rating where pairs are summed. Where the guarantee is about a
    user added or removed, the exact number of users may not show in the model either.
    """
    single: list[Users] = [] if name == "curator-items" else [[{2: True}], [{5: False}]]
    cancel: Users = (
        [{0: True, 1: False}, {0: False, 1: True}]
        if name == "curator-items"
        else [{0: True, 1: True}, {0: True, 1: False}]
    )
    model = published(name, BASE, epsilon=epsilon, neighbours=ADD_REMOVE)
    others: list[Users] = [[{}], [{}, {}], cancel, *single]
    for more in others:
        assert same(published(name, [*BASE, *more], epsilon=epsilon, neighbours=ADD_REMOVE), model)


@settings(max_examples=examples(30))
@given(
    users=st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=2, max_size=8),
    name=st.sampled_from(DESIGNS),
    data=st.data(),
)
def test_one_user_changes_totals_by_the_sensitivity_at_most(users: Users, name: str, data: st.DataObject) -> None:
    """Truncation included: L1 distance of the exact totals with and without any one user's ratings."""
    place = data.draw(st.integers(0, len(users) - 1))
    without: Users = [{} if k == place else user for k, user in enumerate(users)]
    totals = []
    for some in (users, without):
        statistic = total(state_of(name, some))
        if name == "curator-items":
            scores = worlds.scores_of(statistic)
            totals.append(2 * scores.scores - scores.sensed)
        else:
            pairs = worlds.pairs_of(statistic)
            totals.append(2 * pairs.agreed - pairs.pairs)
    most = sensitivity_of(name, ITEMS, RATED, ADD_REMOVE)
    rated = min(RATED, len(users[place]))
    assert (
        np.abs(totals[0] - totals[1]).sum() == (rated if name == "curator-items" else rated * (rated - 1) // 2) <= most
    )


def test_the_curators_coins_do_not_show() -> None:
    curator = Curator(epsilon=Fraction(1), rated=RATED, neighbours=REPLACE, seed=SEED)
    for shown in (
        repr(curator),
        str(
            SumLearner(
                mechanism=mechanism_of("curator-items"), how=Decoding(clusters=2, decoder="totals", curator=curator)
            )
        ),
    ):
        assert repr(SEED) not in shown
        assert SEED.hex() not in shown


def test_items_without_a_clear_cluster_get_the_same_label_again() -> None:
    affinity = np.ones((20, 20)) + np.diag(np.repeat([1.0, -1.0], 10))  # ARPACK starts anew, from random numbers
    labels = [decode_affinity(affinity, clusters=3, error=1.0).cluster.tolist() for _ in range(4)]
    assert labels == labels[:1] * 4


def test_libraries_stay_on_one_thread_until_the_last_of_overlapping_contexts_ends() -> None:
    def threads() -> list[int]:
        return [pool["num_threads"] for pool in threadpool_info()]

    with threadpool_limits(limits=2):
        before, first, second = threads(), one_thread(), one_thread()
        first.__enter__()
        second.__enter__()  # as in another thread
        first.__exit__(None, None, None)
        assert set(threads()) == {1}
        second.__exit__(None, None, None)
        assert threads() == before


EMPTY, FAR = worlds.empty_statistic(5), np.array([0.0, 1, 2, 10, 11, 12, 20, 21, 1e14])
REFUSED: list[tuple[str, Callable[[], object]]] = [
    (r"from 0 to 1e\+14 lie too far apart for 4 clusters", lambda: kmeans_on_line(FAR, 4)),
    ("1 of 3 scores", lambda: kmeans_on_line(np.array([0.0, math.nan, 1.0]), 2)),
    ("1 of 3 scores", lambda: kmeans_on_line(np.array([0.0, math.inf, 1.0]), 2)),
    (
        r"^decoder 'best' is unknown; choose one of centred, paper$",
        lambda: decode(EMPTY, sensing=0.5, clusters=2, decoder="best"),
    ),
    *(
        (rf"^clusters is {many}; .*5$", partial(decode, EMPTY, sensing=0.5, clusters=many, decoder="paper"))
        for many in (-1, 0, 1, 6)
    ),
    ("neighbours is 'swap'; choose replace or add-remove", lambda: item_sensitivity(3, neighbours="swap")),
    (
        "sensitivity is 0",
        lambda: DiscreteLaplace(budget=Fraction(1), sensitivity=pair_sensitivity(1, items=9, neighbours=REPLACE)),
    ),
    ("epsilon 1e-12 asks for noise", lambda: DiscreteLaplace(budget=Fraction(1, LARGEST_SCALE), sensitivity=2)),
    ("seed has 3 bytes", lambda: noisy_totals(np.zeros(2, np.int64), epsilon=None, sensitivity=1, seed=b"abc")),
    (
        r"shape \(2, 3\)",
        lambda: noisy_symmetric(np.zeros((2, 3), np.int64), epsilon=None, sensitivity=1, seed=SEED),
    ),
]


@pytest.mark.parametrize(("words", "call"), REFUSED)
def test_what_cannot_be_used_is_named(words: str, call: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=words):
        call()


# Signs of devices are read without bias, and where nothing was told no estimate is made of it.


EPSILON = Fraction(4)
CLASSES = worlds.world(items=20, rated=8, like=((0.9, 0.2), (0.6, 0.05)), shares=(0.3, 0.7))
ONE_CLASS = worlds.world(items=40, rated=10, like=((0.9, 0.1),))
POOLS = {"all": range(20), "some": range(2, 20, 3), "one": [5]}


def answers(of: World, query: Query, *, blocks: int, each: int) -> Iterator[ScoreStatistic]:
    """Statistics of one block of devices after the other."""
    cohort = Cohort(worlds.block_ratings(of), worlds.SECRET, 0, blocks * each, None)
    for block in range(blocks):
        yield worlds.scores_of(aggregate(query, cohort.answer(query, block * each, (block + 1) * each)))


def liked(of: World) -> Floats:
    """``2 b - 1`` of every item, averaged over user classes."""
    mean: Floats = 2 * np.array(of.shares) @ np.array(of.like) - 1
    return mean[list(of.clusters)]


def asked(pool: str, vectors: int) -> Query:
    size = len(POOLS[pool])
    kept = optimal_best_count(size, items=20, rated=8, vectors=vectors, epsilon=EPSILON)
    return worlds.sign_query(list(POOLS[pool]), items=20, vectors=vectors, kept=kept, epsilon=EPSILON)


@pytest.mark.statistical
@pytest.mark.parametrize("vectors", [1, 4])
@pytest.mark.parametrize("pool", POOLS)
def test_signs_are_read_without_bias(pool: str, vectors: int) -> None:
    """Slope of estimates against ``2 b - 1``, two user classes, 300,000 devices; normal, false alarm 1e-6.

    Twin: read as if users had rated 9 items instead of 8, the slope is refused.
    """
    query, truth = asked(pool, vectors), liked(CLASSES)
    statistic = next(answers(CLASSES, query, blocks=1, each=300_000))
    for rated, right in ((8, True), (9, False)):
        found = read_signs(query, statistic, rated=rated)
        assert ((found.information > 0) == np.isin(np.arange(20), POOLS[pool])).all()
        power = float((found.information * truth**2).sum())
        slope = float((found.weighted * truth).sum()) / power
        assert (abs(slope - 1) <= normal_radius(power**-0.5)) == right


@pytest.mark.statistical
@pytest.mark.parametrize("pool", [40, 12, 2, 1])
def test_signs_of_centred_ratings_are_read_without_bias(pool: int) -> None:
    """Means of either cluster, one user class, centres at what is true, 300,000 devices; normal, false alarm 1e-6.

    Twin: read as if each rating had been counted from 4 steps higher, or 7 of a single item, one of them is refused.
    """
    centres = np.rint(32 * liked(ONE_CLASS)[:pool]).astype(np.int32)
    query = worlds.sign_query(range(pool), items=40, epsilon=EPSILON, centres=centres.tolist())
    statistic = next(answers(ONE_CLASS, query, blocks=1, each=300_000))
    for shift, right in ((0, True), (4 if pool > 1 else 7, False)):
        found = read_signs(replace(query, centres=np.clip(centres + shift, -32, 32)), statistic, rated=10)
        strayed = []
        for first in range(min(pool, 2)):
            power = found.information[first:pool:2].sum()
            mean = found.weighted[first:pool:2].sum() / power
            strayed.append(abs(mean - liked(ONE_CLASS)[first]) * power**0.5)
        assert (max(strayed) <= normal_radius(1.0, comparisons=2)) == right


def sets_about(items: int, rated: int, pool: int, epsilon: Epsilon) -> Query:
    first = (items - pool) // 4 * 2  # even: items of both clusters in turn, as `expected_statistic` has them
    places = np.arange(first, first + pool, dtype=np.int32)
    return in_world(MaxSense, items=items, rated=rated).query(
        round_number=0, public_seed=worlds.PUBLIC, epsilon=epsilon, pool=places
    )


def test_who_rated_one_item_of_a_pool_rated_so_many_others_of_it() -> None:
    """Of all sets of four among seven items, three of which are the pool: with item 0, and on average."""
    rated = [len({0, 1, 2} & set(items)) for items in itertools.combinations(range(7), 4)]
    others = [len({1, 2} & set(items)) for items in itertools.combinations(range(7), 4) if 0 in items]
    assert others_share(3, items=7, rated=4) == pytest.approx(np.mean(others) / np.mean(rated))


@pytest.mark.parametrize("told", [0, 50])
def test_statistics_that_tell_nothing(told: int) -> None:
    """Nobody answered; everybody answered 1, or 0; everything was sensed: no estimate, and no warning either."""
    alike = [(pool, told // 2, ones) for pool, ones in itertools.product((40, 16, 1), (0, told))]
    for pool, senses, ones in (*alike, (16, told, told // 2)):
        sensed, scores = np.full(40, senses), np.full(40, ones // 2)
        plain = ScoreStatistic(sensed=sensed, scores=scores, devices=50, answered=told, refused=0, ones=ones)
        estimate = read_sets(sets_about(40, 10, pool, EPSILON), plain, rated=10)
        assert not estimate.information.any()
        assert not estimate.value.any()
    nothing = read_signs(asked("some", 1), replace(worlds.empty_statistic(20), devices=9, refused=9), rated=8)
    assert (nothing.information == 0).all()
    assert (nothing.value == 0).all()
    assert np.isinf(nothing.error).all()


@functools.cache
def scatter() -> dict[str, tuple[Floats, float]]:
    """Deviations of scores from the mean over items in 30 runs, and the standard error that each decoder states.

    A rated item is one of fifty: its share in the answer, which the standard error leaves out, is below 1 %.
    """
    world = worlds.world(items=400, rated=8, like=((0.5,),))
    cohort, statistics = Cohort(worlds.block_ratings(world), world.secret, 0, 3_000, None), []
    for round_number in range(30):
        query = worlds.maxsense_query(items=400, sensing=1 / 8, epsilon=Fraction(1), round_number=round_number)
        statistics.append(worlds.scores_of(aggregate(query, cohort.answer(query, 0, 3_000))))
    found = {}
    for name, decode_scores in DECODERS.items():
        scores, errors = map(np.array, zip(*(decode_scores(one, 1 / 8) for one in statistics), strict=True))
        found[name] = (scores - scores.mean(axis=1, keepdims=True)) * (400 / 399) ** 0.5, float(errors.mean())
    return found


@pytest.mark.thorough
@pytest.mark.statistical
@pytest.mark.parametrize("decoder", ["centred", "paper"])
def test_scores_scatter_by_their_standard_error(decoder: str) -> None:
    """12,000 scores of items that are all alike, around their mean; chi-square, false alarm 1e-6.

    At 12,000 the variance may stray by 6.3 %. Twins: a standard error wrong by 5 % is refused both ways, and so is
    that of the other decoder (the factor 1 - q).
    """
    found, error = scatter()[decoder]
    assert variance_fits(found, error**2)
    assert not variance_fits(found, (error * 1.05) ** 2)
    assert not variance_fits(found, (error * 0.95) ** 2)
    other = scatter()["paper" if decoder == "centred" else "centred"][1]
    assert not variance_fits(found, other**2)


@given(
    scores=st.lists(st.integers(-1000, 1000), min_size=3, max_size=10),
    clusters=st.integers(2, 4),
    offset=st.sampled_from([0.0, 1e9]),
)
@settings(max_examples=examples(60))
def test_no_other_clusters_have_fewer_squares(scores: list[int], clusters: int, offset: float) -> None:
    """Against every way of cutting the sorted scores; of two equally good ways either is found."""
    numbers = np.array(scores, float)
    rising, many = np.sort(numbers), min(clusters, np.unique(numbers).size)
    ways = [np.split(rising, cuts) for cuts in combinations(range(1, rising.size), many - 1)]
    least = min(sum(part.var() * part.size for part in way) for way in ways)
    found = kmeans_on_line(numbers + offset, clusters)
    own = [numbers[found == label] for label in range(found.max() + 1)]
    assert len(own) == many
    assert sum(part.var() * part.size for part in own) == pytest.approx(least, abs=1e-6)
    assert all(below.max() <= above.min() for above, below in pairwise(own))


RATES = st.fractions(min_value=Fraction(1, 100), max_value=20, max_denominator=1000)


@settings(max_examples=examples(60))
@given(RATES, st.integers(1, 10))
def test_the_law_sums_to_one_and_has_its_variance(budget: Fraction, sensitivity: int) -> None:
    noise = DiscreteLaplace(budget=budget, sensitivity=sensitivity)
    reach = math.ceil(60 / noise.rate)
    values = np.arange(-reach, reach + 1)
    law = np.exp(log_pmf(noise, values))
    assert law.sum() == pytest.approx(1, rel=1e-9)
    assert law @ values**2 == pytest.approx(noise.variance, rel=1e-9)


LIKES = ((0.9, 0.2, 0.0, 0.7, 0.5), (0.1, 0.6, 1.0, 0.7, 0.3))


SHARES = (0.25, 0.75)


def enumerated(items: int, pool: int, rated: int, vectors: int, kept: int, epsilon: Epsilon) -> list[float]:
    """``E[H_i S]`` of the pool's items, the first ones: over ratings, signs of all vectors, and what is released."""
    channel = choice_channel(epsilon, choices=2 * vectors, best_count=kept)
    found, matrices = np.zeros(pool), list(itertools.product((1, -1), repeat=vectors * pool))

    @functools.cache
    def preferred(sums: tuple[int, ...]) -> Floats:
        """By how much each vector is named with the sign + rather than -."""
        row = np.array(worlds.row_of(sums, channel), float)
        found: Floats = row[::2] - row[1::2]
        return found

    for chance, held in worlds.holdings(LIKES, SHARES, range(items), rated):
        for matrix in matrices:
            signs = [matrix[a * pool : (a + 1) * pool] for a in range(vectors)]
            sums = tuple(sum(one[item] * (2 * like - 1) for item, like in held.items() if item < pool) for one in signs)
            found += chance * (preferred(sums) @ np.array(signs))
    return [float(one) / len(matrices) for one in found]


CASES = [
    *((1, 1, 1, 1), (3, 3, 1, 1), (4, 4, 3, 1), (5, 5, 5, 1), (5, 3, 2, 1), (5, 1, 4, 1)),
    *((1, 1, 1, 2), (3, 2, 2, 2), (3, 3, 3, 2), (4, 3, 2, 2), (5, 2, 3, 2)),
    *((2, 2, 1, 4), (3, 2, 2, 4)),
]


@pytest.mark.parametrize("epsilon", [Fraction(1), None], ids=str)
@pytest.mark.parametrize(("items", "pool", "rated", "vectors"), CASES)
def test_the_contrast_is_that_of_full_enumeration(
    items: int, pool: int, rated: int, vectors: int, epsilon: Epsilon
) -> None:
    """Whatever users like: ``E[H_i S]`` is the contrast times ``2 b - 1``, b averaged over user classes."""
    liked = np.array(SHARES) @ np.array(LIKES)
    for kept in range(1, vectors + 1):
        contrast = sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        expected = enumerated(items, pool, rated, vectors, kept, epsilon)
        np.testing.assert_allclose(contrast * (2 * liked[:pool] - 1), expected, rtol=1e-10, atol=1e-13)
        assert contrast > 0


@settings(max_examples=examples(60))
@given(data=st.data(), items=st.integers(1, 60), power=st.integers(0, 6))
def test_the_best_number_to_keep_has_the_largest_contrast(data: st.DataObject, items: int, power: int) -> None:
    rated, pool = data.draw(st.integers(1, items)), data.draw(st.integers(1, items))
    epsilon = data.draw(st.none() | st.sampled_from([Fraction(1, 100), Fraction(1), Fraction(3), Fraction(20)]))
    vectors = 1 << power
    best = optimal_best_count(pool, items=items, rated=rated, vectors=vectors, epsilon=epsilon)
    contrasts = [
        sign_contrast(pool, items=items, rated=rated, vectors=vectors, best_count=kept, epsilon=epsilon)
        for kept in range(1, vectors + 1)
    ]
    assert 1 <= best <= vectors
    assert contrasts[best - 1] >= max(contrasts) * (1 - 1e-12)
