"""Small worlds for rounds of queries, and the conditions that must hold there."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

import numpy as np

from actors.device import Cohort
from actors.ratings import BlockRatings
from actors.shares import side_of
from benchmarks.faults.disk import Disk
from benchmarks.faults.scheduler import Violation
from benchmarks.faults.server import SharingHost
from benchmarks.faults.witness import Witness
from benchmarks.faults.world import SERVER_SECRETS, Family, World, continued
from coordinator.aggregators.gathering import LocalShares, ShareServer
from coordinator.protocol.agreement import Agreement, PlannedRound
from coordinator.protocol.arrays import Bits2, Bools, Counts
from coordinator.protocol.coins import derive
from coordinator.protocol.hashing import expansions
from coordinator.protocol.mechanism import Decoding, InWorld
from coordinator.protocol.mechanism import World as Facts
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.mechanisms.totals import Totals
from coordinator.protocol.messages import Model, Query, Release
from coordinator.protocol.shares import SIDES, SeedShare, ShareRoll, WordShare
from coordinator.protocol.trust_models import SHUFFLED, TWO_SERVERS
from coordinator.server.fleet.cohorts import cut
from coordinator.server.rounds.learner import PosteriorLearner, SumLearner
from coordinator.server.rounds.rounds import Outcome, QueryPlan, Round
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.rounds.transcript import digest
from scenarios.backends.session import DeviceGroup
from scenarios.backends.share_servers import KINDS
from scenarios.store.journal import Journal
from scenarios.store.manifest import RUN

USERS, ITEMS = 24, 8
SECRET, PUBLIC = derive(0, "faults"), derive(1, "faults")
DELTA = 1e-6
FACTS = Facts(items=ITEMS, rated=3, users=USERS, clusters=2, epsilon=None, delta=DELTA)
SIGN: InWorld = Sign().design(FACTS)
TOTALS: InWorld = Totals(most_likes=2).design(FACTS)
NOISE = ShareServer._noise
LEARNER = PosteriorLearner(clusters=2, design=SIGN)
RATINGS = BlockRatings(
    users=USERS,
    rated_items=3,
    like=np.array([[0.9, 0.2]]),
    class_shares=np.array([1.0]),
    clusters=np.arange(ITEMS, dtype=np.int32) % 2,
    earlier=(np.arange(ITEMS, dtype=np.int32) // 4,),
)
HALF, MOST = Fraction(1, 2), Fraction(3, 4)


@dataclass(frozen=True, slots=True)
class Rounds:
    """A policy: epsilon, the first device and the one after the last of every round."""

    rounds: tuple[tuple[Fraction, int, int], ...]
    agreement: Agreement
    design: InWorld = SIGN
    own_questions: bool = False  # Whether devices draw their own
    timed: bool = False  # Whether each round is about its own period

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round; see `coordinator.server.rounds.state.Policy`."""
        if (number := len(state.asked)) == len(self.rounds):
            return None
        _, first, stop = self.rounds[number]
        return Ask(query=round_query(self, number), first=first, stop=stop)


@cache
def round_query(policy: Rounds, number: int) -> Query:
    """Return the query of a round, the same object every time."""
    query = policy.design.query(round_number=number, public_seed=PUBLIC, epsilon=policy.rounds[number][0])
    period = number + 1 if policy.timed else query.period
    return policy.agreement.stamped(replace(query, own_questions=policy.own_questions, period=period))


def _under(world: World, clauses: dict[str, Any], *, learner: Any = None, **changes: Any) -> World:
    """Return a world whose devices and server hold an agreement with some other promise."""
    plan: Any = world.plan
    agreement = replace(plan.policy.agreement, **clauses)
    policy = replace(plan.policy, agreement=agreement, **changes)
    plan = replace(plan, policy=policy, agreement=agreement, learner=learner or plan.learner)
    kind = partial(Cohort, budget=agreement.budget, agreement=agreement)
    return replace(world, plan=plan, crews={name: replace(crew, kind=kind) for name, crew in world.crews.items()})


@cache
def behind_shuffler(world: World) -> World:
    """Return a world whose reports a shuffler hands on, however few they are; devices draw their own questions."""
    return _under(world, {"trust": SHUFFLED, "withhold": False}, own_questions=True)


@cache
def over_periods(world: World) -> World:
    """Return a world whose every round is about ratings of its own period, as devices agreed."""
    rounds = enumerate(world.plan.policy.rounds, 1)  # type: ignore[attr-defined] # a plan of queries
    planned = tuple(PlannedRound(period, first, stop, epsilon) for period, (epsilon, first, stop) in rounds)
    return _under(world, {"rounds": planned}, timed=True)


class SumOfRounds(Totals):
    """Adds rounds up whose noise differs, because nobody reads these errors."""

    def learn(self, statistic: Any, queries: Sequence[Query], how: Decoding) -> Model:
        """Return the item model from the sum of all rounds."""
        return self.decode(statistic, queries[-1], how)


@cache
def behind_servers(world: World) -> World:
    """Return a world whose devices give shares to two servers."""
    learner = SumLearner(mechanism=SumOfRounds(), how=Decoding(clusters=2, decoder="totals"))
    plan: Any = world.plan
    rounds = len(plan.policy.rounds)
    clauses = {"trust": TWO_SERVERS, "answers": rounds, "epsilon": plan.budget, "delta": rounds * DELTA}
    return replace(_under(world, clauses, learner=learner, design=TOTALS), host_kind=SharingHost)


def _world(*rounds: tuple[Fraction, int, int], budget: Fraction, each: int, block: int, window: int) -> World:
    """Return a world of devices in cohorts of so many ``each``."""
    agreement = Agreement(users=USERS, budget=budget)
    crew = DeviceGroup(kind=partial(Cohort, budget=budget), holdings=RATINGS, bounds=cut(0, USERS, each))
    policy = Rounds(rounds, agreement)
    plan = QueryPlan(policy=policy, learner=LEARNER, devices=USERS, budget=budget)
    return _under(World(plan=plan, crews={"devices": crew}, secret=SECRET, block=block, window=window), {})


@cache
def truth(query: Query) -> Bits2:
    """Return the bits of every device that answers a query, shape (devices, bits)."""
    return Cohort(RATINGS, SECRET, 0, USERS, None).answer(query, 0, USERS).unpacked()


@cache
def shares_of(query: Query) -> dict[str, WordShare | SeedShare]:
    """Return the shares of every device that answers a query, by server."""
    return {side: Cohort(RATINGS, SECRET, 0, USERS, None).share(side, query, 0, USERS) for side in SIDES}


def published_words(query: Query, side: str, roll: ShareRoll) -> Counts:
    """Return what a server publishes of the devices of a roll."""
    share, devices = shares_of(query)[side], roll.first + np.flatnonzero(roll.mask())
    rows = share.rows() if isinstance(share, WordShare) else expansions(share.keys(), share.width)
    (kind,) = (kind_of_side for kind_of_side in KINDS if kind_of_side.side == side)
    noise = NOISE(kind(SERVER_SECRETS[side], b"", LocalShares(None, [])), Totals(), query, roll)  # type: ignore[arg-type] # fetches nothing
    sums: Counts = rows[devices].sum(axis=0, dtype=np.uint32) + noise
    return sums


@cache
def undisturbed(world: World) -> tuple[Outcome, dict[bytes, Bools]]:
    """Return how a world's run ends without faults, and who answers in each round, by query id."""
    answered: dict[bytes, dict[int, Bools]] = {}

    class Noting(Cohort):
        def answer(self, query: Query, first: int, stop: int) -> Release:
            release = super().answer(query, first, stop)
            answered.setdefault(query.id, {})[first] = release.answered_mask()
            return release

        def share(self, side: str, query: Query, first: int, stop: int) -> WordShare | SeedShare:
            share = super().share(side, query, first, stop)
            answered.setdefault(query.id, {})[first] = share.heard().astype(np.bool_)
            return share

    noting = {name: replace(crew, kind=partial(Noting, **crew.kind.keywords)) for name, crew in world.crews.items()}  # type: ignore[attr-defined] # partial
    outcome: Outcome = continued(replace(world, crews=noting))
    return outcome, {query: np.concatenate([of[first] for first in sorted(of)]) for query, of in answered.items()}


class QueryWitness(Witness):
    """See `benchmarks.faults.witness.Witness`."""

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk, world.plan.budget)  # type: ignore[attr-defined] # a plan of queries
        self._world = world
        self._masks: dict[tuple[bytes, bytes], Bools] = {}
        self._opened: dict[bytes, Bools] = {}

    def leaves(self, question: Any, public: tuple[Any, ...], first: int, stop: int, answer: Any) -> None:
        """Refuse an answer that the device never gives, or that is not booked on the disk."""
        if isinstance(answer, WordShare | SeedShare) and len(public) == 1:
            side = side_of(*public, SECRET)
            mask, said, right = answer.heard().astype(np.bool_), answer.content, shares_of(question)[side].content
            rows = np.frombuffer(right, np.uint8).reshape(USERS, -1)[first:stop] * mask[:, None]
            same = said == rows.tobytes()
        elif type(answer) is Release and not public:
            mask = answer.answered_mask()
            same = np.array_equal(answer.unpacked()[mask], truth(question)[first:stop][mask])
        else:
            raise Violation(f"a {type(answer).__name__} leaves devices {first} to {stop - 1}")
        if not same:
            raise Violation(f"devices {first} to {stop - 1} said two things")
        devices, query_id = first + np.flatnonzero(mask), question.id.hex()
        self.must_be_booked({(device, query_id) for device in devices.tolist()}, question)

    def round_over(self, query: Any, answered: Bools, handed: Sequence[Any]) -> None:
        """Note who answered in a finished round, by the digest of what the server got of it."""
        self._masks[query.id, digest(handed)] = answered

    def opens(self, opener: str, query: Any, mask: Bools) -> None:
        """Refuse that a query is opened twice, with devices that are not the same."""
        if mask.any() and not np.array_equal(mask, self._opened.setdefault(query.id, mask)):
            raise Violation(f"{opener} opens {query} with other devices than it was opened with before")

    def publishes(self, query: Any, published: Any) -> None:
        """Refuse a sum that is another one than that of the devices it names with the server's noise."""
        self.opens(f"the server of {published.side}", query, published.roll.mask())
        if not np.array_equal(published.sums, published_words(query, published.side, published.roll)):
            raise Violation(f"the server of {published.side} publishes another sum of {query} than undisturbed")

    def keeps(self, record: Any) -> None:
        """Refuse a stored round whose releases the witness has not seen."""
        if type(record) is not Round or (record.ask.query.id, record.digest) not in self._masks:
            raise Violation(f"{record} is kept, and no releases are like that")

    def ends(self, outcome: Any, rounds: list[Any]) -> None:
        """Refuse an end that differs from the one without faults, except in devices that were cut off."""
        whole, _ = undisturbed(self._world)
        self.nothing_forgotten()
        if outcome.failure:
            raise Violation(f"the policy is said to have gone astray: {outcome.failure}")
        for ask, counts in zip(outcome.state.asked, outcome.state.counts, strict=True):
            # Devices that answer too late, where a round was opened without them, neither refuse nor count
            late = counts.asked - counts.answered - counts.refused if self._opened and self.cut_off else 0
            if (counts.asked, counts.answered + counts.refused + max(late, 0)) != (ask.stop - ask.first, counts.asked):
                raise Violation(f"of {ask.stop - ask.first} devices in round {ask.query.round}, {counts} is counted")
        if self.cut_off:
            self._only_cut_off_ones_differ(outcome, [record.digest for record in rounds])
            return
        same = outcome.releases_sha256 == whole.releases_sha256 and outcome.state.counts == whole.state.counts
        same &= outcome.transcripts == whole.transcripts
        if not same or not np.array_equal(outcome.model.score, whole.model.score):
            raise Violation("it ended with other releases, counts or another model than if nothing had happened")

    def _only_cut_off_ones_differ(self, outcome: Outcome, digests: list[bytes]) -> None:
        """Compare every round's answers with those without faults, device by device."""
        (_, answered), excused = undisturbed(self._world), set[int]()
        for ask, round_digest in zip(outcome.state.asked, digests, strict=True):
            query_id = ask.query.id
            excused |= self.excused.get(query_id, set())
            differ = set(
                (ask.first + np.flatnonzero(self._masks[query_id, round_digest] != answered[query_id])).tolist()
            )
            if differ - excused:
                raise Violation(f"devices {sorted(differ - excused)} differ in round {ask.query.round} without a cause")


QUERIES = Family(
    name=RUN,
    worlds=(
        _world((HALF, 0, 24), (HALF, 0, 24), budget=Fraction(1), each=12, block=12, window=2),
        _world((MOST, 0, 24), (MOST, 4, 24), (HALF, 0, 18), budget=Fraction(3, 2), each=8, block=8, window=2),
        _world(
            (MOST, 0, 24), (HALF, 3, 20), (MOST, 0, 24), (HALF, 0, 24), budget=Fraction(5, 4), each=6, block=6, window=3
        ),
        _world((HALF, 0, 16), (MOST, 8, 24), (HALF, 0, 24), budget=Fraction(1), each=8, block=4, window=4),
    ),
    stored_rounds=partial(Journal, seed=0),
    witness=QueryWitness,
)
"""Worlds in which budgets cover all rounds, and others."""
