"""Worlds, tiers, queries and matrices that tests are made of, and devices that answer in this process."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any, NamedTuple

import evidence
import numpy as np
from evidence import Table, World
from numpy.typing import ArrayLike

from actors.device import Cohort
from actors.keeper import Keeper, LedgerClient
from actors.private_cohort import PrivateCohort
from actors.ratings import BlockRatings, StoredRatings
from actors.seeds import Coins
from coordinator.protocol import mechanism, shared_vector
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bits2, Bools2, Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words, on_grid
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.moments.blocks import BlockParameters
from coordinator.protocol.rating_table import Likes, Rows, RowTable, starts_of
from coordinator.protocol.second_order import SecondOrderQuery, two_tier_mechanisms
from coordinator.protocol.sensing import sensing_table
from coordinator.protocol.statistics.counts import PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.value_channels import ChoiceChannel
from coordinator.server.aggregation import aggregate
from coordinator.server.completion.crowd import PublicUsers, local_public_users
from coordinator.server.completion.fitting import FittedModel, Fitting, begin, iterate
from coordinator.server.design import MOST_ROUNDS
from coordinator.server.rounds.conductor import Transport, run_rounds
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.rounds import Outcome, QueryPlan, QueryRounds, Round
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import Ask, Policy

# The project's objects, built from the oracle's worlds.
SECRET = evidence.derive(0, "devices")
PUBLIC = evidence.derive(0, "public")
Row = tuple[Fraction, ...]  # Probabilities of the signed vectors +0, -0, +1, -1,


def world(
    *,
    items: int,
    rated: int,
    like: Sequence[Sequence[float]] = ((0.9, 0.1),),
    shares: Sequence[float] = (1.0,),
    secret: bytes = SECRET,
) -> World:
    """A world whose items belong to the clusters in turn."""
    return World(
        secret=secret,
        rated=rated,
        like=tuple(tuple(row) for row in like),
        shares=tuple(shares),
        clusters=tuple(item % len(like[0]) for item in range(items)),
    )


def holdings(
    like: Sequence[Sequence[float]], shares: Sequence[float], clusters: Sequence[int], rated: int
) -> Iterator[tuple[float, dict[int, bool]]]:
    """All that a user of a block model can hold, whether it likes each item that it rated, and its probability."""
    subsets = list(combinations(range(len(clusters)), rated))
    for share, row in zip(shares, like, strict=True):
        for subset in subsets:
            for liked in product((True, False), repeat=rated):
                told = dict(zip(subset, liked, strict=True))
                chances = (row[clusters[item]] if likes else 1 - row[clusters[item]] for item, likes in told.items())
                yield share / len(subsets) * math.prod(chances), told


def block_ratings(of: World, users: int = 1 << 20) -> BlockRatings:
    """The same world as the project's devices draw it."""
    return BlockRatings(
        users=users,
        rated_items=of.rated,
        like=np.array(of.like),
        class_shares=np.array(of.shares),
        clusters=np.array(of.clusters, np.int32),
        rated_public=True,  # so that devices can be asked every design; refusals have tests of their own
    )


def stored_ratings(users: Sequence[dict[int, bool]], behind: Sequence[int], items: int) -> StoredRatings:
    """The users' ratings; device i stands for user ``behind[i]``."""
    return StoredRatings(rows=likes(users, items), user=np.array(behind, np.int32), rated_public=True)


def likes(users: Sequence[dict[int, bool]], items: int) -> Likes:
    """A row for every user, of the items that it rated and whether it liked them."""
    rows = [dict(sorted(user.items())) for user in users]
    return RowTable(
        starts=starts_of(np.array([len(row) for row in rows], np.int64)),
        items=np.array([item for row in rows for item in row], np.int32),
        values=np.array([like for row in rows for like in row.values()], np.bool_),
        count=items,
    )


def maxsense_query(
    *,
    items: int,
    sensing: float,
    epsilon: Epsilon = None,
    round_number: int = 0,
    public_seed: bytes = PUBLIC,
    pool: Sequence[int] | None = None,
) -> Query:
    return Query(
        design="maxsense",
        items=items,
        round=round_number,
        public_seed=public_seed,
        epsilon=epsilon,
        parameters={"sensing": sensing},
        pool=None if pool is None else np.array(pool, np.int32),
    )


def pools(items: int) -> dict[str, list[int]]:
    """Pools of a catalogue, by what they are."""
    return {"whole": [*range(items)], "half": [*range(0, items, 2)], "one item": [items // 2], "last item": [items - 1]}


def sign_query(
    pool: Sequence[int],
    *,
    items: int,
    vectors: int = 1,
    kept: int = 1,
    epsilon: Epsilon = None,
    round_number: int = 0,
    centres: Sequence[int] | None = None,
) -> Query:
    return Query(
        design="sign",
        items=items,
        round=round_number,
        public_seed=PUBLIC,
        epsilon=epsilon,
        parameters={"vectors": vectors, "kept": kept},
        pool=np.array(pool, np.int32),
        answer_bits=1 + (vectors - 1).bit_length(),
        centres=None if centres is None else np.array(centres, np.int32),
    )


def public_stream(query: Query, device: int) -> int:
    return evidence.public_stream(query.public_seed, query.round, device)


def released(query: Query, secret: bytes, device: int, bits: Sequence[int]) -> list[int]:
    """What the oracle's device lets out of its private bits, one a question, each under an equal share."""
    share = query.epsilon_per_question
    flips = 0 if share is None else evidence.flips(share)
    return [
        bit ^ (evidence.release_coin(secret, device, query.id, question) < flips) for question, bit in enumerate(bits)
    ]


def number_table(sensing: float, items: int) -> Table:
    """The project's alias table of the number of places, as the oracle reads one."""
    table = sensing_table(sensing, items)
    numbers = table.numbers.tolist()
    return list(zip(table.thresholds.tolist(), numbers[1::2], numbers[::2], strict=True))


def sensing_sets(query: Query, devices: range) -> list[list[int]]:
    """The oracle's sensing sets of ``devices``: drawn among all items, or among those of the pool."""
    asked, sensing = range(query.items) if query.pool is None else query.pool, query.parameters["sensing"]
    table, where = number_table(sensing, len(asked)), (query.public_seed, query.round)
    places = [evidence.sensing_set(*where, device, len(asked), table, spared=sensing > 0.5) for device in devices]
    return [[int(asked[place]) for place in some] for some in places]


def expected_bits(of: World, query: Query, devices: range) -> list[int]:
    flips = 0 if query.epsilon is None else evidence.flips(Fraction(query.epsilon))
    return [
        evidence.maxsense_bit(of.ratings(device), sensed)
        ^ (evidence.release_coin(of.secret, device, query.id, 0) < flips)
        for device, sensed in zip(devices, sensing_sets(query, devices), strict=True)
    ]


def release_of(query: Query, bits: ArrayLike, *, first: int = 0, silent: Sequence[int] = ()) -> Release:
    """A release with these bits, one or a row a device; the devices at positions ``silent`` did not answer."""
    table: Bits2 = np.array(bits, np.uint8, ndmin=2)
    rows = table.T if np.ndim(bits) == 1 else table
    heard = np.ones(len(rows), np.uint8)
    heard[list(silent)] = 0
    return Release(
        query_id=query.id,
        first=first,
        count=len(rows),
        width=rows.shape[1],
        bits=pack(rows * heard[:, None]),
        answered=pack(heard) if len(silent) else None,
        refused=len(silent),
    )


def as_numbers(statistic: Statistic) -> dict[str, object]:
    """All that a statistic of scores holds, to compare."""
    scores = scores_of(statistic)
    return {
        "sensed": scores.sensed.tolist(),
        "scores": scores.scores.tolist(),
        **{name: getattr(scores, name) for name in ("devices", "answered", "refused", "ones")},
    }


def scores_of(statistic: Statistic) -> ScoreStatistic:
    assert isinstance(statistic, ScoreStatistic)
    return statistic


def pairs_of(statistic: Statistic) -> PairStatistic:
    assert isinstance(statistic, PairStatistic)
    return statistic


def empty_statistic(items: int) -> ScoreStatistic:
    zeros = np.zeros(items, np.int64)
    return ScoreStatistic(sensed=zeros, scores=zeros, devices=0, answered=0, refused=0, ones=0)


class Planted(NamedTuple):
    """Clusters of estimates: levels, shares, and how much the logarithms of errors scatter."""

    levels: tuple[float, ...]
    shares: tuple[float, ...]
    scatter: float = 0.0


class Sample(NamedTuple):
    cluster: Ints
    value: Floats
    error: Floats


def draw(planted: Planted, *, items: int, apart: float, seed: int) -> Sample:
    """Items whose levels lie ``apart`` typical errors from each other."""
    world = np.random.default_rng([seed, items])
    levels = np.array(planted.levels)
    gap = float(-np.diff(levels).max()) if levels.size > 1 else 1.0
    error = gap / apart * np.exp(world.normal(0, planted.scatter, items))
    cluster = world.choice(levels.size, items, p=planted.shares)
    return Sample(cluster, levels[cluster] + world.normal(0, error), error)


def block_model(like: Sequence[Sequence[float]], sizes: Sequence[int] | Ints, rated: int) -> BlockParameters:
    shares = np.full(len(like), 1 / len(like))
    return BlockParameters(rated=rated, like=np.array(like), class_shares=shares, cluster_sizes=np.array(sizes))


# Small public models of item features, and private devices that answer them.
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)


class Rated(NamedTuple):
    starts: Ints
    items: Indices
    values: Floats


def features(*, items: int = 70, rank: int = 3, unseen: int = 0, seed: int = 0) -> ItemFeatures:
    """A model with random directions, on the grid; the last ``unseen`` items were rated by no public user."""
    world = np.random.default_rng([seed, items])
    vectors = np.linalg.qr(world.normal(size=(items, rank)))[0] * np.linspace(6.0, 3.0, rank)
    vectors[items - unseen :] = 0.0
    return ItemFeatures(
        mean=on_grid(world.normal(3.2, 0.3, items)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        kappa=1.0,
        lowest=1.0,
        highest=5.0,
        scale=STARS,
        common_h=0.5,
    )


def rated(*, devices: int, items: int = 70, each: int = 12, seed: int = 1) -> Rated:
    """Random ratings on the scale, ``each`` a device, of random items."""
    world = np.random.default_rng([seed, devices, items])
    found = np.argsort(world.random((devices, items)), axis=1)[:, :each]
    found.sort(axis=1)
    starts = np.arange(devices + 1, dtype=np.int64) * each
    return Rated(starts, found.ravel().astype(np.int32), world.choice(STARS, devices * each))


def query(model: ItemFeatures, mechanism: str, *, epsilon: Fraction = Fraction(1), batch: int = 0) -> SecondOrderQuery:
    """What the server asks; epsilon counts where the mechanism has one."""
    told = epsilon if two_tier_mechanisms()[mechanism].takes_epsilon else None
    return SecondOrderQuery(model=model.digest, mechanism=mechanism, epsilon=told, batch=batch)


def private(of: Rated, *, items: int = 70) -> Rows:
    """What devices hold that rated so, of a catalogue of so many items."""
    return Rows(starts=of.starts, items=of.items, values=of.values, count=items)


WILLING = Agreement(designs=tuple(two_tier_mechanisms()), answers=1)  # Agrees to everything, once


def cohort(
    of: Rated,
    first: int,
    stop: int,
    *,
    keeper: LedgerClient | None = None,
    secret: bytes = SECRET,
    agreement: Agreement = WILLING,
    own_h: bool = True,
    items: int = 70,
) -> PrivateCohort:
    """Devices ``first`` to ``stop - 1`` of those that rated; by default they agree to everything."""
    held = private(of, items=items)
    return PrivateCohort(held, secret, first, stop, agreement=agreement, own_h=own_h, keeper=keeper)


def announced(of: Rated, query: SecondOrderQuery, first: int, stop: int, **changes: Any) -> PrivateCohort:
    """Such devices, to whom a query was announced."""
    devices = cohort(of, first, stop, **changes)
    devices.announce(query, first, stop)
    return devices


def coins(devices: int, *, seed: int = 0, first: int = 0) -> Coins:
    return Coins(as_words(evidence.derive(seed, "devices")), first, devices, as_words(evidence.derive(9, "query")))


# Planted matrices for tests of completion, and dense formulas in plain numpy to hold it against.
class PlantedRatings(NamedTuple):
    """A low-rank matrix, and noisy ratings of some entries in compressed sparse rows."""

    truth: Floats2
    seen: Bools2
    starts: Ints
    items: Indices
    values: Floats

    def crowd(self, workers: int = 1) -> PublicUsers:
        return local_public_users(self.rows(), ThreadPoolExecutor(workers) if workers > 1 else None, workers)

    def rows(self) -> Rows:
        return Rows(starts=self.starts, items=self.items, values=self.values, count=self.truth.shape[1])

    def dense(self, mean: Floats) -> Floats2:
        """Centred ratings, 0 where nothing was rated."""
        found = np.zeros(self.truth.shape)
        found[self.seen] = self.values - mean[self.items]
        return found


def planted(users: int, items: int, *, rank: int, share: float, noise: float = 0.3, seed: int = 0) -> PlantedRatings:
    """Ratings of a planted matrix, each entry seen with probability ``share``; every user rates something."""
    coins = np.random.default_rng(seed)
    truth = coins.standard_normal((users, rank)) @ coins.standard_normal((rank, items))
    seen = coins.random((users, items)) < share
    seen[:, 0] |= ~seen.any(axis=1)
    values = (truth + noise * coins.standard_normal(truth.shape))[seen]
    starts = np.concatenate(([0], np.cumsum(seen.sum(axis=1)))).astype(np.int64)
    return PlantedRatings(truth, seen, starts, np.nonzero(seen)[1].astype(np.int32), values)


def fitted(of: PlantedRatings, fitting: Fitting, iterations: int, workers: int = 1) -> FittedModel:
    crowd = of.crowd(workers)
    return iterate(begin(crowd, fitting, lowest=-99, highest=99, scale=None), crowd, fitting, iterations)


def features_of(vectors: Floats2, mean: Floats, *, kappa: float = 1.0, **changes: object) -> ItemFeatures:
    """Features with everything else at plain values."""
    rest = {"lowest": 0.5, "highest": 5.0, "scale": (1.0, 2.0, 3.0, 4.0, 5.0), "common_h": 0.5, **changes}
    return ItemFeatures(mean=mean, vectors=vectors, kappa=kappa, **rest)  # type: ignore[arg-type] # test values


def complete_many(features: ItemFeatures, starts: Ints, items: Indices, values: Floats) -> Floats2:
    rows = Rows(starts=starts, items=items, values=values, count=features.items)
    return residuals(features, rows) + features.mean


def complete(features: ItemFeatures, items: Indices, values: Floats) -> Floats:
    row: Floats = complete_many(features, np.array([0, items.size]), items, values)[0]
    return row


def in_world(
    kind: type[mechanism.Mechanism], *, items: int, rated: int = 2, delta: float = 0.0, **settings: Any
) -> mechanism.InWorld:
    world = mechanism.World(items=items, rated=rated, users=1_000, clusters=2, epsilon=None, delta=delta)
    design: mechanism.InWorld = kind(**settings).design(world)
    return design


def reveals_query(name: str, *, items: int, most: int, share: float = 1.0, seed: bytes = PUBLIC) -> Query:
    """A query about whole ratings, at most so many of a device."""
    parameters = {"share": share, "most": float(most)}
    return Query(
        design=name, items=items, round=0, public_seed=seed, epsilon=None, questions=2 * items, parameters=parameters
    )


def totals_query(
    epsilon: Epsilon,
    *,
    items: int,
    most: int,
    delta: float = 1e-6,
    neighbours: str = "replace",
    honest: int = 0,
    least_answers: int = 0,
    number: int = 0,
) -> Query:
    """A query about sums of likes that two servers add up, with noise of so many honest devices or of the servers."""
    changes = most if neighbours == "add-remove" else 2 * most
    parameters = {
        "padded": float(most),
        shared_vector.DELTA: 0.0 if epsilon is None else delta,
        shared_vector.CHANGES: float(changes),
        shared_vector.DEVIATION: shared_vector.noise_scale(epsilon, delta, changes, devices=honest > 0),
        shared_vector.HONEST: float(honest),
        shared_vector.LEAST_ANSWERS: float(least_answers),
    }
    return Query(
        design="totals",
        items=items,
        round=number,
        public_seed=PUBLIC,
        epsilon=epsilon,
        questions=items,
        answer_bits=32,
        parameters=parameters,
    )


# Keepers of one folder, one process after another.
_KEEPERS = dict[Path, Keeper]()


def keeper_on(folder: Path) -> Keeper:
    """A keeper that was just started on a folder; the process of the one before it is over."""
    if before := _KEEPERS.pop(folder, None):
        before.close()
    return _KEEPERS.setdefault(folder, Keeper(folder))


def partition_query(items: int, size: int, questions: int, epsilon: Epsilon = None, *, round_number: int = 0) -> Query:
    """A Multi-MaxSense query about sets of any size, the smaller last one among them."""
    return Query(
        design="multi-maxsense",
        items=items,
        round=round_number,
        public_seed=PUBLIC,
        epsilon=epsilon,
        questions=questions,
        parameters={"set_size": size},
    )


def row_of(sums: Sequence[int], channel: ChoiceChannel) -> Row:
    """What a device of these sums releases: ranks by falling sum, ties in every order alike."""
    signed = [sign * total for total in sums for sign in (1, -1)]
    best, other = channel.probabilities
    row = []
    for total in signed:
        above, tied = sum(one > total for one in signed), signed.count(total)
        among_best = min(max(channel.best_count - above, 0), tied)
        row.append((among_best * best + (tied - among_best) * other) / tied)
    return tuple(row)


# Devices that answer in this process, settings of policies that ask them, and how often each was asked.
SURE = 1 - 1e-6  # A confidence at which a wrong label is a false alarm of this suite's usual probability


@dataclass(frozen=True)
class Devices:
    cohort: Cohort

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        release = self.cohort.answer(ask.query, ask.first, ask.stop)
        return aggregate(ask.query, release), [release]


def setting_of(*, items: int = 20, rated: int = 5, clusters: int = 2, sets: bool = False, **more: Any) -> Setting:
    design = in_world(MaxSense, items=items, rated=rated) if sets else in_world(Sign, items=items, rated=rated)
    usual = {"epsilon": Fraction(1), "confidence": SURE, "public_seed": PUBLIC}
    return Setting(design=design, clusters=clusters, **{**usual, **more})


def answers(asks: Sequence[Ask]) -> Counter[int]:
    return Counter(device for ask in asks for device in range(ask.first, ask.stop))


def conduct(
    policy: Policy,
    learner: Learner,
    transport: Transport,
    *,
    devices: int,
    budget: Epsilon = None,
    most_rounds: int = MOST_ROUNDS,
    earlier: Iterable[Round] = (),
    keep: Callable[[Round], None] = lambda _: None,
) -> Outcome:
    """Take in ``earlier`` rounds, run all further ones and learn; see `QueryRounds`."""
    plan = QueryPlan(policy=policy, learner=learner, devices=devices, budget=budget, most_rounds=most_rounds)
    return run_rounds(QueryRounds(plan, transport), keep, earlier)
