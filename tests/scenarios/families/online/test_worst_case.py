"""Exact worst cases of loss and epsilon: check values, plain searches that know no symmetry, and the bounds."""

import functools
import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pytest
from runs import present

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import PublicFacts, Recommender, Rule, recommender_of
from coordinator.server.online.weighting import Weighting
from scenarios.families.online.online_bounds import (
    epsilon_proved,
    loss_bound,
    loss_lower_bound,
    worst_case_sim,
    worst_loss_sim,
)

# The exact worst-case epsilon of p-REC in tiny environments, over all voters, clients and recommendations.
Group = tuple[tuple[int, int, int], int]
"""(D-strikes, R-strikes, distance) and how many voters have them. Distance: votes for disliked objects; -1: any."""


class State(NamedTuple):
    """What the rest of a search depends on."""

    left: int
    diverse: int
    extra: tuple[int, int]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiny:
    """A tiny environment: at most N voters without the added one, of whom P stay within R."""

    recommender: str
    voters: int
    peers: int
    played: int  # Rounds
    objects: int = 2
    diversity: int = 0
    radius: int = 0
    rounds: int | None = None  # T in the weighting; ``played`` unless given

    @property
    def weighed(self) -> int:
        """T in the weighting."""
        return self.played if self.rounds is None else self.rounds


def worst_case_tiny(tiny: Tiny) -> tuple[float, float]:
    """Return the most that any recommended sequence can become likelier, and less likely, by one voter more [nats]."""
    named = recommender_of(tiny.recommender)
    promise = PublicFacts(
        rounds=tiny.weighed, objects=tiny.objects, diversity=tiny.diversity, radius=tiny.radius, peers=tiny.peers
    )
    search = _Search(
        recommender=named.build(promise),
        rule=named.limits(tiny.diversity, tiny.radius),
        objects=tiny.objects,
        diversity=tiny.diversity,
        radius=tiny.radius,
    )
    worst = [
        search.worst(State(tiny.played, 0, (0, 0), _canonical(Counter({(0, 0, 0): tiny.peers, (0, 0, -1): others}))))
        for others in range(tiny.voters - tiny.peers + 1)
    ]
    return max(plus for plus, _ in worst), max(minus for _, minus in worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    recommender: Recommender
    rule: Rule
    objects: int
    diversity: int
    radius: int
    found: dict[State, tuple[float, float]] = field(default_factory=dict)
    logs: dict[tuple[int, ...], float] = field(default_factory=dict)

    def worst(self, state: State) -> tuple[float, float]:
        """Return the largest ratios of what is left; nothing leaks after the added voter's death."""
        if state.left == 0 or not _survives(self.rule, *state.extra):
            return 0.0, 0.0
        if state not in self.found:
            best = (0.0, 0.0)
            for leak, following in self._moves(state):
                plus, minus = self.worst(following)
                best = max(best[0], plus + leak), max(best[1], minus - leak)
            self.found[state] = best
        return self.found[state]

    def _moves(self, state: State) -> Iterator[tuple[float, State]]:
        """Yield each round that is possible: what it leaks, and the state after it. Object 0 is recommended."""
        for liked in self._likes(state.diverse):
            diverse = state.diverse + (sum(liked) > 1)
            options = [self._votes(group, liked) for group in state.groups]
            after = {self._round(combination) for combination in itertools.product(*options)}
            for (counts, groups), vote in itertools.product(after, range(self.objects)):
                more = tuple(count + (k == vote) for k, count in enumerate(counts))
                extra = self._struck((*state.extra, -1), vote, liked)[:2]
                yield self._log(more) - self._log(counts), State(state.left - 1, diverse, extra, groups)

    def _likes(self, diverse: int) -> Iterator[tuple[bool, ...]]:
        """Yield what the client may like: one object, or more while there is diversity left."""
        most = self.objects if diverse < self.diversity else 1
        for liked in itertools.product((False, True), repeat=self.objects):
            if 1 <= sum(liked) <= most:
                yield liked

    def _votes(
        self, group: Group, liked: tuple[bool, ...]
    ) -> list[tuple[tuple[int, ...], Counter[tuple[int, int, int]]]]:
        """Return how a group's voters may vote: how many for each object, and what becomes of them."""
        strikes, members = group
        allowed = [vote for vote in range(self.objects) if liked[vote] or strikes[2] < self.radius]
        found = []
        for votes in itertools.combinations_with_replacement(allowed, members):
            counts = tuple(votes.count(vote) for vote in range(self.objects))
            after = (self._struck(strikes, vote, liked) for vote in votes)
            found.append((counts, Counter(new for new in after if _survives(self.rule, new[0], new[1]))))
        return found

    def _round(
        self, options: tuple[tuple[tuple[int, ...], Counter[tuple[int, int, int]]], ...]
    ) -> tuple[tuple[int, ...], tuple[Group, ...]]:
        """Add up the groups' votes and survivors."""
        counts = tuple(sum(column) for column in zip(*(votes for votes, _ in options), strict=True))
        return counts or (0,) * self.objects, _canonical(sum((after for _, after in options), Counter()))

    def _struck(self, strikes: tuple[int, int, int], vote: int, liked: tuple[bool, ...]) -> tuple[int, int, int]:
        """Return a voter's strikes after object 0 was recommended."""
        a, b, distance = strikes
        if distance >= 0 and not liked[vote]:
            distance += 1
        return a + (liked[0] and vote != 0), b + (not liked[0] and vote == 0), distance

    def _log(self, counts: tuple[int, ...]) -> float:
        """Return the log-probability that object 0 is recommended."""
        if counts not in self.logs:
            self.logs[counts] = math.log(self.recommender.chances(np.array(counts, np.float64))[0])
        return self.logs[counts]


def _survives(rule: Rule, a: int, b: int) -> bool:
    return b <= rule.radius_strikes and a <= rule.diversity_strikes and a + b <= rule.strikes


def _canonical(groups: Counter[tuple[int, int, int]]) -> tuple[Group, ...]:
    return tuple(sorted((+groups).items()))


@pytest.mark.parametrize(("size", "loss"), [((16, 2, 50), "2.439543291059"), ((256, 4, 1000), "5.3538")])
def test_check_value_6_and_the_specs_example(size: tuple[int, int, int], loss: str) -> None:
    assert f"{worst_loss_sim(*size):.{len(loss) - 2}f}" == loss


def plain(voters: int, peers: int, rounds: int) -> float:
    """The most over clients and votes that may depend on what was recommended, voters told apart."""
    weighting = Weighting(rounds=rounds, objects=2)

    def voting(votes: tuple[int, ...], choice: int, among: frozenset[int]) -> frozenset[int]:
        return frozenset(voter for voter in among if votes[voter] == choice)

    @functools.cache
    def worst(left: int, alive: frozenset[int], perfect: frozenset[int]) -> float:
        if left == 0:
            return 0.0
        found = 0.0
        for liked, votes in itertools.product((0, 1), itertools.product((0, 1), repeat=voters)):
            still = voting(votes, liked, perfect)
            if len(still) < peers:
                continue
            sums = np.bincount([votes[voter] for voter in alive], minlength=2).astype(np.float64)
            loss = 0.0
            for chosen, p in enumerate(weighting.chances(sums)):
                agrees = chosen == liked
                after = voting(votes, chosen, alive) if agrees else alive - voting(votes, chosen, alive)
                loss += float(p) * ((not agrees) + worst(left - 1, after, still))
            found = max(found, loss)
        return found

    sizes = [frozenset(range(size)) for size in range(peers, voters + 1)]
    return max(worst(rounds, everybody, everybody) for everybody in sizes)


@pytest.mark.parametrize(("voters", "peers", "rounds"), [(3, 1, 3), (4, 1, 3), (4, 2, 3)])
def test_the_programme_is_the_plain_search(voters: int, peers: int, rounds: int) -> None:
    assert worst_loss_sim(voters, peers, rounds) == pytest.approx(plain(voters, peers, rounds), rel=1e-12)


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize(("voters", "peers", "rounds"), [(64, 1, 100), (100, 7, 1000), (300, 100, 40)])
def test_it_lies_between_the_bounds(voters: int, peers: int, rounds: int, sharp: bool) -> None:
    found = worst_loss_sim(voters, peers, rounds, sharp=sharp)
    upper = present(loss_bound("p-rec-sharp" if sharp else "p-rec-sim", rounds, 2, voters, peers))
    assert loss_lower_bound(rounds, 2, voters, peers) <= found <= upper


def test_losses_that_would_not_end() -> None:
    with pytest.raises(InputError, match="at most 5000 voters"):
        worst_loss_sim(5001, 1, 10)
    with pytest.raises(InputError, match="voters is 1, fewer"):
        worst_loss_sim(1, 2, 10)


@pytest.mark.parametrize(
    ("size", "plus", "minus"),
    [((20, 5, 100), 3.057734510226, 2.262229832807), ((40, 5, 1000), 5.536460572642, 4.460894467047)],
)
def test_check_value_3_of_epsilon(size: tuple[int, int, int], plus: float, minus: float) -> None:
    assert worst_case_sim(*size) == pytest.approx((plus, minus), abs=1e-12)


LARGE, THREE = ("p-rec-sim", 800, 20, 2), ("p-rec-sim", 200, 10, 3)
SECTION_5 = [(LARGE, 2, "4.1378"), (LARGE, 4, "4.6776"), (LARGE, 6, "4.8534"), (("p-rec-sharp", 800, 20, 2), 6, "3.05")]
SLOW = [(THREE, 2, "7.73"), (THREE, 4, "8.89"), (THREE, 6, "9.46")]


@pytest.mark.whole  # other rounds take other ways through the programme
@pytest.mark.parametrize(
    ("kind", "power", "constant"), [*SECTION_5, *(pytest.param(*case, marks=pytest.mark.thorough) for case in SLOW)]
)
def test_the_tables_of_section_5(kind: tuple[str, int, int, int], power: int, constant: str) -> None:
    """Epsilon P / ln T, T a power of ten; two objects come near what is proved, and sharp weights leak less."""
    name, voters, peers, objects = kind
    epsilon = max(worst_case_sim(voters, peers, 10**power, objects, sharp=name == "p-rec-sharp"))
    assert f"{epsilon * peers / math.log(10**power):.{len(constant) - 2}f}" == constant
    bound = present(epsilon_proved(name, 10**power, objects, voters, peers))
    assert (0.92 * bound if objects == 2 else 0) < epsilon <= bound


@pytest.mark.parametrize("rounds", [10, 1000, 10**8])
@pytest.mark.parametrize("peers", [1, 2, 7])
@pytest.mark.parametrize("objects", [2, 3])
def test_no_worst_case_is_above_the_proved_epsilon(rounds: int, peers: int, objects: int) -> None:
    bound = present(epsilon_proved("p-rec-sim", rounds, objects, 40, peers))
    assert max(worst_case_sim(40, peers, rounds, objects)) <= bound


@pytest.mark.parametrize(("voters", "peers", "objects", "rounds"), [(5, 1, 2, 50), (6, 2, 2, 1000), (4, 1, 3, 100)])
def test_the_exhaustive_search_finds_the_same(voters: int, peers: int, objects: int, rounds: int) -> None:
    """The programme grants all the rounds that it wants; eight are enough here."""
    tiny = Tiny(recommender="p-rec-sim", voters=voters, peers=peers, played=8, objects=objects, rounds=rounds)
    assert worst_case_sim(voters, peers, rounds, objects) == pytest.approx(worst_case_tiny(tiny), rel=1e-12)


@pytest.mark.parametrize(
    ("voters", "objects", "sharp", "words"),
    [(10, 4, False, "objects is 4"), (10**6, 2, False, "voters is 1000000, objects 2"), (10, 3, True, "p-rec-sharp")],
)
def test_epsilons_that_would_not_end(voters: int, objects: int, sharp: bool, words: str) -> None:
    with pytest.raises(InputError, match=words):
        worst_case_sim(voters, 2, 100, objects, sharp=sharp)


@pytest.mark.parametrize(
    ("diversity", "radius", "plus", "minus"), [(1, 0, 2.90467271, 3.78593708), (0, 1, 5.54517744, 4.30176173)]
)
def test_check_value_3(diversity: int, radius: int, plus: float, minus: float) -> None:
    tiny = Tiny(recommender="p-rec", voters=2, peers=1, played=4, diversity=diversity, radius=radius)
    assert worst_case_tiny(tiny) == pytest.approx((plus, minus), abs=5e-9)


@pytest.mark.few(2)
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
        bound = present(epsilon_proved(name, 1000, objects, voters, peers, diversity, radius))
        assert found[name] <= 0.5 * bound
    assert found["p-rec-lean"] <= found["p-rec"] <= found["p-rec-wide"]
