"""Exact moments under the block model, of scores by sums over subsets of the items, and of pairs of items."""

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.errors import InputError
from coordinator.protocol.moments.probabilities import NEGLIGIBLE, hypergeometric_masses, root_between
from coordinator.protocol.pools import AGREEMENTS


def mean_product(factors: Floats, sizes: Ints, subset_size: int) -> float:
    """Mean of a product of item factors over the uniform subsets of a given size.

    >>> round(mean_product(np.array([0.5, 1.0]), np.array([1, 2]), 1), 12)
    0.833333333333
    """
    # Shapes: ``factors`` (L,); ``sizes`` (L,).
    total = int(sizes.sum())
    if not 0 <= subset_size <= total:
        raise InputError(f"no subset of {subset_size} items in a set of {total}; choose 0 to {total}")
    whole = _log_coefficient((1.0,), (total,), subset_size)
    return math.exp(_log_coefficient(tuple(factors.tolist()), tuple(sizes.tolist()), subset_size) - whole)


def mean_product_in_a_set(factors: Floats, sizes: Ints, *, population: int, marked: int, set_size: int) -> float:
    """Mean of a product of item factors over the marked items that a random set holds.

    >>> round(mean_product_in_a_set(np.array([0.5]), np.array([4]), population=4, marked=2, set_size=2), 12)
    0.541666666667
    """
    # Of ``population`` items a uniform subset of ``marked`` is marked, and an independent uniform subset of
    # ``set_size`` is drawn; the items that are both, r of them, are a uniform r-subset of the items that ``sizes``
    # counts.
    # Shapes: ``factors`` (L,); ``sizes`` (L,).
    first, masses = hypergeometric_masses(population, marked, set_size)
    left, total = 1.0, 0.0
    for both, mass in enumerate(masses.tolist(), first):
        product = mean_product(factors, sizes, both)
        total += mass * product
        left -= mass
        if left * product <= NEGLIGIBLE + 1e-17 * total:  # products fall as r rises
            break
    return total


@lru_cache(maxsize=1 << 14)
def _log_coefficient(of: tuple[float, ...], many: tuple[int, ...], power: int) -> float:
    """Logarithm of the coefficient of z^power in prod_l (1 + x_l z)^(n_l)."""
    # Cauchy's integral over ``z = r e^(i angle)``. The terms at radius r, scaled to sum to 1, are the distribution of a
    # sum of binomials; r puts its mean at ``power``, so that the integral is the probability of the mean itself: no
    # cancellation, no overflow. An equal-step sum adds only the mass that lies a multiple of ``steps`` away, below
    # 1e-20 with 16 standard deviations + 65 steps (Bernstein's inequality).
    factors, sizes = np.array(of), np.array(many)
    from scipy.special import expit, logit  # noqa: PLC0415 (settings stand beside what predicts them, and load no scipy)

    present = (factors > 0) & (sizes > 0)
    counts, degree = sizes[present].astype(np.float64), int(sizes[present].sum())
    if power > degree:
        return -math.inf
    if power == 0:
        return 0.0
    logs = np.log(factors[present])
    target = min(power, degree - 0.5) / degree
    centre = float(logit(target))

    def excess(tilt: float) -> float:  # mean of the tilted distribution as a share of its range, less the target
        return float(counts @ expit(logs + tilt) / counts.sum()) - target

    tilt = root_between(excess, centre - float(logs.max()) - 1, centre - float(logs.min()) + 1)
    chance, rest = expit(logs + tilt), expit(-logs - tilt)
    deviation = math.sqrt(float(counts @ (chance * rest)))
    steps = min(math.ceil(16 * deviation) + 65, degree + 1) // 2 * 2 + 1
    angles = 2 * np.pi / steps * np.arange(1, steps // 2 + 1)[:, None]
    sine_squares = np.sin(angles / 2) ** 2
    size = np.log1p(-4 * chance * rest * sine_squares) @ counts / 2
    phase = np.arctan2(chance * np.sin(angles), 1 - 2 * chance * sine_squares) @ counts - power * angles[:, 0]
    mass = (1 + 2 * float(np.exp(size) @ np.cos(phase))) / steps
    return float(np.logaddexp(0, logs + tilt) @ counts) - power * tilt + math.log(mass)


DECODERS = ("paper", "centred")


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockParameters:
    """Parameters of the bipartite stochastic block model, of which the moments are functions.

    Shapes: ``like`` (K, L); ``class_shares`` (K,); ``cluster_sizes`` (L,).

    The model of Banerjee, Hegde, Massoulié, *The Price of Privacy in Untrusted Recommendation Engines*, section 2:
    every user rates a uniform w-subset of the items, independently of the ratings' values.
    """

    rated: int
    like: Floats
    class_shares: Floats
    cluster_sizes: Ints

    def __post_init__(self) -> None:
        shape = (self.class_shares.size, self.cluster_sizes.size)
        if self.like.shape != shape:
            raise InputError(f"like has shape {self.like.shape}; (classes, clusters) asks for shape {shape}")
        if not bool(np.all((self.like >= 0) & (self.like <= 1))):
            raise InputError(f"like = {self.like.tolist()} holds a value outside 0 to 1; give probabilities")
        if not (bool(np.all(self.class_shares >= 0)) and abs(float(self.class_shares.sum()) - 1) < 1e-9):
            raise InputError(f"class_shares = {self.class_shares.tolist()}; give shares >= 0 that sum to 1")
        if self.cluster_sizes.size == 0 or int(self.cluster_sizes.min()) < 1:
            raise InputError(f"cluster_sizes = {self.cluster_sizes.tolist()}; leave out clusters without items")
        if not 1 <= self.rated <= self.items:
            raise InputError(f"rated = {self.rated}; each user rates 1 to {self.items} of the {self.items} items")

    @property
    def items(self) -> int:
        """Number of items, N."""
        return int(self.cluster_sizes.sum())


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchMoments:
    """Moments of one design's answers and of the item scores ``B_i = sum_u H_ui S_u``.

    ``epsilon`` in nats; ``effect`` (L,).
    """

    sensing: float
    epsilon: float
    private_rate: float
    answer_rate: float
    effect: Floats
    noise_paper: float
    noise_centred: float

    @property
    def profile(self) -> Floats:
        """What answers without noise say of each cluster's items, one row a cluster."""
        return self.effect[:, None]

    @property
    def given_sensed(self) -> Floats:
        """``P(S = 1 | i sensed, C(i) = l)``, shape (L,)."""
        return self.answer_rate + self.effect

    def score_deviation(self, users: int, decoder: str) -> float:
        """Give the standard deviation of an item's score, around shifts common to all items."""
        # For MaxSense ``sqrt(U p (1-p) q)``; centred ``sqrt(U p (1-p) q (1-q))``.
        noise = self.noise_paper if _checked(users, decoder) == "paper" else self.noise_centred
        return math.sqrt(users * noise)

    def estimate_deviation(self, users: int, decoder: str) -> float:
        """Give the standard deviation of ``B_i / (U p)``, which estimates ``P(S = 1 | i sensed)`` up to a shift."""
        # For MaxSense ``sqrt(q (1-p) / (U p))``; centred ``sqrt(q (1-q) (1-p) / (U p))``.
        return self.score_deviation(users, decoder) / (users * self.sensing)


def maxsense_moments(parameters: BlockParameters, *, sensing: float, epsilon: float) -> SketchMoments:
    """Give the exact moments of MaxSense; ``epsilon`` in nats.

    >>> model = BlockParameters(
    ...     rated=1,
    ...     like=np.array([[1.0, 0.0]]),
    ...     class_shares=np.array([1.0]),
    ...     cluster_sizes=np.array([1, 1]),
    ... )
    >>> moments = maxsense_moments(model, sensing=0.5, epsilon=math.inf)
    >>> round(moments.answer_rate, 12), moments.given_sensed.round(12).tolist()
    (0.25, [0.5, 0.25])
    """
    # MaxSense is Fig. 2 of Banerjee, Hegde, Massoulié. With ``Q_k(set)`` the mean over k-subsets of the product of ``1
    # - p b_j``, the private bit is 0 with probability ``Q_w(all) = (1 - w/N) Q_w(all but i) + (w/N) (1 - p b_l)
    # Q_{w-1}(all but i)``, and, given that i of cluster l is sensed, with the same sum but ``1 - b_l``: so the two
    # differ by ``(w/N) (1 - p) b_l Q_{w-1}(all but i)``, averaged over the user classes.
    if not 0 < sensing < 1:
        raise InputError(f"sensing probability {sensing} must lie strictly between 0 and 1; choose theta below w")
    _require_positive(epsilon)
    rated, sizes, like = parameters.rated, parameters.cluster_sizes, parameters.like
    silent, pivotal = 0.0, np.zeros(sizes.size)
    for share, row in zip(parameters.class_shares.tolist(), like, strict=True):
        factors = 1 - sensing * row
        silent += share * mean_product(factors, sizes, rated)
        for cluster in range(sizes.size):
            others = sizes - (np.arange(sizes.size) == cluster)
            pivotal[cluster] += share * row[cluster] * mean_product(factors, others, rated - 1)
    contrast = math.tanh(epsilon / 2)
    rate = 0.5 + contrast / 2 - contrast * silent
    spread = sensing * (1 - sensing) * rate
    return SketchMoments(
        sensing=sensing,
        epsilon=epsilon,
        private_rate=1 - silent,
        answer_rate=rate,
        effect=contrast * (rated / parameters.items) * (1 - sensing) * pivotal,
        noise_paper=spread,
        noise_centred=spread * (1 - rate),
    )


def _require_positive(epsilon: float) -> None:
    if not epsilon > 0:
        raise InputError(f"epsilon = {epsilon} must be above 0; use inf for answers without noise")


def _checked(users: int, decoder: str) -> str:
    """Return the decoder's name, after checking it and the number of users."""
    if decoder not in DECODERS:
        raise InputError(f"decoder {decoder!r} is unknown; choose one of {', '.join(DECODERS)}")
    if users < 1:
        raise InputError(f"users = {users}; give at least 1")
    return decoder


def multi_maxsense_moments(
    parameters: BlockParameters, *, set_size: int, questions: int, epsilon: float
) -> SketchMoments:
    """Give the exact moments of Multi-MaxSense; ``epsilon`` in nats.

    >>> model = BlockParameters(
    ...     rated=1,
    ...     like=np.array([[1.0, 0.0]]),
    ...     class_shares=np.array([1.0]),
    ...     cluster_sizes=np.array([2, 2]),
    ... )
    >>> moments = multi_maxsense_moments(model, set_size=2, questions=2, epsilon=math.inf)
    >>> round(moments.answer_rate, 12), moments.given_sensed.round(12).tolist()
    (0.25, [0.333333333333, 0.166666666667])
    """
    # Multi-MaxSense is Fig. 3 of Banerjee, Hegde, Massoulié, *The Price of Privacy in Untrusted Recommendation
    # Engines*.
    # Rates. A set is silent if the user likes none of the r items it shares with the rated ones; r is hypergeometric,
    # and given r they are a uniform subset. Two sets of size s are both silent if one set of size 2 s is.
    # Effects. Sets have a fixed size, so the effects average to 0 over items, and only differences between clusters
    # matter. Let i of cluster l be in the set and j of cluster m not, and swap them: the chance of silence changes only
    # if the one inside is rated, by ``b_l - b_m`` times the chance that the rest of the set is silent. With ``J_lm``
    # for that chance, given that the one inside is rated, and t for the contrast of one bit, ``effect_l = t (w/N)
    # (N-s)/(N-1) sum_m (n_m/N) (b_l - b_m) J_lm``, averaged over classes.
    # Noise. Let ``x_i`` be what one user adds to item i's score, p = s/N and sigma the sum of the user's Q bits. Then
    # ``sum_i x_i = s sigma`` and ``sum_i x_i^2 = s sigma``, hence, per item and around the items' mean, ``N/(N-1) (Q p
    # q - p^2 E[sigma^2] - (Q p)^2 mean(effect^2))`` for the paper's score. Centred, ``Q p q (1-q)`` and ``Var(sigma)``
    # take the places of the first two. With every set asked (Q s = N) the two scores differ by a shift common to all
    # items, and their noise agrees.
    items = parameters.items
    if not 1 <= set_size <= items:
        raise InputError(f"set_size = {set_size}; a sensing set holds 1 to {items} of the {items} items")
    sets = -(-items // set_size)
    if not 1 <= questions <= sets:
        raise InputError(f"questions = {questions}; {items} items in sets of {set_size} allow 1 to {sets}")
    _require_positive(epsilon)
    contrast = math.tanh(epsilon / questions / 2)
    silent, both_silent = _silent(parameters, set_size), _silent(parameters, min(2 * set_size, items))
    rate = 0.5 + contrast / 2 - contrast * silent
    effect = contrast * _pivotal(parameters, set_size)
    pairs = questions * (questions - 1) * contrast**2 * (both_silent - silent**2)
    variance = questions * rate * (1 - rate) + pairs
    coverage = min(1.0, questions * set_size / items)
    share = (coverage / questions) ** 2
    between = coverage**2 * float(parameters.cluster_sizes @ effect**2) / items
    paper = coverage * rate - share * (variance + (questions * rate) ** 2) - between
    centred = coverage * rate * (1 - rate) - share * variance - between
    finite = items / max(1, items - 1)
    return SketchMoments(
        sensing=coverage,
        epsilon=epsilon / questions,
        private_rate=1 - silent,
        answer_rate=rate,
        effect=effect,
        noise_paper=max(0.0, finite * paper),
        noise_centred=max(0.0, finite * centred),
    )


def _silent(parameters: BlockParameters, set_size: int) -> float:
    """Chance that a user likes none of the rated items in a uniform set of ``set_size`` items."""
    chances = [
        mean_product_in_a_set(
            1 - row, parameters.cluster_sizes, population=parameters.items, marked=parameters.rated, set_size=set_size
        )
        for row in parameters.like
    ]
    return float(parameters.class_shares @ np.array(chances))


def _pivotal(parameters: BlockParameters, set_size: int) -> Floats:
    """P(S0 = 1 | i in the set, C(i) = l) - P(S0 = 1), shape (L,), as a sum over swaps with items outside the set."""
    # Given that the swapped item in the set is rated, w - 1 of the other N - 1 items are; the set holds s - 1 of those,
    # none of them the item that it is swapped with.
    items, sizes = parameters.items, parameters.cluster_sizes
    effects = np.zeros(sizes.size)
    if set_size == items:
        return effects
    for share, row in zip(parameters.class_shares, parameters.like, strict=True):
        for low in range(sizes.size):
            for high in range(low):
                if row[low] == row[high]:
                    continue
                others = sizes - (np.arange(sizes.size) == low) - (np.arange(sizes.size) == high)
                silent = mean_product_in_a_set(
                    1 - row, others, population=items - 1, marked=parameters.rated - 1, set_size=set_size - 1
                )
                swap = share * (row[high] - row[low]) * silent
                effects[high] += sizes[low] * swap
                effects[low] -= sizes[high] * swap
    return np.asarray(effects * parameters.rated / items * (items - set_size) / (items - 1) / items)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSignal:
    """Moments of the entries of a symmetric item matrix with zero diagonal, by the clusters of the two items.

    Shapes: ``means``, ``variances`` (L, L); ``sizes`` (L,); ``shared`` (L, L, L).
    """

    means: Floats
    variances: Floats
    sizes: Ints
    shared: Floats

    def __post_init__(self) -> None:
        count = self.sizes.size
        if self.sizes.ndim != 1 or count == 0 or int(self.sizes.min()) < 1:
            raise InputError(f"sizes = {self.sizes.tolist()}; give the items of each cluster, at least 1 each")
        if not (self.means.shape == self.variances.shape == (count, count)):
            raise InputError(f"rates have shape {self.means.shape}; {count} clusters ask for shape {(count, count)}")
        if self.shared.shape != (count, count, count):
            raise InputError(f"shared has shape {self.shared.shape}; {count} clusters ask for {(count,) * 3}")

    @property
    def independent(self) -> Floats:
        """Variance of an entry beyond what it shares with its row and its column, shape (L, L)."""
        row = np.einsum("lmm->lm", self.shared)
        return np.asarray(np.maximum(self.variances - row - row.T, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairMoments:
    """Pairwise-Preference's answers."""

    rates: Floats  # shape (L, L); ``P(S = 1)`` by the clusters of the pair; see `pair_agreement`

    @property
    def profile(self) -> Floats:
        """What answers without noise say of each cluster's items, one row a cluster."""
        return self.rates


def pair_agreement(
    parameters: BlockParameters, *, agreement: str, epsilon: float, rated_public: bool = False
) -> Floats:
    """Return P(S = 1) of a device asked about two items, by their clusters."""
    if agreement not in AGREEMENTS:
        raise InputError(f"agreement is {agreement!r}; choose one of {', '.join(AGREEMENTS)}")
    w, items, shares, like = parameters.rated, parameters.items, parameters.class_shares, parameters.like
    if rated_public and w < 2:
        raise InputError(f"rated = {w}; a device asked about two of its own rated items needs at least 2")
    one_rated = 1.0 if rated_public else w / items
    both_rated = 1.0 if rated_public else one_rated * (w - 1) / (items - 1)
    both_liked = np.einsum("k,kl,km->lm", shares, like, like)
    if agreement == "positive":
        private = both_rated * both_liked
    elif agreement == "rated-equal":
        private = both_rated * (both_liked + np.einsum("k,kl,km->lm", shares, 1 - like, 1 - like))
    else:
        liked = one_rated * (shares @ like)
        private = 1 - liked[:, None] - liked[None, :] + 2 * both_rated * both_liked
    contrast = 1.0 if math.isinf(epsilon) else math.tanh(epsilon / 2)
    return np.asarray(0.5 + contrast * (private - 0.5))


def curator_signal(alike: Floats, sizes: Ints, *, users: int, rated: int) -> BlockSignal:
    """Return the moments of the totals of pairs that a trusted curator adds up, before it adds noise."""
    # ``A_ij = sum over the users who rated both of (2 [R_ui = R_uj] - 1)``, ``A_ii = 0``.
    # Shapes: ``alike`` (L, L); ``sizes`` (L,).
    items = int(sizes.sum())
    if users < 1 or not 2 <= rated <= items:
        raise InputError(f"users = {users}, rated = {rated}; give 1 or more, and 2 to {items}")
    both = rated * (rated - 1) / (items * (items - 1))
    three = both * (rated - 2) / (items - 2) if items > 2 else 0.0
    score = 2 * np.asarray(alike, np.float64) - 1
    mean = both * score
    rows = users * (three * score[None, :, :] - mean[:, :, None] * mean[:, None, :])
    return BlockSignal(
        means=users * mean,
        variances=users * (both - mean**2),
        sizes=sizes,
        shared=np.stack([root @ root for root in map(nearest_root, rows)]),
    )


def nearest_root(matrix: Floats) -> Floats:
    """Return the symmetric root of a covariance matrix, negative eigenvalues of rounding taken as 0."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T)
