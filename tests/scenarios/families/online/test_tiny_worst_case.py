"""The exhaustive search against a plain one that knows no symmetry, check values, and the bounds."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator

import pytest
from tiny_worst_case import Tiny, worst_case_tiny

from coordinator.server.online.recommender import Rule
from coordinator.server.online.recommenders import named_recommenders
from scenarios.families.online.bounds import epsilon_proved


@functools.cache
def log_chance(rounds: int, sharp: bool, counts: tuple[int, ...], recommended: int) -> float:
    """Equation (2) as it is written."""
    m, n = len(counts), sum(counts)
    if n == 0:
        return -math.log(m)
    steepness, rho = (2 * math.log(rounds), 0.0) if sharp else (2 * m * math.log(rounds), 1 / (2 * m))
    phi = [math.exp(steepness * c / n) - math.exp(steepness * rho) if c / n > rho else 0.0 for c in counts]
    return math.log(1 / (rounds * m) + (1 - 1 / rounds) * phi[recommended] / sum(phi))


class Brute:
    """All clients, votes, added voters and sequences, one after the other."""

    def __init__(self, tiny: Tiny) -> None:
        self.tiny = tiny
        self.rule: Rule = named_recommenders()[tiny.recommender].limits(tiny.diversity, tiny.radius)
        self.likes = [row for row in itertools.product((False, True), repeat=tiny.objects) if any(row)]
        self.plus = self.minus = 0.0

    def run(self) -> tuple[float, float]:
        for voters in range(self.tiny.peers, self.tiny.voters + 1):
            self.play(0, 0, ((0, 0, 0),) * (voters + 1), 0.0)
        return self.plus, self.minus

    def play(self, number: int, diverse: int, voters: tuple[tuple[int, int, int], ...], ratio: float) -> None:
        """Play on; the added voter is the last one, and each has its strikes and its distance."""
        near = sum(distance <= self.tiny.radius for _, _, distance in voters[:-1])
        if near < self.tiny.peers:
            return
        self.plus, self.minus = max(self.plus, ratio), max(self.minus, -ratio)
        if number == self.tiny.played:
            return
        for liked in self.likes:
            if diverse + (sum(liked) > 1) > self.tiny.diversity:
                continue
            for votes, chosen in self.rounds(len(voters)):
                leak = self.leak(voters, votes, chosen)
                after = tuple(self.struck(*one) for one in zip(voters, votes, itertools.repeat((chosen, liked))))
                self.play(number + 1, diverse + (sum(liked) > 1), after, ratio + leak)

    def rounds(self, voters: int) -> Iterator[tuple[tuple[int, ...], int]]:
        objects = range(self.tiny.objects)
        return itertools.product(itertools.product(objects, repeat=voters), objects)

    def alive(self, a: int, b: int) -> bool:
        return b <= self.rule.radius_strikes and a <= self.rule.diversity_strikes and a + b <= self.rule.strikes

    def leak(self, voters: tuple[tuple[int, int, int], ...], votes: tuple[int, ...], chosen: int) -> float:
        counts = [0] * self.tiny.objects
        for (a, b, _), vote in zip(voters[:-1], votes[:-1], strict=True):
            counts[vote] += self.alive(a, b)
        more = list(counts)
        more[votes[-1]] += self.alive(*voters[-1][:2])
        T, sharp = self.tiny.weighed, self.tiny.recommender == "p-rec-sharp"
        return log_chance(T, sharp, tuple(more), chosen) - log_chance(T, sharp, tuple(counts), chosen)

    def struck(
        self, voter: tuple[int, int, int], vote: int, answer: tuple[int, tuple[bool, ...]]
    ) -> tuple[int, int, int]:
        a, b, distance = voter
        chosen, liked = answer
        if self.alive(a, b):
            a += liked[chosen] and vote != chosen
            b += not liked[chosen] and vote == chosen
        return a, b, distance + (not liked[vote])


INSTANCES = [
    Tiny(recommender="p-rec", voters=1, peers=1, played=3, diversity=1, radius=1),
    Tiny(recommender="p-rec", voters=2, peers=1, played=3, diversity=1, rounds=50),
    Tiny(recommender="p-rec", voters=2, peers=1, played=3, radius=1, rounds=1000),
    Tiny(recommender="p-rec-lean", voters=2, peers=2, played=3, diversity=1, radius=1, rounds=20),
    Tiny(recommender="p-rec-lean", voters=2, peers=1, played=3, radius=1, rounds=1000),
    Tiny(recommender="p-rec-wide", voters=2, peers=1, played=3, radius=1, rounds=9),
    Tiny(recommender="p-rec-literal", voters=2, peers=1, played=3, radius=1, rounds=30),
    Tiny(recommender="p-rec-sharp", voters=2, peers=1, played=3, radius=1, rounds=30),
    Tiny(recommender="p-rec", voters=1, peers=1, played=2, objects=3, diversity=1, radius=1, rounds=40),
    Tiny(recommender="p-rec-sim", voters=3, peers=1, played=2, rounds=100),
    Tiny(recommender="p-rec-lean", voters=2, peers=1, played=2, objects=3, radius=1, rounds=40),
]


@pytest.mark.parametrize("tiny", INSTANCES, ids=lambda tiny: f"{tiny.recommender}-{tiny.voters}-{tiny.played}")
def test_the_search_is_brute_force(tiny: Tiny) -> None:
    assert worst_case_tiny(tiny) == pytest.approx(Brute(tiny).run(), rel=1e-10)


@pytest.mark.parametrize(
    ("diversity", "radius", "plus", "minus"), [(1, 0, 2.90467271, 3.78593708), (0, 1, 5.54517744, 4.30176173)]
)
def test_check_value_3(diversity: int, radius: int, plus: float, minus: float) -> None:
    tiny = Tiny(recommender="p-rec", voters=2, peers=1, played=4, diversity=diversity, radius=radius)
    assert worst_case_tiny(tiny) == pytest.approx((plus, minus), abs=5e-9)


@pytest.mark.parametrize(("diversity", "radius"), [(0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("voters", "peers", "objects"), [(2, 1, 2), (3, 2, 2), (2, 1, 3)])
def test_worst_cases_keep_their_order_and_their_bounds(
    diversity: int, radius: int, voters: int, peers: int, objects: int
) -> None:
    """Rule B leaks no more than Rule A, lean no more than Rule B; none as much as is proved (T = 1000)."""
    found = {}
    for name in ("p-rec-lean", "p-rec", "p-rec-wide"):
        tiny = Tiny(
            recommender=name,
            voters=voters,
            peers=peers,
            played=4 if objects == 2 else 3,
            objects=objects,
            diversity=diversity,
            radius=radius,
            rounds=1000,
        )
        found[name] = max(worst_case_tiny(tiny))
        bound = epsilon_proved(name, 1000, objects, voters, peers, diversity, radius)
        assert bound is not None
        assert found[name] <= 0.5 * bound
    assert found["p-rec-lean"] <= found["p-rec"] <= found["p-rec-wide"]
