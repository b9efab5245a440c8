"""The exact worst-case epsilon of p-REC in tiny environments, over all voters, clients and recommendations.

Source: the spec's section 6. A memoised search over rounds left, diversity used, the added voter's strikes, and how
many peers and other voters have which strikes (peers: and which distance).
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from coordinator.server.online.recommenders import Promise, Recommender, Rule, recommender_of

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
    promise = Promise(
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
