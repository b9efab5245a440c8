"""Populations: the devices of a run and, where the world was made, the truth about them."""

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from actors.ratings import BlockRatings, Ratings, StoredRatings
from coordinator.protocol.arrays import Floats, Indices, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.estimates import PublicCounts
from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import GROUPS
from coordinator.protocol.rating_table import Likes
from scenarios.config.planned_periods import arriving_items, asking_of
from scenarios.config.resolve import ResolvedRun, block_of, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.datasets import RatingTable, read_for
from scenarios.data.rating_periods import MONTH, RatingPeriods, first_periods, rating_periods
from scenarios.data.rating_split import Split, hold_out, needs_times
from scenarios.data.side_tables import ItemDescriptions, Labels, descriptions_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """The devices of a run with everything that only the experimenter knows."""

    scenario: Scenario  # Filled in: items, rated, users and clusters are numbers
    ratings: Ratings = field(repr=False)  # The devices' private data
    truth: Indices | None = field(repr=False)  # shape (N,); True cluster of every item; None with a ratings file
    split: Split | None = field(repr=False)  # With a ratings file: its split into training and held-out ratings
    # shape (N,); Names of the items
    item_labels: Labels = field(repr=False)
    copies_max: int = 1  # The largest number of devices that one person stands behind
    people: int = 0  # With a ratings file: people among the devices; the first ones stand for one person each
    descriptions: ItemDescriptions | None = None  # The items' public features and titles, where a file describes them
    # With a ratings file: likes of the people whose ratings are public; they have no device
    public: PublicCounts | None = None
    # Public constants that were taken from the ratings file, because nobody declared them
    from_the_file: tuple[str, ...] = ()
    arrivals: tuple[int, ...] | None = None  # Where time counts, devices that arrive in each period; None: all at first
    # Where time counts, the items that come with each period, a public event
    new_items: tuple[Indices, ...] = field(default=(), repr=False)

    def person_epsilon(self) -> Epsilon:
        """Return the privacy loss of one person: ``copies_max * epsilon`` [nats]."""
        epsilon = self.scenario.epsilon
        return None if epsilon is None else Fraction(self.copies_max) * epsilon


def block_model(scenario: Scenario) -> Population:
    """Return a population of the bipartite block model; item clusters have exact sizes and a random order."""
    filled = scenario.filled
    block = block_of(filled)
    sizes = block.cluster_sizes
    world = np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))
    truth = world.permutation(np.repeat(np.arange(sizes.size), sizes)).astype(np.int32)
    *earlier, truth = _periods(truth, sizes.size, filled)
    ratings = BlockRatings(
        users=filled.world.users,
        rated_items=block.rated,
        like=block.like,
        class_shares=block.class_shares,
        clusters=truth,
        rated_public=scenario.settings.rated_public,
        earlier=tuple(earlier),
    )
    labels = np.array([f"item {item}" for item in range(truth.size)], dtype=np.object_)
    return Population(scenario=filled, ratings=ratings, truth=truth, split=None, item_labels=labels)


def _periods(first: Indices, clusters: int, scenario: Scenario) -> list[Indices]:
    """Return every item's true cluster in each period, by public events that are keyed with the period."""
    every, came = [first], arriving_items(scenario)
    for period in range(2, (scenario.periods or 1) + 1):
        coins = np.random.default_rng(int.from_bytes(derive(derive(scenario.seed, "world"), f"period {period}")))
        moved = coins.random(first.size) < scenario.drift
        steps = coins.integers(1, clusters, first.size)  # never to where it was
        every.append(np.where(moved, (every[-1] + steps) % clusters, every[-1]).astype(np.int32))
        if came:  # whose clusters are those that items had at first, in another order
            every[-1][came[period - 2]] = coins.permutation(first)[: came[period - 2].size]
    return every


def from_file(scenario: Scenario) -> Population:
    """Return a population of the users of the scenario's ratings file."""
    # More users than the file has are drawn with replacement, fewer without; public coins order groups of them.
    split_by = scenario.split_by
    table = read_for(scenario, **({"times": True} if needs_times(split_by) or scenario.timed else {}))
    split = hold_out(
        table, held_out=scenario.held_out, like_from=scenario.liked_from, seed=scenario.seed, split_by=split_by
    )
    if not split.likes.any() and not split.holdout.items.size:
        raise InputError(
            f"{scenario.ratings} holds no like: everybody gives all items one rating; give a lower --like-from, or "
            "name two columns if every item in the file is liked"
        )
    typical = max(1, int(np.median(split.train.degrees)))
    people, counts = np.arange(split.train.users), None
    if scenario.public:
        shown, people = public_people(people.size, scenario.public, scenario.seed)
        liked = split.train.valued(split.likes).of(shown)
        counts = PublicCounts(
            counts=np.bincount(liked.items[liked.values], minlength=table.count),
            sizes=np.bincount(liked.owners[liked.values], minlength=shown.size),
        )
    filled = scenario.complete(items=table.count, rated=typical, users=people.size)
    periods = _periods_of(filled, split.train) if scenario.timed else None
    if periods is not None:
        filled = filled.model_copy(update={"periods": periods.last})
    users = filled.world.users
    world = np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))
    user = people
    if users != people.size:
        draws = world.choice(people.size, size=users, replace=users > people.size)
        firsts = np.sort(np.unique(draws, return_index=True)[1])  # so that the first devices are all the people once
        user = people[np.concatenate([draws[firsts], np.delete(draws, firsts)])]
    elif scenario.policy == GROUPS:
        public = derive(derive(scenario.seed, "public"), "groups")
        user = np.random.default_rng(int.from_bytes(public)).permutation(user)
    rows, earlier, arrivals, new_items = split.train.valued(split.likes), list[Likes](), None, list[Indices]()
    if periods is not None:
        arrived = first_periods(periods, rows.owners, split.train.users)
        came = first_periods(periods, rows.items.astype(np.int64), rows.count)
        user, arrivals = _placed(filled, user, arrived[user])
        for period in range(1, periods.last):
            earlier.append(rows.where(periods.numbers <= period))
            new_items.append(np.flatnonzero(came == period + 1).astype(np.int32))
    ratings = StoredRatings(
        rows=rows,
        user=user.astype(np.int32),
        rated_public=scenario.settings.rated_public,
        earlier=tuple(earlier),
    )
    copies = np.bincount(user)
    return Population(
        scenario=filled,
        ratings=ratings,
        truth=None,
        split=split,
        item_labels=table.item_labels,
        copies_max=int(copies.max()),
        people=int(np.count_nonzero(copies)),
        public=counts,
        from_the_file=("items", *(["rated"] if scenario.rated is None else []), *(["arrivals"] if periods else [])),
        arrivals=arrivals,
        new_items=tuple(new_items),
        descriptions=descriptions_of(scenario, table.item_labels),
    )


def _periods_of(scenario: Scenario, train: RatingTable) -> RatingPeriods:
    """Return the periods of the ratings that devices hold."""
    if train.times is None:
        raise InputError(
            "the ratings have no column of times, which periods need; name it last in --columns, or leave --periods out"
        )
    return rating_periods(train.times, scenario.period or MONTH, scenario.periods)


def _placed(scenario: Scenario, user: Ints, arrived: Ints) -> tuple[Ints, tuple[int, ...]]:
    """Return the person behind each device, in the order of the schedule's groups, and the arrivals.

    A public coin says which of those who arrive in a period are in which group.
    """
    arrivals = tuple(np.bincount(arrived, minlength=(scenario.periods or 1) + 1)[1:].tolist())
    coins = np.random.default_rng(int.from_bytes(derive(derive(scenario.seed, "public"), "panels")))
    order = coins.permutation(user.size)
    places, used = np.empty_like(user), dict[int, int]()
    by_arrival = {period: user[order[arrived[order] == period]] for period in range(1, len(arrivals) + 1)}
    for group in asking_of(scenario, arrivals).groups:
        begin = used.get(group.arrival, 0)
        used[group.arrival] = begin + group.stop - group.first
        places[group.first : group.stop] = by_arrival[group.arrival][begin : used[group.arrival]]
    return places, arrivals


def resolved_run(population: Population) -> ResolvedRun:
    """Return the run of a population's scenario; an `InputError` says what cannot be."""
    return resolve(population.scenario, population.public, population.arrivals, population.new_items)


def public_people(people: int, share: float, seed: int) -> tuple[Ints, Ints]:
    """Return who is public and who is private, ascending; at least one of each."""
    order = np.random.default_rng(int.from_bytes(derive(seed, "public people"))).permutation(people)
    count = min(max(1, round(share * people)), people - 1)
    return np.sort(order[:count]), np.sort(order[count:])


def populate(scenario: Scenario) -> Population:
    """Return the population of a scenario, which it completes: who is asked about how many items."""
    return block_model(scenario) if scenario.ratings is None else from_file(scenario)


def liked_share(population: Population, users: int | None = None) -> Floats:
    """Return the share of devices that like each item, float64, shape (N,), to which estimates are compared."""
    ratings = population.ratings
    if isinstance(ratings, StoredRatings):
        user = ratings.user[:users]
        rows, devices = ratings.rows, np.bincount(user, minlength=ratings.rows.users)
        liked = np.bincount(rows.items, weights=devices[rows.owners] * rows.values, minlength=rows.count)
        return liked / max(user.size, 1)
    assert isinstance(ratings, BlockRatings)  # there are two kinds of ratings
    share: Floats = ratings.class_shares @ ratings.like * (ratings.rated_items / ratings.items)
    return share[ratings.clusters]
