"""Scores of advice, for each unit of a comparison: devices' top ten; with p-REC's losses and custom mechanisms.

The coordinator's panel is what `blindrec sweep online --ratings` measures, on the ratings of the other rows.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Indices2, Ints
from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.decoding.threads import one_thread
from coordinator.protocol.errors import InputError
from coordinator.protocol.item_models import damped
from coordinator.protocol.limits import return_unused
from coordinator.protocol.rating_table import Likes
from scenarios.backends.session import stop_if_abandoned
from scenarios.config.files import file_sha256
from scenarios.data.metrics import scores_per_person
from scenarios.families.online.online_scenario import REFERENCE
from scenarios.families.online.online_worlds import OnlineWorld, world_of_table
from scenarios.show.tables import Cell, percent, remark, show_rows
from scenarios.studies.compare.comparison_settings import COORDINATOR, Comparison
from scenarios.studies.compare.design_rows import design_rows
from scenarios.studies.compare.people_groups import groups_of
from scenarios.studies.compare.row import DEVICES, LearnedScores, Liar, Row, RowRequest
from scenarios.studies.compare.rows import registered_rows
from scenarios.studies.compare.rows.trusted import popularity
from scenarios.studies.compare.worlds import FileWorld, table_of, world_of
from scenarios.studies.rates import ViewRisk
from scenarios.studies.sweep.online_clients import BESIDE, ClientsGrid, client_rows

LONG_UNIT = 0.7  # Seconds; such a unit leaves many pieces of memory behind


def rows_of(settings: Comparison) -> Mapping[str, Row]:
    """Return all rows that are to be measured, by name, in the order of tables."""
    named = {name: row for name, row in registered_rows().items() if settings.includes(row.trust_model, row.mechanism)}
    named = {name: row for name, row in named.items() if row.offered(settings)}
    return {**named, **design_rows(settings)}


SERVED = (REFERENCE, "p-rec-lean", "p-rec-sharp", BESIDE)  # The recommenders of the panel


def panel_sweep(settings: Comparison) -> ClientsGrid:
    """Return the panel as a sweep of online recommenders."""
    named = tuple(name for name in SERVED if settings.includes(COORDINATOR, name))
    return ClientsGrid(
        base={"ratings": settings.ratings, "like_from": settings.liked_from, "clients": settings.clients},
        sha256=file_sha256(settings.ratings, "ratings file"),
        recommenders=named,
        seeds=settings.seeds,
    )


@lru_cache(maxsize=2)
def clients_of(settings: Comparison, seed: int) -> OnlineWorld:
    """Return a seed's clients, whom all recommenders serve."""
    return world_of_table(panel_sweep(settings).scenario(REFERENCE, seed), table_of(settings))


def served_in(settings: Comparison) -> tuple[tuple[str, ...], str | None]:
    """Return which recommenders can serve clients of the file, and why none can."""
    names = panel_sweep(settings).recommenders
    try:
        for seed in range(settings.seed, settings.seed + settings.seeds) if names else ():
            clients_of(settings, seed)
    except InputError as error:
        return (), f"{COORDINATOR}: {error}"
    return names, None


def show_panel(console: Console, panel: Mapping[str, Any]) -> None:
    """Print the panel's table, 80 columns wide."""
    columns: tuple[tuple[str, Cell], ...] = (
        ("recommender", "recommender"),
        ("loss", lambda row: percent(row["share"])),
        ("less random", partial(_difference, "to_random_share")),
        ("less plurality", partial(_difference, "to_plurality_share")),
        ("epsilon", "epsilon_median"),
    )
    title = f"{COORDINATOR}: hides votes from {panel['distinct_clients']} clients; disliked of one in two items"
    show_rows(console, columns, panel["recommenders"], title=title, words=("recommender",))
    remark(console, "differences are in per cent of the rounds, client by client, below 0 is better; epsilon: median")


def _difference(name: str, row: Mapping[str, Any]) -> str:
    """Return a difference and half of its interval, in per cent."""
    mean, low, high = (row.get(f"{name}{end}") for end in ("", "_low", "_high"))
    if mean is None or low is None or high is None:
        return ""
    return f"{100 * mean:.1f} ± {50 * (high - low):.1f}"


TOP = 10  # Length of a list
RESAMPLED = 100  # Number of samples of people with replacement, the same ones for all rows of all seeds


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupScores:
    """The worth of lists to a group of people; see `scenarios.studies.compare.people_groups`."""

    group: str
    people: int
    numbers: dict[str, tuple[float, ...]] = field(repr=False)  # Of each metric the mean, and those of the samples


@dataclass(frozen=True, slots=True, kw_only=True)
class ListScores:
    """The worth of lists; means over people with held-out likes."""

    features: bool  # Whether devices used public features beside the learned scores
    hit_rate: float  # Share of people with a held-out like among their ten items
    ndcg: float  # Normalised discounted cumulative gain at 10
    recall: float  # Share of a person's held-out likes among its ten items
    coverage: float  # Share of the catalogue that is recommended to at least one person
    people: int  # Number of people who were evaluated
    resampled: dict[str, tuple[float, ...]] = field(repr=False)  # Hit rate, NDCG and recall of each sample of people
    # The same of plain popularity's lists, first among all of the row's people, where these are but some of the file's
    popular: dict[str, tuple[float, ...]] | None = field(default=None, repr=False)
    gini: float | None = None  # Gini coefficient of how often items are recommended: 0 all alike, near 1 a few alone
    # Share of what is recommended that is among the tenth of the catalogue which most people like in training
    top_tenth: float | None = None
    # Of each group, by what people are grouped by; and of popularity, as above
    groups: dict[str, tuple[GroupScores, ...]] = field(default_factory=dict, repr=False)
    popular_groups: dict[str, tuple[GroupScores, ...]] | None = field(default=None, repr=False)


def score(world: FileWorld, learned: LearnedScores, request: RowRequest, *, features: bool) -> ListScores:
    """Score the lists that follow from learned scores, with or without public features on the device."""
    people = evaluated_people(world, learned, request)
    lists = ranked_lists(world, learned, request, people, features=features)
    (means, resampled), groups = _means(world, people, lists), _groups(world, people, lists, request.settings)
    often = np.bincount(lists[lists >= 0], minlength=world.items)
    popular, popular_groups = None, None
    if request.public:  # public people are not evaluated
        plain = replace(request, epsilon=None, users=world.people, public=0)  # has the coins of the row of popularity
        by_likes = ranked_lists(world, popularity(world), plain, people, features=False)
        (of_all, samples), popular_groups = (
            _means(world, people, by_likes),
            _groups(world, people, by_likes, request.settings),
        )
        popular = {name: (of_all[name], *samples[name]) for name in of_all}
    return ListScores(
        features=features,
        **means,
        coverage=np.count_nonzero(often) / world.items,
        people=people.size,
        resampled=resampled,
        popular=popular,
        gini=gini(often),
        top_tenth=float(often[world.top_tenth].sum() / often.sum()),
        groups=groups,
        popular_groups=popular_groups,
    )


def gini(counts: Ints) -> float:
    """Return the Gini coefficient of whole numbers, of which one at least is above 0.

    >>> gini(np.array([1, 1, 1, 1])), gini(np.array([0, 0, 0, 4]))
    (0.0, 0.75)
    """
    ranks = np.arange(1, counts.size + 1)
    return float(2 * (ranks * np.sort(counts)).sum() / (counts.size * counts.sum()) - (counts.size + 1) / counts.size)


def evaluated_people(world: FileWorld, learned: LearnedScores, request: RowRequest) -> Ints:
    """Return the people of a row with likes held out, ascending."""
    people = world.evaluated if learned.people is None else np.intersect1d(world.evaluated, learned.people)
    if not people.size:
        raise InputError(f"none of the people to be evaluated has a like held out; lower --public, {request.public:g}")
    return people


def ranked_lists(
    world: FileWorld, learned: LearnedScores, request: RowRequest, people: Ints, *, features: bool
) -> Indices2:
    """Return all lists of people, block by block, as `_lists`."""
    order = request.coins.permutation(world.items)  # the order in which equal scores are ranked
    if learned.order is not None:
        order = learned.order.astype(np.int64)
    return np.concatenate([_lists(world, learned, block, order, features=features) for block in world.blocks(people)])


def scores_of_lists(
    world: FileWorld, learned: LearnedScores, people: Ints, lists: Indices2, *, features: bool
) -> Floats2:
    """Return the scores of all lists' items, float64, shape (people, TOP); of -1 they say nothing."""
    first, blocks = 0, []
    for block in world.blocks(people):
        items = np.maximum(lists[first : first + block.size], 0)
        blocks.append(np.take_along_axis(_scores(world, learned, block, features=features), items, axis=1))
        first += block.size
    return np.concatenate(blocks).astype(np.float64)


def _means(world: FileWorld, people: Ints, lists: Indices2) -> tuple[dict[str, float], dict[str, tuple[float, ...]]]:
    """Return the means of lists' scores, and those of each sample of people."""
    per_person = scores_per_person(lists, world.fold.holdout.of(people))
    weights, total = _weights_among(world.people, people.tobytes())
    resampled = {name: tuple(np.round(weights @ values / total, 6).tolist()) for name, values in per_person.items()}
    return {name: float(values.mean()) for name, values in per_person.items()}, resampled


def _groups(
    world: FileWorld, people: Ints, lists: Indices2, settings: Comparison
) -> dict[str, tuple[GroupScores, ...]]:
    """Return what lists are worth to each group of people, by what they are grouped by."""
    if not settings.by:
        return {}
    per_person = scores_per_person(lists, world.fold.holdout.of(people))
    weights, groups = _weights_among(world.people, people.tobytes())[0], dict[str, tuple[GroupScores, ...]]()
    for by in settings.by:
        names, of = groups_of(settings, world, by)
        groups[by] = tuple(_group(name, of[people] == index, weights, per_person) for index, name in enumerate(names))
    return groups


def _group(name: str, among: Bools, weights: Floats2, per_person: Mapping[str, Floats]) -> GroupScores:
    group_weights = weights[:, among]
    group_weights[group_weights.sum(axis=1) == 0] = 1  # a sample of nobody, in a small group
    people, numbers = int(among.sum()), dict[str, tuple[float, ...]]()
    for metric in ("ndcg", "hit_rate") if people else ():
        values = per_person[metric][among]
        samples = np.round(group_weights @ values / group_weights.sum(axis=1), 6).tolist()
        numbers[metric] = (float(values.mean()), *samples)
    return GroupScores(group=name, people=people, numbers=numbers)


def _lists(world: FileWorld, learned: LearnedScores, people: Ints, order: Ints, *, features: bool) -> Indices2:
    """Return people's lists, int32, shape (people, TOP); -1 where too few unrated items are left."""
    rated = world.fold.train.of(people)
    lists, ranks = np.full((people.size, TOP), -1, np.int32), np.empty(world.items, np.int64)
    ranks[order] = np.arange(world.items)
    if not (features and world.features is not None) and (learned.scorer is None or learned.before is not None):
        # One order for all: nobody's scores of all items are computed
        ranked = order[np.argsort(-learned.popularity[order], kind="stable")]
        if learned.before is not None:
            pool, scorer = learned.before
            scores = np.ascontiguousarray(scorer(world.matrix[people]), np.float64)
            _take(scores, pool.astype(np.int64), ranks[pool], rated.starts, rated.items, lists)
            ranked = ranked[~np.isin(ranked, pool)]
        _fill(ranked, rated.starts, rated.items, lists)
        return lists
    if learned.bounded is not None and not features and world.items > SCORED:
        return _bounded_lists(learned, people, ranks, rated, lists)
    scores = np.ascontiguousarray(_scores(world, learned, people, features=features), np.float64)
    _take(scores, np.arange(world.items), ranks, rated.starts, rated.items, lists)
    return lists


SCORED = 256  # Items that are scored first where scores have bounds


def _bounded_lists(learned: LearnedScores, people: Ints, ranks: Ints, rated: Likes, lists: Indices2) -> Indices2:
    """Write lists from scores of the items with the largest bounds, and of all items where others may be as good."""
    assert learned.bounded is not None  # asked for such
    bounds, scorer = learned.bounded
    order, ratings = np.argsort(-bounds, kind="stable"), learned.holds[people]
    first = np.sort(order[:SCORED])
    scores = np.ascontiguousarray(scorer(ratings, first.astype(np.int32)))
    _take(scores, first, ranks[first], rated.starts, rated.items, lists)
    last = np.take_along_axis(scores, np.searchsorted(first, lists[:, -1:]), axis=1)[:, 0]
    open_lists = np.flatnonzero((lists[:, -1] < 0) | (last <= bounds[order[SCORED]]))
    if open_lists.size:
        rest, again = rated.of(open_lists), np.full((open_lists.size, TOP), -1, np.int32)
        scores = np.ascontiguousarray(scorer(ratings[open_lists], np.arange(bounds.size, dtype=np.int32)))
        _take(scores, np.arange(bounds.size), ranks, rest.starts, rest.items, again)
        lists[open_lists] = again
    return lists


def _scores(world: FileWorld, learned: LearnedScores, people: Ints, *, features: bool) -> Floats2:
    """Return people's scores of all items, shape (people, N)."""
    ratings = world.matrix[people]
    if learned.scorer is not None:
        scores = learned.scorer(ratings if learned.holds is None else learned.holds[people])
    else:
        shared = damped(learned.popularity, learned.noise) if features else learned.popularity
        scores = np.broadcast_to(shared, (people.size, world.items))
    if features and world.features is not None:
        gains = world.features.gains(ratings @ world.features.has, ratings.sum(axis=1), learned.popularity)
        scores = np.log(np.maximum(scores, learned.floor)) + gains
    return scores


@compiled
def _take(scores: Floats2, items: Ints, ranks: Ints, starts: Ints, rated: Indices, lists: Indices2) -> None:
    """Write each person's best unrated items, best first; of equal ones the lower rank. Columns are these items."""
    best, rank_of = np.empty(lists.shape[1]), np.empty(lists.shape[1], np.int64)
    hidden = np.zeros(items.max() + 1 if items.size else 0, np.bool_)
    for row in range(scores.shape[0]):
        mine = rated[starts[row] : starts[row + 1]]
        for item in mine:
            if item < hidden.size:
                hidden[item] = True
        size = 0
        for column in range(items.size):  # in the order of memory: most items are no candidates by one comparison
            value, item = scores[row, column], items[column]
            if (size == best.size and not value >= best[size - 1]) or hidden[item]:
                continue
            rank = ranks[column]
            if size == best.size and value == best[size - 1] and rank > rank_of[size - 1]:
                continue
            index = min(size, best.size - 1)
            while index > 0 and (value > best[index - 1] or (value == best[index - 1] and rank < rank_of[index - 1])):
                best[index], rank_of[index] = best[index - 1], rank_of[index - 1]
                lists[row, index] = lists[row, index - 1]
                index -= 1
            best[index], rank_of[index], lists[row, index] = value, rank, item
            size = min(size + 1, best.size)
        for item in mine:
            if item < hidden.size:
                hidden[item] = False


@compiled
def _fill(ranked: Ints, starts: Ints, rated: Indices, lists: Indices2) -> None:
    """Append the first unrated items of a ranking to lists until these are full."""
    hidden = np.zeros(ranked.max() + 1 if ranked.size else 0, np.bool_)
    for row in range(lists.shape[0]):
        mine = rated[starts[row] : starts[row + 1]]
        for item in mine:
            if item < hidden.size:
                hidden[item] = True
        size = int((lists[row] >= 0).sum())
        for item in ranked:
            if size == lists.shape[1]:
                break
            if not hidden[item]:
                lists[row, size] = item
                size += 1
        for item in mine:
            if item < hidden.size:
                hidden[item] = False


@lru_cache(maxsize=1)
def _weights(people: int) -> NDArray[np.uint8]:
    """Return how often each person of the file is in each sample, shape (RESAMPLED, people)."""
    coins = np.random.default_rng(int.from_bytes(derive(0, "people drawn again")))
    return np.stack([coins.poisson(1.0, people).astype(np.uint8) for _ in range(RESAMPLED)])


@lru_cache(maxsize=2)
def _weights_among(everybody: int, people: bytes) -> tuple[Floats2, Floats]:
    """Return how often each of some people is in each sample, and how many there are in it."""
    weights = _weights(everybody)[:, np.frombuffer(people, np.int64)].astype(np.float64)
    weights[weights.sum(axis=1) == 0] = 1  # a sample of nobody, where there are very few
    return weights, weights.sum(axis=1)


class CompareKey(NamedTuple):
    """A unit's row and request; ``epsilon`` is empty where the row has none, ``public`` where no ratings are public."""

    trust_model: str
    mechanism: str
    epsilon: str
    users: int
    public: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareMeasurement:
    """The measurement of one unit."""

    scores: tuple[ListScores, ...]  # Without public features, and with them where the file has any
    simulated: str | None  # See `scenarios.studies.compare.row.LearnedScores`
    seconds: float  # Time taken
    epsilon_local: float | None = None  # See `scenarios.studies.compare.row.LearnedScores`
    messages: float | None = None  # See there
    constant: float | None = None  # See there
    liar: Liar | None = None  # See there
    hindrance: str | None = None  # Why the row cannot be computed for these people; it has no scores then
    risks: tuple[ViewRisk, ...] = ()  # Of a row that leads a rung: how often guesses are right, instead of scores
    losses: tuple[dict[str, Any], ...] = ()  # Of the coordinator's panel: a record of each client, instead of scores


@one_thread()  # units run side by side, and last digits do not depend on how many do
def measure(settings: Comparison, key: CompareKey) -> CompareMeasurement:
    """Measure one unit, in this process."""
    stop_if_abandoned()
    begin = time.perf_counter()
    if key.trust_model == COORDINATOR:
        losses = client_rows(panel_sweep(settings).scenario(key.mechanism, key.seed), clients_of(settings, key.seed))
        return CompareMeasurement(scores=(), simulated=DEVICES, losses=losses, seconds=time.perf_counter() - begin)
    world, row = world_of(settings, key.seed), rows_of(settings)[f"{key.trust_model}: {key.mechanism}"]
    epsilon, public = parse_epsilon(key.epsilon) if key.epsilon else None, float(key.public or 0)
    request = RowRequest(settings=settings, epsilon=epsilon, users=key.users, public=public, seed=key.seed)
    try:
        learned = row.advise(world, request)
        variants = (False, True) if world.features is not None and row.featured else (False,)
        scores = tuple(score(world, learned, request, features=features) for features in variants)
    except InputError as error:  # of this row and these people alone: others can be compared
        seconds = time.perf_counter() - begin
        return CompareMeasurement(scores=(), simulated=None, seconds=seconds, hindrance=str(error))
    measurement = CompareMeasurement(
        scores=scores,
        simulated=learned.simulated,
        seconds=time.perf_counter() - begin,
        epsilon_local=learned.epsilon_local,
        messages=learned.messages,
        constant=learned.constant,
        liar=learned.liar,
    )
    del learned  # a model of items may be the largest of all that is given back
    if measurement.seconds > LONG_UNIT:
        return_unused()
    return measurement
