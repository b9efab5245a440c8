"""Rounds: one after the other, stored and replayed, and in step where a round must be stored before the next."""

from __future__ import annotations

import dataclasses
import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from threading import Thread
from typing import cast

import numpy as np
import pytest
import worlds

from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.messages import Query, Release
from coordinator.server.decoding.line import decode
from coordinator.server.design import Decoding
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.fleet.coordinator_actor import HELD_PAUSE, MOST_HELD, Coordinator
from coordinator.server.mechanisms import aggregate as aggregate_any
from coordinator.server.mechanisms import half_of, no_release
from coordinator.server.mechanisms.maxsense import MaxSense
from coordinator.server.mechanisms.oracles import Grr
from coordinator.server.mechanisms.pairwise import Pairwise
from coordinator.server.rounds.conductor import Fleet
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from coordinator.server.rounds.rounds import Round, conduct
from coordinator.server.rounds.state import Ask, RunProgress, ServerState, absorb, total
from coordinator.server.rounds.transcript import chain, digest
from coordinator.server.statistics.scores import ScoreStatistic
from coordinator.server.statistics.scores import aggregate_scores as aggregate

WORLD = worlds.world(items=12, rated=6, like=((1.0, 0.0),))
DESIGN = MaxSense(items=12, rated=6)
POLICY = OneRound(design=DESIGN, epsilon=None, public_seed=worlds.PUBLIC)
LEARNER = SumLearner(half=half_of("maxsense"), how=Decoding(clusters=2, decoder="centred"))


@dataclass
class Oracle:
    """Answers from the oracle, in blocks of 40 that arrive last first, and remembers what it was asked."""

    asked: list[Ask] = field(default_factory=list)
    released: list[list[Release]] = field(default_factory=list)

    def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
        self.asked.append(ask)
        blocks = [range(first, min(first + 40, ask.stop)) for first in range(ask.first, ask.stop, 40)]
        releases = [
            worlds.release_of(ask.query, worlds.expected_bits(WORLD, ask.query, block), first=block.start)
            for block in reversed(blocks)
        ]
        self.released.append(releases)
        return sum(
            (aggregate(ask.query, one) for one in releases), start=worlds.empty_statistic(ask.query.items)
        ), releases


@dataclass(frozen=True)
class ThreeRounds:
    """Asks a hundred fresh devices a round, three times."""

    def next_query(self, state: ServerState) -> Ask | None:
        if len(state.asked) == 3:
            return None
        query = DESIGN.query(round_number=len(state.asked), public_seed=worlds.PUBLIC, epsilon=Fraction(3))
        return Ask(query=query, first=state.fresh, stop=state.fresh + 100)


def test_one_round_asks_everybody_once_and_stops() -> None:
    state = ServerState(devices=70)
    ask = POLICY.next_query(state)
    assert ask is not None
    assert (ask.first, ask.stop, ask.query.round, ask.query.design) == (0, 70, 0, "maxsense")
    assert ask.query.id == DESIGN.query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None).id
    assert POLICY.next_query(state) == ask
    assert POLICY.next_query(absorb(state, ask, worlds.empty_statistic(12))) is None


def test_a_run_learns_the_planted_model_and_keeps_what_it_saw() -> None:
    transport = Oracle()
    outcome = conduct(POLICY, LEARNER, transport, devices=800)
    assert outcome.model.cluster.tolist() == list(WORLD.clusters)
    assert outcome.state.asked == tuple(transport.asked)
    assert len(transport.asked) == 1
    assert [counts.asked for counts in outcome.state.counts] == [800]
    assert outcome.releases_sha256 == digest(transport.released[0]).hex()
    bits = worlds.expected_bits(WORLD, transport.asked[0].query, range(800))
    assert outcome.releases_sha256 == digest([worlds.release_of(transport.asked[0].query, bits)]).hex()


def test_rounds_go_to_fresh_devices_and_add_up() -> None:
    transport = Oracle()
    rounds: list[Round] = []
    outcome = conduct(ThreeRounds(), LEARNER, transport, devices=300, keep=rounds.append)
    assert [(ask.first, ask.stop, ask.query.round) for ask in transport.asked] == [
        (0, 100, 0),
        (100, 200, 1),
        (200, 300, 2),
    ]
    assert outcome.state.fresh == 300
    merged = total(outcome.state)
    assert isinstance(merged, ScoreStatistic)
    assert (merged.devices, merged.answered) == (300, 300)
    np.testing.assert_array_equal(merged.scores, sum(cast("ScoreStatistic", over.statistic).scores for over in rounds))
    model = decode(merged, sensing=DESIGN.sensing, clusters=2, decoder="centred")
    np.testing.assert_array_equal(model.score, outcome.model.score)
    assert outcome.releases_sha256 == chain([digest(releases) for releases in transport.released])


@pytest.mark.parametrize("damage", ["lost", "doubled"])
def test_lost_and_doubled_releases_do_not_pass(damage: str) -> None:
    class Damaged(Oracle):
        def ask(self, ask: Ask) -> tuple[ScoreStatistic, Sequence[Release]]:
            statistic, releases = super().ask(ask)
            return statistic, [*releases[:2], *releases[3:]] if damage == "lost" else [*releases, releases[1]]

    with pytest.raises(ValueError, match="does not follow"):
        conduct(POLICY, LEARNER, Damaged(), devices=400)


def test_states_are_values() -> None:
    state = ServerState(devices=10)
    ask = POLICY.next_query(state)
    assert ask is not None
    later = absorb(state, ask, worlds.empty_statistic(12))
    assert (state.asked, state.counts, state.fresh) == ((), (), 0)
    assert (later.asked, later.devices, later.fresh) == ((ask,), 10, 10)
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.devices = 3  # type: ignore[misc]  # what is tried


class Pairs:
    """Pairs of items, round by round, for a round's statistic of megabytes."""

    design = Pairwise(items=500)

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
        state = absorb(state, ask, aggregate_any(ask.query, no_release(ask.query)))
        sizes.append(len(pickle.dumps(state)))
    assert sizes[0] > 4_000_000
    assert sizes[-1] - sizes[0] < 19 * 1000


def test_nothing_asked_is_nothing_learned() -> None:
    with pytest.raises(ValueError, match="asked nothing"):
        LEARNER.learn(ServerState(devices=10))


def test_a_wrong_learner_is_an_input_error() -> None:
    with pytest.raises(InputError, match="decoder"):
        conduct(
            POLICY, SumLearner(half=half_of("maxsense"), how=Decoding(clusters=2, decoder="best")), Oracle(), devices=40
        )


def test_a_design_other_than_the_runs_is_refused_under_every_decoder() -> None:
    """Its answers would be decoded as another mechanism's; a stored round of it is none of this run's, either."""
    other = OneRound(design=Grr(items=12, rated=6), epsilon=Fraction(1), public_seed=worlds.PUBLIC)
    oracle = Oracle()
    with pytest.raises(PolicyError, match="round 0: it asks design 'grr'; the run's design is 'maxsense'"):
        conduct(other, LEARNER, oracle, devices=40)
    assert not oracle.asked
    ask = other.next_query(ServerState(devices=40))
    assert ask is not None
    stored = Round(ask=ask, statistic=aggregate_any(ask.query, no_release(ask.query)), digest=bytes(32))
    with pytest.raises(PolicyError, match="it asks design 'grr'; the run's design is 'maxsense'"):
        conduct(POLICY, LEARNER, oracle, devices=40, earlier=[stored])


ROUNDS = 2 * MOST_HELD
PATIENCE = 30.0


@dataclass
class Counting:
    """Rounds that are their numbers; it knows how many were begun."""

    in_step: bool
    own: None = None
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
