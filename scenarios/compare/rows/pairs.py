"""Nobody is trusted: groups of devices tell pairs of what they like, and each applies what follows to its own likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.mechanisms.pairs import Pairs, together
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.one_item import pool_of
from coordinator.protocol.subset_form import PADDED
from coordinator.server.mechanisms.pairs import group_of
from coordinator.server.mechanisms.subset import subset_rates
from coordinator.server.rounds.state import ServerState
from coordinator.server.statistics.counts import CountStatistic
from coordinator.server.statistics.groups import GroupStatistic, of_group
from scenarios.compare.row import AGGREGATE, DEVICES, Advised, Asked
from scenarios.compare.rows.local import Local
from scenarios.compare.splitting import Fold
from scenarios.compare.worlds import World
from scenarios.data.block_world import settle
from scenarios.given.policies import policy_of
from scenarios.run.experiment import learner_of


def shares_of(query: Query, fold: Fold) -> Floats:
    """Return how many of the people have each value in their sets, a share each: items, or pairs of the pool's items.

    One of l likes in the pool is among the w that are kept with probability ``min(1, w / l)``, a pair of them with
    ``min(1, w (w - 1) / l (l - 1))``.
    """
    liked, kept = fold.liked, query.parameters[PADDED]
    shape = (liked.users, liked.count)
    of_all = sparse.csr_array((np.ones(liked.items.size), liked.items, liked.starts), shape)
    of_pool = of_all[:, pool_of(query)].tocsr()
    likes: Floats = np.asarray(of_pool.sum(axis=1)).ravel()
    if together(query) == 1:
        told: Floats = of_pool.T @ np.minimum(1, kept / np.maximum(likes, 1)) / liked.users
        return told
    weight = np.minimum(1, kept * (kept - 1) / np.maximum(likes * (likes - 1), 1))
    both: Floats2 = (of_pool.T @ of_pool.multiply(weight[:, None])).toarray() / liked.users
    return both[np.triu_indices(len(both), 1)]


def group_counts(query: Query, fold: Fold, users: int, coins: np.random.Generator) -> GroupStatistic:
    """Draw how many subsets of a group's devices name each value; see `scenarios.compare.laws`."""
    rates, counts = subset_rates(query), np.zeros(Pairs().values(query), np.int64)
    shares = shares_of(query, fold)
    counts[: shares.size] = coins.binomial(users, rates.others + rates.contrast * shares)
    one = CountStatistic(sums=counts, told=0, asked=users, answered=users, refused=0)
    return of_group(group_of(query), one)


@dataclass(frozen=True, slots=True)
class Paired(Local):
    """Pairs of liked items, the policy's three groups; above a number of people each group's sum is drawn."""

    def advise(self, world: World, asked: Asked) -> Advised:
        """Let devices answer, or draw the sums of their answers; devices apply what follows to their own likes."""
        few = asked.users <= asked.wanted.devices
        model = self.answered(world, asked) if few else self.drawn(world, asked)
        noise, simulated = float(np.median(model.error)), DEVICES if few else AGGREGATE
        if (near := model.near) is None:
            return Advised.noisy(model.score, noise, simulated)
        popularity = model.score - model.score.max() - 1

        def scores(own: Any) -> Floats2:
            inside = own[:, near.pool] @ near.weights
            found: Floats2 = inside.min(axis=1)[:, None] + np.broadcast_to(popularity, (len(inside), world.items))
            found[:, near.pool] = inside
            return found

        return Advised(popularity=model.score, floor=1e-6, noise=noise, scorer=scores, simulated=simulated)

    def drawn(self, world: World, asked: Asked) -> Model:
        """Return the model that is learned from sums that were drawn from their laws, group by group."""
        scenario = settle(self.scenario_of(world.items, asked))
        policy, learner, state = policy_of(scenario), learner_of(scenario), ServerState(devices=asked.users)
        while (ask := policy.next_query(state)) is not None:
            statistic = group_counts(ask.query, world.fold, ask.stop - ask.first, asked.coins)
            state = learner.absorb(state, ask, statistic)
        return learner.learn(state)[0]


ROWS = (Paired("pairs", 50, "pairs", group_counts),)
