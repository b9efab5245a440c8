"""How many users any learner needs: every lower bound for one problem, the information and counting behind them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import betaln, gammaln

from coordinator.protocol.budget import as_float
from coordinator.protocol.errors import InputError

if TYPE_CHECKING:
    from scenarios.config.scenario import Scenario


def check_epsilon(epsilon: float) -> None:
    """Raise InputError unless epsilon, in nats, is above 0; infinity (no privacy) is allowed."""
    if not epsilon > 0:
        raise InputError(f"epsilon {epsilon}: give a number above 0, or inf for no privacy")


def check_shape(*, items: int, rated: int) -> None:
    """Raise InputError unless there are two items or more and each device rates 1 to all of them."""
    if items < 2:
        raise InputError(f"items {items}: a catalogue to cluster has 2 items or more")
    if not 1 <= rated <= items:
        raise InputError(f"rated {rated} of {items} items: give 1 to {items}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LearningProblem:
    """One learning problem, as every lower bound reads it.

    The clustering is uniform over the `clusters ** items` labellings; the learner succeeds if, for some
    renaming of the clusters, at most `mistakes` labels are wrong. ``epsilon`` in nats.
    """

    items: int
    rated: int
    epsilon: float
    clusters: int = 2
    failure: float = 0.5
    mistakes: int = 0

    def __post_init__(self) -> None:
        check_shape(items=self.items, rated=self.rated)
        check_epsilon(self.epsilon)
        if not 2 <= self.clusters <= self.items:
            raise InputError(f"clusters {self.clusters} of {self.items} items: give 2 to {self.items}")
        if not 0 <= self.failure < 1:
            raise InputError(f"failure {self.failure}: give a probability of at least 0 and below 1")
        if not 0 <= self.mistakes < self.items:
            raise InputError(f"mistakes {self.mistakes} of {self.items} items: give 0 to {self.items - 1}")

    @property
    def bits(self) -> float:
        """What the users' answers must tell at least [bits]: `(1 - failure) log2(M / M_d) - 1`, or 0."""
        hypotheses = log2_hypotheses(items=self.items, clusters=self.clusters)
        hypotheses -= log2_ball(items=self.items, clusters=self.clusters, mistakes=self.mistakes)
        return max(0.0, (1.0 - self.failure) * hypotheses - 1.0)


def log_binomial(total: int, subset: int) -> float:
    """`ln C(total, subset)`, minus infinity for an impossible choice.

    By `betaln`, so that `total = 10^9` with few chosen does not lose digits to a difference of huge numbers.

    >>> round(math.exp(log_binomial(5, 2)), 9)
    10.0
    """
    if not 0 <= subset <= total:
        return -math.inf
    few = min(subset, total - subset)
    return -math.log1p(total) - float(betaln(few + 1.0, total - few + 1.0))


def log2_hypotheses(*, items: int, clusters: int) -> float:
    """`log2 M`, `M = L^N / L!`: clusterings up to the names of the clusters [bits].

    With the labelling uniform over `L^N` and success up to renaming, Lemma 20's ball holds `L!` labellings
    at most, which is where the `L!` comes from: no approximation.

    >>> log2_hypotheses(items=10, clusters=2)
    9.0
    """
    return items * math.log2(clusters) - float(gammaln(clusters + 1)) / math.log(2)


def log2_ball(*, items: int, clusters: int, mistakes: int) -> float:
    """`log2 M_d`, `M_d = sum_{i <= d} C(N, i) (L - 1)^i`: labellings within d mistakes of one [bits].

    Terms are summed relative to the largest; those further than `40 sqrt(N)` below the mode of the binomial
    weigh less than `e^-1000` and are left out, so that `N = 10^9` takes a fraction of a second.

    Lemma 20 and Theorem 23 [A.5]. The paper divides by `L!`; a ball does not shrink by renaming, so this
    does not.

    >>> round(2 ** log2_ball(items=10, clusters=3, mistakes=2), 6)
    201.0
    """
    if mistakes == 0:
        return 0.0
    width = 40 * math.isqrt(items) + 40
    mode = (items + 1) * (clusters - 1) // clusters
    top = min(mistakes, mode + width)
    bottom = max(0, min(mistakes, mode) - width)
    index = np.arange(top, bottom, -1, dtype=np.float64)
    steps = np.log(index / ((items - index + 1) * (clusters - 1)))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    largest = float(logs.max())
    total = largest + math.log(float(np.exp(logs - largest).sum()))
    return (log_binomial(items, top) + top * math.log(clusters - 1) + total) / math.log(2)


class Overlap(NamedTuple):
    """How many items two independent uniform w-subsets of N share: `P(1)`, `P(>= 2)`, `E[count; >= 2]`."""

    single: float
    more: float
    excess: float


def _exp(power: float) -> float:
    return math.exp(power) if power < 709 else math.inf


def _log_avoid(items: int, rated: int) -> float:
    """`ln [C(N - w, w) / C(N, w)]` as a sum of `log1p`, since differences of `gammaln` lose all digits."""
    if 2 * rated > items or rated * rated > 800 * items:  # the second underflows: below exp(-w^2 / N)
        return -math.inf
    return float(np.log1p(-rated / (items - np.arange(rated, dtype=np.float64))).sum())


def overlap(*, items: int, rated: int) -> Overlap:
    """Overlap of the rated sets of two users, without cancellation up to `N = 10^9`.

    Two sets that share a given item are, beyond it, two `(w - 1)`-subsets of the other `N - 1` items; hence
    `P(1) = (w^2 / N) a` and `E[count; >= 2] = (w^2 / N) (1 - a)` with `a` their chance to share nothing more.

    >>> [round(x, 6) for x in overlap(items=4, rated=2)]
    [0.666667, 0.166667, 0.333333]
    """
    mean = rated * rated / items
    alone = _log_avoid(items - 1, rated - 1)
    single, excess = mean * math.exp(alone), -mean * math.expm1(alone)
    if mean > 1:
        return Overlap(single, max(0.0, 1.0 - single - math.exp(_log_avoid(items, rated))), excess)
    more, term = 0.0, single
    for count in range(1, rated):
        term *= (rated - count) ** 2 / ((count + 1) * (items - 2 * rated + count + 1))
        more += term
        if term <= 1e-18 * more:
            break
    return Overlap(single, more, excess)


Nats = Callable[[LearningProblem], float]  # most that one user's answer tells of a problem [nats]


def fano_information(problem: LearningProblem) -> float:
    """`epsilon` nats (`epsilon log2 e` bits): any epsilon-LDP answer (Lemma 6). Infinite at epsilon = inf."""
    return problem.epsilon


def tanh_information(problem: LearningProblem) -> float:
    """`epsilon tanh(epsilon / 2)` nats: the largest Kullback-Leibler divergence between two answers' laws."""
    return problem.epsilon * math.tanh(problem.epsilon / 2)


def capacity_information(problem: LearningProblem) -> float:
    """Exact capacity of an epsilon-LDP channel [nats]: no answer, however long, tells more, whatever the ratings are.

    `max_a [eps a e^eps / (1 + a(e^eps - 1)) - ln(1 + a(e^eps - 1))]` is reached where
    `1 + a(e^eps - 1) = k`, `k = eps / (1 - e^-eps)`, and equals `k - 1 - ln k`; about `eps^2 / 8` for small
    epsilon. At epsilon = inf it is infinite, as long as answers may be of any length: then an answer of m bits
    tells `m ln 2` at most, and w binary ratings `w ln 2` (`ratings_information`).

    >>> round(capacity_information(LearningProblem(items=1000, rated=30, epsilon=1.0)), 4)
    0.1233
    """
    epsilon = problem.epsilon
    if epsilon == math.inf:
        return math.inf
    if epsilon < 1e-3:
        x = epsilon / 2 + epsilon**2 / 12 - epsilon**4 / 720
        return x * x * (1 / 2 - x * (1 / 3 - x * (1 / 4 - x / 5)))
    x = -epsilon / math.expm1(-epsilon) - 1.0
    return x - math.log1p(x)


def ratings_information(problem: LearningProblem) -> float:
    """`w ln 2` nats: which items were rated tells nothing, a binary rating a bit at most. Ours; needs no privacy."""
    return problem.rated * math.log(2)


def one_bit_information(problem: LearningProblem) -> float:
    """`1 / N` nats: any one-bit sketch, private or not, of a single rating, `w = 1` (Theorem 10 [4.3]).

    The paper has two clusters and certain ratings. It holds for any: given the labels, the bit is 1 with probability
    `sum_i f_i(Z_i) / N`, `f_i` in [0, 1]. With means m_i and their mean q its variance is `sum_i m_i (1 - m_i) / N^2`
    at most, so `q (1 - q) / N`; and information is at most variance over `q (1 - q)`.
    """
    return 1.0 / problem.items


def weak_scarce_information(problem: LearningProblem) -> float:
    """`e^(2 eps) (Delta_1 + Delta_2)` nats, of order `w^2 / N` for `w = o(N)` (Theorem 13 [4.8]).

    `Delta_1` is half the chance that two users share one rated item, `Delta_2` the chance that they share more.
    The inequality holds for every w. The paper has two clusters and certain ratings; for others its two cases are
    `E (K - 1)^+`, K the ratio of the law of shared items' ratings under one clustering to that under two: a total
    variation, 1 at most, and `2 Var b(Z)`, so 1/2 at most, for a shared binary rating.
    """
    shared = overlap(items=problem.items, rated=problem.rated)
    return _exp(2 * problem.epsilon) * (shared.single / 2 + shared.more)


def scarce_information(problem: LearningProblem) -> float:
    """`2 (e^eps - 1)^2 w / N` + equations (15) and (16), nats; of order `w / N` for `w = o(N^(1/3))`.

    Theorem 14 [4.10]. The paper asks for `eps < ln 2`, two clusters and certain ratings; the inequality holds for every
    w, epsilon and number of clusters, since `contraction_information` lies below it.
    """
    epsilon, shared = problem.epsilon, overlap(items=problem.items, rated=problem.rated)
    first = 2 * (_exp(epsilon) - 1) ** 2 * problem.rated / problem.items if epsilon < 350 else math.inf
    return first + _exp(2 * epsilon) * (shared.excess + shared.more)


def contraction_information(problem: LearningProblem) -> float:
    """`sinh(eps / 2)^2 w / N` nats, for every N, w and epsilon. Ours, not in the paper; below Theorem 14 everywhere.

    Lemma 9's bound for an answer s is `sum_T <lambda_s - 1, h_T>^2` over nonempty sets of items T: `lambda_s` is the
    density of `(I, R)` given s against its prior, `h_T = 1[T in I] prod_{i in T} phi(R_i)`, phi the standardised
    rating. The `h_T` are orthogonal with squared norms `P(T in I) <= w / N`, so that Bessel's inequality leaves
    `(w / N) Var(lambda_s)`; and a density of mean 1 whose values differ by a factor `e^eps` at most has variance
    `sinh(eps / 2)^2` at most.
    """
    epsilon = problem.epsilon
    return math.sinh(epsilon / 2) ** 2 * problem.rated / problem.items if epsilon < 700 else math.inf


def by_fano(information: Nats) -> Callable[[LearningProblem], float]:
    """Return the bound that Fano's inequality makes of information (Lemmas 5 and 20); 0 users for infinite nats."""

    def users(problem: LearningProblem) -> float:
        needed, nats = problem.bits * math.log(2), information(problem)
        if nats == 0:  # an epsilon so small that the information underflows
            return math.inf if needed > 0 else 0.0
        return needed / nats

    return users


def distortion_paper(problem: LearningProblem) -> float:
    """Theorem 23's closed form, as printed: `(1 - failure) N L (1 - d/N - 1/L)^2 / (3 eps)`.

    It drops Fano's one bit and the `ln L!` of renaming; `capacity` is exact and, but for a handful of items or
    failure near 1, larger. The paper's Chernoff step holds where `1 < (1 - d/N) L <= 2`; a learner with fewer mistakes
    than that needs what one with so many needs.
    """
    gap = min(1 / problem.clusters, 1 - problem.mistakes / problem.items - 1 / problem.clusters)
    return (1 - problem.failure) * problem.items * problem.clusters * gap**2 / (3 * problem.epsilon)


def adaptive(problem: LearningProblem) -> float:
    """Sequential queries that may depend on earlier answers, `w = 1`: `Omega(N log N)` (Theorem 17 [6.1]).

    T users tell at most `(1 + C/N)^T` nats, `C = 40 (e^eps - 1)^2`, so `T >= ln(nats needed) / ln(1 + C/N)`; the
    paper asks for `N^alpha` nats, this for what Fano needs. (The paper bounds a conditional variance along one
    transcript by the information of the average one; averaged, the step gives `2 ((1 + C/2N)^T - 1)`, no more.)
    The paper has two clusters and certain ratings; Lemma 19 needs of `F = sum_i f_i(Z_i)` that its terms are
    independent before the first answer and vary by `2 (e^eps - 1)` at most, however many values a label has.

    Known since: `Omega(N^2 / eps^2)` for sequentially interactive protocols, eps <= 1 and `0 < b < 1`, so that
    interaction helps by logarithms at most (Acharya, Canonne, Liu, Sun, Tyagi, Interactive Inference under
    Information Constraints, IEEE Trans. Inf. Theory 2022). A reference: no constant, so no number of users here.
    """
    nats = problem.bits * math.log(2)
    if nats <= 1 or problem.epsilon > 350:
        return 0.0
    growth = 40 * math.expm1(problem.epsilon) ** 2 / problem.items
    return math.log(nats) / math.log1p(growth) if growth > 0 else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound on the number of users."""

    name: str
    users: float
    valid: bool
    range: str
    source: str


@dataclass(frozen=True, slots=True)
class _Row:
    users: Callable[[LearningProblem], float]
    source: str
    range: str
    adaptive: bool  # whether it also holds where a query may depend on earlier answers
    holds: Callable[[LearningProblem], bool] = lambda _: True  # whether a problem is inside of its range


_LDP = "any epsilon-LDP learner"
_CLUSTERS = "proven in the paper for two clusters and certain ratings, here for any"
# Orders: fano N / eps; fano-tanh N / eps^2 for small epsilon, capacity so too, but N / eps for large;
# one-bit N^2; weak-scarce N^2 / w^2; scarce N^2 / w; ratings N / w; contraction N^2 / (w sinh(eps / 2)^2).
# All but distortion-paper count mistakes as Theorem 23 does, by Lemma 20: capacity is that theorem, too.
_ROWS = {
    "fano": _Row(by_fano(fano_information), "Lemmas 5 and 6, Theorem 7", _LDP, adaptive=True),
    "fano-tanh": _Row(by_fano(tanh_information), "Theorem 7, sharper", _LDP, adaptive=True),
    "capacity": _Row(by_fano(capacity_information), "Theorems 7 and 23, exact capacity", _LDP, adaptive=True),
    "distortion-paper": _Row(
        distortion_paper,
        "Theorem 23 as printed",
        f"{_LDP}, (1 - mistakes/items) clusters > 1, above 2 as for so many mistakes that it is 2; drops constants, "
        "never said to bind",
        adaptive=True,
        holds=lambda problem: (1 - problem.mistakes / problem.items) * problem.clusters > 1,
    ),
    "one-bit": _Row(
        by_fano(one_bit_information),
        "Theorem 10",
        f"one bit per user, private or not; rated = 1; not adaptive; {_CLUSTERS}",
        adaptive=False,
        holds=lambda problem: problem.rated == 1,
    ),
    "weak-scarce": _Row(
        by_fano(weak_scarce_information),
        "Theorem 13",
        f"{_LDP}, not adaptive; rated = o(items), read as rated < items; {_CLUSTERS}",
        adaptive=False,
        holds=lambda problem: problem.rated < problem.items,
    ),
    "scarce": _Row(
        by_fano(scarce_information),
        "Theorem 14",
        f"{_LDP}, not adaptive; epsilon < ln 2, rated = o(items^(1/3)), read as rated^3 < items; {_CLUSTERS}",
        adaptive=False,
        holds=lambda problem: problem.epsilon < math.log(2) and problem.rated**3 < problem.items,
    ),
    "adaptive": _Row(
        adaptive,
        "Theorem 17",
        f"{_LDP}, adaptive or not; rated = 1; {_CLUSTERS}",
        adaptive=True,
        holds=lambda problem: problem.rated == 1,
    ),
}
_OURS = {
    "ratings": _Row(by_fano(ratings_information), "ours", "any learner, private or not", adaptive=True),
    "contraction": _Row(by_fano(contraction_information), "ours", f"{_LDP}, not adaptive; any rated", adaptive=False),
}


def all_bounds(*, adaptive_queries: bool = False, ours: bool = False, **problem: Any) -> list[Bound]:
    """Every lower bound on the users that a learner needs for a `LearningProblem`, in the order of the table.

    >>> bounds = all_bounds(items=1000, rated=30, epsilon=1.0, clusters=2)
    >>> best = binding(bounds)
    >>> best.name, round(best.users)
    ('capacity', 2802)
    """
    learning_problem, bounds = LearningProblem(**problem), []
    for name, row in {**_ROWS, **(_OURS if ours else {})}.items():
        valid = row.holds(learning_problem) and (row.adaptive or not adaptive_queries)
        users = row.users(learning_problem) if valid else 0.0
        bounds.append(Bound(name=name, users=users, valid=valid, range=row.range, source=row.source))
    return bounds


def bounds_of(scenario: Scenario, **how: Any) -> list[Bound]:
    """Return the lower bounds of a filled-in scenario's users; ``how`` is as in `all_bounds`."""
    sizes: dict[str, Any] = {name: getattr(scenario, name) or 0 for name in ("items", "rated", "clusters")}
    return all_bounds(**sizes, epsilon=as_float(scenario.epsilon), **how)


def binding(bounds: Sequence[Bound]) -> Bound | None:
    """Return the largest valid bound (the first, where several are equal); None where none says anything.

    `distortion-paper` is left out: it drops additive constants, so that for a handful of items it may claim more
    than is proved.
    """
    speaking = [bound for bound in bounds if bound.valid and bound.users > 0 and bound.name != "distortion-paper"]
    return max(speaking, key=lambda bound: bound.users, default=None)


def bounds_rows(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """Return bounds as a table's rows, ``name, users, valid, binds, range, source``, one row a bound."""
    best = binding(bounds)
    rows = [{**asdict(bound), "binds": best is not None and bound.name == best.name} for bound in bounds]
    return [{name: row[name] for name in ("name", "users", "valid", "binds", "range", "source")} for row in rows]
