"""What a scenario should achieve, before anything is run: share of items right, and probability that all are.

The server does not know the levels. Where that costs more than about one item in a hundred, which is so where many
labels are wrong or items are few, estimates are drawn and decoded as the server does it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from scipy.special import erfcx, log_ndtr, ndtr

from coordinator.protocol.arrays import Bools, Floats, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.decoding.curator import DiscreteLaplace, TotalMoments
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.posterior import Posterior, believe
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import FIXED, GROUPS, ONE_ROUND, POSTERIOR, TWO_ROUNDS, UNTIL_LEARNED
from coordinator.protocol.mechanisms.anchor import SENSING_LEVELS, AnchorSensing
from coordinator.protocol.moments.blocks import BlockParameters, PairMoments, SketchMoments
from coordinator.protocol.moments.count_moments import (
    FrequencyMoments,
    PairTotalMoments,
    RevealMoments,
    SumMoments,
    YesMoments,
)
from coordinator.protocol.moments.probabilities import hypergeometric_masses
from coordinator.protocol.moments.sign_moments import SignMoments, pair_contrast
from coordinator.server.anchor.anchor_queries import CLIP, ENOUGH, FIRST_LOOK, NEXT_LOOK
from coordinator.server.anchor.policy import CLEAR, LEVELS_TRIED, PAIR_AGAIN, PAIR_GROWTH, PAIRS_COUNT, SURE, TRIAL
from scenarios.config.resolve import ResolvedRun
from scenarios.data.metrics import clustering_scores
from scenarios.theory import emulated_runs as emulated
from scenarios.theory.prediction import (
    LineLaw,
    ScoreMixture,
    kmeans_cuts,
    line_accuracy,
    line_exact,
    mixture_accuracy,
    mixture_exact,
    mixture_of,
    mixture_of_scores,
    normal_density,
)

LATTICE = 1 << 17  # noisy totals that spread over more whole numbers than this get a density
TAIL, DEVIATIONS = 45.0, 12.0  # Laplace scales and standard deviations that a lattice or a grid spans
CELLS = 4000  # of a density's grid, for each cluster


def curator_accuracy(parameters: BlockParameters, *, users: int, noise: DiscreteLaplace) -> float:
    """Predict the share of items right on the curator's totals ``T_i = sum_u (2 R_ui - 1)``, under the best matching.

    The exact law of one total given how many users each class has (their expected numbers), plus the noise's, found
    from characteristic functions; where it spreads over many whole numbers, the normal-Laplace law with variance
    ``U (w/N - w(w-1)/(N(N-1)) sum_k alpha_k (2 b_kl - 1)^2)`` of sampling: the variance of a total less the covariance
    of two of a cluster, which moves a whole cluster and its cuts. k-means cuts half way between the centres of what it
    cuts, in the limit of many items. Chance in the numbers of users in the classes is left out: where all users rate
    nearly all items and clusters nearly coincide, it sets them apart now and then.
    """
    return line_accuracy(*_cut_totals(parameters, users, noise))


def curator_exact(parameters: BlockParameters, *, users: int, noise: DiscreteLaplace) -> float:
    """Predict the probability that all items are right on them; items are independent around their cluster's mean."""
    return line_exact(*_cut_totals(parameters, users, noise))


def _cut_totals(parameters: BlockParameters, users: int, noise: DiscreteLaplace) -> tuple[LineLaw, Floats]:
    """Law of the noisy totals, around the mean of the clusters, and where k-means cuts it."""
    if users < 1:
        raise InputError(f"users = {users}; give at least 1")
    rate = parameters.rated / parameters.items
    means = users * rate * (parameters.class_shares @ (2 * parameters.like - 1))
    deviations = np.sqrt(users * _variances(parameters))
    width = float(np.ptp(means) + 2 * (DEVIATIONS * deviations.max() + TAIL / noise.rate) + 40)
    if width <= LATTICE:
        law = _lattice_law(parameters, users, noise, means, width)
        return law, kmeans_cuts(law)
    means = means - means.mean()
    cuts = kmeans_cuts(_density_law(means, deviations, 1 / noise.rate, parameters.cluster_sizes, np.empty(0)))
    return _density_law(means, deviations, 1 / noise.rate, parameters.cluster_sizes, cuts), cuts


def _variances(parameters: BlockParameters) -> Floats:
    """Variance that one user adds to a total, less the covariance with the total of another item of the cluster."""
    items, rated = parameters.items, parameters.rated
    both = rated * (rated - 1) / (items * max(1, items - 1))
    return np.asarray(rated / items - both * (parameters.class_shares @ (2 * parameters.like - 1) ** 2))


def _lattice_law(
    parameters: BlockParameters, users: int, noise: DiscreteLaplace, means: Floats, width: float
) -> LineLaw:
    """Exact law of the noisy totals on whole numbers, classes at their expected sizes, by one Fourier transform."""
    length = 1 << math.ceil(math.log2(width))
    centre = round(float(means.max() + means.min()) / 2)
    angles = 2 * np.pi * np.arange(length // 2 + 1) / length
    turn, rate = -2 * np.sin(angles / 2) ** 2, parameters.rated / parameters.items
    logs = np.tile(-1j * angles * centre, (means.size, 1))
    ends = np.rint(np.cumsum(parameters.class_shares) * users)  # whole users of classes, nearest to their expectations
    ends[-1] = users
    for share, like in zip(np.diff(ends, prepend=0), parameters.like, strict=True):
        real, imaginary = rate * turn, rate * np.outer(2 * like - 1, np.sin(angles))
        with np.errstate(divide="ignore"):
            size = 0.5 * np.log1p(np.maximum(2 * real + real**2 + imaginary**2, -1))
        logs += share * (np.maximum(size, -1e300) + 1j * np.arctan2(imaginary, 1 + real))
    if math.isfinite(noise.rate):
        stop = -math.expm1(-noise.rate)
        logs -= np.log1p(-2 * math.exp(-noise.rate) * turn / stop**2)
    mass = np.fft.irfft(np.exp(logs).conj(), length, axis=1)
    mass[mass < 1e-17] = 0  # the transform's rounding
    points = np.arange(length) - np.where(np.arange(length) >= length // 2, length, 0)
    order = np.argsort(points)
    return LineLaw(points=points[order].astype(float), mass=mass[:, order], sizes=parameters.cluster_sizes)


def _density_law(means: Floats, deviations: Floats, scale: float, sizes: Ints, cuts: Floats) -> LineLaw:
    """Normal-Laplace law on a grid of cells around each mean; cuts are ends of cells."""
    deviations = np.maximum(deviations, 1e-9 * max(scale, 1.0))
    reach = DEVIATIONS * deviations.max() + TAIL * scale
    around = np.sinh(np.linspace(-4, 4, CELLS)) / math.sinh(4)
    edges = np.unique(np.concatenate(((means[:, None] + reach * around).ravel(), cuts)))
    offsets = edges[None, :] - means[:, None]
    upper = normal_laplace_tail(np.abs(offsets), deviations[:, None], scale)
    lower_half = offsets < 0
    rise: Floats = np.diff(upper, axis=1)
    around_mean: Floats = 1 - upper[:, 1:] - upper[:, :-1]
    above: Floats = np.where(lower_half[:, :-1], around_mean, -rise)
    mass = np.where(lower_half[:, 1:], rise, above)
    return LineLaw(points=(edges[1:] + edges[:-1]) / 2, mass=np.maximum(mass, 0), sizes=sizes)


def normal_laplace_tail(offset: Floats, deviation: Floats, scale: float) -> Floats:
    """Return ``P(X + Y > offset)`` for X normal and Y Laplace, both centred; relative precision in the tail too."""
    z = offset / deviation
    if scale == 0:
        return np.asarray(ndtr(-z))
    s = deviation / scale
    density = normal_density(z)
    exponent: Floats = np.minimum(s * s / 2 - s * z, 0) + log_ndtr(z - s)
    heavy = np.where(z <= s, density * _mills(np.maximum(s - z, 0)), np.exp(exponent))
    return ndtr(-z) - density * _mills(s + z) / 2 + heavy / 2


def _mills(value: Floats) -> Floats:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(value / math.sqrt(2)))


FEW_WRONG, WRONG_AN_ITEM = 0.1, 1e-3
"""Up to this share of wrong labels, and this share for each item of the catalogue, levels count as known."""
FAILURE = 0.05  # A round's default; labels hardly depend on it
DRAWN_ITEMS, LEAST_DRAWS, MOST_ITEMS = 4000, 8, 10_000
"""Items whose estimates are drawn in all, catalogues at least, and items of one; in larger ones levels are known."""


def _between(cluster: int, levels: Floats, shares: Floats, error: float) -> tuple[float, float]:
    """Return the stretch of estimates of which a cluster is the most probable one; empty where it is nowhere.

    The posteriors of two levels a > b cross at the middle, moved by ``error^2 ln(share_b / share_a) / (a - b)``.
    """
    low, high = -math.inf, math.inf
    for other in range(levels.size):
        gap = float(levels[cluster] - levels[other])
        if gap == 0:
            if (shares[other], cluster) > (shares[cluster], other):  # of equal ones the first
                return math.inf, -math.inf
            continue
        cut = float(levels[cluster] + levels[other]) / 2 + error**2 * math.log(shares[other] / shares[cluster]) / gap
        low, high = (max(low, cut), high) if gap > 0 else (low, min(high, cut))
    return low, high


def mistakes(parameters: BlockParameters, *, contrast: float, users: int) -> Floats:
    """Return the probability that an item of each cluster gets a wrong label, with levels and shares known."""
    levels = 2 * parameters.class_shares @ parameters.like - 1
    shares, error = parameters.cluster_sizes / parameters.items, 1 / (contrast * math.sqrt(users))
    wrong = np.ones(levels.size)
    for cluster, level in enumerate(levels.tolist()):
        low, high = _between(cluster, levels, shares, error)
        if low < high:
            wrong[cluster] = ndtr((level - high) / error) + ndtr((low - level) / error)
    return wrong


def sign_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the share of items right; see `mistakes`."""
    items, sizes = parameters.items, parameters.cluster_sizes
    wrong = float(sizes / items @ mistakes(parameters, contrast=contrast, users=users))
    if wrong <= min(FEW_WRONG, items * WRONG_AN_ITEM) or items > MOST_ITEMS:
        return 1 - wrong
    levels = 2 * parameters.class_shares @ parameters.like - 1
    draws = max(LEAST_DRAWS, DRAWN_ITEMS // items)
    return _decoded(tuple(levels.tolist()), tuple(sizes.tolist()), 1 / (contrast * math.sqrt(users)), draws)


@lru_cache(maxsize=1024)  # all seeds of a sweep's cell have one prediction
def _decoded(levels: tuple[float, ...], sizes: tuple[int, ...], error: float, draws: int) -> float:
    """Return the share of items right where levels are not as good as known."""
    # Normal estimates are drawn, with fixed coins, and decoded
    truth = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(0).standard_normal((draws, truth.size))
    information = np.full(truth.size, error**-2)
    posteriors = [
        believe(Estimates(weighted=value * information, information=information), clusters=len(sizes), failure=FAILURE)
        for value in np.array(levels)[truth] + error * noise
    ]
    return float(np.mean([clustering_scores(posterior.cluster, truth).accuracy for posterior in posteriors]))


def sign_exact(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the probability that all items are right; see `mistakes`."""
    wrong = mistakes(parameters, contrast=contrast, users=users)
    with np.errstate(divide="ignore"):
        return float(np.exp(parameters.cluster_sizes @ np.log1p(-wrong)))


PREDICTED = (ONE_ROUND, FIXED, UNTIL_LEARNED, GROUPS, TWO_ROUNDS)
"""Policies whose rounds do not depend on the answers, or only on which items are learned or most liked."""
Curve = Callable[[int], float]  # number of answering users to a share or a probability


@dataclass(frozen=True, slots=True, kw_only=True)
class Predictor:
    """Predictions at any number of users."""

    accuracy: Curve  # Users to the expected share of items right
    exact: Curve  # Users to the probability that all items are right
    emulation: emulated.Emulation | None = None  # Where predictions are emulated: it estimates what a target needs


def predictor(run: ResolvedRun) -> Predictor | None:
    """Return the predictions for a run in a block model, from exact moments of its mechanism."""
    scenario, world = run.scenario, run.world
    if scenario.policy not in PREDICTED or scenario.pool_size is not None:
        return None
    if world.epsilon is not None and scenario.answers_per_device > 1:
        run = replace(run, world=replace(world, epsilon=world.epsilon / scenario.answers_per_device))
    return from_moments(run.moments, run) if world.clusters == run.block.cluster_sizes.size else None


def why_not_predicted(run: ResolvedRun) -> str:
    """Return why a run that would be emulated has no predictions; empty for all others."""
    return emulated.NOT_EMULATED if emulated.takes_too_long(_seconds(run.moments, run.world.items)) else ""


def _seconds(moments: object, items: int) -> float:
    """Return about how many processor seconds a draw takes; 0 where nothing is drawn."""
    match moments:
        case PairMoments() | PairTotalMoments():
            return emulated.pair_seconds(items)
        case YesMoments() | RevealMoments():
            return emulated.share_seconds(items)
    return 0.0


def from_moments(moments: object, run: ResolvedRun) -> Predictor | None:  # noqa: PLR0911 (one for each kind)
    """Return what moments predict for a run in a block model; None where nobody has said what follows."""
    parameters, decoder = run.block, run.scenario.decoder
    sizes = parameters.cluster_sizes
    match moments:
        case Predictor():
            return moments
        case SketchMoments():
            decoder = "centred" if decoder == POSTERIOR else decoder
            return _of_mixture(lambda users: mixture_of_scores(moments, sizes, users, decoder), sizes)
        case FrequencyMoments():
            return _of_mixture(lambda users: mixture_of(moments.level, moments.variance / users, sizes), sizes)
        case SignMoments(contrast=contrast):
            return Predictor(
                accuracy=lambda users: sign_accuracy(parameters, contrast=contrast, users=users),
                exact=lambda users: sign_exact(parameters, contrast=contrast, users=users),
            )
        case SumMoments(level=level, noise=added):
            return _of_mixture(
                lambda users: mixture_of(level, level * (1 - level) / users + added / users**2, sizes), sizes
            )
        case TotalMoments(noise=noise):
            return Predictor(
                accuracy=lambda users: curator_accuracy(parameters, users=users, noise=noise),
                exact=lambda users: curator_exact(parameters, users=users, noise=noise),
            )
    return _emulated(moments, parameters, decoder)


def _emulated(moments: object, parameters: BlockParameters, decoder: str) -> Predictor | None:
    """Return emulated predictions; None where they take too long, or where items cannot be clustered."""
    sizes, items = parameters.cluster_sizes, parameters.items
    if emulated.takes_too_long(_seconds(moments, items)):
        return None
    match moments:
        case PairMoments() if 2 <= sizes.size < items:
            emulation = emulated.pair_emulation(moments.rates, sizes, decoder)
        case PairTotalMoments() if 2 <= sizes.size < items:
            emulation = emulated.totals_emulation(moments.profile, parameters, moments.scale)
        case RevealMoments():
            emulation = emulated.reveal_emulation(parameters, moments.share)
        case YesMoments(answers=answers):  # as if the users were enough for every item to be learned
            every = emulated.query_emulation(parameters)
            return Predictor(accuracy=lambda _: every.accuracy(answers), exact=lambda _: every.exact(answers))
        case _:
            return None
    return Predictor(accuracy=emulation.accuracy, exact=emulation.exact, emulation=emulation)


def _of_mixture(mixture: Callable[[int], ScoreMixture | None], sizes: Ints) -> Predictor:
    """Return what k-means makes of items' values, a mixture by the number of users."""
    return Predictor(
        accuracy=lambda users: mixture_accuracy(mixture(users), sizes),
        exact=lambda users: mixture_exact(mixture(users), sizes),
    )


PLAYED, MANY = 6, 60
"""Runs that are played, whose mean is the prediction; a third of them in pools above the second number."""
MOST_ROUNDS, MOST = 400, 1e15
"""A run that is played goes on for so many rounds, and begins only if so many users are enough for its pairs."""


class AnchorWorld(NamedTuple):
    """A block model of two clusters, and what anchor sensing asks in it."""

    block: BlockParameters
    ratings: Floats  # shape (K, 2): mean rating of each class, in [-1, 1], for items of each cluster
    epsilon: Epsilon
    failure: float
    pool: int  # items whose pairs are asked about


@lru_cache(maxsize=256)
def users_of(run: ResolvedRun, failure: float) -> float:
    """Return users whom anchor sensing asks on average in a block model until every item is decided."""
    # The rounds of `coordinator.server.anchor.policy` are played item by item: agreements of pairs and estimates are
    # normal around their means; guesses are right as often as a normal sum of log-odds is positive. Levels count as
    # known.
    block = run.block
    if block.cluster_sizes.size != 2:
        raise InputError(f"anchor sensing is predicted for 2 clusters, not for {block.cluster_sizes.size}; run it")
    if block.rated < 2:
        raise InputError("anchor sensing learns from pairs of ratings; give users 2 rated items or more")
    assert isinstance(run.design, AnchorSensing)  # predicted for no other
    pool = run.design.pool(bytes(16)).size
    world = AnchorWorld(block, 2 * block.like - 1, run.world.epsilon, failure, pool)
    runs = PLAYED if pool <= MANY else PLAYED // 3
    return float(np.mean([_play(world, np.random.default_rng(number)) for number in range(runs)]))


def _play(world: AnchorWorld, noise: np.random.Generator) -> float:
    pool, block = world.pool, world.block
    cluster = noise.permutation(np.repeat(np.arange(2), block.cluster_sizes))
    contrast = pair_contrast(pool, items=block.items, rated=block.rated, epsilon=world.epsilon)
    pairs = _Pairs(world, cluster[:pool], contrast, noise)
    if not pairs.threshold < MOST:
        return math.inf
    near = pairs.threshold * (1.6 if pool > MANY else 0.125)  # looks before that are of noise alone
    pairs.ask(max(FIRST_LOOK / (pool * contrast**2), near))
    wasted = 0.0
    while True:
        while not pairs.stands:
            pairs.ask(NEXT_LOOK * pairs.users)
        spent, done = _turned(world, cluster, pairs, wasted + pairs.users, noise)
        if done:
            return wasted + pairs.users + spent
        wasted += spent
        pairs.ask((PAIR_AGAIN - 1) * pairs.users)


class _Pairs:
    """Agreements of a pool's pairs, as users come in."""

    def __init__(self, world: AnchorWorld, cluster: Ints, contrast: float, noise: np.random.Generator) -> None:
        self.users, self._contrast, self._noise = 0.0, contrast, noise
        likes, shares = world.ratings[:, cluster], world.block.class_shares
        self._agreement = np.einsum("k,ki,kj->ij", shares, likes, likes)
        np.fill_diagonal(self._agreement, 0.0)
        self._side = likes[np.argmax(shares)]
        self._sums = np.zeros_like(self._agreement)
        strength = contrast * float(scipy.linalg.eigvalsh(self._agreement)[-1])
        self.threshold = len(self._agreement) / strength**2 if strength > 0 else math.inf

    def ask(self, users: float) -> None:
        """Add so many users."""
        upper = np.triu(self._noise.normal(scale=math.sqrt(users), size=self._sums.shape), 1)
        self._sums += upper + upper.T + users * self._contrast * self._agreement
        self.users += users
        size = len(self._sums)
        values, vectors = scipy.linalg.eigh(self._sums, subset_by_index=[size - 1, size - 1])
        edge = values[-1] / (2 * math.sqrt(size * self.users))
        self.stands = bool(edge >= ENOUGH)
        if self.stands:
            strength = edge + math.sqrt(edge**2 - 1)
            entries, overlap = vectors[:, -1] * math.sqrt(size), 1 - strength**-2
            odds = np.clip(2 * math.sqrt(overlap) * entries / (1 - overlap), -CLIP, CLIP)
            self.odds = odds if odds @ self._side > 0 else -odds
            self.level = math.sqrt(min(strength / (math.sqrt(self.users * size) * self._contrast), 1.0))


def _turned(
    world: AnchorWorld, cluster: Ints, pairs: _Pairs, before: float, noise: np.random.Generator
) -> tuple[float, bool]:
    """Return users of turned signs, and whether these decided all items, or were given up."""
    items, sizes = world.block.items, world.block.cluster_sizes
    spent, odds = 0.0, np.zeros(items)
    odds[: pairs.odds.size] = pairs.odds
    expected, decided = pairs.level * np.tanh(odds / 2), np.zeros(items, np.bool_)
    noises, information = np.zeros((2, items))
    for number in range(MOST_ROUNDS):
        best = max(
            (_slopes(world, cluster, np.clip(expected, -SURE, SURE), decided, level) for level in LEVELS_TRIED),
            key=lambda slopes: slopes.share * float((slopes.slope**2).sum()),
        )
        users = PAIR_GROWTH * (before + spent)
        signal_information = users * best.share * best.slope**2
        noises += np.sqrt(signal_information) * noise.normal(size=items)
        information += signal_information
        spent += users
        value = best.levels[cluster] + np.divide(noises, information, out=noises * 0, where=information > 0)
        upper, lower = best.levels
        log_odds = (upper - lower) * information * (value - (upper + lower) / 2)
        if number < PAIRS_COUNT:
            expected = pairs.level * np.tanh((odds + 2 * pairs.level * information * value) / 2)
        else:
            belongs = scipy.special.expit(log_odds + math.log(sizes[0] / sizes[1]))
            expected = lower + (upper - lower) * belongs
            guess, doubt = (belongs < 0.5).astype(np.int32), scipy.special.expit(-np.abs(log_odds))
            posterior = Posterior(cluster=guess, doubt=doubt, expected=expected, mixture=None, apart=True)
            decided = posterior.decided(world.failure)
            if decided.all():
                return spent, True
        chi_square = float((value**2 * information).sum())
        if spent >= TRIAL * pairs.users and chi_square < items + CLEAR * math.sqrt(2 * items):
            return spent, False
    return math.inf, True


class _Slopes(NamedTuple):
    share: float  # how often open items are sensed
    slope: Floats  # of every item's agreements, in the server's model of two mirrored classes; 0 of decided items
    levels: Floats  # what its estimates of each cluster's items are around


def _right(guess: Floats, weights: Floats, ratings: Floats, others: int) -> float:
    """Return E[guessed class] of a class with these mean ratings, the first class counted 1 and the second -1."""
    mean = others * float((guess * ratings).mean())
    spread = others * float((guess * weights).mean()) - mean**2 / others
    return math.erf(mean / math.sqrt(2 * spread)) if spread > 0 else 0.0


def _slopes(world: AnchorWorld, cluster: Ints, expected: Floats, decided: Bools, level: int) -> _Slopes:
    """Return what turned signs say, where open items are sensed so often."""
    block, ratings = world.block, world.ratings
    share, others, weights = level / SENSING_LEVELS, block.rated - 1, np.arctanh(expected)
    guess = np.where(decided, 1.0, 1 - share) * weights
    guess_mean = _right(guess, weights, expected, others)
    turned = [
        part * _right(guess, weights, class_ratings[cluster], others)
        for part, class_ratings in zip(block.class_shares, ratings, strict=True)
    ]
    means, centres, still = np.array(turned) @ ratings, guess_mean * expected, ~decided
    size = float((1 + centres[still] ** 2 - 2 * centres[still] * means[cluster][still]).mean())
    least, masses = hypergeometric_masses(block.items - 1, int(still.sum()) - 1, others)
    sensed = share * (least + np.arange(masses.size))[:, None] * size
    grid = np.linspace(0, 2, 33)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = masses @ np.where(sensed > 0, scipy.special.erf(grid / np.sqrt(2 * sensed)), grid > 0)
    near, far = np.interp(1 - np.abs(centres), grid, reach), np.interp(1 + np.abs(centres), grid, reach)
    contrast_per_item = bit_channel(world.epsilon).contrast * block.rated / block.items
    slope = np.where(decided, 0.0, contrast_per_item * guess_mean * (near + far) / 2)
    return _Slopes(share, slope, means / guess_mean if guess_mean else means)
