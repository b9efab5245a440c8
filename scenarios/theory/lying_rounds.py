"""How liars spread over rounds that depend on answers, and how many accounts it takes to choose one's coins."""

from __future__ import annotations

from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.moments.signs import sign_contrast
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import conduct
from scenarios.data.block_world import known_world
from scenarios.data.populations import class_shares
from scenarios.given.config import Scenario
from scenarios.given.policies import policy_of
from scenarios.theory.emulation import Emulated

SIZES = 120
"""Sizes of pools at which a contrast is computed; between them it is interpolated."""
STALLED = 0.5
"""How near to f* liars come who only want to delay: at f* itself half of the items would be decided wrongly."""
MOST_ACCOUNTS = 0.9
"""Largest share of all accounts that may be a liar's."""


def honest_plan(scenario: Scenario, labels: Indices) -> list[tuple[int, int]]:
    """Return the rounds of an adaptive scenario if nobody lies: number of items that each is about, and its users.

    Statistics are drawn from exact moments, as in sweeps that emulate devices.
    """
    design = scenario.asking()
    assert isinstance(design, SignSensing)  # others are refused
    emulated = Emulated(
        design=design,
        likes=np.array(scenario.like)[:, labels],
        class_shares=class_shares(scenario),
        rated=scenario.rated or 0,
        coins=np.random.default_rng(int.from_bytes(derive(scenario.seed, "honest plan"))),
    )
    learner = Learner(
        clusters=scenario.clusters or 2, decoder=scenario.decoder, design=design, confidence=scenario.confidence
    )
    ended = conduct(
        policy_of(scenario), learner, emulated, devices=scenario.users or 0, most_rounds=scenario.most_rounds
    )
    return [
        (scenario.items or 0 if ask.query.pool is None else ask.query.pool.size, ask.stop - ask.first)
        for ask in ended.state.asked
    ]


def early(scenario: Scenario, labels: Indices) -> tuple[Floats, int]:
    """Return the shares of liars who all came to the first round, by pools' sizes, and the first device after them.

    They are as many as lie in the honest plan as a whole, or the whole round.
    """
    plan = honest_plan(scenario, labels)
    size, users = plan[0]
    shares = np.zeros((scenario.items or 0) + 1)
    shares[size] = min(1.0, (scenario.malicious or 0.0) * sum(many for _, many in plan) / users)
    return shares, users


def late(scenario: Scenario, labels: Indices, *, largest: int) -> tuple[Floats, int]:
    """Return the shares of liars who all came to the first rounds about at most ``largest`` items; see `early`.

    They fill these rounds until they are as many as lie in the honest plan as a whole. Sizes stand for rounds, since
    how many devices were asked before is not known beforehand.

    Raises
    ------
    InputError
        If the honest plan has no such rounds.
    """
    plan = honest_plan(scenario, labels)
    everybody, there, smallest = sum(users for _, users in plan), 0, 0
    liars = (scenario.malicious or 0.0) * everybody
    for size, users in plan:
        if size <= largest and there < liars:
            there, smallest = there + users, size
    if not there:
        least = min(size for size, _ in plan)
        raise InputError(f"no round of the honest plan is about {largest} items or fewer; the last are about {least}")
    sizes = np.arange((scenario.items or 0) + 1)
    return np.where((sizes >= smallest) & (sizes <= largest), min(1.0, liars / there), 0.0), everybody


def stalling(scenario: Scenario, labels: Indices, stalled: int) -> Floats:
    """Return the share that lies so that so many items are decided late, but hardly ever wrongly, by the pool's size.

    It is half of the pool's f*, or all liars where these are fewer: an item's log-odds then grow half as fast. Where
    ratings are counted centred, the centres are taken to be the true levels, and the first items' mixture that of all
    pools.
    """
    design, block = scenario.asking(), known_world(scenario).block
    assert isinstance(design, SignSensing)  # others are refused
    assert block is not None
    levels = 2 * block.class_shares @ block.like - 1
    sizes = np.unique(np.linspace(1, design.items, SIZES).astype(int))
    common: dict[str, Any] = {"round_number": 1, "public_seed": bytes(16), "epsilon": scenario.epsilon}
    contrasts = [
        np.sqrt(design.rates(design.query(**common, pool=np.arange(size, dtype=np.int32), expected=expected)).mean())
        for size, expected in ((size, levels[labels[:size]]) for size in sizes.tolist())
    ]
    far = np.array(contrasts) * float(levels.max() - levels.min()) / 2
    near = sign_contrast(stalled, items=stalled, rated=stalled, vectors=design.vectors, kept=1, epsilon=None)
    tipping: Floats = np.interp(np.arange(design.items + 1), sizes, far / (far + near))
    return np.minimum(STALLED * tipping, scenario.malicious or 0.0)


def suiting(scenario: Scenario, promoted: int) -> float:
    """Return the probability that public coins let one answer move so many promoted items at once."""
    if isinstance(design := scenario.asking(), SignSensing):
        return float(1 - (1 - 2.0 ** (1 - promoted)) ** design.vectors)
    return float(scenario.value("theta") / (scenario.rated or 1)) ** promoted


def ground(scenario: Scenario, promoted: int) -> float:
    """Return the share of all accounts that liars open so that their share of the answers is the scenario's.

    Raises
    ------
    InputError
        If that is more than `MOST_ACCOUNTS`.
    """
    share, suits = scenario.malicious or 0.0, suiting(scenario, promoted)
    accounts = share / (share + suits * (1 - share))
    if accounts > MOST_ACCOUNTS:
        raise InputError(
            f"attack is grind:{promoted}, whose coins suit one account in {1 / suits:.3g}: liars would hold "
            f"{accounts:.3g} of all accounts; let fewer devices lie, or name fewer items"
        )
    return accounts
