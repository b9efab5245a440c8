"""Predictions by emulation: statistics drawn from their law, and decoded by the decoder that runs use."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import ParamSpec, TypeVar

import numpy as np
from scipy.special import ndtr, ndtri

from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.decoding.line import decode_shares
from coordinator.protocol.moments.blocks import BlockParameters, BlockSignal, curator_signal, nearest_root
from coordinator.protocol.statistics.counts import PairStatistic
from coordinator.protocol.statistics.scores import ScoreStatistic
from coordinator.server.rounds.group_policies import round_users
from scenarios.data.metrics import best_matching

P = ParamSpec("P")
T = TypeVar("T")


MANY = 10.0
"""From so many expected answers of either kind about every pair on, their numbers are drawn from the normal law."""
FEW = 8  # Up to so many answers a pair these are drawn one by one, which is faster than the law of every pair's number
MOST_USERS = 10**15  # nobody has more users; beyond it a plan says so
BATCH, FEWEST, MOST, ERROR, PATIENCE = 4, 16, 64, 0.01, 5
"""Draws at a time; fewest and most of an estimate. A mean share is drawn until its standard error is that small, up to
so many times more often."""
SURE = 6  # Standard errors by which the first draws must lie below a target to say that it is missed
ROW_SECONDS, MOST_SECONDS = 0.25, 5.0
"""Processor seconds of an estimate that has more than the fewest draws; and most of any, above which none is made."""
NARROW, EASY, SLOPE, NEAR = 0.2, 0.75, 0.15, 0.1
"""An estimate ends where the ends of its 95 % interval are closer than this, as a share of the users. Most draws for
all items right are where the chance is the second number; the third is the deviation of the logarithm of the slope.
Draws at so nearly the same number, as a share, tell the share of items right there."""
CHANCES, VOTES = (0.001, 0.998), 300_000
"""No share of draws that are all right is taken to lie beyond; ratings up to which a curator's totals are exact."""
LONG, LEAP = 64, 128
"""Yeses an item from which on the last round's surplus has its law; and from which on rounds are drawn together."""


NOT_EMULATED = (
    f"not emulated: drawing statistics of so many items takes more than {MOST_SECONDS:g} seconds; "
    "blindrec run measures what is learned"
)
"""What a plan says of what takes too long."""


def pair_seconds(items: int) -> float:
    """Return about how many processor seconds it takes to draw and decode the statistic of pairs once."""
    return 0.005 + 8e-8 * items**2


def share_seconds(items: int) -> float:
    """Return the same for shares of likes, of full reveal or of item queries."""
    return 0.002 + 3e-6 * items


def takes_too_long(seconds: float) -> bool:
    """Return whether the fewest draws of an estimate take too long."""
    return FEWEST * seconds > MOST_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Where a target is met, with its 95 % interval: a number of users, or an epsilon."""

    value: float
    low: float
    high: float | None  # None where it is open
    draws: int
    accuracy: float  # Share of items right at the value
    chance: Callable[[float], float] | None  # Values to the probability that all items are right, where it was fitted


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """Emulated runs in one block model, by their size: the number of users, or an item query's yeses an item."""

    draw: Callable[[int, np.random.Generator], Indices]  # Labels of the items, which are in the order of their clusters
    sizes: Ints  # shape (L,); Items in each cluster
    strength: Callable[[float], float]  # Signal over noise, squared: z^2 + 1 where an item is right with chance Phi(z)
    seconds: float  # Of one draw, about
    largest: int = MOST_USERS
    step: int = 1  # Sizes are one more than a multiple of it
    _runs: dict[int, tuple[np.random.Generator, list[float]]] = field(default_factory=dict, repr=False)

    def shares(self, size: int, count: int) -> Floats:
        """Return the shares of items right in the first draws of a size, which are always the same."""
        coins, shares = self._runs.setdefault(size, (np.random.default_rng([size, *self.sizes.tolist()]), []))
        while len(shares) < count:
            shares.append(self.right(self.draw(size, coins)))
        return np.array(shares[:count])

    def accuracy(self, size: int) -> float:
        """Return the mean share of items right; a few draws would miss that a decoder collapses now and then."""
        count = self.draws
        while (shares := self.shares(size, count)).std() > ERROR * math.sqrt(count) and count < PATIENCE * self.draws:
            count += BATCH
        return float(shares.mean())

    def misses(self, size: int, accuracy: float) -> bool:
        """Return whether the first draws of a size say already that its mean share of items right is below a target."""
        for count in range(FEWEST, self.draws + 1, BATCH):
            shares = self.shares(size, count)
            if shares.mean() + SURE * shares.std() / math.sqrt(count) < accuracy:
                return True
        return False

    def exact(self, size: int) -> float:
        """Return the share of draws with all items right."""
        return float((self.shares(size, self.draws) == 1).mean())

    @property
    def draws(self) -> int:
        """Most draws of an estimate: as many as are quick."""
        return min(max(round(ROW_SECONDS / self.seconds / BATCH) * BATCH, FEWEST), MOST)

    def whole(self, size: float) -> int:
        """Return the smallest possible size of at least a number."""
        return 1 + self.step * max(0, math.ceil((size - 1) / self.step - 1e-9))

    def needed(self, *, accuracy: float | None, success: float | None) -> Estimate | None:
        """Return the size that meets a target, or the stricter of two; None where not even the largest one does."""
        steps = np.linspace(0.0, math.log(self.largest) + 0.5, 400)
        axis = StrengthCurve(steps, np.log([max(self.strength(math.exp(step)), 1e-300) for step in steps.tolist()]))
        return strictest(goals(self.sizes, accuracy=accuracy, success=success), axis, self._at, top=self.largest)

    def _at(self, log_size: float) -> Place:
        size = self.whole(math.exp(log_size))
        return self, size, math.log(size)

    def right(self, labels: Indices) -> float:
        """Return the share of items that labels put right, under the best matching."""
        confusion = np.zeros((self.sizes.size, self.sizes.size))
        np.add.at(confusion, (np.repeat(np.arange(self.sizes.size), self.sizes), labels), 1)
        return float(confusion[best_matching(confusion)].sum() / self.sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A share of items right, or a probability that all are."""

    target: float
    whole: bool  # Whether all items are to be right
    items: int
    clusters: int

    def level(self, target: float) -> float:
        """Return the logarithm of the strength at which an item is right as often as a target demands."""
        wrong = -math.expm1(math.log(target) / self.items) if self.whole else 1 - target
        return math.log(float(ndtri(min(wrong / self._guessing, 0.5))) ** 2 + 1)

    def wrong(self, levels: Floats) -> Floats:
        """Return the probability that an item is wrong: ``2 (1 - 1/L) Phi(-z)``, where strength is ``z^2 + 1``."""
        return np.asarray(self._guessing * ndtr(-np.sqrt(np.maximum(np.expm1(np.minimum(levels, 600)), 0))))

    def chance(self, levels: Floats) -> Floats:
        """Return the probability that all items are right."""
        return np.asarray(np.exp(self.items * np.log1p(-self.wrong(levels))))

    def expected(self, levels: Floats) -> Floats:
        """Return what a draw is on average: whether all items are right, or the share that is."""
        return np.clip(self.chance(levels), *CHANCES) if self.whole else 1 - self.wrong(levels)

    def likelihood(self, expected: list[Floats], batches: list[Floats]) -> Floats:
        """Return the log-likelihood of batches of draws, of each of which that is expected."""
        # Mean shares are taken as normal, with one variance for all: that of a batch is small where its mean is large,
        # by chance too. Far from the target the curve's shape is not that of the model, and errs.
        total = np.zeros(1)
        if self.whole:
            for chance, shares in zip(expected, batches, strict=True):
                right = int((shares == 1).sum())
                total = total + right * np.log(chance) + (shares.size - right) * np.log1p(-chance)
            return total
        variance = self.target * (1 - self.target) / self.items
        if batches:
            variance = max(variance, float(np.mean([shares.var(ddof=1) for shares in batches])))
        for share, shares in zip(expected, batches, strict=True):
            mean = float(shares.mean())
            spread = variance / shares.size + (0.25 * (mean - self.target)) ** 2
            total = total - (mean - share) ** 2 / 2 / spread
        return total

    def met(self, shares: Floats) -> bool:
        """Return whether draws without noise leave it possible that the goal is met."""
        return bool((shares == 1).any()) if self.whole else float(shares.mean()) > self.target - 2 * ERROR

    @property
    def _guessing(self) -> float:
        return 2 * (1 - 1 / self.clusters)


@dataclass(frozen=True, slots=True)
class StrengthCurve:
    """Logarithms of sizes or epsilons, and of the strength there, which rises."""

    steps: Floats
    strengths: Floats

    def strength(self, x: float | Floats) -> Floats:
        """Return the logarithm of the strength at places."""
        return np.asarray(np.interp(x, self.steps, self.strengths))

    def log_size_at(self, strength: float) -> float:
        """Return where a strength is reached, or the nearest end."""
        return float(np.interp(strength, self.strengths, self.steps))


def goals(sizes: Ints, *, accuracy: float | None, success: float | None) -> list[Goal]:
    """Return the goals of a target."""
    return [
        Goal(target=target, whole=whole, items=int(sizes.sum()), clusters=sizes.size)
        for target, whole in ((accuracy, False), (success, True))
        if target is not None
    ]


Place = tuple[Emulation, int, float]  # what is drawn near a place of an axis, and at which place exactly


def estimate(goal: Goal, axis: StrengthCurve, at: Callable[[float], Place], *, top: float) -> Estimate | None:
    """Estimate where a goal is met, at most at ``top``; None where it is met nowhere."""
    # The strength is taken as ``c s^slope`` of what moments say, s, with the logarithm of the slope normal, and the
    # place as Cauchy around where moments put it: draws near the goal decide. Of those for all items right two in three
    # are where the chance is `EASY`, as these tell most; the others, and all for a share of items, are at the goal.
    emulation, size, _ = at(math.log(top))
    if not goal.met(emulation.shares(size, BATCH)):
        return None
    places = np.arange(axis.steps[0], axis.steps[-1], 0.02)
    slopes = np.exp(np.linspace(-0.6, 0.6, 9))
    level, guess = goal.level(goal.target), axis.log_size_at(goal.level(goal.target))
    strengths = axis.strength(places)[:, None]
    prior = -(np.log(slopes) ** 2) / 2 / SLOPE**2 - np.log1p(((places - guess) / 0.5) ** 2)[:, None]
    places_drawn, expected, batches, used = list[float](), list[Floats](), list[Floats](), dict[tuple[int, int], int]()
    easy = goal.level(EASY) if goal.whole and goal.target > EASY else level
    while True:
        draws, weights = BATCH * len(batches), prior + goal.likelihood(expected, batches)
        posterior = np.exp(weights - weights.max())
        posterior /= posterior.sum()
        low, middle, high = np.interp([0.025, 0.5, 0.975], posterior.sum(axis=1).cumsum(), places).tolist()
        slope = float(posterior.sum(axis=0) @ slopes)
        if draws >= emulation.draws * (1 if goal.whole else PATIENCE) or (
            draws >= FEWEST and _close(goal, low, high, level, axis)
        ):
            break
        nearer = (easy - level) / slope if len(batches) % 3 < 2 else 0.0
        aim = axis.log_size_at(float(axis.strength(middle)) + nearer)
        emulation, size, log_size = at(aim)
        first = used.get((id(emulation), size), 0)
        used[id(emulation), size] = first + BATCH
        places_drawn.append(log_size)
        batches.append(emulation.shares(size, first + BATCH)[first:])
        expected.append(goal.expected(level + slopes * (axis.strength(log_size) - strengths)))

    def chance(value: float) -> float:
        return float(goal.chance(level + slope * (axis.strength(math.log(value)) - axis.strength(middle))))

    if math.exp(middle) > top:
        return None
    return Estimate(
        value=math.exp(middle),
        low=math.exp(low),
        high=math.exp(high) if math.exp(high) <= top else None,
        draws=draws,
        accuracy=_accuracy(goal, middle, places_drawn, batches),
        chance=chance if goal.whole else None,
    )


def strictest(goals: list[Goal], axis: StrengthCurve, at: Callable[[float], Place], *, top: float) -> Estimate | None:
    """Estimate where all goals are met; None where one is met nowhere."""
    estimates = [estimate(goal, axis, at, top=top) for goal in goals]
    able = [result for result in estimates if result is not None]
    return max(able, key=lambda result: result.value) if able and len(able) == len(estimates) else None


def _close(goal: Goal, low: float, high: float, level: float, axis: StrengthCurve) -> bool:
    """Return whether an interval is narrow enough: in users, or for a share of items in what it means for the share."""
    if goal.whole:
        return high - low < NARROW
    rise = float(axis.strength(high) - axis.strength(low)) / 2
    ends = goal.wrong(np.array([level - rise, level + rise]))
    return float(ends[0] - ends[1]) < 4 * ERROR


def _accuracy(goal: Goal, middle: float, places: list[float], batches: list[Floats]) -> float:
    """Return the share of items right at an estimate: the goal, or for all items the mean of draws near it."""
    if not goal.whole:
        return goal.target
    apart = np.abs(np.array(places) - middle)
    near = [shares for far, shares in zip(apart.tolist(), batches, strict=True) if far <= max(NEAR, apart.min())]
    return min(float(np.concatenate(near).mean()), 1 - (1 - goal.target) / goal.items)


def content_cache(make: Callable[P, T]) -> Callable[P, T]:
    """Let a function make a thing once for all arguments that hold the same, arrays included."""
    things: dict[bytes, T] = {}

    @wraps(make)
    def look_up(*arguments: P.args, **options: P.kwargs) -> T:
        key = pickle.dumps((arguments, options))
        if key not in things:
            if len(things) >= 256:  # the oldest goes: a thing of pairs takes megabytes
                del things[next(iter(things))]
            things[key] = make(*arguments, **options)
        return things[key]

    return look_up


def _spectral(means: Floats, variance: float, sizes: Ints) -> tuple[float, float]:
    """Return the weakest signal of entries with these means, by clusters, and the noise of a variance, both squared."""
    items, root = int(sizes.sum()), np.sqrt(sizes)
    weights = np.outer(sizes, sizes) / items**2
    signals = np.sort(np.abs(np.linalg.eigvalsh(root[:, None] * (means - (means * weights).sum()) * root)))
    return float(signals[1]) ** 2, items * variance


@content_cache
def pair_emulation(rates: Floats, sizes: Ints, decoder: str) -> Emulation:
    """Return emulated runs of Pairwise-Preference, whose answers are 1 at such rates."""
    from coordinator.protocol.decoding.line import decode_pairs  # noqa: PLC0415 (loads eigenvectors and k-means)

    cluster, items = np.repeat(np.arange(sizes.size), sizes), int(sizes.sum())
    upper = np.flatnonzero(np.triu(np.ones((items, items), bool), 1))
    chances = rates[np.ix_(cluster, cluster)].ravel()[upper]
    mean = float(chances.mean())
    signal, noise = _spectral(rates, mean * (1 - mean) if decoder == "centred" else mean, sizes)

    def draw(users: int, coins: np.random.Generator) -> Indices:
        pairs, agreed = np.zeros((2, items**2), np.int64)
        pairs[upper], agreed[upper] = draw_pairs(chances, users=users, coins=coins)
        square = {"pairs": pairs.reshape(items, items), "agreed": agreed.reshape(items, items)}
        statistic = PairStatistic(**square, devices=users, answered=int(pairs.sum()), refused=0)
        return decode_pairs(statistic, clusters=sizes.size, decoder=decoder).cluster

    cost = pair_seconds(items)
    return Emulation(draw=draw, sizes=sizes, strength=lambda users: users / chances.size * signal / noise, seconds=cost)


@content_cache
def totals_emulation(alike: Floats, world: BlockParameters, scale: float) -> Emulation:
    """Return emulated runs of a trusted curator's pairs: totals, exact of few users, and its noise."""
    from coordinator.protocol.decoding.line import decode_affinity  # noqa: PLC0415 (as above)

    sizes, items, rated = world.cluster_sizes, world.items, world.rated
    single_user = curator_signal(alike, sizes, users=1, rated=rated)
    signal, _ = _spectral(single_user.means, 0.0, sizes)
    variance = float(sizes @ single_user.variances @ sizes) / items**2

    def draw(users: int, coins: np.random.Generator) -> Indices:
        if users * items <= VOTES:
            votes = draw_votes(world, users=users, coins=coins)
            totals = (votes.T @ votes).astype(np.float64)
        else:
            totals = draw_totals(curator_signal(alike, sizes, users=users, rated=rated), coins)
        upper = np.triu(totals + coins.laplace(scale=scale, size=totals.shape), 1)
        return decode_affinity(upper + upper.T, clusters=sizes.size, error=1.0).cluster

    def strength(users: float) -> float:
        return users**2 * signal / (items * (users * variance + 2 * scale**2))

    return Emulation(draw=draw, sizes=sizes, strength=strength, seconds=pair_seconds(items))


def _share_strength(parameters: BlockParameters, share: float) -> float:
    """Return the strength of shares of likes among so many known ratings an item, of the two closest clusters."""
    likes = np.sort(parameters.class_shares @ parameters.like)
    gaps, middle = np.diff(likes), (likes[1:] + likes[:-1]) / 2
    return 1 + share * float((gaps**2 / np.maximum(middle * (1 - middle), 1e-9)).min()) / 4


def _shares_decoded(rated: Ints, liked: Ints, clusters: int) -> Indices:
    users = int(rated.sum())
    statistic = ScoreStatistic(
        sensed=rated, scores=liked, devices=users, answered=users, refused=0, ones=int(liked.sum())
    )
    return decode_shares(statistic, clusters=clusters).cluster


@content_cache
def reveal_emulation(parameters: BlockParameters, share: float) -> Emulation:
    """Return emulated runs of full reveal, in which users say everything with a probability and nothing else."""

    def draw(users: int, coins: np.random.Generator) -> Indices:
        rated, liked = draw_reveals(parameters, users=int(coins.binomial(users, share)), coins=coins)
        return _shares_decoded(rated, liked, parameters.cluster_sizes.size)

    return Emulation(
        draw=draw,
        sizes=parameters.cluster_sizes,
        strength=lambda users: _share_strength(parameters, users * share * parameters.rated / parameters.items),
        seconds=share_seconds(parameters.items),
    )


def draw_yeses(world: BlockParameters, answers: int, coins: np.random.Generator) -> tuple[int, Ints]:
    """Draw item queries' rounds until all items are learned: the number of users asked, and the yeses of each item."""
    # A user says yes with probability ``w / (2 N)`` whatever the ratings are, as the value asked about is a fair coin.
    yeses, users, says_yes = np.zeros(world.items, np.int64), 0, world.rated / (2 * world.items)
    while (pool := np.flatnonzero(yeses < answers)).size:
        batch = round_users(int(pool.size), items=world.items, rated=world.rated)
        left = answers - int(yeses[pool].max())
        if left > LEAP:  # no item can end within so many rounds
            batch *= max(1, int(left / 2 * pool.size / (batch * says_yes)))
        users += batch
        about = coins.integers(pool.size, size=coins.binomial(batch, says_yes))
        yeses[pool] += np.bincount(about, minlength=pool.size)
    return users, yeses


@content_cache
def query_emulation(parameters: BlockParameters) -> Emulation:
    """Return emulated runs of item queries, by how many yeses an item needs, an odd number where it may be chosen."""
    likes = np.repeat(parameters.class_shares @ parameters.like, parameters.cluster_sizes)

    def draw(answers: int, coins: np.random.Generator) -> Indices:
        _, yeses = draw_yeses(parameters, min(answers, LONG), coins)
        yeses += max(0, answers - LONG)
        return _shares_decoded(yeses, coins.binomial(yeses, likes), parameters.cluster_sizes.size)

    strength, seconds = partial(_share_strength, parameters), share_seconds(parameters.items)
    sizes = parameters.cluster_sizes
    return Emulation(draw=draw, sizes=sizes, strength=strength, seconds=seconds, largest=10**7 + 1, step=2)


@content_cache
def query_users(world: BlockParameters, answers: int) -> float:
    """Return how many users item queries ask on average until every item has so many yeses."""
    coins = np.random.default_rng([answers, *world.cluster_sizes.tolist()])
    return float(np.mean([draw_yeses(world, answers, coins)[0] for _ in range(2 * BATCH)]))


def draw_pairs(chances: Floats, *, users: int, coins: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw how many devices are asked about each pair, and how many agree, from ``P(S = 1)`` of every pair."""
    if users <= FEW * chances.size:
        questions = coins.integers(chances.size, size=users)
        agree = coins.random(users) < chances[questions]
        return np.bincount(questions, minlength=chances.size), np.bincount(questions[agree], minlength=chances.size)
    each = users / chances.size
    if each * min(float(chances.min()), 1 - float(chances.max())) < MANY:
        pairs = coins.multinomial(users, np.full(chances.size, 1 / chances.size))
        return pairs, coins.binomial(pairs, chances)
    # Of many thousands of pairs the law draws one below 0 now and then; less than one draw in a thousand is cut off
    pairs = np.maximum(np.rint(each + math.sqrt(each) * coins.standard_normal(chances.size)), 0)
    spread = np.sqrt(pairs * chances * (1 - chances))
    agreed = np.clip(np.rint(pairs * chances + spread * coins.standard_normal(chances.size)), 0, pairs)
    return pairs.astype(np.int64), agreed.astype(np.int64)


def draw_votes(parameters: BlockParameters, *, users: int, coins: np.random.Generator) -> Ints:
    """Draw users' ratings, shape (U, N): 1 for an item that is liked, -1 for one that is not, 0 for one unrated."""
    items, rated = parameters.items, parameters.rated
    likes = parameters.like[:, np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)]
    classes = coins.choice(parameters.class_shares.size, users, p=parameters.class_shares)
    votes = np.where(coins.random((users, items)) < likes[classes], 1, -1)
    if rated < items:
        order = coins.random((users, items)).argpartition(rated, axis=1)
        np.put_along_axis(votes, order[:, rated:], 0, axis=1)
    return votes


def draw_totals(signal: BlockSignal, coins: np.random.Generator) -> Floats:
    """Draw a curator's totals of pairs, shape (N, N), from the normal law with the moments of `curator_signal`."""
    # a user touches many pairs, so the entries of a row share what `BlockSignal.shared` says
    cluster = np.repeat(np.arange(signal.sizes.size), signal.sizes)
    roots = np.stack([nearest_root(shared) for shared in signal.shared])
    lean = np.einsum("imk,ik->im", roots[cluster], coins.standard_normal((cluster.size, signal.sizes.size)))[:, cluster]
    block = np.ix_(cluster, cluster)
    noise = coins.standard_normal((cluster.size, cluster.size))
    return np.asarray(signal.means[block] + lean + lean.T + np.sqrt(signal.independent)[block] * noise)


def draw_reveals(parameters: BlockParameters, *, users: int, coins: np.random.Generator) -> tuple[Ints, Ints]:
    """Draw how many of the users that reveal everything rated each item, and how many liked it, shape (N,)."""
    cluster = np.repeat(np.arange(parameters.cluster_sizes.size), parameters.cluster_sizes)
    # That every user rates exactly w items is left out: it moves numbers of ratings by a part in N, and no shares.
    classes = coins.multinomial(users, parameters.class_shares)[:, None]
    rated = coins.binomial(classes, parameters.rated / parameters.items, (classes.size, cluster.size))
    liked: Ints = coins.binomial(rated, parameters.like[:, cluster])
    return rated.sum(axis=0), liked.sum(axis=0)
