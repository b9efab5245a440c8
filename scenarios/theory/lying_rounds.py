"""How liars spread over rounds that depend on answers, and how many accounts it takes to choose one's coins."""

from __future__ import annotations

from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.moments.signs import sign_contrast
from coordinator.server.rounds.query_rounds import Learner, conduct
from scenarios.data.block_world import known_world
from scenarios.data.populations import class_shares
from scenarios.given.config import Scenario
from scenarios.given.policies import policy_of
from scenarios.theory.emulation import Emulated

SIZES = 120
"""Sizes of pools at which a contrast is computed; between them it is interpolated."""
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


def gathered(scenario: Scenario, labels: Indices, *, smallest: int, largest: int) -> tuple[Floats, int]:
    """Return the shares of liars who all came to the rounds about ``smallest`` to ``largest`` items, by that number.

    They are as many as lie in the honest plan as a whole. If those rounds have fewer users, all of these lie. The
    honest plan's users are returned, too: further rounds, which the attack brings about, have no liars.

    Raises
    ------
    InputError
        If the honest plan has no such rounds.
    """
    plan = honest_plan(scenario, labels)
    there = sum(users for size, users in plan if smallest <= size <= largest)
    if not there:
        least = min(size for size, _ in plan)
        raise InputError(f"no round of the honest plan is about {largest} items or fewer; the last are about {least}")
    everybody = sum(users for _, users in plan)
    share = min(1.0, (scenario.malicious or 0.0) * everybody / there)
    sizes = np.arange((scenario.items or 0) + 1)
    return np.where((sizes >= smallest) & (sizes <= largest), share, 0.0), everybody


def stalling(scenario: Scenario, labels: Indices, stalled: int) -> Floats:
    """Return the share that has to lie for so many items to stay half way between the two levels, by the pool's size.

    It is f* of that pool, or all liars where these are fewer. Where ratings are counted centred, the centres are taken
    to be the true levels, and the first items' mixture that of all pools.
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
    return np.minimum(tipping, scenario.malicious or 0.0)


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
