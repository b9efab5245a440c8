"""A constructive adversary of p-REC for sizes at which no search ends: a lower bound on its worst-case epsilon, m = 2.

Ours, after the spec's section 6. The plan comes from a linear programme over block sizes in geometric progression; what
it leaks is measured with the coordinator's own code.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from coordinator.protocol.arrays import Bits, Ints
from coordinator.protocol.errors import InputError
from coordinator.server.online.electorate import Electorate
from coordinator.server.online.recommender import Promise
from coordinator.server.online.recommenders import bounded_names, recommender_of, still_names
from coordinator.server.online.service import by_sequence
from scenarios.online.conditions import check
from scenarios.online.constructive_plan import Action, AttackPlan, Game, RoundKind, plan
from scenarios.online.replay import Pattern, likes_of, replay

_RATIOS = (0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.7, 0.8, 0.85)
_MOST_BLOCKS = 12
_LIKED: dict[RoundKind, tuple[int, ...]] = {"liked": (0,), "both": (0, 1), "disliked": (1,)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A client, voters and recommendations; the added voter is the last one.

    Attributes
    ----------
    epsilon : float
        Log-likelihood ratio of the recommendations with and without the added voter, as measured [nats]; epsilon of the
        recommender is at least that.
    plus : bool
        Whether the added voter makes them likelier.
    sizes : tuple of int
        Blocks of voters that are no peers.
    pattern : Pattern
        Votes and likes; object 0 is always recommended.
    """

    epsilon: float
    plus: bool
    sizes: tuple[int, ...]
    pattern: Pattern = field(repr=False)

    @property
    def played(self) -> int:
        """Rounds that it takes."""
        return len(self.pattern.votes)

    @property
    def diversity(self) -> int:
        """Rounds in which the client likes both objects."""
        return int((self.pattern.likes.sum(axis=1) > 1).sum())

    @property
    def distances(self) -> Ints:
        """In how many rounds each voter but the added one votes for a disliked object."""
        votes, likes = self.pattern.votes[:, :-1], self.pattern.likes
        found: Ints = (~likes[np.arange(len(votes))[:, None], votes]).sum(axis=0)
        return found


def attack(recommender: str, rounds: int, voters: int, peers: int, diversity: int = 0, radius: int = 0) -> Attack:
    """Return the best attack found.

    Parameters
    ----------
    recommender : str
        One by weight that never kicks a peer out.
    rounds : int
        T.
    voters, peers : int
        At most N voters without the added one, at least P peers.
    diversity, radius : int
        D and R.

    Returns
    -------
    Attack

    Raises
    ------
    InputError
        For other recommenders, or numbers that cannot be.
    """
    check(rounds, 2, voters, peers, diversity, radius)
    named = recommender_of(recommender)
    if not named.bounded_at(diversity, radius) or named.weighting is None:
        raise InputError(
            f"recommender is {recommender!r} with diversity {diversity} and radius {radius}: attacks are built against "
            f"{', '.join(bounded_names())} ({', '.join(still_names())} at D = R = 0); choose one of them"
        )
    promise = Promise(rounds=rounds, objects=2, diversity=diversity, radius=radius, peers=peers)
    weighting = named.weighting(rounds, 2)
    rule = named.limits(diversity, radius)
    found = [
        _best(Game(weighting=weighting, rule=rule, peers=peers, diversity=diversity, radius=radius, plus=plus), voters)
        for plus in (True, False)
    ]
    return max((_measured(recommender, promise, *one) for one in found), key=lambda one: one.epsilon)


def _best(game: Game, voters: int) -> tuple[Game, AttackPlan, Pattern]:
    """Return the plan that leaks most and fits into the rounds."""
    sizes = [_blocks(voters, game.peers, ratio) for ratio in _RATIOS]
    leak = functools.cache(lambda sizes: plan(game, sizes, whole=False).leak)
    for blocks in range(max(len(one) for one in sizes), -1, -1):  # fewer blocks where rounds are few
        whole = plan(game, max(sorted({one[:blocks] for one in sizes}), key=leak), whole=True)
        pattern = _Director(game, whole).pattern()
        if len(pattern.votes) <= game.weighting.rounds:
            break
    return game, whole, pattern


def _blocks(voters: int, peers: int, ratio: float) -> tuple[int, ...]:
    """Return sizes of blocks such that survivors shrink by a constant ratio."""
    living = [peers]
    while living[-1] < voters and len(living) <= _MOST_BLOCKS:
        living.append(min(max(living[-1] + 1, round(living[-1] / ratio)), voters))
    return tuple(np.diff(living).tolist())


def _measured(recommender: str, promise: Promise, game: Game, whole: AttackPlan, pattern: Pattern) -> Attack:
    """Replay the attack by the coordinator's code."""
    served = replay(recommender, promise, pattern, by_sequence(np.zeros(len(pattern.votes), np.uint8)))
    ratio = float(served.exposure[-1])
    return Attack(epsilon=ratio if game.plus else -ratio, plus=game.plus, sizes=whole.sizes, pattern=pattern)


class _Director:
    """Writes a plan down, round by round: peers come first, then blocks, then the added voter."""

    def __init__(self, game: Game, whole: AttackPlan) -> None:
        self._game, self._plan = game, whole
        self._ends = np.concatenate([[0, game.peers], game.peers + np.cumsum(whole.sizes)]).astype(int)
        self._distance = np.zeros(game.peers, np.int64)
        self._electorate = Electorate(int(self._ends[-1]), game.rule)
        self._votes, self._liked = list[Bits](), list[tuple[int, ...]]()

    def pattern(self) -> Pattern:
        """Return all rounds, at least one."""
        for stage in range(len(self._plan.sizes), -1, -1):
            for action, times in sorted(self._plan.actions, key=self._order):
                for _ in range(times if action.stage == stage else 0):
                    self._play(action)
            while stage and self._electorate.alive[self._ends[stage]]:
                self._play(Action(stage, stage, 0, "liked" if self._game.plus else "disliked"))
        if not self._votes:
            self._play(Action(0, 1, 0, "liked"))
        votes = np.array(self._votes, np.uint8)
        group = np.arange(votes.shape[1], dtype=np.int32)
        return Pattern(likes=likes_of(self._liked, 2), votes=votes, group=group)

    def _order(self, one: tuple[Action, int]) -> tuple[bool, bool]:
        """Order a stage: what strikes its block last; there, and where the added voter dies, the deadly kind last."""
        action, disliked = one[0], one[0].kind == "disliked"
        strikes = action.block <= action.stage
        return strikes, disliked if strikes or self._game.plus else not disliked

    def _play(self, action: Action) -> None:
        """Write a round down: the struck vote against the client's answer, peers in turn."""
        disliked = action.kind == "disliked"
        votes = np.full(int(self._ends[-1]) + 1, 1 if disliked else 0, np.uint8)
        struck = 1 - votes[0]
        if action.block <= action.stage:
            votes[self._ends[action.block] : self._ends[action.stage + 1]] = struck
        turn = np.argsort(self._distance, kind="stable")[: action.peers]
        votes[turn] = struck
        if action.kind != "both":
            self._distance[turn] += 1
        votes[-1] = 0 if self._game.plus else 1
        self._votes.append(votes)
        self._liked.append(_LIKED[action.kind])
        self._advance(votes[:-1], liked=not disliked)

    def _advance(self, votes: Bits, *, liked: bool) -> None:
        """Let the coordinator's rule strike and kick out."""
        alive = self._electorate.survivors
        self._electorate.seat()
        self._electorate.learn(votes[alive], 0, (1.0, 1.0), liked=liked)
