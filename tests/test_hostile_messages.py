"""Whatever is sent to an actor: an error of our own or an answer, nothing charged for what is refused, no crash."""

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import worlds
from evidence import THOROUGH, size
from messages import BOUNDS, FEATURES, ITEMS, MODEL, OF, QUERIES, USERS, WORLD, bad_part, forged, heavy, picked
from runs import CHECKED

from actors.device import AdviceRequest, Cohort
from actors.host import DeviceHost, permit_of
from actors.private_cohort import PrivateCohort
from actors.ratings import Ratings
from actors.voters import Client, ClientCohort, PlantedVoters, RatingVoters, TableVoters, VoterCohort
from coordinator.protocol.ballots import Ballot, Offer, Service
from coordinator.protocol.budget import Epsilon, within
from coordinator.protocol.errors import BlindrecError
from coordinator.protocol.second_order import two_tier_mechanism, two_tier_mechanisms
from coordinator.server.fleet.querying import Aggregator

FRESH = 400  # Calls after which all actors are new: else budgets and answers that are used up would refuse everything

BUDGET = Fraction(40)

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


def ledgers_of(host: Any) -> tuple[Callable[[], object], Callable[[], Books]]:
    """Return how to look at a host's books: all of them, and what each device has spent."""

    def books() -> object:
        return [list(cohort.ledger._ranges) for cohort in host.cohorts]

    def spent() -> Books:
        stretches = [stretch for cohort in host.cohorts for stretch in cohort.ledger.spending()]
        return {device: cost for first, stop, cost in stretches for device in range(first, stop)}

    return books, spent


def device_targets(ratings: Ratings, budget: Epsilon) -> list[Target]:
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
    titles = np.tile(np.arange(OBJECTS, dtype=np.int32), (ROUNDS, 1))
    plain = Service(client=0, recommender="p-rec", rounds=ROUNDS, objects=OBJECTS, epsilon=Fraction(1, 3), own_device=4)
    taste = RNG.integers(OBJECTS, size=(2, ROUNDS), dtype=np.uint8)
    group = np.arange(USERS, dtype=np.int32)
    kinds = (
        (PlantedVoters(client=group % 3 - 1, taste=taste, diverse=taste == 1, objects=OBJECTS, radius=2), plain),
        (TableVoters(table=RNG.integers(3, size=(ROUNDS, USERS), dtype=np.uint8), group=group), plain),
        (RatingVoters(rows=worlds.private(OF)), forged(plain, titles=titles)),
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
    """Methods of private devices; a query about a changed model is announced to new ones, where it has a digest."""
    kind: Any = partial(PrivateCohort, agreement=worlds.WILLING, own_h=True)
    host: Any = DeviceHost(kind, worlds.private(OF, items=ITEMS), worlds.SECRET, BOUNDS)
    looks = (*ledgers_of(host), None)
    asked = [worlds.query(FEATURES, name) for name in two_tier_mechanisms()]
    asked.append(forged(worlds.query(FEATURES, "pmc"), own_h=True))

    def answer(query: Any, first: Any, stop: Any, features: Any) -> object:
        with suppress(Exception):  # else it arrives as it is
            query = forged(query, model=features.digest)
        cohort = kind(worlds.private(OF, items=ITEMS), worlds.SECRET, 0, 5)
        cohort.ask(query, first, stop)
        devices, payloads = query.payloads(cohort.ask(query, first, stop, features), features)
        two_tier_mechanism(query.mechanism).check(payloads, query, features)
        return devices

    good = [(query, first, 4, FEATURES) for query in asked for first in (0, 3)]
    return [
        Target("DeviceHost.ask to take a query", host.ask, [(query, 5, 9) for query in asked], *looks),
        Target("PrivateCohort.ask", answer, good, lambda: None),
        Target("DeviceHost.ask, PrivateCohort, as it is", host.ask, good, *looks),
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


def main(calls: int, seed: int) -> dict[str, Counter[str]]:
    """Call methods, and return how often each has answered and refused."""
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
    return {"answered": answered, "refused": refused}


CALLS, SEED = size(25_000, 2_000), 16
ROUNDS, OBJECTS = 6, 3
SUPPORT = Path(__file__).parent / "support"


def in_a_process_of_its_own() -> dict[str, dict[str, int]]:
    """Call them where compiled code checks bounds that it does not check elsewhere, and where warnings are errors.

    So it fails where it would read foreign memory, and not only where that ends the process.
    """
    paths = os.pathsep.join([str(SUPPORT), str(SUPPORT.parents[1])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "faulthandler", __file__, str(CALLS), str(SEED)],
        env={**os.environ, "PYTHONPATH": paths, **CHECKED},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told: dict[str, dict[str, int]] = json.loads(done.stdout)
    return told


@pytest.mark.slow
def test_every_method_of_every_actor_refuses_what_it_cannot_use() -> None:
    told = in_a_process_of_its_own() if THOROUGH else main(CALLS, SEED)
    answered, refused = told["answered"], told["refused"]
    assert sum(answered.values()) + sum(refused.values()) == CALLS
    assert answered.keys() == refused.keys(), "some method answers nothing, or refuses nothing"
    assert min(answered.values()) >= size(10, 1)
    assert min(refused.values()) >= size(300, 15)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
