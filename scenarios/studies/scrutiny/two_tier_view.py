"""The view of a server of two tiers: what a private device's one release tells of its ratings."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from actors.private_cohort import PrivateCohort
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.channels import LogRatio
from coordinator.protocol.coins import on_grid
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, basis_of, residuals
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import (
    A_RELEASE,
    SecondOrderQuery,
    check_mechanism,
    two_tier_mechanism,
    two_tier_mechanisms,
)
from scenarios.studies.scrutiny.attacks import RELEASE_PARTS, Game, Observations, View
from scenarios.studies.scrutiny.mechanism_under_test import SECRET, Choice
from scenarios.studies.scrutiny.release_laws import keys_of
from scenarios.studies.scrutiny.release_view import ReleaseView, law_facts, release_audit
from scenarios.studies.scrutiny.shuffling import finite_epsilon
from scenarios.studies.scrutiny.verdicts import AttackResult, Audit

ITEMS, RANK = 8, 2
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
MOST = 60_000  # the largest number of releases that an attack inspects


def model() -> ItemFeatures:
    """Return a small public model: two directions, stars from 1 to 5."""
    world = np.random.default_rng(0)
    vectors = np.linalg.qr(world.normal(size=(ITEMS, RANK)))[0] * np.array([6.0, 4.0])
    return ItemFeatures(
        mean=on_grid(world.normal(3.0, 0.3, ITEMS)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        kappa=1.0,
        lowest=STARS[0],
        highest=STARS[-1],
        scale=STARS,
        common_h=0.5,
    )


def second_order_inputs(features: ItemFeatures) -> Iterator[tuple[str, str, Floats, Floats]]:
    """Yield the pairs of inputs that are distinguished, as ratings of all items; 0 stands for none."""
    first, second = (np.where(features.vectors[:, factor] > 0, 5.0, 1.0) for factor in (0, 1))
    loved, others = np.zeros(ITEMS), np.where(np.arange(ITEMS) > ITEMS // 2, 1.0, 0.0)
    loved[0] = 5.0
    yield "worst", "two opposite tastes", first, 6.0 - first
    yield "directions", "tastes of two directions", first, second
    yield "membership", "whether a device rated an item", loved + others, others
    yield "attribute", "whether it liked the only item that it rated", loved, loved / 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TasteGame(Game):
    """Two people's ratings that are told apart."""

    ratings: Floats2  # of all items, shape (2, N)
    whole: bool  # whether a whole release is looked at, else its most telling coordinate or bit


class TwoTierView(View[TasteGame]):
    """The server of two tiers, which knows the public model."""

    flag, seed = ReleaseView.flag, ReleaseView.seed
    releases, most, parts, learnable = ReleaseView.releases, ReleaseView.most, RELEASE_PARTS, 0

    def __init__(self, design: str, *, epsilon: Fraction | float | str = 1, settings: Choice | None = None) -> None:
        if settings:
            raise InputError(f"{design} is a mechanism of two tiers, which has no settings here; leave them out")
        nats, self.label, self._features = finite_epsilon(epsilon), design, model()
        self._part = two_tier_mechanism(design)
        self._claimed = nats if self._part.takes_epsilon else None
        check_mechanism(design, self._claimed)
        self._query = SecondOrderQuery(model=self._features.digest, mechanism=design, epsilon=self._claimed)

    @staticmethod
    def designs() -> list[str]:
        """See `View.designs`."""
        return list(two_tier_mechanisms())

    def games(self, releases: int, coins: np.random.Generator) -> list[TasteGame]:  # noqa: ARG002 (nothing is drawn)
        """Return the games, of a coordinate where epsilon is about one, and of a whole release; see `View.games`."""
        claimed, of = self._claimed, self._part.epsilon_of
        parts = [True] if claimed is None or of == A_RELEASE else [False, True]
        games = []
        for whole in parts:
            times = ITEMS if whole and len(parts) > 1 else 1
            for name, meaning, *pair in second_order_inputs(self._features):
                label = meaning if whole and len(parts) == 1 else f"{meaning}, {'a release' if whole else of}"
                cost: dict[str, Any] = {"times": times, "epsilon": claimed and times * claimed}
                games.append(TasteGame(name=name, meaning=label, ratings=np.stack(pair), whole=whole, **cost))
        return games

    def observe(self, game: TasteGame, releases: int, coins: np.random.Generator) -> Observations:
        """Let private devices answer that each hold one of two inputs by a fair coin; see `View.observe`."""
        query, features, devices = self._query, self._features, min(releases, MOST)
        secret = coins.random(devices) < 0.5
        rows = _rows(np.where(secret[:, None], game.ratings[0], game.ratings[1]))
        agreement = Agreement(designs=(query.mechanism,), budget=query.epsilon, answers=1)
        cohort = PrivateCohort(rows, SECRET, 0, rows.users, agreement=agreement)
        cohort.announce(query, 0, devices)
        who, payloads = query.payloads(cohort.answer(query, features, 0, devices), features)
        tastes = residuals(features, _rows(game.ratings))  # completed vectors with either input, shape (2, m)
        lean = tastes[0] - tastes[1]
        if self._part.moment:  # what moments say of the two tastes
            sides = tastes @ basis_of(features)
            sides /= np.linalg.norm(sides, axis=1)[:, None]
            moments = self._part.moments(payloads, who, query, features)
            values = np.einsum("nij,ki,kj->nk", moments, sides, sides)
        else:
            values = self._part.rows(payloads, who, query, features)
        if not game.whole:  # the coordinate, or the bit, that the two tastes differ in most
            coordinate = int(np.argmax(np.abs(lean)))
            return Observations(secret, {"coordinate": values[:, coordinate] * np.sign(lean[coordinate])})
        scores = {"projection": values @ lean} if values.shape[1] == lean.size else {}
        return Observations(secret, scores, {"releases": keys_of(payloads)}, values.astype(np.float32))

    def verdict(self, attacks: tuple[AttackResult, ...], confidence: float) -> Audit:
        """See `View.verdict`."""
        channel = self._part.channel(self._query, self._features)
        law = law_facts(self._claimed, LogRatio.of(None) if channel is None else channel.log_ratio)
        return release_audit(self.label, self._part.promised(self._query), law, attacks, confidence)


def _rows(ratings: Floats2) -> Rows:
    """Return ratings of all items as those that there are; 0 stands for none."""
    users, items = np.nonzero(ratings)
    starts = np.searchsorted(users, np.arange(len(ratings) + 1))
    return Rows(starts=starts, items=items.astype(np.int32), values=ratings[users, items], count=ITEMS)
