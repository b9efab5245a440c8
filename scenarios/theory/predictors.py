"""What a scenario should achieve, before anything is run: share of items right, and probability that all are.

The server does not know the levels. Where that costs more than about one item in a hundred, which is so where many
labels are wrong or items are few, estimates are drawn and decoded as the server does it.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.curator import DiscreteLaplace
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import believe
from coordinator.server.moments.blocks import BlockParameters, PairMoments, SketchMoments
from coordinator.server.moments.count_moments import FrequencyMoments
from coordinator.server.moments.sign_moments import SignMoments
from coordinator.server.server_half import (
    FIXED,
    GROUPS,
    ONE_ROUND,
    POSTERIOR,
    TWO_ROUNDS,
    UNTIL_LEARNED,
    PairTotals,
    RevealMoments,
    SumMoments,
    TotalMoments,
    YesMoments,
)
from scenarios.config.run_spec import half_in
from scenarios.config.scenario import Scenario
from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import block_parameters, known_world
from scenarios.theory.emulated_runs import (
    NOT_EMULATED,
    Emulation,
    pair_emulation,
    pair_seconds,
    query_emulation,
    reveal_emulation,
    share_seconds,
    takes_too_long,
    totals_emulation,
)
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
    """Predict the probability that all items are right on the curator's totals, up to a permutation of labels.

    Arguments, errors and notes as `curator_accuracy`; items are taken as independent around their cluster's mean.
    """
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
    for share, like in zip(_class_users(parameters.class_shares, users), parameters.like, strict=True):
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


def _class_users(shares: Floats, users: int) -> Floats:
    """Whole numbers of users in the classes, nearest to their expectations."""
    ends = np.rint(np.cumsum(shares) * users)
    ends[-1] = users
    return np.diff(ends, prepend=0)


def _density_law(means: Floats, deviations: Floats, scale: float, sizes: Ints, cuts: Floats) -> LineLaw:
    """Normal-Laplace law on a grid of cells around each mean; cuts are ends of cells."""
    deviations = np.maximum(deviations, 1e-9 * max(scale, 1.0))
    reach = DEVIATIONS * deviations.max() + TAIL * scale
    around = np.sinh(np.linspace(-4, 4, CELLS)) / math.sinh(4)
    edges = np.unique(np.concatenate(((means[:, None] + reach * around).ravel(), cuts)))
    offsets = edges[None, :] - means[:, None]
    upper = normal_laplace_tail(np.abs(offsets), deviations[:, None], scale)
    lower_half = offsets < 0
    mass = np.where(
        lower_half[:, 1:],
        np.diff(upper, axis=1),
        np.where(lower_half[:, :-1], 1 - upper[:, 1:] - upper[:, :-1], -np.diff(upper, axis=1)),
    )
    return LineLaw(points=(edges[1:] + edges[:-1]) / 2, mass=np.maximum(mass, 0), sizes=sizes)


def normal_laplace_tail(offset: Floats, deviation: Floats, scale: float) -> Floats:
    """Return ``P(X + Y > offset)`` for X normal and Y Laplace, both centred; relative precision in the tail too."""
    z = offset / deviation
    if scale == 0:
        return np.asarray(ndtr(-z))
    s = deviation / scale
    density = normal_density(z)
    heavy = np.where(
        z <= s, density * _mills(np.maximum(s - z, 0)), np.exp(np.minimum(s * s / 2 - s * z, 0) + log_ndtr(z - s))
    )
    return ndtr(-z) - density * _mills(s + z) / 2 + heavy / 2


def _mills(value: Floats) -> Floats:
    return np.asarray(math.sqrt(math.pi / 2) * erfcx(value / math.sqrt(2)))


FEW_WRONG, WRONG_AN_ITEM = 0.1, 1e-3
"""Up to this share of wrong labels, and this share for each item of the catalogue, levels count as known."""
FAILURE = 0.05  # A round's default; labels hardly depend on it
DRAWN_ITEMS, LEAST_DRAWS, MOST_ITEMS = 4000, 8, 10_000
"""Items whose estimates are drawn in all, catalogues at least, and items of one; in larger ones levels are known."""


def _between(own: int, levels: Floats, shares: Floats, error: float) -> tuple[float, float]:
    """Return the stretch of estimates of which a cluster is the most probable one; empty where it is nowhere.

    The posteriors of two levels a > b cross at the middle, moved by ``error^2 ln(share_b / share_a) / (a - b)``.
    """
    low, high = -math.inf, math.inf
    for other in range(levels.size):
        gap = float(levels[own] - levels[other])
        if gap == 0:
            if (shares[other], own) > (shares[own], other):  # of equal ones the first
                return math.inf, -math.inf
            continue
        cut = float(levels[own] + levels[other]) / 2 + error**2 * math.log(shares[other] / shares[own]) / gap
        low, high = (max(low, cut), high) if gap > 0 else (low, min(high, cut))
    return low, high


def mistakes(parameters: BlockParameters, *, contrast: float, users: int) -> Floats:
    """Return the probability that an item of each cluster gets a wrong label, with levels and shares known."""
    levels = 2 * parameters.class_shares @ parameters.like - 1
    shares, error = parameters.cluster_sizes / parameters.items, 1 / (contrast * math.sqrt(users))
    wrong = np.ones(levels.size)
    for own, level in enumerate(levels.tolist()):
        low, high = _between(own, levels, shares, error)
        if low < high:
            wrong[own] = ndtr((level - high) / error) + ndtr((low - level) / error)
    return wrong


def sign_accuracy(parameters: BlockParameters, *, contrast: float, users: int) -> float:
    """Predict the share of items right; see `mistakes`."""
    items = parameters.items
    wrong = float(parameters.cluster_sizes / items @ mistakes(parameters, contrast=contrast, users=users))
    if wrong <= min(FEW_WRONG, items * WRONG_AN_ITEM) or items > MOST_ITEMS:
        return 1 - wrong
    # levels are not as good as known: normal estimates are drawn, with fixed coins, and decoded
    sizes, error = parameters.cluster_sizes, 1 / (contrast * math.sqrt(users))
    truth = np.repeat(np.arange(sizes.size), sizes)
    means = (2 * parameters.class_shares @ parameters.like - 1)[truth]
    noise = np.random.default_rng(0).standard_normal((max(LEAST_DRAWS, DRAWN_ITEMS // truth.size), truth.size))
    information = np.full(truth.size, error**-2)
    posteriors = [
        believe(Estimates(weighted=value * information, information=information), clusters=sizes.size, failure=FAILURE)
        for value in means + error * noise
    ]
    return float(np.mean([clustering_scores(one.cluster, truth).accuracy for one in posteriors]))


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
    emulation: Emulation | None = None  # Where predictions are emulated: it estimates what a target needs


def predictor(scenario: Scenario) -> Predictor | None:
    """Return the predictions for a block-model scenario, from exact moments of its design."""
    if scenario.policy not in PREDICTED or scenario.pool_size is not None:
        return None
    if scenario.epsilon is not None and scenario.answers_per_device > 1:
        share = {"epsilon": scenario.epsilon / scenario.answers_per_device, "answers_per_device": 1}
        scenario = scenario.model_copy(update=share)
    filled = scenario.complete()
    block = block_parameters(filled)
    if filled.clusters != block.cluster_sizes.size:
        return None
    return _predictor(half_in(filled).moments(filled.settings, known_world(filled)), block, filled.decoder)


def why_not_predicted(scenario: Scenario) -> str:
    """Return why a filled-in scenario that would be emulated has no predictions; empty for all others."""
    moments = half_in(scenario).moments(scenario.settings, known_world(scenario))
    return NOT_EMULATED if takes_too_long(_seconds(moments, scenario.items or 0)) else ""


def _seconds(moments: object, items: int) -> float:
    """Return about how many processor seconds a draw takes; 0 where nothing is drawn."""
    match moments:
        case PairMoments() | PairTotals():
            return pair_seconds(items)
        case YesMoments() | RevealMoments():
            return share_seconds(items)
    return 0.0


def from_moments(moments: object, scenario: Scenario) -> Predictor | None:
    """Return what moments predict for a filled-in block-model scenario; None where nobody has said what follows."""
    return _predictor(moments, block_parameters(scenario), scenario.decoder)


def _predictor(moments: object, parameters: BlockParameters, decoder: str) -> Predictor | None:  # noqa: PLR0911
    """Return what moments of one kind predict; None where nobody has said what follows from them."""
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
                accuracy=lru_cache(maxsize=1024)(
                    lambda users: sign_accuracy(parameters, contrast=contrast, users=users)
                ),
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
    if takes_too_long(_seconds(moments, items)):
        return None
    match moments:
        case PairMoments() if 2 <= sizes.size < items:
            one = pair_emulation(moments.rates, sizes, decoder)
        case PairTotals() if 2 <= sizes.size < items:
            one = totals_emulation(moments.profile, parameters, moments.scale)
        case RevealMoments():
            one = reveal_emulation(parameters, moments.share)
        case YesMoments(answers=answers):  # as if the users were enough for every item to be learned
            every = query_emulation(parameters)
            return Predictor(accuracy=lambda _: every.accuracy(answers), exact=lambda _: every.exact(answers))
        case _:
            return None
    return Predictor(accuracy=one.accuracy, exact=one.exact, emulation=one)


def _of_mixture(mixture: Callable[[int], ScoreMixture | None], sizes: Ints) -> Predictor:
    """Return what k-means makes of items' values, a mixture by the number of users."""
    return Predictor(
        accuracy=lambda users: mixture_accuracy(mixture(users), sizes),
        exact=lambda users: mixture_exact(mixture(users), sizes),
    )
