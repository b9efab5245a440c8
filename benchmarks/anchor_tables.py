"""Anchor sensing of K classes and L clusters by tables: users, wrong items and doubts over many seeds.

``python -m benchmarks.anchor_tables --items 200 --rated 20 --like ".9,.1;.1,.9" --runs 200 --seed 100`` conducts the
house's policy and learner. Devices are drawn one by one, but only what they rated is: public signs of other items are
fair whatever a device answers, so that their agreements are drawn at once. Sums have the devices' own distribution.
"""

# ruff: noqa: NPY002 (numba draws by the functions of NumPy's old generator)

import itertools
import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Annotated

import numba
import numpy as np
import typer

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEAN, LEVELS, PRIOR, SENSED
from coordinator.protocol.messages import Query
from coordinator.server.anchor.anchor_queries import AnchorSensing, history_of
from coordinator.server.anchor.policy import AnchorPolicy, TablePolicy, TwoClasses, learner_for
from coordinator.server.rounds.setting import Setting
from coordinator.server.rounds.state import ServerState, absorb
from coordinator.server.statistics.signs import AnchorStatistic

_NONE = np.zeros(0, np.int64)


@numba.njit(cache=True)
def _start(seed: int) -> None:
    np.random.seed(seed)  # noqa: TID251 (numba's own)


@numba.njit(cache=True)
def _released(total: int, contrast: float) -> int:
    """Return a device's bit, 1 or -1."""
    bit = 1 if total > 0 or (total == 0 and np.random.random() < 0.5) else -1
    return bit if np.random.random() < (1 + contrast) / 2 else -bit


@numba.njit(cache=True)
def _pairs(users: int, rates: Floats2, shares: Floats, rated: int, pool: Indices, contrast: float) -> tuple[Ints, Ints]:
    """Return sums of pairs' signs times bits over devices that rated both items, and how many did, shape (M, M)."""
    pool_size, items = pool.size, rates.shape[1]
    place = np.full(items, -1)
    place[pool] = np.arange(pool_size)
    sums, both = np.zeros((pool_size, pool_size), np.int64), np.zeros((pool_size, pool_size), np.int64)
    order = np.arange(items)
    own, liked, signs = np.empty(rated, np.int64), np.empty(rated, np.int64), np.empty((rated, rated), np.int64)
    for _ in range(users):
        k, count, total = int(np.searchsorted(shares, np.random.random())), 0, 0
        for step in range(rated):
            other = step + int(np.random.random() * (items - step))
            order[step], order[other] = order[other], order[step]
            if place[order[step]] >= 0:
                own[count] = place[order[step]]
                liked[count] = 1 if np.random.random() < rates[k, order[step]] else -1
                count += 1
        for a in range(count):
            for b in range(a):
                signs[a, b] = 1 if np.random.random() < 0.5 else -1
                total += signs[a, b] * liked[a] * liked[b]
        bit = _released(total, contrast)
        for a in range(count):
            for b in range(a):
                one, other = min(own[a], own[b]), max(own[a], own[b])
                sums[one, other] += bit * signs[a, b]
                both[one, other] += 1
    return sums, both


@numba.njit(cache=True)
def _turned(
    users: int,
    rates: Floats2,
    shares: Floats,
    rated: int,
    arrays: tuple[Indices, Indices2, Indices2, Indices],
    often: Floats,
    contrast: float,
) -> tuple[Ints, Ints, Ints, int]:
    """Return sums of signs times bits over devices that rated and sensed each item, and all bits.

    Between them: how many devices these are, and how many rated the item.
    """
    prior, guess, counts, lean = arrays
    items, classes = often.size, prior.size
    sums, sensed, having = np.zeros((3, items), np.int64)
    order = np.arange(items)
    own, signs, liked = np.empty((3, rated), np.int64)
    scores, bits = np.empty(classes, np.int64), 0
    for _ in range(users):
        k, count = int(np.searchsorted(shares, np.random.random())), 0
        scores[:] = prior
        for step in range(rated):
            other = step + int(np.random.random() * (items - step))
            order[step], order[other] = order[other], order[step]
            item = order[step]
            having[item] += 1
            like = int(np.random.random() < rates[k, item])
            if np.random.random() < often[item]:
                own[count], liked[count], signs[count] = item, like, 1 if np.random.random() < 0.5 else -1
                count += 1
            else:
                for c in range(classes):
                    scores[c] += guess[2 * c + like, item]
        best, ties = 0, 1
        for c in range(1, classes):
            if scores[c] == scores[best]:
                ties += 1
            if scores[c] > scores[best] or (scores[c] == scores[best] and np.random.random() < 1 / ties):
                ties = ties if scores[c] == scores[best] else 1
                best = c
        total = lean[best]
        for at in range(count):
            total += signs[at] * counts[2 * best + liked[at], own[at]]
        bit = _released(total, contrast)
        bits += bit
        for at in range(count):
            sums[own[at]] += bit * signs[at]
            sensed[own[at]] += 1
    return sums, sensed, having, bits


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Devices of a block model, whose sums are drawn."""

    items: int
    rated: int
    like: Floats2
    shares: Floats
    seed: int
    sizes: Ints | None = None
    coins: np.random.Generator = field(init=False)
    cluster: Ints = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coins", np.random.default_rng(self.seed))
        many = self.like.shape[1]
        clusters = np.arange(self.items) % many if self.sizes is None else np.repeat(np.arange(many), self.sizes)
        object.__setattr__(self, "cluster", self.coins.permutation(clusters))
        _start(self.seed)

    def answer(self, query: Query, users: int) -> AnchorStatistic:
        """Return the sums of so many devices' answers."""
        rates, shares, contrast = (
            self.like[:, self.cluster],
            np.cumsum(self.shares),
            bit_channel(query.epsilon).contrast,
        )
        pairs = sensed = scores = _NONE
        ones = users // 2
        if query.pool is not None:
            sums, both = _pairs(users, rates, shares, self.rated, query.pool, contrast)
            upper = np.triu_indices(query.pool.size, 1)
            pairs = (sums[upper] + both[upper]) // 2 + self.coins.binomial(users - both[upper], 0.5)
        else:
            often = query.arrays[SENSED] / query.parameters[LEVELS]
            arrays = (query.arrays[PRIOR], query.arrays[GUESS], query.arrays[COUNTS], query.arrays[LEAN])
            sums, own, having, bits = _turned(users, rates, shares, self.rated, arrays, often, contrast)
            others = self.coins.binomial(users - having, often)
            sensed = own + others
            scores, ones = (sums + own) // 2 + self.coins.binomial(others, 0.5), (users + bits) // 2
        return AnchorStatistic(
            pairs=pairs, sensed=sensed, scores=scores, ones=ones, devices=users, answered=users, refused=0
        )


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of one run: users, rounds, wrong items, decided ones of them, undecided ones, and doubts."""

    users: int
    rounds: int
    wrong: int
    decided_wrong: int
    undecided: int
    promised: float


def run_once(crowd: Crowd, setting: Setting, *, most: int) -> RunResult:
    """Conduct one run; ``promised`` is the sum of all doubts at its end."""
    assert isinstance(setting.design, AnchorSensing)
    learner = learner_for(setting.design, setting.failure)
    policy = (
        AnchorPolicy(setting=setting, learner=learner)
        if isinstance(learner, TwoClasses)
        else TablePolicy(setting=setting, learner=learner)
    )
    state = ServerState(devices=most)
    while ask := policy.next_query(state):
        state = absorb(state, ask, crowd.answer(ask.query, ask.stop - ask.first))
    posterior = learner.believe(history_of(state.readings.anchors)).posterior
    decided = posterior.decided(setting.failure)
    names = (np.array(one) for one in itertools.permutations(range(setting.clusters)))
    wrong = min((one[posterior.cluster] != crowd.cluster for one in names), key=np.sum)
    return RunResult(
        users=state.answers_asked,
        rounds=len(state.asked),
        wrong=int(wrong.sum()),
        decided_wrong=int((wrong & decided).sum()),
        undecided=int((~decided).sum()),
        promised=float(posterior.doubt.sum()),
    )


def main(
    items: Annotated[int, typer.Option(help="Items N.")] = 400,
    rated: Annotated[int, typer.Option(help="Items w that a user rated.")] = 40,
    like: Annotated[str, typer.Option(help="P(like): clusters by ',', classes by ';'.")] = ".9,.1;.1,.9",
    class_shares: Annotated[str, typer.Option(help="Shares of classes [equal].")] = "",
    epsilon: Annotated[str, typer.Option(help="Epsilon of a device [nats].")] = "1",
    learner: Annotated[str, typer.Option(help="tables or mixed.")] = "tables",
    runs: Annotated[int, typer.Option(help="Number of seeds.")] = 10,
    seed: Annotated[int, typer.Option(help="The first one.")] = 0,
    most: Annotated[int, typer.Option(help="Users at most.")] = 30_000_000,
) -> None:
    """Print each run, and what they say together."""
    table = np.array([[float(b) for b in row.split(",")] for row in like.split(";")])
    classes, clusters = table.shape
    shares = (
        np.array([float(one) for one in class_shares.split(",")]) if class_shares else np.full(classes, 1 / classes)
    )
    design = AnchorSensing(items=items, rated=rated, clusters=clusters, classes=classes, learner=learner)
    results = []
    for number in range(seed, seed + runs):
        crowd = Crowd(items=items, rated=rated, like=table, shares=shares, seed=number)
        public = derive(number, "public")
        setting = Setting(design=design, epsilon=Fraction(epsilon), public_seed=public, clusters=clusters)
        results.append(one := run_once(crowd, setting, most=most))
        print(f"seed {number}: {one.users:,} users, {one.wrong} wrong, {one.undecided} undecided", flush=True)
    users = np.array([one.users for one in results if not one.undecided])
    wrong = np.array([one.decided_wrong for one in results])
    root = math.sqrt(runs)
    print(
        f"users {users.mean():,.0f} +- {users.std(ddof=1) / math.sqrt(users.size):,.0f} of {users.size} finished runs"
    )
    print(f"all right {sum(one.wrong == 0 and not one.undecided for one in results)} of {runs}")
    print(f"decided wrongly a run {wrong.mean():.4f} +- {wrong.std(ddof=1) / root:.4f}")
    print(f"promised {np.mean([one.promised for one in results]):.4f}")


if __name__ == "__main__":
    typer.run(main)
