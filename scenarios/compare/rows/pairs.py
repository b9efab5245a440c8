"""Nobody is trusted: groups of devices tell pairs of what they like, and each applies what follows to its own likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.near import public_order
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.public_features import LEAST, typical_error
from scenarios.compare.group_laws import group_counts
from scenarios.compare.row import AGGREGATE, DEVICES, Advised, Asked
from scenarios.compare.rows.local import Local
from scenarios.compare.worlds import World


@dataclass(frozen=True, slots=True)
class Paired(Local):
    """Pairs of liked items, the policy's three groups; above a number of people each group's sum is drawn."""

    def advise(self, world: World, asked: Asked) -> Advised:
        """Let devices answer, or draw the sums of their answers; devices apply what follows to their own likes."""
        few = asked.users <= asked.wanted.devices
        model = self.answered(world, asked) if few else self.drawn(world, asked)
        noise, simulated = typical_error(model.error), DEVICES if few else AGGREGATE
        if (near := model.near) is None:
            return Advised.noisy(model.score, noise, simulated)
        popularity = model.score - model.score.max() - 1

        def scores(own: Any) -> Floats2:
            inside = own[:, near.pool] @ near.weights
            found: Floats2 = inside.min(axis=1)[:, None] + np.broadcast_to(popularity, (len(inside), world.items))
            found[:, near.pool] = inside
            return found

        # Many shares are equal where few people answered; by number they would come as the file has its items.
        order = public_order(near, model.score, asked.coins.permutation(world.items))
        return Advised(
            popularity=model.score, floor=LEAST, noise=noise, scorer=scores, order=order, simulated=simulated
        )


ROWS = (Paired("pairs", 50, "pairs", group_counts, lambda told, _: {"counted_group": told.counted}),)
