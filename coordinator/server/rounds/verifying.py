"""Verification: after the last round fresh devices are asked about all items once more, in pools that nobody foresaw.

What they tell is not added to the estimates: it confirms a label or disputes it. Liars who came together for the
rounds that decided an item are no longer there, and in small pools each of the others moves less.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from coordinator.protocol.coins import derive
from coordinator.protocol.messages import Query
from coordinator.server.decoding.posterior import Posterior, nearest_gaps
from coordinator.server.rounds.elimination import pool_design
from coordinator.server.rounds.setting import Setting, users_on_grid
from coordinator.server.rounds.state import Ask, Policy, ServerState

DISPUTED = 0.01
"""Probability that fresh devices dispute a right label if none of them lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verifying:
    """Another policy's rounds, then one round for each pool of all items.

    A round has so many users that a right label is disputed with the probability `DISPUTED`: an item's estimate lies
    ``z`` standard errors from the middle between two levels. Source: ours (spec "Lying devices", section 5).

    Attributes
    ----------
    policy : Policy
        Its rounds come first.
    setting : Setting
        As the policy's.
    size : int
        Items of a pool, at most.
    """

    asks_undecided: ClassVar[bool] = True
    policy: Policy
    setting: Setting
    size: int

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item was asked about again, or no device is left."""
        setting, over = self.setting, sum(ask.verifies for ask in state.asked)
        if not over and (ask := self.policy.next_query(state)):
            return ask
        if over == (many := -(-setting.design.items // self.size)):
            return None
        order = np.random.default_rng(int.from_bytes(derive(setting.public_seed, "verifying"))).permutation(
            setting.design.items
        )
        query = setting.query(state, pool=np.sort(np.array_split(order, many)[over]).astype(np.int32))
        users = state.asked[-1].stop - state.asked[-1].first if over else self._users(state, query)
        ask = setting.send(state, query, users=users) if users else None
        return ask and replace(ask, verifies=True)

    def _users(self, state: ServerState, query: Query) -> int:
        """Return the users of a round about a pool, 0 where clusters do not stand apart."""
        posterior = self.setting.believe(state)
        if not posterior.apart or posterior.mixture is None:
            return 0
        error = float(nearest_gaps(posterior.mixture).min()) / 2 / -float(ndtri(DISPUTED))
        return users_on_grid(1 / error**2 / float(pool_design(self.setting).rates(query).mean()))


def verified(posterior: Posterior, state: ServerState) -> Posterior:
    """Return the posterior with what fresh devices dispute: labels whose level is not the nearest to what they told.

    Items that they were not asked about, as where no device was left, are disputed as well.
    """
    if state.verified is None or posterior.mixture is None:
        return replace(posterior, disputed=np.ones(posterior.doubt.size, np.bool_))
    nearest = np.abs(state.verified.value[:, None] - posterior.mixture.levels).argmin(axis=1)
    return replace(posterior, disputed=(nearest != posterior.cluster) | (state.verified.information == 0))
