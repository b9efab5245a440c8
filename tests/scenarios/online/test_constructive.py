"""The constructive adversary: it is legal, measured, above the spec's prototype and below what is proved."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommender import Promise
from coordinator.server.online.service import by_sequence
from scenarios.online.constructive import Attack, attack
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.online.replay import Pattern, replay
from scenarios.online.sim_worst_case import worst_case_sim
from scenarios.online.tiny_worst_case import Tiny, worst_case_tiny


def twice(recommender: str, found: Attack, rounds: int, peers: int, diversity: int, radius: int) -> float:
    """The log-likelihood ratio by two whole runs, with and without the added voter."""
    promise = Promise(rounds=rounds, objects=2, diversity=diversity, radius=radius, peers=peers)
    pick = by_sequence(np.zeros(found.played, np.uint8))
    pattern = found.pattern
    without = Pattern(likes=pattern.likes, votes=pattern.votes, group=pattern.group[:-1])
    return (
        replay(recommender, promise, pattern, pick).log_likelihood
        - replay(recommender, promise, without, pick).log_likelihood
    )


@pytest.mark.parametrize(
    ("recommender", "diversity", "radius", "least"),
    [
        ("p-rec", 8, 8, 186.7),
        ("p-rec-lean", 8, 8, 144.2),
        ("p-rec", 32, 8, 394.9),
        ("p-rec-lean", 32, 8, 303.6),
    ],
)
def test_it_reaches_the_specs_prototype(recommender: str, diversity: int, radius: int, least: float) -> None:
    found = attack(recommender, 10**6, 640, 40, diversity, radius)
    assert found.epsilon * 40 / math.log(10**6) > least
    bound = epsilon_proved(recommender, 10**6, 2, 640, 40, diversity, radius)
    assert bound is not None
    assert 0.4 * bound < found.epsilon <= bound


@pytest.mark.parametrize("recommender", ["p-rec", "p-rec-lean", "p-rec-wide", "p-rec-sharp"])
@pytest.mark.parametrize(
    ("rounds", "voters", "peers", "diversity", "radius"),
    [(1000, 20, 4, 2, 3), (10, 12, 4, 2, 2), (1000, 5, 5, 1, 1), (1000, 9, 1, 2, 0)],
)
def test_it_is_legal_and_measured(
    recommender: str, rounds: int, voters: int, peers: int, diversity: int, radius: int
) -> None:
    found = attack(recommender, rounds, voters, peers, diversity, radius)
    assert 1 <= found.played <= rounds
    assert found.diversity <= diversity
    assert np.count_nonzero(found.distances <= radius) >= peers
    assert found.distances.size <= voters
    measured = twice(recommender, found, rounds, peers, diversity, radius)
    assert (measured if found.plus else -measured) == pytest.approx(found.epsilon, abs=1e-9)
    bound = epsilon_proved(recommender, rounds, 2, voters, peers, diversity, radius)
    assert bound is not None
    assert 0 < found.epsilon <= bound


def test_it_is_below_the_exact_worst_case() -> None:
    exact = max(worst_case_sim(100, 5, 1000))
    assert 0.75 * exact < attack("p-rec-sim", 1000, 100, 5).epsilon <= exact * (1 + 1e-12)
    tiny = Tiny(recommender="p-rec", voters=3, peers=1, played=6, radius=1)
    assert attack("p-rec", 6, 3, 1, 0, 1).epsilon <= max(worst_case_tiny(tiny)) * (1 + 1e-12)


def test_what_is_not_attacked() -> None:
    with pytest.raises(InputError, match="recommender is 'dsybil'"):
        attack("dsybil", 100, 30, 4)
    with pytest.raises(InputError, match="p-rec-sim at D = R = 0"):
        attack("p-rec-sim", 100, 30, 4, 1, 0)
    with pytest.raises(InputError, match="fewer than peers"):
        attack("p-rec", 100, 3, 4)
