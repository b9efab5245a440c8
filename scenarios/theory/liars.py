"""What liars can do to one round before anything is run: how far each moves an item, and the share that tips it.

A shift is the mean of a liar's contribution to a promoted item's estimate, less that to another item's; honest devices
contribute their cluster's level. Spec: s(r) of "Lying devices", section 2.

Of a share f of liars, an honest item of level a has the mean ``(1 - f) a``, and a promoted one f s(r) more. Where the
middle between two levels is the border, a promoted item of the lower one passes it if ``f s(r) > (1 - f) delta``, with
delta half the gap. Source: ours (spec "Lying devices", sections 1 to 3).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import scipy
from scipy.special import ndtr

from actors.lies import ANSWERS
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.line import kmeans_on_line
from coordinator.protocol.decoding.posterior import believe
from coordinator.protocol.mechanism import FIXED, ONE_ROUND, POSTERIOR, InWorld
from coordinator.protocol.mechanisms import subsets_of
from coordinator.protocol.mechanisms.oracles import BUCKETS, ROWS, Frequencies, values_of
from coordinator.protocol.mechanisms.sets import Pairs
from coordinator.protocol.messages import Query
from coordinator.protocol.moments.blocks import BlockParameters, PairMoments, SketchMoments
from coordinator.protocol.moments.count_moments import FrequencyMoments
from coordinator.protocol.moments.sign_moments import SignMoments, sign_contrast
from coordinator.protocol.pools import pool_size
from coordinator.protocol.statistics.counts import Rates
from coordinator.protocol.value_channels import CHOSEN, PADDED
from coordinator.server.rounds.setting import most_moved
from coordinator.server.rounds.state import ServerState
from scenarios.config.resolve import ResolvedRun
from scenarios.data.metrics import clustering_scores

SHIFT_DRAWS = 40_000  # draws of the fullest bucket's share, which has no short formula


@dataclass(frozen=True, slots=True, kw_only=True)
class ShiftInputs:
    """What a shift follows from."""

    query: Query  # Of one round about all items
    rated: int  # Items w that a device rated
    makes_up: str  # What liars make up; see `actors.lies.Collusion`

    def reach(self, promoted: int) -> float:
        """Return the share of the promoted items that one liar claims to like: all, or as many as it may have rated."""
        return min(1.0, self.rated / promoted)


def sign_shift(inputs: ShiftInputs, promoted: int) -> float:
    """Return s(r) of sign sensing, in units of the answer's sign.

    With pools of all items ``C(r - 1, floor((r - 1) / 2)) / 2^(r - 1)``: .246 for 10 items.
    """
    query = inputs.query
    vectors, best_count, epsilon = int(query.parameters["vectors"]), int(query.parameters["kept"]), query.epsilon
    if inputs.makes_up == ANSWERS:
        return sign_contrast(promoted, items=promoted, rated=promoted, vectors=vectors, best_count=1, epsilon=None)
    rated = inputs.rated
    shift = sign_contrast(rated, items=rated, rated=rated, vectors=vectors, best_count=best_count, epsilon=epsilon)
    some, rest = min(inputs.rated, promoted), inputs.query.items - promoted
    return shift * (some / promoted + (inputs.rated - some) / max(rest, 1))


def sets_shift(inputs: ShiftInputs, promoted: int) -> float:
    """Return s(r) of MaxSense, in units of ``P(S = 1 | item sensed) - P(S = 1)``."""
    sensing = inputs.query.parameters["sensing"]
    if inputs.makes_up == ANSWERS:
        counts = np.arange(promoted + 1)
        mean = sensing * promoted
        excess = float(np.where(counts > mean, counts - mean, 0) @ scipy.stats.binom.pmf(counts, promoted, sensing))
        return excess / mean
    some, contrast = min(promoted, inputs.rated), bit_channel(inputs.query.epsilon).contrast
    return contrast * (1 - sensing) ** some * inputs.reach(promoted)


def parts_shift(inputs: ShiftInputs, promoted: int) -> float:
    """Return s(r) of Multi-MaxSense: sets have a fixed size, so that another item's presence leaves less room."""
    query = inputs.query
    size, items = int(query.parameters["set_size"]), query.items
    if inputs.makes_up == ANSWERS:
        most = size * promoted // items  # the answer is 1 if the set holds more of the promoted items
        with_one = scipy.stats.hypergeom.sf(most - 1, items - 1, promoted - 1, size - 1)
        without = scipy.stats.hypergeom.sf(most, items - 1, promoted, size - 1)
        return float(with_one - without)
    some, contrast = min(promoted, inputs.rated), bit_channel(query.epsilon_per_question).contrast
    return contrast * float(scipy.stats.hypergeom.pmf(0, items - 1, some, size - 1)) * inputs.reach(promoted)


def values_shift(inputs: ShiftInputs, promoted: int, rates: Rates) -> float | None:
    """Return s(r) of a frequency oracle about what devices liked, in units of shares of the devices."""
    query, design = inputs.query, inputs.query.design
    if inputs.makes_up == ANSWERS:
        support = _support(query, promoted, rates)
        return None if support is None else (support[0] - support[1]) / rates.contrast
    if design == "set":
        return min(promoted, inputs.rated, int(query.parameters[PADDED])) / promoted
    return 1 / promoted


def likes_of_liar(query: Query) -> float | None:
    """Return how many likes of an item one liar is worth who names it; None where it names no sets of items.

    That is s(1), in devices: what a report that names the item adds to its estimate, beside another item's.

    Of 9,724 items, sets of 50 likes and 54 named values at epsilon 1 it is 195.
    """
    if query.design not in ("set", "subset"):
        return None
    return values_shift(ShiftInputs(query=query, rated=1, makes_up=ANSWERS), 1, subsets_of(query).reports(query))


def share_to_lift(likes: float, reach: float) -> float:
    """Return the share f of liars that lifts an item from 0 to a share ``reach``: ``f / (1 - f) = reach / likes``.

    >>> round(share_to_lift(1.0, 0.139), 3)
    0.122
    """
    return reach / (reach + likes)


def _support(query: Query, promoted: int, rates: Rates) -> tuple[float, float] | None:
    """Return how often a liar's report speaks for a promoted item, and for another one."""
    design = query.design
    if codes := _codes(query):
        return _fullest(promoted, codes), 1 / codes
    if design == "grr":
        return 1 / promoted, 0.0
    if design == "oue":
        return 1.0, rates.others
    if design in ("subset", "set"):
        subset_size = int(query.parameters[CHOSEN])
        values = values_of(query) if design == "subset" else pool_size(query) + int(query.parameters[PADDED])
        promoted_inside = min(subset_size, promoted)
        return promoted_inside / promoted, (subset_size - promoted_inside) / (values - promoted)
    return None


def _codes(query: Query) -> int:
    """Return the number of codes that public coins give to values, 0 where values stand for themselves."""
    if query.design == "olh":
        return int(query.parameters[BUCKETS])
    return 1 << int(query.parameters[ROWS]) if query.design == "hadamard" else 0


@lru_cache(maxsize=1024)
def _fullest(balls: int, buckets: int) -> float:
    """Return the expected share of so many balls in the fullest bucket."""
    thrown = np.random.default_rng(0).multinomial(balls, np.full(buckets, 1 / buckets), size=SHIFT_DRAWS)
    return float(thrown.max(axis=1).mean()) / balls


DRAWS = 8  # times that estimates are drawn and decoded
LUCK = 0.95
"""How much slower items may move of which luck turns round most, if ratings are not centred; see `Influence.swift`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Influence:
    """What liars and honest devices contribute to the estimates of one round."""

    # shape (L,); Mean of an honest device's contribution to an item of each cluster, and its standard deviation
    levels: Floats
    deviation: Floats
    shift: Callable[[int], float] = field(repr=False)  # Number of promoted items r to s(r), in the same unit
    tips_only: bool = False  # Whether the share that tips an item is known, but not what the decoder makes of estimates

    @property
    def gap(self) -> float:
        """Difference between the highest and the lowest level."""
        return float(self.levels.max() - self.levels.min())

    @property
    def noise(self) -> float:
        """Standard deviation of an honest contribution in units of the gap."""
        return float(self.deviation.mean()) / self.gap

    def tipping(self, promoted: int) -> float:
        """Return f*, the share of liars that moves so many items to the middle between the two levels."""
        shift = self.shift(promoted)
        return (self.gap / 2) / (self.gap / 2 + shift) if shift > 0 else 1.0

    def passing(self, share: float, promoted: int, users: int) -> float:
        """Return the probability that one of so many promoted items passes the middle, with levels known."""
        moved = share * self.shift(promoted) - (1 - share) * self.gap / 2
        return float(ndtr(moved * math.sqrt(users) / float(self.deviation.mean())))

    def worst(self, share: float, users: int, most: int) -> int:
        """Return how many items untargeted liars promote, so that as many labels as possible get wrong: 1 to most."""
        return max(_tried(most), key=lambda promoted: promoted * self.passing(share, promoted, users))

    def swift(self, share: float, most: int, luck: float = 1.0) -> int:
        """Return how many items untargeted liars promote where decided items leave the pool: 1 to most."""
        # As many as get wrong as fast as honest answers alone would get them right: the log-odds of an item drift by
        # ``(1 - f) gap / 2 - f s(r)``, and the share is such that this is at most ``-(1 - f) gap / 2``; or it is
        # ``luck``, at most 1, times that. More items would be turned round later than others are decided, and in the
        # small pools of later rounds liars weigh less. Source: ours; emulated rounds say the same (docs: lying).
        needed = luck * (1 - share) * self.gap
        return max((count for count in _tried(most) if share * self.shift(count) >= needed), default=1)

    def sample(self, share: float, labels: Indices, wishes: Indices, users: int, coins: np.random.Generator) -> Floats:
        """Draw every item's estimate; it, ``labels`` and ``wishes`` are of shape (N,)."""
        shift = self.shift(int(np.count_nonzero(wishes)))
        means = (1 - share) * self.levels[labels] + share * shift * wishes
        return np.asarray(means + coins.standard_normal(labels.size) * self.deviation[labels] / math.sqrt(users))


def _tried(most: int) -> list[int]:
    """Return the numbers of promoted items among which liars choose, 1 to most."""
    return list(map(int, np.unique(np.geomspace(1, most, 60).round())))


def influence_of(run: ResolvedRun, makes_up: str = ANSWERS) -> Influence | None:
    """Return what liars can do to a round of a run in a block model; None where no formula is known."""
    scenario = run.scenario
    if scenario.policy not in (ONE_ROUND, FIXED) or scenario.answers_per_device > 1 or scenario.pool_size is not None:
        return None
    query = run.design.query(round_number=0, public_seed=bytes(16), epsilon=run.world.epsilon)
    return _influence(run, ShiftInputs(query=query, rated=run.world.rated, makes_up=makes_up))


def universal_limit(block: BlockParameters, epsilon: Epsilon) -> float:
    """Return the share of liars beyond which no mechanism and no decoder distinguishes the two clusters of one item.

    ``f / (1 - f) = tanh(epsilon / 2) (w / N) gap``: epsilon-local privacy contracts the total variation of one answer
    by tanh(epsilon / 2), and liars make both worlds alike who fill in what is left. The gap is that of the two clusters
    farthest apart, in each class by itself and averaged: other ratings may tell the class. Source: ours (spec,
    section 1).
    """
    gaps = np.abs(block.like[:, :, None] - block.like[:, None, :])
    gap = float(np.tensordot(block.class_shares, gaps, 1).max())
    odds = math.tanh(as_float(epsilon) / 2) * block.rated / block.items * gap
    return odds / (1 + odds)


def _influence(run: ResolvedRun, inputs: ShiftInputs) -> Influence | None:
    scenario, block = run.scenario, run.block
    match moments := run.moments:
        case SignMoments(contrast=contrast):
            levels = contrast * (2 * block.class_shares @ block.like - 1)
            return Influence(levels=levels, deviation=np.ones(levels.size), shift=partial(sign_shift, inputs))
        case SketchMoments(effect=levels):
            decoder = "centred" if scenario.decoder == POSTERIOR else scenario.decoder
            shift = sets_shift if inputs.query.design == "maxsense" else parts_shift
            return Influence(
                levels=levels,
                deviation=np.full(levels.size, moments.estimate_deviation(1, decoder)),
                shift=partial(shift, inputs),
            )
        case FrequencyMoments() if isinstance(oracle := scenario.settings, Frequencies) and not isinstance(
            oracle, Pairs
        ):
            rates = oracle.reports(inputs.query)
            if getattr(scenario.settings, "told", "liked") == "rated" or values_shift(inputs, 1, rates) is None:
                return None
            return Influence(
                levels=moments.level,
                deviation=np.sqrt(moments.variance),
                shift=lambda promoted: values_shift(inputs, promoted, rates) or 0.0,
            )
        case PairMoments(rates=rates) if inputs.makes_up == ANSWERS and rates.shape == (2, 2):
            return _turned_round(rates, int(block.cluster_sizes[by_level(block).argmax()]))
    return None


def _turned_round(rates: Floats, less_liked: int) -> Influence:
    """Return how liars turn an item round that agrees more often with its own cluster than with the other."""
    # The levels are half of what an item agrees more with the liked cluster than with the other one. A liar who is
    # asked about it answers 1 for the former and 0 for the latter, but 1 for other promoted items, which are of the
    # latter.
    return Influence(
        levels=(rates[:, 0] - rates[:, 1]) / 2,
        deviation=np.full(2, math.nan),  # of what the decoder makes of all pairs together nothing is said
        shift=lambda promoted: (1 - min((promoted - 1) / max(less_liked - 1, 1), 1.0)) / 2,
        tips_only=True,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What should come out of a round with liars, in the mean."""

    wrong: float  # Items with a wrong label, by the server's own decoder: its levels are fitted to what liars did
    # Share of items right, where clusters may be called by any names, as a run's own share of items right is
    accuracy: float
    rank: float | None  # Mean rank of the items that should seem liked more, from 1; None if there are none


def predict_round(
    influence: Influence, run: ResolvedRun, *, share: float, labels: Indices, wishes: Indices, users: int
) -> Prediction:
    """Predict labels and ranks of one round: estimates are drawn and decoded; ``labels``, ``wishes`` of shape (N,)."""
    truth, coins, liked = by_level(run.block)[labels], np.random.default_rng(0), wishes > 0
    deviation, draws = float(influence.deviation.mean()) / math.sqrt(users), list[tuple[float, float, float]]()
    for _ in range(DRAWS):
        values = influence.sample(share, labels, wishes, users, coins)
        decoded = _decoded(run, values, deviation)
        ranks = np.argsort(np.argsort(-values)) + 1
        rank = float(ranks[liked].mean()) if liked.any() else math.nan
        draws.append((float((decoded != truth).sum()), clustering_scores(decoded, labels).accuracy, rank))
    wrong, accuracy, rank = np.mean(draws, axis=0).tolist()
    return Prediction(wrong=wrong, accuracy=accuracy, rank=None if math.isnan(rank) else rank)


def by_level(block: BlockParameters) -> Ints:
    """Return the label that each true cluster should get: 0 for the one that is liked most, and so on."""
    return np.asarray(np.argsort(np.argsort(-(block.class_shares @ block.like), kind="stable")))


def _decoded(run: ResolvedRun, values: Floats, deviation: float) -> Indices:
    clusters = run.world.clusters
    if run.scenario.decoder != POSTERIOR:
        return kmeans_on_line(values, clusters)
    information = np.full(values.size, deviation**-2)
    estimates = Estimates(weighted=values * information, information=information)
    return believe(estimates, clusters=clusters, failure=1 - run.scenario.confidence).cluster


def overthrown(run: ResolvedRun, influence: Influence, labels: Indices, *, promoted: int) -> float:
    """Return how many labels are decided wrongly after the first round about all items, in the mean over draws."""
    # The server fits its levels to the estimates. While these are noisy, an item that liars push far enough is likelier
    # to be a cluster of its own than the others are to be of two levels: they become one cluster, are all decided, and
    # the run is over. Shapes: ``labels`` (N,). Source: ours.
    setting, ask = run.setting, run.policy.next_query(ServerState(devices=run.world.users))
    design = setting.design
    if (
        ask is None
        or run.world.clusters != influence.levels.size
        or not (isinstance(design, InWorld) and design.estimates)
    ):
        return 0.0
    truth, coins, users = by_level(run.block)[labels], np.random.default_rng(0), ask.stop - ask.first
    rates = design.rates(ask.query)
    wishes = np.zeros(labels.size, np.int32)
    wishes[np.flatnonzero(truth == truth.max())[:promoted]] = 1
    wrong = 0
    for _ in range(DRAWS):
        sample = influence.sample(run.scenario.malicious or 0.0, labels, wishes, users, coins)
        estimates = Estimates(
            weighted=sample / influence.deviation[labels] * np.sqrt(rates) * users, information=rates * users
        )
        posterior = believe(estimates, clusters=setting.clusters, failure=setting.failure)
        posterior = posterior.withstanding(setting.assume_malicious * most_moved(rates) * users)
        wrong += int(((posterior.cluster != truth) & posterior.decided(setting.failure)).sum())
    return wrong / DRAWS
