"""Nobody is trusted: devices tell signs of pairs, and each applies directions of taste to its own ratings.

Every device answers one question under its whole epsilon. Some tell which items they like, by the set mechanism, and
some what they think of all items, by sign sensing; all others are asked about pairs, centred on what these told. A
second row, of a trust model of its own, takes for public how many people rate and like each item, as where a site
publishes totals, and asks all devices about pairs. It knows from these totals, without noise, all that popularity does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from actors.near import public_order
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.messages import Model
from coordinator.protocol.public_features import typical_error
from coordinator.protocol.rows import Likes
from coordinator.protocol.tastes import likely
from scenarios.compare.row import AGGREGATE, DEVICES, Advised, Asked, Row
from scenarios.compare.rows.local import SET, SIGN, people_of
from scenarios.compare.settings import PUBLIC_RATES, Comparison
from scenarios.compare.tasting import answered, drawn, learned, public_rates, question, threshold, told_rates
from scenarios.compare.worlds import World

LIKING, JUDGING = 0.3, 0.15
"""Shares of devices that tell which items they like, and what they think of all items, where rates are not public."""


class Directions(Row):
    """Directions of taste by signs of pairs.

    Attributes
    ----------
    known : bool
        Whether rates of single items are public; otherwise devices tell them.
    """

    trust_model, mechanism, order = "local", "directions", 60
    known: ClassVar[bool] = False
    asks: ClassVar[frozenset[str]] = frozenset({"epsilon", "scale"})

    def advise(self, world: World, asked: Asked) -> Advised:
        """Let devices answer, or draw the sums of their answers; devices apply directions to their own ratings."""
        # Equal rates, as where few people answered, would come by number, as the file has its items.
        model = self.learned(world, asked)
        return replace(self.advised(world, asked, model), order=asked.ranked(model.score).astype(np.int32))

    def advised(self, world: World, asked: Asked, model: Model) -> Advised:
        """Return how devices rank items by a model, as `actors.featured.recommend_featured` does."""
        rows, tastes = world.fold.train, model.tastes
        assert tastes is not None  # perhaps without any direction

        def scores(own: Any) -> Floats2:
            starts, items = own.indptr.astype(np.int64), own.indices.astype(np.int32)
            return likely(tastes, Likes(starts=starts, items=items, values=own.data > 0, count=world.items))

        holds = sparse.csr_array((np.where(rows.values, 1, -1), rows.items, rows.starts), (rows.users, rows.count))
        return Advised(
            popularity=model.score,
            floor=float(np.finfo(np.float64).tiny),
            noise=typical_error(model.error),
            scorer=scores,
            order=public_order(None, model.score),
            simulated=DEVICES if asked.users <= asked.wanted.devices else AGGREGATE,
            holds=holds,
        )

    def learned(self, world: World, asked: Asked) -> Model:
        """Return the model that devices' answers tell."""
        if asked.users > asked.wanted.devices:
            return self._drawn(world, asked)
        rates, user = public_rates(world), people_of(world, asked)
        if not self.known:  # nobody is in two groups
            liking, judging, user = np.split(asked.coins.permutation(user), np.cumsum(_groups(asked.users)))
            likes = SET.answered(world, replace(asked, users=liking.size), liking)
            means = SIGN.answered(world, replace(asked, users=judging.size), judging)
            rates = told_rates(likes, means, _rated(world, asked))
        query = question(asked, rates)
        return learned(query, answered(query, world, user, asked), rates, asked.wanted)

    def _drawn(self, world: World, asked: Asked) -> Model:
        rates, users = public_rates(world), asked.users
        if not self.known:
            liking, judging = _groups(users)
            likes, means = (
                SET.drawn(world, replace(asked, users=liking)),
                SIGN.drawn(world, replace(asked, users=judging)),
            )
            rates, users = told_rates(likes, means, _rated(world, asked)), users - liking - judging
        query = question(asked, rates)
        return learned(query, drawn(query, world, users, asked), rates, asked.wanted)

    def remarks(self, wanted: Comparison) -> tuple[str, ...]:
        """Tell from how many people on a direction stands out of the noise, among people like the file's."""
        share = 1.0 if self.known else 1 - LIKING - JUDGING
        told = [(epsilon, threshold(wanted, wanted.seed, epsilon) / share) for epsilon in wanted.epsilon]
        needed = ", ".join(
            f"{people:,.0f} at epsilon {'inf' if epsilon is None else epsilon}" for epsilon, people in told
        )
        public = ("totals of everybody's ratings are public to it, without noise",) if self.known else ()
        limit = (
            f"with fewer people than these, which is the experimenter's to know, none stands out of the noise: {needed}"
        )
        return tuple(f"{self.trust_model}: {self.mechanism}: {sentence}" for sentence in (limit, *public))


class WithPublicRates(Directions):
    """The same where rates of single items are public."""

    trust_model, order, known = PUBLIC_RATES, 10, True


def _groups(users: int) -> list[int]:
    """Return how many devices tell which items they like, and how many what they think of all."""
    return [max(1, round(share * users)) for share in (LIKING, JUDGING)]


def _rated(world: World, asked: Asked) -> float:
    return min(asked.wanted.likes / world.items, 1)


ROWS = (Directions(), WithPublicRates())
