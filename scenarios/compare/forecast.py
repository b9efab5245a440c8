"""How many people like a file's private advice takes: it is drawn for more and more people until it is worth enough.

No device answers, so that it takes seconds: sums of answers are drawn from their laws, as `blindrec compare` draws
them above ``--devices``, and lists are scored as there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from scenarios.compare.crossing import among_files, crossings, over_seeds_and_people
from scenarios.compare.row import Advised, Asked
from scenarios.compare.rows.local import SET, Local
from scenarios.compare.rows.none import Popularity
from scenarios.compare.rows.pairs import ROWS as PAIRS
from scenarios.compare.scoring import score
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import World, world_of

RUNGS = 10 ** np.arange(1, 10.25, 0.5)
"""Numbers of people that are looked at; nobody has more than the last."""
EVALUATED = 200
"""People of the file whose lists are scored in each split, at most."""
ROWS: tuple[Local, ...] = (SET, *PAIRS)
"""The best that is known of single items, and of pairs of them."""
Reach = tuple[float, float, float]
"""A number and the ends of its interval of 95 %, which covers splits, coins and the choice of people."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """A split of the file.

    Attributes
    ----------
    seed : int
    world : World
    people : ndarray of int64
        Who is evaluated.
    plain : ndarray of float64, shape (1 + samples,)
        NDCG of plain popularity among them, and among samples of them with replacement.
    """

    seed: int
    world: World
    people: Ints
    plain: Floats


@dataclass(frozen=True, eq=False)
class Forecast:
    """What private advice is worth among people like a file's, as shares of what plain popularity is worth.

    Attributes
    ----------
    wanted : Comparison
        The file, its splits (``seeds``), and public constants; epsilons and scales do not matter.

    Raises
    ------
    InputError
        If nothing can be held out, or plain popularity is worth nothing.
    """

    wanted: Comparison

    @cached_property
    def splits(self) -> list[Split]:
        """The splits."""
        found = []
        for seed in range(self.wanted.seed, self.wanted.seed + self.wanted.seeds):
            world = world_of(self.wanted, seed)
            coins = np.random.default_rng(int.from_bytes(derive(seed, "people of a forecast")))
            people = np.sort(coins.permutation(world.fold.evaluated)[:EVALUATED])
            asked = Asked(wanted=self.wanted, epsilon=None, users=world.people, public=0, seed=seed)
            plain = _worth(world, Popularity().advise(world, asked), asked, people, features=False)
            if not plain[0]:
                raise InputError("popularity is worth nothing among this file's people; nothing can be set beside it")
            found.append(Split(seed=seed, world=world, people=people, plain=np.where(plain > 0, plain, plain[0])))
        return found

    def worth(self, row: Local, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
        """Return what advice is worth with so many people, by whether devices use public features.

        Returns
        -------
        dict of ndarray of float64, shape (splits, 1 + samples)
            Among everybody who is evaluated, and among samples of them.
        """
        return _drawn(self, row, epsilon, users)

    def here(self, row: Local, epsilon: Epsilon, users: int, *, features: bool) -> Reach:
        """Return what advice is worth with so many people."""
        found = self.worth(row, epsilon, users)[features]
        return over_seeds_and_people(found[:, 0].tolist(), list(found[:, 1:]))

    def people(self, row: Local, epsilon: Epsilon, *, features: bool, share: float, guess: float) -> Reach | None:
        """Return how many people it takes until advice is worth a share of plain popularity; None where none suffice.

        It is sought from a guess on, which only saves time as long as more people never make advice worse.
        Between `RUNGS` it is interpolated on the logarithm of people, split by split and sample by sample. That the
        file's people were chosen, of whom the tenth most liked item has a share f, makes the number uncertain as well:
        it goes with ``1 / f^2``.
        """

        def at(rung: int) -> Floats2:
            return self.worth(row, epsilon, round(float(RUNGS[rung])))[features]

        def enough(rung: int) -> bool:
            return bool(at(rung)[:, 0].mean() >= share)

        if not enough(RUNGS.size - 1):
            return None
        many = min(int(np.searchsorted(RUNGS, guess)), RUNGS.size - 1)
        while many and enough(many - 1):
            many -= 1
        while not enough(many):
            many += 1
        near = range(max(0, many - 2), min(many + 2, RUNGS.size))
        crossed = crossings(np.stack([at(rung) for rung in near]), np.log(RUNGS[near.start : near.stop]), share)
        mean, _, high = over_seeds_and_people(crossed[:, 0].tolist(), list(crossed[:, 1:]))
        world = self.splits[0].world
        reach = math.hypot(high - mean, among_files(world.popularity, world.people, 2))
        return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


@lru_cache(maxsize=1 << 12)
def _drawn(forecast: Forecast, row: Local, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
    wanted = forecast.wanted.model_copy(update={"devices": 0})
    found: dict[bool, list[Floats]] = {}
    for split in forecast.splits:
        asked = Asked(wanted=wanted, epsilon=epsilon, users=users, public=0, seed=split.seed)
        advised = row.advise(split.world, asked)
        for features in (False, True) if split.world.features is not None else (False,):
            worth = _worth(split.world, advised, asked, split.people, features=features)
            found.setdefault(features, []).append(worth / split.plain)
    return {features: np.stack(values) for features, values in found.items()}


def _worth(world: World, advised: Advised, asked: Asked, people: Ints, *, features: bool) -> Floats:
    """Return NDCG at 10 among some people, and among samples of them, shape (1 + samples,)."""
    told = score(world, replace(advised, people=people), asked, features=features)
    return np.array([told.ndcg, *told.resampled["ndcg"]])
