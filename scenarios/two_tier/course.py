"""A run's course: EM on public users, then batches of private devices that answer once, and the model after each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from actors.second_order.consent import Consent
from actors.second_order.crowd import Devices
from coordinator.completion.announcing import announced
from coordinator.completion.cohorts import Crowd
from coordinator.completion.fitting import Fitting, Model, begin, centre, iterate
from coordinator.completion.folding import ReleaseBook
from coordinator.protocol.arrays import Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery
from scenarios.session import Session
from scenarios.two_tier.config import FULL, NONE, TwoTier
from scenarios.two_tier.places import open_crowd, open_devices
from scenarios.two_tier.scale import Scale
from scenarios.two_tier.sparse import Rows

Score = Callable[[ItemFeatures], float]
"""Root mean squared error of features on the test ratings; the experimenter's."""
Weigh = Callable[[ReleaseBook, Floats2], float]
"""Chooses the weight of the releases so far, about models of these directions; from public ratings and releases."""
GROWTH = 5
"""A validated weight is chosen anew when there are so many times the releases of the last time, and at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a course needs to know.

    Attributes
    ----------
    wanted : TwoTier
    fitting : Fitting
    scale : Scale
    public, private : Rows
        What the server sees, and what private devices hold.
    secret : bytes
        The devices' master secret.
    weight : float or Weigh
        Weight of a release, or how it is chosen.
    every : int
        Private devices between two scores; 0: only at the end.
    """

    wanted: TwoTier
    fitting: Fitting
    scale: Scale
    public: Rows
    private: Rows
    secret: bytes
    weight: float | Weigh
    every: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What came of it.

    Attributes
    ----------
    features : ItemFeatures
        The final model.
    model : Model
        With its iterations.
    points : list of (int, float)
        Private devices so far, and the score.
    announced : list of bytes
        Digest of every model that devices were asked about, in order.
    answered, duplicates : int
        Releases that count, and those that arrived again.
    releases_sha256 : str
        Over all releases in the devices' order.
    weight : float or None
        Last weight of a release.
    """

    features: ItemFeatures
    model: Model
    points: list[tuple[int, float]]
    announced: list[bytes]
    answered: int
    duplicates: int
    releases_sha256: str
    weight: float | None


def start(plan: Plan, crowd: Crowd) -> Model:
    """Fit the public users alone."""
    scale = plan.scale
    model = begin(crowd, plan.fitting, lowest=scale.lowest, highest=scale.highest, scale=scale.levels)
    return iterate(model, crowd, plan.fitting, plan.wanted.iterations)


def follow(plan: Plan, session: Session, score: Score, crowd: Crowd | None = None) -> Course:
    """Run a mechanism, or its rival ``full`` or ``none``.

    Parameters
    ----------
    plan : Plan
    session : Session
        Where cohorts and devices are.
    score : callable
        Told every model that is scored.
    crowd : Crowd, optional
        The public users, where they are open already.

    Returns
    -------
    Course
        The model goes through the same number of EM iterations whatever the mechanism.
    """
    if plan.wanted.mechanism == FULL:
        return _follow_full(plan, session, score)
    with nullcontext(crowd) if crowd is not None else open_crowd(plan.public, session) as here:
        if plan.wanted.mechanism == NONE:
            return _Walk(plan, here, None, score).go()
        consent = Consent(mechanisms=frozenset({plan.wanted.mechanism}), epsilon=plan.wanted.asked_epsilon)
        with open_devices(plan.private, plan.secret, consent, session) as devices:
            return _Walk(plan, here, devices, score).go()


class _Walk:
    """Batch by batch: announce, ask, fold, iterate."""

    def __init__(self, plan: Plan, crowd: Crowd, devices: Devices | None, score: Score) -> None:
        self._plan, self._crowd, self._devices, self._score = plan, crowd, devices, score
        self._book = ReleaseBook(crowd.items)
        self._digest, self._announced = hashlib.sha256(), list[bytes]()
        self._weight, self._weighed = 0.0, 0
        self._told: list[Floats2] = []

    def go(self) -> Course:
        plan = self._plan
        model = start(plan, self._crowd)
        points = [(0, self._score(model.features))]
        for first, stop in plan.private.blocks(plan.wanted.batch):
            if self._devices is not None:
                model = announced(model, self._crowd)
                self._ask(model.features, self._devices, first, stop)
            model = iterate(
                model,
                self._crowd,
                plan.fitting,
                plan.wanted.batch_iterations,
                book=self._book,
                weight=self._weight,
            )
            if stop == plan.private.users or (plan.every and stop // plan.every > first // plan.every):
                points.append((stop, self._score(model.features)))
        return Course(
            features=announced(model, self._crowd).features,
            model=model,
            points=points,
            announced=self._announced,
            answered=self._book.devices,
            duplicates=self._book.duplicates,
            releases_sha256=self._digest.hexdigest(),
            weight=None if self._devices is None else self._weight,
        )

    def _ask(self, features: ItemFeatures, devices: Devices, first: int, stop: int) -> None:
        """Announce the model to a batch, ask it, and fold what comes back."""
        wanted = self._plan.wanted
        query = SecondOrderQuery(
            model=features.digest,
            mechanism=wanted.mechanism,
            epsilon=wanted.asked_epsilon,
            batch=first // wanted.batch,
        )
        self._announced.append(query.model)
        self._told[1:] = [features.vectors]
        devices.pin(query.model, first, stop)
        releases = devices.answer(query, features, first, stop)
        for release in releases:
            self._digest.update(release.payload)
        self._book.absorb(query, features, releases)
        self._weigh(last=stop == self._plan.private.users)

    def _weigh(self, *, last: bool) -> None:
        weight, devices = self._plan.weight, self._book.devices
        if not callable(weight):
            self._weight = weight
        elif self._weighed == 0 or devices >= GROWTH * self._weighed or last:
            self._weight, self._weighed = weight(self._book, np.hstack(self._told)), devices


def _follow_full(plan: Plan, session: Session, score: Score) -> Course:
    """Let the private users' ratings join the public ones batch by batch, means included: full EM, not private."""
    with open_crowd(plan.public, session) as crowd:
        model = start(plan, crowd)
    points = [(0, score(model.features))]
    for first, stop in plan.private.blocks(plan.wanted.batch):
        with open_crowd(stacked((plan.public, plan.private.block(0, stop))), session) as crowd:
            mean, first_order = centre(crowd)
            degree = None if model.features.mean_degree is None else crowd.ratings / crowd.users
            model = Model(
                features=replace(model.features, mean=mean, mean_degree=degree),
                counts=first_order.counts.astype(np.float64),
                near=model.near,
                steps=model.steps,
            )
            model = iterate(model, crowd, plan.fitting, plan.wanted.batch_iterations)
            if stop == plan.private.users:
                model = announced(model, crowd)
        if stop == plan.private.users or (plan.every and stop // plan.every > first // plan.every):
            points.append((stop, score(model.features)))
    return Course(
        features=model.features,
        model=model,
        points=points,
        announced=[],
        answered=plan.private.users,
        duplicates=0,
        releases_sha256=hashlib.sha256().hexdigest(),
        weight=None,
    )


def stacked(parts: Sequence[Rows]) -> Rows:
    """Return the users of several tables below each other."""
    ends = np.cumsum([0, *(part.items.size for part in parts)])
    starts = [np.zeros(1, np.int64), *(part.starts[1:] + end for part, end in zip(parts, ends[:-1], strict=True))]
    return Rows(
        starts=np.concatenate(starts),
        items=np.concatenate([part.items for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        count=parts[0].count,
    )
