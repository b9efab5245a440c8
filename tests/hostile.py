"""A hostile peer of every actor: ``python hostile.py CALLS SEED`` sends random and mutated messages.

Prints a JSON object: by method how many calls were answered and how many refused. Exit code 1, with the message, where
an error was none of blindrec's own, or a call that was refused changed what had been charged, or one gave something
back. Compiled code that is led astray ends the process.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tiers
import worlds
from forging import forged
from nasty import bad_part, heavy, picked

from actors.device import AdviceRequest, Cohort
from actors.host import DeviceHost, permit_of
from actors.ratings import Ratings
from actors.second_order.cohort import PrivateCohort
from actors.voters import Client, ClientCohort, PlantedVoters, RatingVoters, TableVoters, VoterCohort
from coordinator.protocol.ballots import Ballot, Offer, Service
from coordinator.protocol.budget import Epsilon, within
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.second_order import Announcement, SecondOrderRelease
from coordinator.protocol.second_order_mechanisms import second_order_public_halves
from coordinator.server.fleet.querying import Aggregator
from coordinator.server.mechanisms.maxsense import MaxSense, MultiMaxSense
from coordinator.server.mechanisms.pairwise import Pairwise
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.mechanisms.toys import ItemQuery, Reveal

ITEMS, USERS, ROUNDS, OBJECTS = 12, 10, 6, 3
BOUNDS = [(0, 4), (4, USERS)]
FRESH = 400  # Calls after which all actors are new: else budgets and answers that are used up would refuse everything
BUDGET = Fraction(40)
WORLD = worlds.world(items=ITEMS, rated=4)
RNG = np.random.default_rng(5)
Books = dict[int, Any]  # What each device has spent


class Target(NamedTuple):
    """A method, good arguments for it, and what its devices have spent so far."""

    name: str
    call: Callable[..., object]
    good: Sequence[tuple[Any, ...]]
    books: Callable[[], object] = lambda: None
    spent: Callable[[], Books] = dict
    budget: Epsilon = None


def queries() -> list[Query]:
    """A query of every kind of design."""
    closed: list[Any] = [
        MaxSense(items=ITEMS, rated=4),
        SignSensing(items=ITEMS, rated=4, vectors=4),
        MultiMaxSense(items=ITEMS, rated=4, questions=3),
        Pairwise(items=ITEMS),
        Pairwise(items=ITEMS, agreement="positive", rated_public=True),
    ]
    reveals = (Reveal(name=name, items=ITEMS, most=4) for name in ("full-reveal", "curator-pairs"))
    shown: list[Any] = [ItemQuery(items=ITEMS), *reveals]
    first: dict[str, Any] = {"round_number": 0, "public_seed": worlds.PUBLIC}
    return [
        *(one.query(**first, epsilon=Fraction(1, 2)) for one in closed),
        *(one.query(**first, epsilon=None) for one in shown),
        worlds.maxsense_query(items=ITEMS, sensing=0.4, epsilon=Fraction(1, 3), pool=[0, 3, 4, 11]),
        SignSensing(items=ITEMS, rated=4).query(**first, epsilon=Fraction(1), expected=np.full(ITEMS, 0.3)),
    ]


QUERIES = queries()
MODEL = Model(cluster=np.arange(ITEMS, dtype=np.int32) % 3, score=np.arange(12.0), error=np.ones(ITEMS), clusters=3)
FEATURES = tiers.features(items=ITEMS, rank=2)
OF = tiers.rated(devices=USERS, items=ITEMS, each=5)


def ledgers_of(host: Any) -> tuple[Callable[[], object], Callable[[], Books]]:
    """Return how to look at a host's books: all of them, and what each device has spent."""

    def books() -> object:
        return [list(cohort.ledger._ranges) for cohort in host.cohorts]

    def spent() -> Books:
        stretches = [stretch for cohort in host.cohorts for stretch in cohort.ledger.spending()]
        return {device: cost for first, stop, cost in stretches for device in range(first, stop)}

    return books, spent


def device_targets(ratings: Ratings, budget: Epsilon) -> list[Target]:
    """Methods of devices."""
    host = DeviceHost(partial(Cohort, budget=budget), ratings, WORLD.secret, BOUNDS)
    permit = permit_of(WORLD.secret)
    looks = (*ledgers_of(host), budget)
    known = [query for query in QUERIES if budget is None or query.epsilon is not None]
    blocks = [(query, first, stop) for query in known for first, stop in ((0, 4), (5, 9), (7, 7))]
    return [
        Target("DeviceHost.warm_up", host.warm_up, [(query,) for query in known], *looks),
        Target("DeviceHost.ask, Cohort", host.ask, blocks, *looks),
        Target("DeviceHost.inspect, Cohort", host.inspect, [(permit, AdviceRequest(MODEL, 5), 4, 9)], *looks),
    ]


def voter_targets() -> list[Target]:
    """Methods of voters, and of clients."""
    titles = np.tile(np.arange(OBJECTS, dtype=np.int32), (ROUNDS, 1))
    plain = Service(client=0, recommender="p-rec", rounds=ROUNDS, objects=OBJECTS, epsilon=Fraction(1, 3), own_device=4)
    taste = RNG.integers(OBJECTS, size=(2, ROUNDS), dtype=np.uint8)
    group = np.arange(USERS, dtype=np.int32)
    kinds = (
        (PlantedVoters(client=group % 3 - 1, taste=taste, diverse=taste == 1, objects=OBJECTS, radius=2), plain),
        (TableVoters(table=RNG.integers(3, size=(ROUNDS, USERS), dtype=np.uint8), group=group), plain),
        (RatingVoters(rows=tiers.private(OF)), forged(plain, titles=titles)),
    )
    found = []

    def after_entering(host: DeviceHost, ballot: Any, *rest: Any) -> object:
        with suppress(Exception):  # else it is asked as it is
            host.ask(ballot.service, *BOUNDS[0])
            ballot = forged(ballot, stop=ballot.service.rounds)
        return host.ask(ballot, *rest)

    for voters, service in kinds:
        host = DeviceHost(partial(VoterCohort, budget=Fraction(6)), voters, WORLD.secret, BOUNDS)
        looks, name = (*ledgers_of(host), Fraction(6)), type(voters).__name__
        host.ask(service, *BOUNDS[0])
        ballot, some = Ballot(service=service, first=1, stop=4), np.array([0, 3], np.int32)
        asked = (ballot, *BOUNDS[0])
        first = VoterCohort(voters, WORLD.secret, *BOUNDS[0], Fraction(6))
        first.enter(service)
        found += [
            Target(f"DeviceHost.ask to enter, {name}", host.ask, [(service, *one) for one in BOUNDS], *looks),
            Target(f"DeviceHost.ask for votes, {name}", host.ask, [(*asked, some), (*asked, some[:1])], *looks),
            Target(f"DeviceHost.ask for votes on all entered, {name}", partial(after_entering, host), [(*asked, some)]),
            Target(f"VoterCohort.enter, {name}", first.enter, [(service,)], *looks),
            Target(f"VoterCohort.vote, {name}", first.vote, [(ballot, some)], *looks),
        ]
    client = Client(7, taste.T == 0) if (taste.T == 0).any(axis=1).all() else Client(7, np.ones((ROUNDS, 2), np.bool_))
    clients = DeviceHost(ClientCohort, {7: client}, WORLD.secret, [(0, 8)])
    offer = Offer(client=7, round=3, recommendation=1)
    return [
        *found,
        Target("DeviceHost.ask, ClientCohort", clients.ask, [(offer, 7, 8)]),
        Target("Client.answer", client.answer, [(3, 1)]),
    ]


def private_targets() -> list[Target]:
    """Methods of private devices; a model that was changed is announced and asked about, where it has a digest."""
    kind: Any = partial(PrivateCohort, consent=tiers.WILLING)
    host: Any = DeviceHost(kind, tiers.private(OF, items=ITEMS), tiers.SECRET, BOUNDS)
    asked = [tiers.query(FEATURES, name) for name in second_order_public_halves()]
    asked.append(forged(tiers.query(FEATURES, "pmc"), own_h=True))

    def books() -> object:
        return [(dict(one.answers._pinned), dict(one.answers._by_device)) for one in host.cohorts]

    def answer(query: Any, first: Any, stop: Any, features: Any) -> object:
        with suppress(Exception):  # else it arrives as it is
            query = forged(query, model=features.digest)
            host.cohorts[0].answers._pinned = dict.fromkeys(range(4), features.digest)
            host.cohorts[0].answers._by_device = {}
        told = host.ask(query, first, stop, features)
        for release in told:
            SecondOrderRelease.arrived(release).require(query, features)
        return told

    good = [(query, first, 4, FEATURES) for query in asked for first in (0, 3)]
    return [
        Target("DeviceHost.ask to take a model", host.ask, [(Announcement(model=FEATURES.digest), 5, 9)], books),
        Target("DeviceHost.ask, PrivateCohort", answer, good, lambda: None),
        Target("DeviceHost.ask, PrivateCohort, as it is", host.ask, good, books),
    ]


def server_targets() -> list[Target]:
    """Methods of aggregators; a release of a query that was changed is made to name it, where it has an id."""
    aggregator = Aggregator()
    host = DeviceHost(partial(Cohort, budget=None), worlds.block_ratings(WORLD), WORLD.secret, [(0, 40)])
    pairs = [(query, host.ask(query, 0, 40), 0, 40) for query in QUERIES]
    statistics = [aggregator.aggregate(*pair)[0] for pair in pairs]

    def aggregate(query: Any, release: Any, first: int, stop: int) -> object:
        with suppress(Exception):  # else it arrives as it is
            release = forged(release, query_id=query.id)
        return aggregator.aggregate(query, release, first, stop)

    return [
        Target("Aggregator.aggregate", aggregate, pairs),
        Target("Aggregator.aggregate as it is", aggregator.aggregate, pairs),
        Target("Aggregator.merge", aggregator.merge, [(one, one, one) for one in statistics]),
    ]


def targets() -> list[Target]:
    """All methods of all actors, of which nothing was asked yet."""
    rows = [{k: bool(k % 2) for k in range(j, ITEMS, 3)} for j in range(5)]
    stored = worlds.stored_ratings(rows, [k % 5 for k in range(USERS)], ITEMS)
    block = worlds.block_ratings(WORLD, users=USERS)
    return [
        *device_targets(block, BUDGET),
        *device_targets(forged(block, rated_public=False), None),
        *device_targets(stored, BUDGET),
        *voter_targets(),
        *private_targets(),
        *server_targets(),
    ]


def gives_back(before: Books, after: Books) -> bool:
    """Whether somebody has spent less than before; None is without limit."""
    return any(after[device] is not None and (cost is None or after[device] < cost) for device, cost in before.items())


def main(calls: int, seed: int) -> None:
    """Send messages; see the module."""
    coins = np.random.default_rng(seed)
    answered, refused, at = Counter[str](), Counter[str](), list[Target]()
    for call in range(calls):
        if call % FRESH == 0:
            at = targets()
        target = at[int(coins.integers(len(at)))]
        sent = list(target.good[int(coins.integers(len(target.good)))])
        for place in picked([heavy(one) for one in sent], coins):
            sent[place] = bad_part(sent[place], coins)
        if coins.random() < 0.04:
            sent = list(target.good[0])
        books, spent = target.books(), target.spent()
        try:
            target.call(*sent)
            answered[target.name] += 1
        except BlindrecError as error:
            refused[target.name] += 1
            if target.books() != books or "\n" in str(error):
                sys.exit(f"{target.name} charged what it refused ({error}): {sent!r}")
        except Exception as error:
            raise SystemExit(f"{target.name}: {type(error).__name__}: {error}\n{sent!r:.2000}") from error
        if gives_back(spent, target.spent()):
            sys.exit(f"{target.name} gave something back: {sent!r}")
        if target.budget and not all(within(cost, target.budget) for cost in target.spent().values()):
            sys.exit(f"{target.name} went beyond the budget: {sent!r}")
    sys.stdout.write(json.dumps({"answered": answered, "refused": refused}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
