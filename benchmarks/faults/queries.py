"""Small worlds for rounds of queries, and the conditions that must hold there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from actors.device import Cohort
from actors.ratings import BlockRatings
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.server import LAYOUT, blocks_of, shuffle
from benchmarks.faults.witness import Charging
from benchmarks.faults.world import Straight, World, straight
from coordinator.protocol.arrays import Bits2, Bools
from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.trust import Shuffling
from coordinator.server.fleet.cohorts import Cohorts, cut
from coordinator.server.fleet.shuffled_rounds import read_shuffled
from coordinator.server.mechanisms import aggregate
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.learner import PosteriorLearner
from coordinator.server.rounds.rounds import Outcome, QueryPlan, Round
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.rounds.transcript import Sealed, digest
from coordinator.server.statistics.statistic import Statistic, merge
from scenarios.backends.session import DeviceGroup
from scenarios.store.journal import Journal
from scenarios.store.manifest import RUN

USERS, ITEMS = 24, 8
SECRET, PUBLIC = derive(0, "faults"), derive(1, "faults")
SIGN = SignSensing(items=ITEMS, rated=3)
LEARNER = PosteriorLearner(clusters=2, design=SIGN)
RATINGS = BlockRatings(
    users=USERS,
    rated_items=3,
    like=np.array([[0.9, 0.2]]),
    class_shares=np.array([1.0]),
    clusters=np.arange(ITEMS, dtype=np.int32) % 2,
)
HALF, MOST = Fraction(1, 2), Fraction(3, 4)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A policy: epsilon, the first device and the one after the last of every round."""

    rounds: tuple[tuple[Fraction, int, int], ...]
    own_questions: bool = False

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round; see `coordinator.server.rounds.state.Policy`."""
        if (number := len(state.asked)) == len(self.rounds):
            return None
        epsilon, first, stop = self.rounds[number]
        query = query_of(number, epsilon)
        return Ask(query=replace(query, own_questions=self.own_questions), first=first, stop=stop)


@cache
def behind_shuffler(world: World) -> World:
    """Return a world whose reports a shuffler hands on, however few they are; devices draw their own questions."""
    policy = replace(world.plan.policy, own_questions=True)  # type: ignore[attr-defined] # of queries
    trust = Shuffling(reports=1, withhold=False)
    return replace(world, plan=replace(world.plan, policy=policy, trust=trust))  # type: ignore[type-var]


@cache
def query_of(number: int, epsilon: Fraction) -> Query:
    """Return the query of a round."""
    return SIGN.query(round_number=number, public_seed=PUBLIC, epsilon=epsilon)


def _world(*rounds: tuple[Fraction, int, int], budget: Fraction, each: int, block: int, window: int) -> World:
    """Return a world of devices in cohorts of so many ``each``."""
    crew = DeviceGroup(kind=partial(Cohort, budget=budget), holdings=RATINGS, bounds=cut(0, USERS, each))
    plan = QueryPlan(policy=Rounds(rounds), learner=LEARNER, devices=USERS, budget=budget)
    return World(plan=plan, crews={"devices": crew}, secret=SECRET, block=block, window=window)


@cache
def truth(query: Query) -> Bits2:
    """Return the bits of every device that answers a query, shape (devices, bits)."""
    return Cohort(RATINGS, SECRET, 0, USERS, None).answer(query, 0, USERS).unpacked()


class _Recording:
    """Carries queries to devices without faults, and notes who answers, by query id."""

    def __init__(self, cohorts: Cohorts, world: World, answered: dict[bytes, Bools]) -> None:
        self._cohorts, self._world, self._answered = cohorts, world, answered

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release | Sealed]]:
        """Ask all of them."""
        blocks = blocks_of(self._cohorts, ask, self._world.block)
        releases = [one.host.ask(ask.query, one.first, one.stop) for one in blocks]
        self._answered[ask.query.id] = np.concatenate([release.answered_mask() for release in releases])
        if isinstance(terms := self._world.plan.trust, Shuffling):
            return read_shuffled(ask, shuffle(ask.query, releases, terms), terms, LAYOUT)
        return merge(*(aggregate(ask.query, release) for release in releases)), releases


@cache
def undisturbed(world: World) -> tuple[Outcome, dict[bytes, Bools]]:
    """Return how a world's run ends without faults, and who answers in each round, by query id."""
    answered: dict[bytes, Bools] = {}
    fleet = Straight(world, lambda cohorts: _Recording(cohorts, world, answered))
    return straight(world, fleet), answered


class QueryWitness(Charging):
    """See `benchmarks.faults.witness.Witness`."""

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk, world.plan.budget)  # type: ignore[attr-defined] # a plan of queries
        self._world = world
        self._masks: dict[tuple[bytes, bytes], Bools] = {}

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Refuse an answer that the device never gives, or that is not booked on the disk."""
        if type(answer) is not Release or public:
            raise Violation(f"a {type(answer).__name__} leaves devices {first} to {stop - 1}")
        devices = first + np.flatnonzero(answer.answered_mask())
        if not np.array_equal(answer.unpacked()[devices - first], truth(question)[devices]):
            raise Violation(f"devices {first} to {stop - 1} said two things")
        query_id = question.id.hex()
        self.must_be_booked({(device, query_id) for device in devices.tolist()}, question)

    def round_over(self, query: Any, releases: list[Any], handed: Sequence[Any]) -> None:
        """Note who answered in a finished round, by the digest of what the server got of it."""
        mask = np.concatenate([release.answered_mask() for release in releases])
        self._masks[query.id, digest(handed)] = mask

    def keeps(self, over: Any) -> None:
        """Refuse a stored round whose releases the witness has not seen."""
        if type(over) is not Round or (over.ask.query.id, over.digest) not in self._masks:
            raise Violation(f"{over} is kept, and no releases are like that")

    def ends(self, outcome: Any, rounds: list[Any]) -> None:
        """Refuse an end that differs from the one without faults, except in devices that were cut off."""
        whole, _ = undisturbed(self._world)
        self.nothing_forgotten()
        if outcome.failure:
            raise Violation(f"the policy is said to have gone astray: {outcome.failure}")
        for ask, counts in zip(outcome.state.asked, outcome.state.counts, strict=True):
            if (counts.asked, counts.answered + counts.refused) != (ask.stop - ask.first, counts.asked):
                raise Violation(f"of {ask.stop - ask.first} devices in round {ask.query.round}, {counts} is counted")
        if self.cut_off:
            self._only_cut_off_ones_differ(outcome, [over.digest for over in rounds])
            return
        same = outcome.releases_sha256 == whole.releases_sha256 and outcome.state.counts == whole.state.counts
        if not same or not np.array_equal(outcome.model.score, whole.model.score):
            raise Violation("it ended with other releases, counts or another model than if nothing had happened")

    def _only_cut_off_ones_differ(self, outcome: Outcome, digests: list[bytes]) -> None:
        """Compare every round's answers with those without faults, device by device."""
        (_, answered), excused = undisturbed(self._world), set[int]()
        for ask, one in zip(outcome.state.asked, digests, strict=True):
            query_id = ask.query.id
            excused |= self.excused.get(query_id, set())
            differ = set((ask.first + np.flatnonzero(self._masks[query_id, one] != answered[query_id])).tolist())
            if differ - excused:
                raise Violation(f"devices {sorted(differ - excused)} differ in round {ask.query.round} without a cause")


class Queries:
    """See `benchmarks.faults.world.Family`."""

    name = RUN
    worlds: Sequence[World] = (
        _world((HALF, 0, 24), (HALF, 0, 24), budget=Fraction(1), each=12, block=12, window=2),
        _world((MOST, 0, 24), (MOST, 4, 24), (HALF, 0, 18), budget=Fraction(3, 2), each=8, block=8, window=2),
        _world(
            (MOST, 0, 24), (HALF, 3, 20), (MOST, 0, 24), (HALF, 0, 24), budget=Fraction(5, 4), each=6, block=6, window=3
        ),
        _world((HALF, 0, 16), (MOST, 8, 24), (HALF, 0, 24), budget=Fraction(1), each=8, block=4, window=4),
    )
    """Worlds in which budgets cover all rounds, and others."""

    def stored_rounds(self, out: Path) -> Journal:
        """Return the journal."""
        return Journal(out, 0)

    def witness(self, world: World, disk: Disk) -> QueryWitness:
        """Return the witness."""
        return QueryWitness(world, disk)
