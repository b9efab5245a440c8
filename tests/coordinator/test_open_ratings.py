"""Open ratings: item queries and full reveal."""

import itertools
import math

import evidence
import numpy as np
import pytest
import worlds
from evidence import chi_square_fits, examples
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import Devices, conduct, in_world

from actors.device import Cohort
from actors.ratings import Ratings
from coordinator.protocol.arrays import Indices
from coordinator.protocol.coins import round_key
from coordinator.protocol.decoding.line import decode_shares
from coordinator.protocol.hashing import device_streams
from coordinator.protocol.mechanism import Decoding
from coordinator.protocol.mechanisms import mechanism_of
from coordinator.protocol.mechanisms.toys import ItemQuery, toy_share
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.public_draws import random_subset, reveals
from coordinator.protocol.statistics.counts import PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.server.aggregation import aggregate
from coordinator.server.rounds.group_policies import DRY_ROUNDS, UntilLearned
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.rounds import Outcome, Round

ITEMS = 10
USERS = st.lists(st.dictionaries(st.integers(0, ITEMS - 1), st.booleans(), max_size=ITEMS), min_size=1, max_size=5)
LEARNER = SumLearner(mechanism=mechanism_of("item-query"), how=Decoding(clusters=2, decoder="shares"))


def answer(ratings: Ratings, query: Query, first: int, stop: int) -> Release:
    return Cohort(ratings, worlds.SECRET, first, stop, None).answer(query, first, stop)


@settings(max_examples=examples(50))
@given(users=USERS, data=st.data(), pool=st.sets(st.integers(0, ITEMS - 1), min_size=1))
def test_bits_and_sums_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, pool: set[int]
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=25))
    first = data.draw(st.integers(0, len(behind)))
    places = np.array(sorted(pool), np.int32)
    query = in_world(ItemQuery, items=ITEMS).query(round_number=2, public_seed=worlds.PUBLIC, epsilon=None, pool=places)
    release = answer(worlds.stored_ratings([*users, {0: True}], behind, ITEMS), query, first, len(behind))
    bits, yes, liked = list[int](), [0] * ITEMS, [0] * ITEMS
    for device in range(first, len(behind)):
        item, value = evidence.item_query(worlds.public_stream(query, device), sorted(pool))
        bits.append(int(users[behind[device]].get(item) is value))
        yes[item] += bits[-1]
        liked[item] += bits[-1] and value
    assert release.unpacked()[:, 0].tolist() == bits
    assert (release.answered, release.pairs) == (None, None)
    statistic = worlds.scores_of(aggregate(query, release))
    assert (statistic.sensed.tolist(), statistic.scores.tolist()) == (yes, liked)
    assert (statistic.devices, statistic.answered, statistic.ones) == (len(bits), len(bits), sum(bits))


@pytest.mark.parametrize("rated", [1, 5, 6, 10])
def test_bits_of_a_block_model_are_the_oracles(rated: int) -> None:
    world, places = worlds.world(items=ITEMS, rated=rated), np.array([0, 3, 9], np.int32)
    query = in_world(ItemQuery, items=ITEMS).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None, pool=places)
    bits = []
    for device in range(400, 480):
        item, value = evidence.item_query(worlds.public_stream(query, device), places.tolist())
        bits.append(int(world.ratings(device).get(item) is value))
    assert answer(worlds.block_ratings(world), query, 400, 480).unpacked()[:, 0].tolist() == bits


def learned(ratings: Ratings, users: int, *, rated: int, answers: int = 1) -> tuple[list[Round], Outcome]:
    """All rounds of item queries, and what they told."""
    design, rounds = in_world(ItemQuery, items=ratings.items, rated=rated, answers_per_item=answers), list[Round]()
    policy = UntilLearned(design=design, public_seed=worlds.PUBLIC)
    devices = Devices(Cohort(ratings, worlds.SECRET, 0, users, None))
    return rounds, conduct(policy, LEARNER, devices, devices=users, keep=rounds.append)


def check_rounds(rounds: list[Round], *, items: int, rated: int, answers: int, users: int) -> Indices:
    """Every round asks fresh devices about what is not learned; returns the yeses at the end."""
    yes, fresh, silent = np.zeros(items, np.int64), 0, 0
    for number, over in enumerate(rounds):
        ask, statistic = over.ask, worlds.scores_of(over.statistic)
        assert ask.query.pool is not None
        assert ask.query.pool.tolist() == np.flatnonzero(yes < answers).tolist()
        assert (ask.query.round, ask.first, ask.query.epsilon) == (number, fresh, None)
        wanted = math.ceil(len(ask.query.pool) * items / (2 * rated)) * 2 ** (silent // DRY_ROUNDS)
        assert ask.stop - ask.first == min(wanted, users - fresh) > 0
        silent = 0 if statistic.ones else silent + 1
        yes, fresh = yes + statistic.sensed, ask.stop
    assert (yes >= answers).all() or fresh == users
    return yes.astype(np.int32)


@pytest.mark.parametrize(("items", "rated"), [(2, 1), (2, 2), (3, 1), (12, 4), (12, 12), (50, 3)])
@pytest.mark.parametrize("answers", [1, 3])
def test_rounds_go_on_until_every_item_is_learned(items: int, rated: int, answers: int) -> None:
    world = worlds.world(items=items, rated=rated, like=((1.0, 0.0),))
    rounds, outcome = learned(worlds.block_ratings(world), 1 << 20, rated=rated, answers=answers)
    yes = check_rounds(rounds, items=items, rated=rated, answers=answers, users=1 << 20)
    assert (yes >= answers).all()
    assert outcome.state.fresh < 1 << 20
    assert outcome.model.cluster.tolist() == list(world.clusters)
    assert outcome.model.score.tolist() == [1.0 - cluster for cluster in world.clusters]


@pytest.mark.parametrize("users", [1, 2, 17, 100])
def test_rounds_stop_when_users_run_out(users: int) -> None:
    world = worlds.world(items=50, rated=3)
    rounds, outcome = learned(worlds.block_ratings(world, users), users, rated=3)
    yes = check_rounds(rounds, items=50, rated=3, answers=1, users=users)
    assert (yes == 0).any()
    assert outcome.state.fresh == users
    assert np.isfinite(outcome.model.score).all()
    assert np.isfinite(outcome.model.error).all()


def test_rounds_do_not_slow_down_with_the_rounds_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work between rounds may not grow with their number: counted in additions of statistics, not in time.

    An item that nobody rated would cost a round for every N / 2w users, so that silent rounds are doubled now and then.
    """
    additions, add = 0, ScoreStatistic.__add__

    def counted(self: ScoreStatistic, other: ScoreStatistic) -> ScoreStatistic:
        nonlocal additions
        additions += 1
        return add(self, other)

    monkeypatch.setattr(ScoreStatistic, "__add__", counted)
    users = [dict.fromkeys(range(1, 6), True)] * 120
    rounds, _ = learned(worlds.stored_ratings(users, range(120), 6), 120, rated=5)
    yes = check_rounds(rounds, items=6, rated=5, answers=1, users=120)
    assert (yes > 0).tolist() == [False] + [True] * 5
    assert 40 < len(rounds) < 80, "silent rounds grow"
    assert additions <= 6 * len(rounds)


NAMES = ["full-reveal", "curator-items", "curator-pairs"]
STREAMS = device_streams(round_key(worlds.PUBLIC, 0), 0, 120_000)


def reveals_asked(name: str = "full-reveal", *, items: int = ITEMS, most: int = ITEMS, share: float = 1.0) -> Query:
    return worlds.reveals_query(name, items=items, most=most, share=share)


def told(query: Query, device: int, ratings: dict[int, bool]) -> dict[int, bool]:
    """The oracle's ratings that a device tells."""
    stream = worlds.public_stream(query, device)
    if not evidence.reveals(stream, query.parameters["share"]):
        return {}
    return {item: ratings[item] for item in evidence.kept(stream, sorted(ratings), int(query.parameters["most"]))}


@settings(max_examples=examples(60))
@given(
    users=USERS,
    data=st.data(),
    most=st.integers(1, ITEMS),
    share=st.sampled_from([1e-9, 0.3, 1.0]),
    name=st.sampled_from(NAMES),
)
def test_bits_and_totals_of_stored_users_are_the_oracles(
    users: list[dict[int, bool]], data: st.DataObject, most: int, share: float, name: str
) -> None:
    behind = data.draw(st.lists(st.integers(0, len(users) - 1), min_size=1, max_size=20))
    first = data.draw(st.integers(0, len(behind)))
    query = reveals_asked(name, most=most, share=share)
    release = answer(worlds.stored_ratings(users, behind, ITEMS), query, first, len(behind))
    rows = [told(query, device, users[behind[device]]) for device in range(first, len(behind))]
    bits = [
        [int(item in row) for item in range(ITEMS)] + [int(row.get(item, False)) for item in range(ITEMS)]
        for row in rows
    ]
    assert release.unpacked().tolist() == bits
    assert (release.answered, release.width, release.pairs) == (None, 2 * ITEMS, None)
    assert all(len(row) <= most for row in rows)
    statistic = aggregate(query, release)
    assert (statistic.devices, statistic.answered, statistic.missing) == (len(rows), len(rows), 0)
    if isinstance(statistic, ScoreStatistic):
        assert statistic.sensed.tolist() == [sum(item in row for row in rows) for item in range(ITEMS)]
        assert statistic.scores.tolist() == [sum(row.get(item, False) for row in rows) for item in range(ITEMS)]
    else:
        assert isinstance(statistic, PairStatistic)
        check_pairs(statistic, rows)


def check_pairs(statistic: PairStatistic, rows: list[dict[int, bool]]) -> None:
    """Pair totals are those of going through all pairs of every user."""
    pairs, agreed = np.zeros((2, ITEMS, ITEMS), np.int64)
    for row in rows:
        for one, other in itertools.combinations(sorted(row), 2):
            pairs[one, other] += 1
            agreed[one, other] += row[one] is row[other]
    np.testing.assert_array_equal(statistic.pairs, pairs)
    np.testing.assert_array_equal(statistic.agreed, agreed)
    assert statistic.pairs.dtype == statistic.agreed.dtype == np.int64


@pytest.mark.statistical
@pytest.mark.parametrize(("size", "most"), [(5, 2), (5, 1), (4, 3)])
def test_truncation_keeps_a_uniform_subset_of_exactly_most(size: int, most: int) -> None:
    """Chi-square over all subsets, 120,000 devices; false alarm 1e-6.

    Twin: against a law in which subsets that hold the first entry are 6 % likelier, the same counts are refused.
    """
    keep = random_subset(STREAMS, np.arange(STREAMS.size + 1) * size, most).reshape(-1, size)
    assert (keep.sum(axis=1) == most).all()
    codes, counts = np.unique(keep @ (1 << np.arange(size)), return_counts=True)
    wanted = sorted(sum(1 << place for place in some) for some in itertools.combinations(range(size), most))
    assert codes.tolist() == wanted
    assert chi_square_fits(counts, np.ones(codes.size))
    assert not chi_square_fits(counts, [1.06 if code & 1 else 1.0 for code in wanted])


def test_everybody_tells_at_share_1_and_the_toys_share_is_one_bit_a_user() -> None:
    assert reveals(STREAMS, 1.0).all()
    assert [toy_share(items) for items in (2, 4, 1024)] == [1, 0.5, 0.1]


@pytest.mark.parametrize("items", [64, 65, 128, 200, 257])
def test_rows_of_several_words_are_read_to_their_end(items: int) -> None:
    coins = np.random.default_rng(items)
    users = [{item: bool(coins.integers(2)) for item in range(0, items, 1 + k)} for k in range(5)]
    query = reveals_asked(items=items, most=items)
    found = aggregate(query, answer(worlds.stored_ratings(users, range(5), items), query, 0, 5))
    assert isinstance(found, ScoreStatistic)
    assert found.sensed.tolist() == [sum(item in user for user in users) for item in range(items)]
    assert found.scores.tolist() == [sum(user.get(item, False) for user in users) for item in range(items)]


def test_shares_of_likes_are_the_model() -> None:
    """Known by counting; an item that nobody told about gets the share of all ratings."""
    users = [{0: True, 1: True, 2: False}, {0: True, 1: False, 2: False, 3: False}, {0: True}]
    query = reveals_asked()
    statistic = worlds.scores_of(aggregate(query, answer(worlds.stored_ratings(users, range(3), ITEMS), query, 0, 3)))
    model = decode_shares(statistic, clusters=2)
    assert model.score.tolist() == [1, 0.5, 0, 0, *[0.5] * (ITEMS - 4)]
    assert (model.error > 0).all()
    assert np.isfinite(model.error).all()


def test_where_nobody_told_anything_all_scores_are_nothing() -> None:
    assert decode_shares(worlds.scores_of(worlds.empty_statistic(ITEMS)), clusters=2).score.tolist() == [0] * ITEMS
