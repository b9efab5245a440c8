"""Kick-out rules: check values, and that no peer is ever kicked out, by all tiny environments and by random ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from coordinator.protocol.arrays import Bits, Bools
from coordinator.server.online import recommenders
from coordinator.server.online.electorate import Electorate
from coordinator.server.online.recommenders import NO_LIMIT, Limits, Rule

SOUND = [recommenders.total, recommenders.wide, recommenders.lean]


def after(rule: Rule, votes: Bits, recommended: list[int], liked: list[bool]) -> Electorate:
    """The electorate after rounds of ``votes`` (rounds, voters), by the coordinator's code."""
    electorate = Electorate(votes.shape[1], rule)
    for row, chosen, answer in zip(votes, recommended, liked, strict=True):
        electorate.seat()
        electorate.learn(np.ascontiguousarray(row[electorate.survivors]), chosen, (1.0, 1.0), liked=answer)
    return electorate


def test_check_value_7() -> None:
    """The literal rule kicks out a peer that spends its distance while another, liked object is recommended."""
    votes = np.array([[1, 0, 0]], np.uint8)
    assert after(recommenders.literal(0, 1), votes, [0], [True]).alive.tolist() == [False, True, True]
    for rule in SOUND:
        assert after(rule(0, 1), votes, [0], [True]).alive.tolist() == [True] * 3


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (recommenders.total, (6, NO_LIMIT, 10)),
        (recommenders.wide, (6, 10, NO_LIMIT)),
        (recommenders.literal, (6, 4, NO_LIMIT)),
        (recommenders.lean, (3, NO_LIMIT, 5)),
        (recommenders.strict, (0, 0, 0)),
        (recommenders.everybody, (NO_LIMIT, NO_LIMIT, NO_LIMIT)),
    ],
)
def test_limits_at_diversity_2_and_radius_3(rule: Limits, expected: tuple[int, int, int]) -> None:
    assert rule(2, 3) == expected


@pytest.mark.parametrize("rule", [*SOUND, recommenders.literal])
def test_without_diversity_and_radius_the_first_strike_kills(rule: Limits) -> None:
    votes = np.array([[0, 1]], np.uint8)
    assert after(rule(0, 0), votes, [0], [True]).alive.tolist() == [True, False]
    assert after(rule(0, 0), votes, [0], [False]).alive.tolist() == [False, True]


def kicked_out(rule: Limits, rounds: int, objects: int = 2) -> int:
    """Peers kicked out in all environments of so many rounds, one voter for each way to vote.

    D is the number of rounds in which the client likes several objects, the least that is true; R goes from 0 to all.
    """
    votes = np.array(list(itertools.product(range(objects), repeat=rounds)), np.uint8).T
    found = 0
    some = [row for row in itertools.product((False, True), repeat=objects) if any(row)]
    for likes in itertools.product(some, repeat=rounds):
        diversity = sum(sum(row) > 1 for row in likes)
        distance = (~np.take_along_axis(np.array(likes), votes.astype(np.int64), axis=1)).sum(axis=0)
        for recommended in itertools.product(range(objects), repeat=rounds):
            liked = [row[chosen] for row, chosen in zip(likes, recommended, strict=True)]
            for radius in range(rounds + 1):
                alive = after(rule(diversity, radius), votes, list(recommended), liked).alive
                found += int(np.count_nonzero(~alive & (distance <= radius)))
    return found


@pytest.mark.parametrize("rule", SOUND)
def test_no_peer_is_ever_kicked_out_of_a_tiny_environment(rule: Limits) -> None:
    assert kicked_out(rule, 4) == 0
    assert kicked_out(rule, 2, objects=3) == 0


def test_the_literal_rule_kicks_peers_out_and_so_would_a_lean_rule_with_one_credit_less() -> None:
    assert kicked_out(recommenders.literal, 3) > 0

    def stingy(diversity: int, radius: int) -> Rule:
        return Rule(radius, NO_LIMIT, max(diversity + radius - 1, 0))

    assert kicked_out(stingy, 3) > 0


@st.composite
def environments(draw: st.DrawFn) -> tuple[Bools, Bits, list[int]]:
    """Likes (at least one a round), votes of twenty voters, and recommendations of three objects."""
    rounds = draw(st.integers(1, 30))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    likes = generator.random((rounds, 3)) < draw(st.sampled_from([0.1, 0.5]))
    likes[np.arange(rounds), generator.integers(3, size=rounds)] = True
    votes = generator.integers(3, size=(rounds, 20), dtype=np.uint8)
    first = likes.argmax(axis=1)
    loyal = generator.random((rounds, 20)) < generator.random(20)
    votes = np.where(loyal, first[:, None], votes).astype(np.uint8)
    return likes, votes, [int(chosen) for chosen in generator.integers(3, size=rounds)]


@settings(max_examples=examples(200))
@given(environment=environments(), rule=st.sampled_from(SOUND))
def test_no_peer_is_ever_kicked_out_of_a_random_environment(
    environment: tuple[Bools, Bits, list[int]], rule: Limits
) -> None:
    likes, votes, recommended = environment
    diversity = int((likes.sum(axis=1) > 1).sum())
    distance = (~np.take_along_axis(likes, votes.astype(np.int64), axis=1)).sum(axis=0)
    liked = [bool(row[chosen]) for row, chosen in zip(likes, recommended, strict=True)]
    for radius in np.unique(distance):
        alive = after(rule(diversity, int(radius)), votes, recommended, liked).alive
        assert alive[distance <= radius].all()
