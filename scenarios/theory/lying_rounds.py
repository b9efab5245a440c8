"""How liars spread over rounds that depend on answers, and how many accounts it takes to choose one's coins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import believe
from coordinator.server.design import PoolDesign
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.moments.signs import sign_contrast
from coordinator.server.rounds.beliefs import most_moved
from coordinator.server.rounds.state import Ask, ServerState
from scenarios.data.block_world import known_world
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.theory.lying import DRAWS, Sway, by_level

SIZES = 120
"""Sizes of pools at which a contrast is computed; between them it is interpolated."""
STALLED = 0.5
"""How near to f* liars come who only want to delay: at f* itself half of the items would be decided wrongly."""
MOST_ACCOUNTS = 0.9
"""Largest share of all accounts that may be a liar's."""


def together(scenario: Scenario, course: Sequence[Ask], *, largest: int) -> tuple[int, int]:
    """Return the first device that lies and the one after the last, where all liars come to rounds of their choice.

    Until then nobody lied, so that the run is the honest one to the bit, and what it asks whom is known. From the
    first round about at most ``largest`` items on liars fill all rounds, until they are as many as their share of the
    honest run, without the rounds that verify.

    Parameters
    ----------
    scenario : Scenario
        Filled in.
    course : sequence of Ask
        What the honest run asked.
    largest : int
        Items of the first round that liars come to, at most.

    Raises
    ------
    InputError
        If the honest run has no such round.
    """
    sizes = [ask.query.items if ask.query.pool is None else ask.query.pool.size for ask in course]
    found = next((ask.first for ask, size in zip(course, sizes, strict=True) if size <= largest), None)
    if found is None:
        raise InputError(f"no round of the honest run is about {largest} items or fewer; the last is about {sizes[-1]}")
    everybody = sum(ask.stop - ask.first for ask in course if not ask.verifies)
    return found, found + max(1, round((scenario.malicious or 0.0) * everybody))


def stalling(scenario: Scenario, labels: Indices, stalled: int) -> Floats:
    """Return the share that lies so that so many items are decided late, but hardly ever wrongly, by the pool's size.

    It is half of the pool's f*, or all liars where these are fewer: an item's log-odds then grow half as fast. Where
    ratings are counted centred, the centres are taken to be the true levels, and the first items' mixture that of all
    pools.
    """
    design, block = RunSpec(scenario).design, known_world(scenario).block
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


def overthrown(scenario: Scenario, sway: Sway, labels: Indices, *, promoted: int) -> float:
    """Return how many labels are decided wrongly after the first round about all items, in the mean over draws.

    The server fits its levels to the estimates. While these are noisy, an item that liars push far enough is likelier
    to be a cluster of its own than the others are to be of two levels: they become one cluster, are all decided, and
    the run is over. Source: ours.

    Parameters
    ----------
    scenario : Scenario
        Filled in, with rounds that depend on answers.
    sway : Sway
        What liars do to one round about all items.
    labels : ndarray of int32, shape (N,)
        True clusters, numbered as in ``like``.
    promoted : int
        Less liked items that liars promote.
    """
    spec = RunSpec(scenario)
    setting, ask = spec.setting, spec.policy.next_query(ServerState(devices=scenario.users or 1))
    design = setting.design
    if ask is None or scenario.clusters != sway.levels.size or not isinstance(design, PoolDesign):
        return 0.0
    truth, coins, asked = by_level(scenario)[labels], np.random.default_rng(0), ask.stop - ask.first
    rates = design.rates(ask.query)
    wishes = np.zeros(labels.size, np.int32)
    wishes[np.flatnonzero(truth == truth.max())[:promoted]] = 1
    wrong = 0
    for _ in range(DRAWS):
        drawn = sway.drawn(scenario.malicious or 0.0, labels, wishes, asked, coins)
        told = Estimates(weighted=drawn / sway.deviation[labels] * np.sqrt(rates) * asked, information=rates * asked)
        found = believe(told, clusters=setting.clusters, failure=setting.failure)
        found = found.withstanding(setting.assume_malicious * most_moved(rates) * asked)
        wrong += int(((found.cluster != truth) & found.decided(setting.failure)).sum())
    return wrong / DRAWS


def suiting(scenario: Scenario, promoted: int) -> float:
    """Return the probability that public coins let one answer move so many promoted items at once."""
    if isinstance(design := RunSpec(scenario).design, SignSensing):
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
