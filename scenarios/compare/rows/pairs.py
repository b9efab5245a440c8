"""Nobody is trusted: groups of devices tell pairs of what they like, and each applies what follows to its own likes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from coordinator.protocol.public_features import typical_error
from scenarios.compare.group_laws import group_counts
from scenarios.compare.item_models import pair_advice, pair_constants
from scenarios.compare.row import AGGREGATE, DEVICES, Advised, Asked
from scenarios.compare.rows.local import Local
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World


@dataclass(frozen=True, slots=True)
class Paired(Local):
    """Pairs of liked items, the policy's three groups; above a number of people each group's sum is drawn."""

    def advise(self, world: World, asked: Asked) -> Advised:
        """Let devices answer, or draw the sums of their answers; devices apply what follows to their own likes."""
        few = asked.users <= asked.wanted.devices
        model = self.answered(world, asked) if few else self.drawn(world, asked)
        noise, simulated = typical_error(model.error), DEVICES if few else AGGREGATE
        if model.near is None:
            return Advised.noisy(model.score, noise, simulated)
        ties = asked.coins.permutation(world.items)
        return pair_advice(model.near, model.score, ties, noise=noise, simulated=simulated)


def pair_settings(settings: Comparison, items: int) -> Mapping[str, Any]:
    """Return the constants that a curator's pairs have, too, and how many devices tell how many items they like."""
    return pair_constants(settings, items) | ({"counted_group": settings.counted} if settings.counted else {})


ROWS = (Paired("pairs", 50, "pairs", group_counts, pair_settings),)
