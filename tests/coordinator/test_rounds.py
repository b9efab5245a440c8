"""Rounds of queries: asking, absorbing, progress in public numbers, one digest, and malformed reports."""

from __future__ import annotations

import hashlib
import itertools
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from threading import Thread
from typing import Any

import numpy as np
import pytest
import ray
import worlds
from evidence import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from messages import SEED
from runs import here, small
from worlds import conduct, in_world

from actors.device import Cohort
from actors.host import DeviceHost
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.mechanism import Decoding, World
from coordinator.protocol.mechanisms import mechanism_of, mechanisms
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.oracles import Grr
from coordinator.protocol.mechanisms.pairwise import Pairwise
from coordinator.protocol.messages import Query, Release, pack
from coordinator.protocol.statistics.statistic import Statistic, merge
from coordinator.server.aggregation import aggregate, no_release
from coordinator.server.fleet.cohorts import Cohorts, Layout
from coordinator.server.fleet.coordinator_actor import HELD_PAUSE, MOST_HELD, Coordinator
from coordinator.server.rounds.conductor import Fleet
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from coordinator.server.rounds.rounds import Outcome, QueryPlan, Round
from coordinator.server.rounds.state import Ask, RunProgress, ServerState, Spending, absorb
from coordinator.server.rounds.transcript import Sealed, chain, digest, seal, size_of

WORLD = worlds.world(items=12, rated=6, like=((1.0, 0.0),))
DESIGN = in_world(MaxSense, items=12, rated=6)
POLICY = OneRound(design=DESIGN, epsilon=None, public_seed=worlds.PUBLIC)
LEARNER = SumLearner(mechanism=mechanism_of("maxsense"), how=Decoding(clusters=2, decoder="centred"))


def devices_of(count: int) -> worlds.Devices:
    return worlds.Devices(Cohort(worlds.block_ratings(WORLD), worlds.SECRET, 0, count, None))


class Pairs:
    """Pairs of items, round by round, for a round's statistic of megabytes."""

    design = in_world(Pairwise, items=500)

    def next_query(self, state: ServerState) -> Ask | None:
        number = len(state.asked)
        query = self.design.query(round_number=number, public_seed=worlds.PUBLIC, epsilon=Fraction(1))
        return Ask(query=query, first=number, stop=number + 1)


def test_what_the_server_holds_does_not_grow_with_its_rounds() -> None:
    """But for a question and four numbers each: a round's statistic of pairs alone is 4 MB."""
    policy, state, sizes = Pairs(), ServerState(devices=100), []
    for _ in range(20):
        ask = policy.next_query(state)
        assert ask is not None
        state = absorb(state, ask, aggregate(ask.query, no_release(ask.query)))
        sizes.append(len(pickle.dumps(state)))
    assert sizes[0] > 4_000_000
    assert sizes[-1] - sizes[0] < 19 * 1000


def test_nothing_asked_is_nothing_learned() -> None:
    with pytest.raises(ValueError, match="asked nothing"):
        LEARNER.learn(ServerState(devices=10))


def test_a_design_other_than_the_runs_is_refused_under_every_decoder(nobody_asks: None) -> None:
    """Its answers would be decoded as another mechanism's; a stored round of it is none of this run's, either."""
    other = OneRound(design=in_world(Grr, items=12, rated=6), epsilon=Fraction(1), public_seed=worlds.PUBLIC)
    with pytest.raises(PolicyError, match="round 0: it asks design 'grr'; the run's design is 'maxsense'"):
        conduct(other, LEARNER, devices_of(40), devices=40)
    ask = other.next_query(ServerState(devices=40))
    assert ask is not None
    stored = Round(ask=ask, statistic=aggregate(ask.query, no_release(ask.query)), digest=bytes(32))
    with pytest.raises(PolicyError, match="it asks design 'grr'; the run's design is 'maxsense'"):
        conduct(POLICY, LEARNER, devices_of(40), devices=40, earlier=[stored])


ROUNDS = 2 * MOST_HELD
PATIENCE = 30.0


@dataclass
class Counting:
    """Rounds that are their numbers; it knows how many were begun."""

    in_step: bool
    custom: None = None
    agreement: None = None
    begun: list[int] = field(default_factory=list)

    def rehearsal(self) -> Query | None:
        return None

    def begin(self, _: Fleet) -> Counting:
        return self

    def run_round(self) -> int | None:
        if len(self.begun) == ROUNDS:
            return None
        self.begun.append(len(self.begun))
        return self.begun[-1]

    def replay(self, over: int) -> None:
        self.begun.append(over)

    def outcome(self) -> list[int]:
        return self.begun

    def progress(self) -> RunProgress:
        return RunProgress(rounds=len(self.begun))


@pytest.mark.parametrize(("in_step", "ahead"), [(True, 1), (False, MOST_HELD + 1)])
def test_rounds_wait_until_earlier_ones_are_kept(*, in_step: bool, ahead: int) -> None:
    plan, kept = Counting(in_step), list[int]()
    server = Coordinator(plan, {}, Layout(devices=8, workers=1, devices_per_actor=8))
    conducting = Thread(target=server.run, daemon=True)
    conducting.start()
    until = time.monotonic() + PATIENCE
    while len(plan.begun) < ahead and time.monotonic() < until:
        time.sleep(HELD_PAUSE)
    time.sleep(10 * HELD_PAUSE)
    assert len(plan.begun) == ahead, "nobody has kept any"
    while len(kept) < ROUNDS and time.monotonic() < until:
        kept += server.new_rounds(len(kept))
    server.new_rounds(len(kept))
    conducting.join(PATIENCE)
    assert kept == list(range(ROUNDS))
    assert not conducting.is_alive()


QUERY = worlds.maxsense_query(items=4, sensing=0.5)
NEXT = worlds.maxsense_query(items=4, sensing=0.5, round_number=1)
BITS = st.lists(st.integers(0, 1), min_size=1, max_size=60)


def run_digest(*rounds: list[Release]) -> str:
    return chain([digest(releases) for releases in rounds])


def expected(*rounds: tuple[list[int], set[int]]) -> str:
    """For each round the mask of who answered, then the bits, packed over all devices and padded once."""
    digests = []
    for bits, silent in rounds:
        heard = [int(k not in silent) for k in range(len(bits))]
        answers = [bit * one for bit, one in zip(bits, heard, strict=True)]
        told = b"".join(np.packbits(np.array(part, np.uint8)).tobytes() for part in (heard, answers))
        digests.append(hashlib.sha256(told).digest())
    return digests[0].hex() if len(digests) == 1 else hashlib.sha256(b"".join(digests)).hexdigest()


def pieces(query: Query, bits: list[int], silent: set[int], cuts: list[int], first: int = 0) -> list[Release]:
    marks = [0, *sorted({cut for cut in cuts if 0 < cut < len(bits)}), len(bits)]
    return [
        worlds.release_of(query, bits[a:b], first=first + a, silent=sorted(k - a for k in silent if a <= k < b))
        for a, b in itertools.pairwise(marks)
    ]


@settings(max_examples=examples(80))
@given(data=st.data(), bits=BITS, silent=st.sets(st.integers(0, 59)), first=st.sampled_from([0, 8, 13]))
def test_any_cut_in_any_order_gives_the_digest(
    data: st.DataObject, bits: list[int], silent: set[int], first: int
) -> None:
    silent = {k for k in silent if k < len(bits)}
    cuts = data.draw(st.lists(st.integers(1, 60), max_size=6))
    blocks = data.draw(st.permutations(pieces(QUERY, bits, silent, cuts, first)))
    assert run_digest(list(blocks)) == expected((bits, silent))


@pytest.mark.parametrize(
    "bounds", [[(0, 8), (9, 16)], [(0, 8), (7, 16)], [(0, 8), (0, 8)], [(0, 16), (4, 8)], [(0, 8), (8, 16), (24, 32)]]
)
def test_gaps_and_overlaps_are_refused(bounds: list[tuple[int, int]]) -> None:
    releases = [worlds.release_of(QUERY, [1] * (stop - first), first=first) for first, stop in bounds]
    with pytest.raises(ValueError, match="does not follow"):
        run_digest(releases)


def test_answers_to_different_queries_are_refused() -> None:
    with pytest.raises(ValueError, match="does not follow"):
        run_digest([worlds.release_of(QUERY, [1] * 8), worlds.release_of(NEXT, [1] * 8, first=8)])


def test_nothing_asked_is_the_digest_of_nothing() -> None:
    assert run_digest() == run_digest([]) == hashlib.sha256(b"").hexdigest()


def test_devices_are_digested_by_leaves_whoever_carries_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves of sixteen devices. Whole ones are sealed, and the digest is that of all releases, cut in any way."""
    monkeypatch.setattr("coordinator.server.rounds.transcript.LEAF", 16)
    bits, silent = [int(k % 3 == 0) for k in range(100)], {5, 17, 64}
    leaves = [pieces(QUERY, bits, silent, [13, 29, 45, 61, 77, 93], first=3)[k] for k in range(7)]
    expected_leaves = b"".join(
        hashlib.sha256(
            np.packbits([int(k not in silent) for k in stretch]).tobytes()
            + np.packbits([bits[k] * (k not in silent) for k in stretch]).tobytes()
        ).digest()
        for stretch in (range(13), *(range(first, first + 16) for first in range(13, 93, 16)), range(93, 100))
    )
    told = hashlib.sha256(expected_leaves).hexdigest()
    assert run_digest(leaves) == told
    assert run_digest(pieces(QUERY, bits, silent, [4, 13, 20, 29, 45, 50, 61, 77, 90, 93], first=3)) == told
    (wide,) = (one for one in pieces(QUERY, bits, silent, [13, 93], first=3) if one.first == 16)
    sealed = seal(wide)
    assert isinstance(sealed, Sealed)
    assert len(sealed.leaves) == 5 * 32
    assert chain([digest([leaves[0], sealed, leaves[-1]])]) == told
    assert size_of([leaves[0], sealed]) == size_of([leaves[0], wide])
    assert seal(leaves[0]) is leaves[0]


def test_a_block_that_reaches_into_another_leaf_cannot_be_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.server.rounds.transcript.LEAF", 16)
    with pytest.raises(ValueError, match="20 devices from 8 on are no whole leaves of 16"):
        run_digest(pieces(QUERY, [1] * 20, set(), [], first=8))


ASKS = st.lists(st.tuples(st.integers(0, 19), st.integers(1, 20), st.sampled_from(["1/3", "1/2", "1"])), max_size=12)


@given(ASKS)
def test_what_a_device_has_spent_at_most(asks: list[tuple[int, int, str]]) -> None:
    """Device by device: nobody answers beyond the budget."""
    spending, spent = Spending(Fraction(1)), [Fraction(0)] * 40
    for first, width, cost in asks:
        spending.ask(first, first + width, Fraction(cost))
        for device in range(first, first + width):
            if spent[device] + Fraction(cost) <= 1:
                spent[device] += Fraction(cost)
        assert spending.most == float(max(spent))


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({}, 1),
        ({"design": "sign", "policy": "fixed", "rounds": 3, "answers_per_device": 3, "epsilon": 3}, 3),
        ({"design": "sign", "policy": "eliminate", "confidence": 0.9, "users": 9000}, None),
        ({"epsilon": "inf"}, 1),
        ({"dropout": 0.3}, 1),
    ],
)
def test_the_last_tally_is_what_the_result_says(changes: dict[str, object], planned: int | None) -> None:
    told: list[RunProgress] = []
    run = here(small(seed=SEED, **changes), progress=told.append)
    state, last = run.outcome.state, told[-1]
    assert last.count == state.answers_asked
    assert (last.rounds, last.planned) == (len(state.asked), planned)
    assert last.answers == sum(counts.answered for counts in state.counts)
    assert last.refused == sum(counts.refused for counts in state.counts)
    spent = [float("inf") if amount is None else float(amount) for _, _, amount in run.spent]
    assert last.epsilon == max(spent)
    pools = [40 if ask.query.pool is None else ask.query.pool.size for ask in state.asked]
    assert last.undecided == (pools[-1] if changes.get("policy") == "eliminate" else None)


REPORTED_DESIGN, REPORTED_LEARNER = (
    in_world(Grr, items=12, rated=6),
    SumLearner(mechanism=mechanism_of("grr"), how=Decoding(clusters=2, decoder="k-means")),
)
RATINGS = worlds.block_ratings(worlds.world(items=12, rated=6), 400)
BLOCK, EACH, USERS = 40, 120, 240
TOLD = "the release of devices 160 to 199 is no answer to query 1 (grr, epsilon 3, id "
WHY = "): it reports 15, numbers end at 12; their process runs other code than the server, start it anew with the same"


LIE = pack(np.ones((BLOCK, 4), np.uint8))  # A block's bits: everybody reports 15, where there are thirteen values


@dataclass(frozen=True)
class Rounds:
    many: int

    def next_query(self, state: ServerState) -> Ask | None:
        if len(state.asked) == self.many:
            return None
        query = REPORTED_DESIGN.query(round_number=len(state.asked), public_seed=worlds.PUBLIC, epsilon=Fraction(3))
        return Ask(query=query, first=state.fresh, stop=state.fresh + EACH)


class Devices:
    """Devices in blocks of forty; those from 160 to 199 lie."""

    def __init__(self) -> None:
        self._cohort = Cohort(RATINGS, worlds.SECRET, 0, USERS, None)

    def ask(self, ask: Ask) -> tuple[Statistic, Sequence[Release]]:
        told = [self._cohort.answer(ask.query, a, a + BLOCK) for a in range(ask.first, ask.stop, BLOCK)]
        told = [replace(one, bits=LIE) if one.first == 160 else one for one in told]
        return merge(*(aggregate(ask.query, one) for one in told)), told


def require_only_the_first_round(outcome: Outcome) -> None:
    """The failure names the round, the devices and what they sent; what was learned is what round 0 alone tells."""
    assert outcome.failure is not None
    assert outcome.failure.startswith(f"policy Rounds, round 1: InputError: {TOLD}")
    assert outcome.failure.endswith(WHY)
    honest = conduct(Rounds(1), REPORTED_LEARNER, Devices(), devices=USERS)
    assert honest.failure is None
    assert len(outcome.state.asked) == 1
    assert outcome.releases_sha256 == honest.releases_sha256
    assert outcome.model.score.tolist() == honest.model.score.tolist()


def test_a_value_that_there_is_not_ends_the_round_and_nothing_of_it_is_learned() -> None:
    require_only_the_first_round(conduct(Rounds(2), REPORTED_LEARNER, Devices(), devices=USERS))


@pytest.mark.cluster
@pytest.mark.few(1)
@pytest.mark.parametrize("sends", ["a value that there is not", "no release"])
def test_the_same_on_ray(lent: None, sends: str) -> None:
    """One of three cohorts answers by other code, whether what adds up finds it or what learns."""
    lie = LIE

    class Liar(DeviceHost):  # defined here, it travels with its code
        def ask(self, question: Any, first: int, stop: int, *_: Any) -> Any:
            told = super().ask(question, first, stop)
            return told if first != 160 else replace(told, bits=lie) if sends != "no release" else "nothing"

    bounds = [(0, 160), (160, 200), (200, 240)]
    host = ray.remote(num_cpus=0)(Liar).remote(partial(Cohort, budget=None), RATINGS, worlds.SECRET, bounds)
    layout = Layout(devices=USERS, workers=1, devices_per_actor=USERS)
    plan = QueryPlan(policy=Rounds(2), learner=REPORTED_LEARNER, devices=USERS)
    server = Coordinator(plan, {"devices": Cohorts(bounds=bounds, hosts=[host])}, layout)
    outcome, _ = server.run()
    if sends != "no release":
        require_only_the_first_round(outcome)
    else:
        told = "devices 160 to 199 sent what is no answer: a Release is expected here, not a str"
        assert outcome.failure == f"policy Rounds, round 1: InputError: {told}"
        assert len(outcome.state.asked) == 1


def sent(query: Query, bits: np.ndarray[Any, Any]) -> Release:
    """Two devices' release; the second one's bits are told."""
    return worlds.release_of(query, [np.zeros_like(bits), bits], first=5)


@pytest.mark.parametrize("name", ["grr", "olh"])
def test_numbers_beyond_the_range_of_an_oracle_are_refused(name: str) -> None:
    half = mechanisms()[name]
    world = World(items=40, rated=9, users=2, clusters=2, epsilon=Fraction(3, 2))
    query = half.design(half.settings(), world).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=world.epsilon)
    many = {"grr": 41, "olh": 5}[name]

    def number(value: int) -> np.ndarray[Any, Any]:
        return (value >> np.arange(query.bits)[::-1]) & 1

    assert aggregate(query, sent(query, number(many - 1))).answered == 2
    with pytest.raises(InputError, match=rf"devices 5 to 6 .*: it reports {many}, numbers end at {many - 1};"):
        aggregate(query, sent(query, number(many)))
    silent = replace(sent(query, number(many)), answered=bytes([0b10000000]))
    assert aggregate(query, silent).answered == 1


@pytest.mark.parametrize("name", ["full-reveal", "curator-items", "curator-pairs"])
def test_ratings_that_contradict_each_other_are_refused(name: str) -> None:
    """Liked, but not rated; and more ratings than were asked for."""
    query = worlds.reveals_query(name, items=4, most=2)
    assert aggregate(query, sent(query, np.array([1, 0, 1, 0, 1, 0, 0, 0]))).answered == 2
    for bits in ([1, 0, 1, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]):
        with pytest.raises(InputError, match=r"device 6 likes what it did not rate, or rated more than 2 items;"):
            aggregate(query, sent(query, np.array(bits)))
