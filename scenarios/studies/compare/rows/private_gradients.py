"""Published rivals, re-implemented from what their abstracts say: matrix factorisation by privatized gradients.

In every round the server publishes the items' factors; a device fits its own factors to its ratings, chooses one
coordinate of the gradient at random, and releases that by one bit under epsilon / rounds: epsilon is of all rounds.
"""

import threading
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Bools, Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import compiled
from coordinator.server.completion.crowd import errors_of
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import AGGREGATE, BY_PEOPLE, DEVICES, LearnedScores, Row, RowRequest
from scenarios.studies.compare.rows.local import people_of
from scenarios.studies.compare.worlds import BLOCK, FileWorld

_ONE = threading.Lock()
FACTORS, RIDGE, SPREAD = 8, 1.0, 0.1  # Factors of an item, a device's ridge, and the mean of the first factors


def chances(values: Floats, epsilon: Epsilon) -> Floats:
    """Return the probability of the bit 1 of a coordinate x from -1 to 1, ``(1 + t x) / 2``.

    Source: Nguyen, Xiao, Yang, Hui, Shin and Shin, *Collecting and analyzing data from smart device users with local
    differential privacy*, 2016, section 4, with ``t = (e^epsilon - 1) / (e^epsilon + 1)``: x is rounded to -1 or 1 at
    random, and `bit_channel` releases that.

    Examples
    --------
    >>> from fractions import Fraction
    >>> ratio = chances(np.array([1.0]), Fraction(1)) / chances(np.array([-1.0]), Fraction(1))
    >>> np.log(ratio).round(9).tolist()
    [1.0]
    """
    return (1 + bit_channel(epsilon).contrast * values) / 2


def part_of(epsilon: Epsilon, rounds: int) -> Epsilon:
    """Return the epsilon of one of a device's releases, by composition; None for no noise."""
    return None if epsilon is None else epsilon / rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientRow(Row):
    """A factorisation by gradients; subclasses define a device's own factors and the coordinates of its gradient."""

    mechanism: str
    paper: str
    rounds: int  # This, step and bound were chosen on a made file by `python -m benchmarks.gradient_constants`
    step: float  # The root mean square of the factors' change in the first round; in round r it is 1 / r of that
    bound: float  # Coordinates are divided by it, then cut to -1 and 1
    note: str
    trust_model: str = "local"
    asks: frozenset[str] = BY_PEOPLE
    featured: bool = False

    def ratings(self, world: FileWorld) -> Any:
        """Return what devices learn from, a sparse matrix of shape (people, N)."""
        raise NotImplementedError

    def tastes(self, own: Any, factors: Floats2) -> Floats2:
        """Return devices' own factors, fitted to their ratings, float64, shape (people, FACTORS)."""
        raise NotImplementedError

    def projection(self, items: int, public: np.random.Generator) -> Floats2 | None:  # noqa: ARG002 (others project)
        """Return what projects items to a few places, shape (places, N); None where places are items."""
        return None

    def errors(self, own: Any, factors: Floats2, tastes: Floats2, projection: Floats2 | None) -> Floats2:
        """Return E, shape (people, places), of coordinates ``E[person, place] tastes[person, factor]``."""
        raise NotImplementedError

    def errors_at(
        self, own: Any, factors: Floats2, tastes: Floats2, projection: Floats2 | None, people: Ints, places: Ints
    ) -> Floats:
        """Return E of some people, each at one place."""
        errors: Floats = self.errors(own, factors, tastes, projection)[people, places]
        return errors

    def advise(self, world: FileWorld, request: RowRequest) -> LearnedScores:
        """Learn items' factors from one bit of each device a round; devices rank items by their own factors."""
        own, public = self.ratings(world), np.random.default_rng(int.from_bytes(derive(request.seed, "public factors")))
        few = request.users <= request.settings.devices
        user = np.sort(people_of(world, request)) if few else None
        factors: Floats2 = public.uniform(0, 2 * SPREAD, (world.items, FACTORS))
        for turn in range(1, self.rounds + 1):
            # In the first round all epsilons and numbers of people begin from the same factors
            shared = world.shared.setdefault((self.mechanism, request.seed), {}) if turn == 1 else None
            change = self.estimate(own, factors, user, request, public, shared)
            size = float(np.sqrt(np.mean(change**2)))
            factors = factors + self.step / turn * change / (size or 1.0)

        def scores(ratings: Any) -> Floats2:
            ranked: Floats2 = self.tastes(ratings, factors) @ factors.T
            return ranked

        holds = None if own is world.matrix else own
        return LearnedScores(
            popularity=np.ones(world.items),
            floor=1.0,
            scorer=scores,
            holds=holds,
            simulated=DEVICES if few else AGGREGATE,
            messages=float(self.rounds),
        )

    def estimate(
        self,
        own: Any,
        factors: Floats2,
        user: Ints | None,
        request: RowRequest,
        public: np.random.Generator,
        shared: dict[str, Floats] | None = None,
    ) -> Floats2:
        """Return the unbiased estimate of the mean bounded gradient, float64, shape (N, FACTORS).

        ``user`` holds the person behind each device, ascending; with None the sum of the devices' bits is drawn from
        its law, in which every round's devices are people of the file at random. ``shared`` keeps what that law takes.
        """
        projection = self.projection(factors.shape[0], public)
        places = factors.shape[0] if projection is None else projection.shape[0]
        epsilon, cells = part_of(request.epsilon, self.rounds), places * FACTORS
        if user is None:  # a cell is chosen uniformly, and its bit has the people's mean probability
            if shared is None:
                means = self.means(own, factors, projection)
            else:
                with _ONE:  # threads that begin together wait for the first
                    if "means" not in shared:
                        shared["means"] = self.means(own, factors, projection)
                    means = shared["means"]
            answered = request.coins.multinomial(request.users, np.full(cells, 1 / cells))
            ones = request.coins.binomial(answered, chances(means, epsilon))
        else:
            ones, answered = self.answers(own, factors, user, request.coins, epsilon, projection)
        # Every device answers about one of all cells, so that the mean over devices is their signed count times cells
        scale = cells / bit_channel(epsilon).contrast / request.users
        signed = np.asarray(scale * (2.0 * ones - answered), np.float64)
        change: Floats2 = signed.reshape(-1, FACTORS)
        return change if projection is None else cast("Floats2", projection.T @ change)

    def means(self, own: Any, factors: Floats2, projection: Floats2 | None) -> Floats:
        """Return the people's mean bounded coordinate in each cell, float64, shape (places x FACTORS,)."""
        tastes = self.tastes(own, factors)
        sums = np.zeros((factors.shape[0] if projection is None else projection.shape[0]) * FACTORS)
        size = max(1, BLOCK // factors.shape[0])
        for first in range(0, own.shape[0], size):
            some = slice(first, first + size)
            add_bounded(self.errors(own[some], factors, tastes[some], projection), tastes[some] / self.bound, sums)
        means: Floats = sums / own.shape[0]
        return means

    def answers(
        self,
        own: Any,
        factors: Floats2,
        user: Ints,
        coins: np.random.Generator,
        epsilon: Epsilon,
        projection: Floats2 | None,
    ) -> tuple[Ints, Ints]:
        """Return how many of the devices of these people answer 1 in each cell, and how many answer about it."""
        tastes = self.tastes(own, factors)
        cells = (factors.shape[0] if projection is None else projection.shape[0]) * FACTORS
        ones, answered = np.zeros(cells, np.int64), np.zeros(cells, np.int64)
        size = max(1, BLOCK // factors.shape[0])
        for first in range(0, own.shape[0], size):
            some = slice(first, first + size)
            people = user[slice(*np.searchsorted(user, (first, first + size)))] - first
            cell = coins.integers(cells, size=people.size)
            place, factor = cell // FACTORS, cell % FACTORS
            errors = self.errors_at(own[some], factors, tastes[some], projection, people, place)
            value = np.clip(errors * (tastes[some] / self.bound)[people, factor], -1, 1)
            bit: Bools = coins.random(people.size) < chances(value, epsilon)
            answered += np.bincount(cell, minlength=cells)
            ones += np.bincount(cell[bit], minlength=cells)
        return ones, answered

    def remarks(self, settings: Comparison) -> tuple[str, ...]:
        """Say from which paper it is, and what a device's releases come to."""
        each = ", ".join(f"{as_float(one) / self.rounds:.3g}" for one in settings.epsilon if one is not None)
        name = f"{self.trust_model}: {self.mechanism}"
        # Full texts were not at hand; what abstracts do not say is ours, and the notes say what is
        source = f"{name}: re-implemented from the abstract of {self.paper}; {self.note}"
        spent = (
            f"{name}: a device sends {self.rounds} bits, each under epsilon {each}, and the table has the total; where "
            f"an epsilon an update is published, {self.rounds} updates come to {self.rounds} times it"
        )
        return (source, spent) if each else (source,)


@compiled
def add_bounded(errors: Floats2, scaled: Floats2, sums: Floats) -> None:
    """Add all people's coordinates, cut to -1 and 1, to sums of shape (places x FACTORS,)."""
    for person in range(errors.shape[0]):
        for place in range(errors.shape[1]):
            error = errors[person, place]
            for k in range(FACTORS):  # a number of them that is known becomes vector code
                value = min(max(error * scaled[person, k], -1.0), 1.0)
                sums[place * FACTORS + k] += value


def ridge_tastes(pairs: Any, sums: Any, factors: Floats2, common: Floats2) -> Floats2:
    """Return ``(sum of c f f' + common + ridge)^-1 sum of c r f`` of each device, float64, shape (people, FACTORS)."""
    one, other = np.triu_indices(FACTORS)
    sums_of_squares, grams = pairs @ (factors[:, one] * factors[:, other]), np.empty((pairs.shape[0], FACTORS, FACTORS))
    grams[:, one, other] = grams[:, other, one] = sums_of_squares
    grams += common + RIDGE * SPREAD**2 * np.eye(FACTORS)
    solved: Floats2 = np.linalg.solve(grams, (sums @ factors)[:, :, None])[:, :, 0]
    return solved


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplicitGradients(GradientRow):
    """Gradients of what is rated, the items projected at random to a few places."""

    places: ClassVar[int] = 64

    def ratings(self, world: FileWorld) -> Any:
        """Return 1 for what is liked and -1 for what is disliked."""
        rows = world.fold.train
        return sparse.csr_array((np.where(rows.values, 1.0, -1.0), rows.items, rows.starts), (rows.users, rows.count))

    def tastes(self, own: Any, factors: Floats2) -> Floats2:
        """Fit to what is rated."""
        return ridge_tastes(abs(own), own, factors, np.zeros((FACTORS, FACTORS)))

    def projection(self, items: int, public: np.random.Generator) -> Floats2:
        """Return random signs, which are public and anew in every round."""
        signs: Floats2 = (2.0 * public.integers(2, size=(self.places, items)) - 1) / np.sqrt(self.places)
        return signs

    def errors(self, own: Any, factors: Floats2, tastes: Floats2, projection: Floats2 | None) -> Floats2:
        """Project the errors of what is rated."""
        assert projection is not None  # that above
        missed = own.copy()
        missed.data = errors_of(factors, tastes, own.indptr.astype(np.int64), own.indices, own.data)
        projected: Floats2 = missed @ projection.T
        return projected


@dataclass(frozen=True, slots=True, kw_only=True)
class ImplicitGradients(GradientRow):
    """Gradients of all items, with more confidence in what is liked."""

    confidence: ClassVar[float] = 20.0  # Of a like, beside 1 of every item

    def ratings(self, world: FileWorld) -> Any:
        """Return 1 for what is liked."""
        return world.matrix

    def tastes(self, own: Any, factors: Floats2) -> Floats2:
        """Fit to all items, in closed form."""
        return ridge_tastes(self.confidence * own, (1 + self.confidence) * own, factors, factors.T @ factors)

    def errors(self, own: Any, factors: Floats2, tastes: Floats2, _: Floats2 | None) -> Floats2:
        """Weigh each item's error."""
        weighed: Floats2 = tastes @ -factors.T
        liked = np.repeat(np.arange(own.shape[0]), np.diff(own.indptr)), own.indices
        weighed[liked] = (1 + self.confidence) * (1 + weighed[liked])
        return weighed

    def errors_at(
        self, own: Any, factors: Floats2, tastes: Floats2, _: Floats2 | None, people: Ints, places: Ints
    ) -> Floats:
        """Weigh the errors of these items alone."""
        liked = np.asarray(own[people, places], np.float64)
        weighed: Floats = (1 + self.confidence * liked) * (
            liked - np.einsum("ij,ij->i", tastes[people], factors[places])
        )
        return weighed


ROWS = (
    ExplicitGradients(
        mechanism="gradients (Shin)",
        paper="Shin, Kim, Shin and Xiao, TKDE 2018",
        rounds=4,
        step=0.1,
        bound=1.0,
        note="it predicts ratings, here likes and dislikes, and not what is liked by many; steps are scaled by the "
        "estimate's own size in the place of the paper's factor against noise",
    ),
    ImplicitGradients(
        mechanism="implicit gradients (Minto)",
        paper="Minto, Haller, Livshits and Haddadi, RecSys 2021",
        rounds=2,
        step=0.1,
        bound=3.0,
        note="likes weigh 21 times what others do; its proxy, no part of a device's own epsilon, is left out",
    ),
)
