"""The constructive adversary's plan: which voters are struck how often, by a linear programme.

Voters that are no peers stand in blocks that vote alike and die one block after the other. In a stage some blocks live;
each round strikes the block that dies next, perhaps further blocks, and some peers, as often as legality allows. What a
round leaks about the added voter depends only on how many live and how many are struck, so that the number of rounds
of each kind is a linear programme with few constraints.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import optimize, sparse

from coordinator.protocol.arrays import Floats, Ints
from coordinator.protocol.compiled import compiled
from coordinator.server.online.rules import NO_LIMIT, Rule
from coordinator.server.online.weighting import Weighting, chances

RoundKind = Literal["liked", "both", "disliked"]
"""What the client says of the two objects: likes what is recommended, likes both, likes the other one."""
_PEERS_TRIED = 41
_LEAST = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """What the adversary must respect.

    Attributes
    ----------
    weighting : Weighting
        For two objects.
    rule : Rule
        Whom strikes kick out.
    peers, diversity, radius : int
        P, D and R.
    plus : bool
        Whether the added voter is to make the sequence likelier; it votes for what is recommended, and is struck where
        that is disliked. Otherwise it votes for the other object, and is struck where the recommended one is liked.
    """

    weighting: Weighting
    rule: Rule
    peers: int
    diversity: int
    radius: int
    plus: bool

    @property
    def most(self) -> tuple[int, int, int]:
        """D-strikes, R-strikes and strikes in all that a voter can get, the last one deadly."""
        radius, diversity, strikes = self.rule
        if strikes == NO_LIMIT:  # D-strikes come first: they must not be deadly
            return diversity, radius + 1, diversity + radius + 1
        return min(diversity, strikes) + 1, radius + 1, strikes + 1


class Action(NamedTuple):
    """A kind of round.

    Attributes
    ----------
    stage : int
        How many blocks live.
    block : int
        Blocks from this one (1: the last to die) to ``stage`` are struck; none if it is larger.
    peers : int
        How many peers are struck.
    kind : str
        What the client likes.
    """

    stage: int
    block: int
    peers: int
    kind: RoundKind


class AttackPlan(NamedTuple):
    """Sizes of the blocks, the last one to die first; how often each action is taken; and what that leaks [nats]."""

    sizes: tuple[int, ...]
    actions: tuple[tuple[Action, int], ...]
    leak: float


def plan(game: Game, sizes: tuple[int, ...], *, whole: bool) -> AttackPlan:
    """Return the best plan for blocks of given sizes.

    Parameters
    ----------
    game : Game
        The rules.
    sizes : tuple of int
        Voters of each block.
    whole : bool
        Whether rounds are to be whole numbers; otherwise ``leak`` is the relaxation's, quickly.
    """
    actions = _actions(game, sizes)
    gains = _gains(game, sizes, actions)
    useful = np.flatnonzero(gains > _LEAST)
    actions, gains = [actions[k] for k in useful], gains[useful]
    if not actions:
        return AttackPlan(sizes, (), 0.0)
    used, available = _resources(game, len(sizes), actions)
    found = optimize.milp(
        -gains,
        constraints=optimize.LinearConstraint(used, ub=available),
        integrality=np.full(gains.size, int(whole)),
        options={"mip_rel_gap": 2e-3},
    )
    best: Floats = np.zeros(gains.size) if found.x is None else np.asarray(found.x)
    times: Ints = np.floor(best + 1e-6).astype(np.int64)
    taken = tuple((action, int(count)) for action, count in zip(actions, times, strict=True) if count)
    return AttackPlan(sizes, taken, float(gains @ (times if whole else best)))


def _actions(game: Game, sizes: tuple[int, ...]) -> list[Action]:
    """Return all kinds of rounds that strike somebody."""
    numbers = np.unique(np.linspace(0, game.peers, min(game.peers + 1, _PEERS_TRIED)).astype(int)).tolist()
    kinds: tuple[RoundKind, ...] = ("liked", "both", "disliked")
    return [
        Action(stage, block, struck, kind)
        for stage in range(len(sizes) + 1)
        for block in range(1, stage + 2)
        for struck in numbers
        for kind in kinds
        if struck or (block <= stage and kind != "both")
    ]


def _gains(game: Game, sizes: tuple[int, ...], actions: list[Action]) -> Floats:
    """Return what each action leaks in the direction wanted."""
    living = game.peers + np.concatenate([[0], np.cumsum(sizes)])
    n = np.array([living[action.stage] for action in actions], np.int64)
    struck = np.array([living[action.stage] - living[action.block - 1] + action.peers for action in actions], np.int64)
    disliked = np.array([action.kind == "disliked" for action in actions])
    weighting = game.weighting
    ratios = log_ratios(
        np.where(disliked, struck, n - struck),
        n,
        0 if game.plus else 1,
        float(weighting.rounds),
        weighting.steepness,
        weighting.part,
    )
    return ratios if game.plus else -ratios


def _resources(game: Game, blocks: int, actions: list[Action]) -> tuple[sparse.csr_matrix, Floats]:
    """Return what each action uses, and what there is.

    Rounds; peers' distance; diversity; the added voter's strikes, and those before the last stage (the last one ends
    it); D-strikes, R-strikes and all strikes of each block.
    """
    own = ("disliked",) if game.plus else ("liked", "both")
    used = np.zeros((5 + 3 * blocks, len(actions)))
    for column, action in enumerate(actions):
        both, struck = action.kind == "both", action.kind in own
        used[:5, column] = 1, 0 if both else action.peers, both, struck, struck and action.stage > 0
        one = 1 if action.kind == "disliked" else 0
        if action.block <= action.stage:
            used[5 + 3 * (action.block - 1) + one : 5 + 3 * action.stage : 3, column] = 1
            used[5 + 3 * (action.block - 1) + 2 : 5 + 3 * action.stage : 3, column] = 1
    most = game.most
    extra = most[1] if game.plus else min(game.rule.diversity_strikes, game.rule.strikes) + 1
    available = [game.weighting.rounds, game.radius * game.peers, game.diversity, extra, extra - 1, *(most * blocks)]
    return sparse.csr_matrix(used), np.array(available, np.float64)


@compiled
def log_ratios(agree: Ints, living: Ints, vote: int, rounds: float, steepness: float, part: int) -> Floats:
    """Return ``ln p' - ln p`` of object 0 for one more voter that votes for ``vote``, for arrays of two-object rounds.

    Parameters
    ----------
    agree, living : ndarray of int64
        How many vote for object 0, and how many vote.
    vote : int
        0 or 1.
    rounds, steepness, part
        As for `coordinator.server.online.weighting.chances`.
    """
    found = np.empty(agree.size)
    sums = np.zeros(2)
    for k in range(agree.size):
        sums[0], sums[1] = agree[k], living[k] - agree[k]
        alone = math.log(chances(sums, rounds, steepness, part)[0])
        sums[vote] += 1
        found[k] = math.log(chances(sums, rounds, steepness, part)[0]) - alone
    return found
