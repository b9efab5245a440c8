"""Devices that send what none can have let out: the round ends with an error that names them, nothing is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
import ray
import worlds

from actors.device import Cohort
from actors.host import DeviceHost
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Query, Release, pack
from coordinator.server.design import Decoding, World
from coordinator.server.fleet.cohorts import Cohorts, Layout
from coordinator.server.fleet.coordinator_actor import Coordinator
from coordinator.server.mechanisms import aggregate, half_of, server_halves
from coordinator.server.mechanisms.oracles import Grr
from coordinator.server.mechanisms.toys import Reveal
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.rounds import Outcome, QueryPlan, conduct
from coordinator.server.rounds.state import Ask, ServerState
from coordinator.server.statistics.statistic import Statistic, merge

DESIGN, LEARNER = Grr(items=12, rated=6), SumLearner(half=half_of("grr"), how=Decoding(clusters=2, decoder="k-means"))
RATINGS = worlds.block_ratings(worlds.world(items=12, rated=6), 400)
BLOCK, EACH, USERS = 40, 120, 240
TOLD = "the release of devices 160 to 199 is no answer to query 1 (grr, epsilon 3, id "
WHY = "): it reports 15, numbers end at 12; their process runs other code than the server, start it anew with the same"


LIE = pack(np.ones((BLOCK, 4), np.uint8))
"""A block's bits: everybody reports 15, where there are thirteen values."""


@dataclass(frozen=True)
class Rounds:
    """So many rounds, each of fresh devices."""

    many: int

    def next_query(self, state: ServerState) -> Ask | None:
        if len(state.asked) == self.many:
            return None
        query = DESIGN.query(round_number=len(state.asked), public_seed=worlds.PUBLIC, epsilon=Fraction(3))
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
    honest = conduct(Rounds(1), LEARNER, Devices(), devices=USERS)
    assert honest.failure is None
    assert len(outcome.state.asked) == 1
    assert outcome.releases_sha256 == honest.releases_sha256
    assert outcome.model.score.tolist() == honest.model.score.tolist()


def test_a_value_that_there_is_not_ends_the_round_and_nothing_of_it_is_learned() -> None:
    require_only_the_first_round(conduct(Rounds(2), LEARNER, Devices(), devices=USERS))


@pytest.mark.cluster
@pytest.mark.parametrize("sends", ["a value that there is not", "no release"])
def test_the_same_on_ray(lent: None, sends: str) -> None:
    """One of three processes of devices runs other code; whether its aggregator finds it or the coordinator."""
    lie = LIE

    class Liar(DeviceHost):  # defined here, it travels with its code
        def ask(self, question: Any, first: int, stop: int, *_: Any) -> Any:
            told = super().ask(question, first, stop)
            return told if first != 160 else replace(told, bits=lie) if sends != "no release" else "nothing"

    bounds = [(0, 160), (160, 200), (200, 240)]
    host = ray.remote(num_cpus=0)(Liar)
    hosts = [host.remote(partial(Cohort, budget=None), RATINGS, worlds.SECRET, [bound]) for bound in bounds]
    layout = Layout(devices=USERS, workers=1, devices_per_actor=USERS)
    plan = QueryPlan(policy=Rounds(2), learner=LEARNER, devices=USERS)
    server = Coordinator(plan, {"devices": Cohorts(bounds=bounds, hosts=hosts)}, layout)
    outcome, _ = server.run()
    if sends != "no release":
        require_only_the_first_round(outcome)
    else:
        told = "devices 160 to 199 sent what is no answer: a Release is expected here, not a str"
        assert outcome.failure == f"policy Rounds, round 1: InputError: {told}"
        assert len(outcome.state.asked) == 1


def sent(query: Query, bits: np.ndarray[Any, Any]) -> Release:
    """Two devices' release; the second one's bits are told."""
    rows = np.zeros((2, query.bits), np.uint8)
    rows[1] = bits
    return Release(query_id=query.id, first=5, count=2, width=query.bits, bits=pack(rows))


@pytest.mark.parametrize("name", ["grr", "olh"])
def test_numbers_beyond_the_range_of_an_oracle_are_refused(name: str) -> None:
    half = server_halves()[name]
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
    query = Reveal(name=name, items=4, most=2).query(round_number=0, public_seed=worlds.PUBLIC, epsilon=None)
    assert aggregate(query, sent(query, np.array([1, 0, 1, 0, 1, 0, 0, 0]))).answered == 2
    for bits in ([1, 0, 1, 0, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]):
        with pytest.raises(InputError, match=r"device 6 likes what it did not rate, or rated more than 2 items;"):
            aggregate(query, sent(query, np.array(bits)))
