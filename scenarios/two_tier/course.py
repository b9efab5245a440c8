"""A run's course: EM on public users, then batches of private devices that answer once, and the model after each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np

from actors.second_order.consent import Consent
from actors.second_order.crowd import Devices
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.second_order import SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.announcing import announced
from coordinator.server.completion.cohorts import Crowd
from coordinator.server.completion.fitting import FittedModel, Fitting, begin, centre, iterate
from coordinator.server.completion.folding import ReleaseBook
from scenarios.session import Session
from scenarios.two_tier.config import FULL, NONE, TwoTier
from scenarios.two_tier.kept_batches import KeptBatches, batch_of
from scenarios.two_tier.places import open_crowd, open_devices
from scenarios.two_tier.scale import Scale
from scenarios.two_tier.sparse import Rows
from scenarios.two_tier.weighing import Weighing

Score = Callable[[ItemFeatures], float]
"""Root mean squared error of features on the test ratings; the experimenter's."""
GROWTH = 2
"""A validated weight is chosen anew when there are so many times the releases of the last time, and at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoursePlan:
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
    weight : float or Weighing
        Weight of a release, or how it is chosen: announced models then leave some public users out.
    every : int
        Private devices between two scores; 0: only at the end.
    """

    wanted: TwoTier
    fitting: Fitting
    scale: Scale
    public: Rows
    private: Rows
    secret: bytes
    weight: float | Weighing
    every: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """What came of it.

    Attributes
    ----------
    features : ItemFeatures
        The final model.
    model : FittedModel
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
    validation_users : int or None
        Public users that it was chosen on, whom no announced model knows; None where it was given.
    """

    features: ItemFeatures
    model: FittedModel
    points: list[tuple[int, float]]
    announced: list[bytes]
    answered: int
    duplicates: int
    releases_sha256: str
    weight: float | None
    validation_users: int | None


def start(plan: CoursePlan, crowd: Crowd) -> FittedModel:
    """Fit the public users alone."""
    scale = plan.scale
    model = begin(crowd, plan.fitting, lowest=scale.lowest, highest=scale.highest, scale=scale.levels)
    return iterate(model, crowd, plan.fitting, plan.wanted.iterations)


def follow(
    plan: CoursePlan, session: Session, score: Score, crowd: Crowd | None = None, kept: KeptBatches | None = None
) -> Course:
    """Run a mechanism, or its rival ``full`` or ``none``.

    Parameters
    ----------
    plan : CoursePlan
    session : Session
        Where cohorts and devices are.
    score : callable
        Told every model that is scored.
    crowd : Crowd, optional
        The public users, where they are open already.
    kept : KeptBatches, optional
        Batches that answered before an interruption, and are not asked again; told every new one. Devices keep their
        answers beside them. Without devices, as with ``full``, nothing is kept.

    Returns
    -------
    Course
        The model goes through the same number of EM iterations whatever the mechanism.
    """
    if plan.wanted.mechanism == FULL:
        return _follow_full(plan, session, score)
    with ExitStack() as stack:
        here = crowd if crowd is not None else stack.enter_context(open_crowd(plan.public, session))
        if plan.wanted.mechanism == NONE:
            return _Walk(plan, here, here, None, score).go()
        told = here
        if isinstance(plan.weight, Weighing):
            told = stack.enter_context(open_crowd(plan.weight.announced_to, session))
        consent = Consent(mechanisms=frozenset({plan.wanted.mechanism}), epsilon=plan.wanted.asked_epsilon)
        ledger = None if kept is None else kept.ledger
        devices = stack.enter_context(open_devices(plan.private, plan.secret, consent, session, ledger))
        return _Walk(plan, here, told, devices, score, kept).go()


class _Walk:
    """Batch by batch: announce, ask, fold, iterate.

    The server's own model is of all public users, in ``crowd``. Announced models are of those in ``told``; where these
    are all of them, it is the same model.
    """

    def __init__(
        self,
        plan: CoursePlan,
        crowd: Crowd,
        told: Crowd,
        devices: Devices | None,
        score: Score,
        kept: KeptBatches | None = None,
    ) -> None:
        self._plan, self._crowd, self._told, self._devices, self._score = plan, crowd, told, devices, score
        self._kept, self._before = kept, iter(kept or ())
        self._book = ReleaseBook(crowd.items)
        self._digest, self._announced = hashlib.sha256(), list[bytes]()
        self._weight, self._weighed = 0.0, 0

    def go(self) -> Course:
        plan = self._plan
        model = start(plan, self._crowd)
        told = alone = model if self._told is self._crowd else start(plan, self._told)
        points = [(0, self._score(model.features))]
        for first, stop in plan.private.blocks(plan.wanted.batch):
            if self._devices is not None:
                told = announced(told, self._told)
                self._fold(told.features, alone, self._devices, first, stop)
            told = self._iterate(told, self._told)
            model = told if self._told is self._crowd else self._iterate(model, self._crowd)
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
            validation_users=None if self._told is self._crowd else self._crowd.users - self._told.users,
        )

    def _fold(self, features: ItemFeatures, alone: FittedModel, devices: Devices, first: int, stop: int) -> None:
        """Take in a batch's releases about an announced model, as they were kept or as devices answer; weigh them."""
        wanted = self._plan.wanted
        query = SecondOrderQuery(
            model=features.digest,
            mechanism=wanted.mechanism,
            epsilon=wanted.asked_epsilon,
            batch=first // wanted.batch,
        )
        self._announced.append(query.model)
        earlier = next(self._before, None)
        releases = self._ask(query, features, devices, first, stop) if earlier is None else earlier.releases(query)
        for release in releases:
            self._digest.update(release.payload)
        self._book.absorb(query, features, releases)
        if earlier is not None:
            self._weight, self._weighed = earlier.weight, earlier.weighed
            return
        self._weigh(alone, last=stop == self._plan.private.users)
        if self._kept is not None:
            self._kept.keep(batch_of(query, releases, self._weight, self._weighed))

    @staticmethod
    def _ask(
        query: SecondOrderQuery, features: ItemFeatures, devices: Devices, first: int, stop: int
    ) -> list[SecondOrderRelease]:
        """Announce the model to a batch, and ask it."""
        devices.pin(query.model, first, stop)
        return devices.answer(query, features, first, stop)

    def _weigh(self, alone: FittedModel, *, last: bool) -> None:
        """Take the weight of what is in the book, chosen from the model that announced users alone give."""
        weight, devices = self._plan.weight, self._book.devices
        if not isinstance(weight, Weighing):
            self._weight = weight
        elif self._weighed == 0 or devices >= GROWTH * self._weighed or last:
            self._weight, self._weighed = weight.choose(alone, self._told, self._book), devices

    def _iterate(self, model: FittedModel, crowd: Crowd) -> FittedModel:
        plan = self._plan
        return iterate(model, crowd, plan.fitting, plan.wanted.batch_iterations, book=self._book, weight=self._weight)


def _follow_full(plan: CoursePlan, session: Session, score: Score) -> Course:
    """Let the private users' ratings join the public ones batch by batch, means included: full EM, not private."""
    with open_crowd(plan.public, session) as crowd:
        model = start(plan, crowd)
    points = [(0, score(model.features))]
    for first, stop in plan.private.blocks(plan.wanted.batch):
        with open_crowd(stacked((plan.public, plan.private.block(0, stop))), session) as crowd:
            mean, first_order = centre(crowd)
            degree = None if model.features.mean_degree is None else crowd.ratings / crowd.users
            model = FittedModel(
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
        validation_users=None,
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
