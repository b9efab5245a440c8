"""Surviving voters against a dictionary a voter: votes by weight, strikes, deaths and exposure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from coordinator.server.online import recommenders
from coordinator.server.online.electorate import Electorate
from coordinator.server.online.recommenders import Rule

LIMITS = [
    recommenders.total(1, 1),
    recommenders.wide(1, 2),
    recommenders.literal(0, 2),
    recommenders.lean(2, 1),
    recommenders.strict(0, 0),
    recommenders.everybody(1, 1),
]


@dataclass
class Voter:
    """One voter by hand."""

    a: int = 0
    b: int = 0
    weight: float = 1.0
    exposure: float = 0.0
    alive: bool = True


def strike(voter: Voter, vote: int, chosen: int, factors: tuple[float, float], rule: Rule, *, liked: bool) -> None:
    """UpdateCreditAndWeight, word by word."""
    voter.weight *= factors[0] if vote == chosen else factors[1]
    if liked and vote != chosen:
        voter.a += 1
    if not liked and vote == chosen:
        voter.b += 1
    voter.alive = voter.b <= rule.radius_strikes and voter.a <= rule.diversity_strikes
    voter.alive = voter.alive and voter.a + voter.b <= rule.strikes


@pytest.mark.parametrize("rule", LIMITS, ids=["total", "wide", "literal", "lean", "strict", "everybody"])
def test_an_electorate_keeps_the_same_books_as_a_record_a_voter(rule: Rule) -> None:
    """Weights are powers of two, so sums are equal to the last bit."""
    world, deaths = np.random.default_rng(11), 0
    for _ in range(30):
        size, objects = int(world.integers(0, 20)), int(world.integers(2, 6))
        electorate, voters = Electorate(size, rule), [Voter() for _ in range(size)]
        for number in range(12):
            votes = world.integers(objects, size=size)
            chosen, liked = int(world.integers(objects)), bool(world.random() < 0.5)
            kicks = min(rule) < recommenders.NO_LIMIT
            factors = (1.0, 1.0) if kicks else ((1.0, 1.0), (0.5, 1.0), (1.0, 0.5), (2.0, 1.0))[world.integers(4)]
            ratios = world.integers(-8, 8, size=objects) / 4
            alive = [(voter, int(vote)) for voter, vote in zip(voters, votes, strict=True) if voter.alive]
            sums = electorate.sums(votes.astype(np.uint8), objects, number)
            assert sums.tolist() == [sum(v.weight for v, vote in alive if vote == k) for k in range(objects)]
            electorate.expose(votes.astype(np.uint8), ratios)
            electorate.learn(votes.astype(np.uint8), chosen, factors, liked=liked)
            for voter, vote in alive:
                voter.exposure += ratios[vote]
                strike(voter, vote, chosen, factors, rule, liked=liked)
            assert electorate.alive.tolist() == [voter.alive for voter in voters]
            assert electorate.survivors.tolist() == [place for place, voter in enumerate(voters) if voter.alive]
            assert electorate.exposure.tolist() == [voter.exposure for voter in voters]
            if kicks:
                assert electorate.first_strikes.tolist() == [voter.a for voter in voters]
                assert electorate.second_strikes.tolist() == [voter.b for voter in voters]
        deaths += sum(not voter.alive for voter in voters)
    assert (deaths > 0) == (min(rule) < recommenders.NO_LIMIT)


def test_survivors_take_new_seats_where_only_they_are_asked() -> None:
    electorate = Electorate(5, recommenders.strict(0, 0))
    electorate.learn(np.array([0, 1, 0, 1, 0], np.uint8), 0, (1.0, 1.0), liked=True)
    assert electorate.survivors.tolist() == [0, 2, 4]
    everybody = np.array([1, 0, 2, 0, 2], np.uint8)
    assert electorate.sums(everybody, 3, 1).tolist() == [0, 1, 2]
    electorate.seat()
    survivors = np.array([2, 1, 1], np.uint8)
    assert electorate.sums(survivors, 3, 1).tolist() == [0, 2, 1]
    electorate.learn(survivors, 2, (1.0, 1.0), liked=False)
    assert electorate.survivors.tolist() == [2, 4]
    assert electorate.second_strikes.tolist() == [1, 0, 0, 0, 0]


def test_strikes_and_exposure_are_frozen_at_death() -> None:
    electorate, votes = Electorate(2, recommenders.strict(0, 0)), np.array([0, 1], np.uint8)
    for _ in range(3):
        electorate.expose(votes, np.array([0.5, 0.25]))
        electorate.learn(votes, 0, (1.0, 1.0), liked=True)
    assert electorate.first_strikes.tolist() == [0, 1]
    assert electorate.exposure.tolist() == [1.5, 0.25]


def test_weights_stay_with_their_voters_where_others_are_kicked_out() -> None:
    """Both at once: no recommender of the list does that, but nothing forbids it."""
    electorate = Electorate(3, recommenders.strict(0, 0))
    votes = np.array([1, 0, 0], np.uint8)
    electorate.learn(votes, 1, (0.5, 2.0), liked=False)
    assert electorate.survivors.tolist() == [1, 2]
    assert electorate.sums(np.array([0, 0, 1], np.uint8), 2, 1).tolist() == [2, 2]


@pytest.mark.parametrize(("votes", "voter", "vote"), [([0, 1, 2], 2, 2), ([255, 0, 0], 0, 255), ([1, 9, 8], 1, 9)])
def test_a_vote_for_no_object_names_round_voter_and_object(votes: list[int], voter: int, vote: int) -> None:
    electorate = Electorate(3, recommenders.lean(1, 1))
    with pytest.raises(InputError) as raised:
        electorate.sums(np.array(votes, np.uint8), 2, 41)
    line = f"round 41: voter {voter} votes for object {vote}, which is none of 2; a vote is one number from 0 to 1"
    assert str(raised.value) == line


def test_all_256_objects_can_be_voted_for() -> None:
    electorate = Electorate(256, recommenders.everybody(0, 0))
    assert electorate.sums(np.arange(256, dtype=np.uint8), 256, 0).tolist() == [1] * 256
