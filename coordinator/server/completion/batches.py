"""Private devices in batches, each a conductor's round: announce a model, ask once, fold the releases in, iterate."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Query
from coordinator.protocol.rows import Rows
from coordinator.protocol.second_order import Announcement, SecondOrderQuery, SecondOrderRelease
from coordinator.server.completion.announcing import announced
from coordinator.server.completion.course import Batch, Course
from coordinator.server.completion.crowd import Crowd, spread_crowd
from coordinator.server.completion.fitting import FittedModel, Fitting, begin, iterate
from coordinator.server.completion.folding import ReleaseBook
from coordinator.server.completion.weighing import Weighing
from coordinator.server.rounds.conductor import Block, Fleet
from coordinator.server.rounds.tally import Tally

PRIVATE = "private"
"""The kind of devices that a fleet must have if any are asked."""
GROWTH = 2
"""A validated weight is chosen again when the releases have grown by this factor, and at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What is fitted, and what devices are asked; see `coordinator.server.rounds.conductor.Plan`.

    Attributes
    ----------
    public : Rows
        Public users' ratings.
    private : int
        Addresses of private devices lie below this.
    mechanism : str or None
        The mechanism through which devices answer; None if they are not asked.
    epsilon : Fraction or None
        The mechanism's privacy parameter [nats], where it has one.
    fitting : Fitting
    lowest, highest : float
        Range of ratings.
    levels : tuple of float or None
        The set S of ratings.
    iterations, batch, batch_iterations : int
        EM iterations on public users alone; devices of a batch; EM iterations after each batch.
    weight : float or Weighing
        Weight of a release, or how to choose it; announced models then leave some public users out.
    every : int
        Number of private devices between two models that are returned; 0 for the last model only.
    own_h : bool
        Whether devices tell how large their signs are, where the mechanism has signs of one size.
    clip : bool
        Whether no release counts more than a public user's row does on average.
    beside : bool
        Whether to return the course of public users alone as well, with the same number of iterations.
    """

    public: Rows
    private: int
    mechanism: str | None
    epsilon: Epsilon = None
    fitting: Fitting
    lowest: float
    highest: float
    levels: tuple[float, ...] | None
    iterations: int
    batch: int
    batch_iterations: int
    weight: float | Weighing
    every: int = 0
    own_h: bool = False
    clip: bool = False
    beside: bool = False

    @property
    def own(self) -> None:
        """No mechanism of one's own."""
        return

    @property
    def in_step(self) -> bool:
        """True, because other answers would change the next model, which a batch that took one would refuse."""
        return True

    def rehearsal(self) -> Query | None:
        """Return None, because devices answer about a model that does not exist yet."""
        return None

    def begin(self, fleet: Fleet) -> Batches:
        """Return the course in its state before the first batch."""
        return Batches(self, fleet)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the batches, ``[first, stop)`` each."""
        return [(first, min(first + self.batch, self.private)) for first in range(0, self.private, max(self.batch, 1))]

    def told_after(self, first: int, stop: int) -> bool:
        """Return whether the model after a batch is returned."""
        return stop == self.private or bool(self.every and stop // self.every > first // self.every)


class Batches:
    """Learning from batches; see `coordinator.server.rounds.conductor.Learning`.

    The server's own model is fitted to all public users, and announced models to ``told_to``. If that is everybody,
    both are the same model.

    Parameters
    ----------
    plan : BatchPlan
    fleet : Fleet
        It has `PRIVATE` devices if any are asked.
    """

    def __init__(self, plan: BatchPlan, fleet: Fleet) -> None:
        self._plan, self._fleet, self._batches = plan, fleet, plan.blocks()
        self._crowd = self._told_to = spread_crowd(plan.public, fleet)
        if plan.mechanism is not None and isinstance(plan.weight, Weighing):
            self._told_to = spread_crowd(plan.weight.announced_to, fleet)
        self._book, self._digest = ReleaseBook(self._crowd.items, clip=plan.clip), hashlib.sha256()
        self._announced, self._models = list[bytes](), list[tuple[int, ItemFeatures]]()
        self._weight, self._weighed = 0.0, 0
        self._over, self._due = 0, False
        self._model: FittedModel | None = None
        self._told: FittedModel
        self._alone: FittedModel

    def next(self) -> Batch | None:
        """Announce a model to the next batch, ask about it, and weigh the releases in the book."""
        if self._plan.mechanism is None or self._over == len(self._batches):
            return None
        query, features = self._announce()
        releases = self._ask(query, features, *self._batches[self._over])
        self._fold(query, features, releases)
        self._weigh()
        return Batch(
            query_id=query.id,
            model=query.model,
            batch=query.batch,
            mechanism=query.mechanism,
            devices=[release.device for release in releases],
            payloads=[release.payload for release in releases],
            weight=self._weight,
            weighed=self._weighed,
        )

    def repeat(self, over: Batch) -> None:
        """Take in a stored batch of an interrupted run; models are fitted again.

        Raises
        ------
        InputError
            If it was asked about another model than would be announced now.
        """
        query, features = self._announce()
        self._fold(query, features, over.releases(query))
        self._weight, self._weighed = over.weight, over.weighed

    def outcome(self) -> Course:
        """Return the final model and its history."""
        if self._plan.mechanism is None:
            return public_only(self._plan, self._crowd)
        model = self._iterate()
        return Course(
            features=announced(model, self._crowd).features,
            model=model,
            models=self._models,
            announced=self._announced,
            answered=self._book.devices,
            duplicates=self._book.duplicates,
            releases_sha256=self._digest.hexdigest(),
            weight=self._weight,
            validation_users=None if self._told_to is self._crowd else self._crowd.users - self._told_to.users,
            alone=public_only(self._plan, self._crowd) if self._plan.beside else None,
        )

    def tally(self) -> Tally:
        """Return how far the batches have come; a device answers once."""
        asked = self._plan.mechanism is not None
        return Tally(
            rounds=self._over,
            planned=len(self._batches) if asked else 0,
            answers=self._book.devices,
            refused=None,
            epsilon=as_float(self._plan.epsilon) if self._over else 0.0,
        )

    def _announce(self) -> tuple[SecondOrderQuery, ItemFeatures]:
        """Return the next batch's query and the model that it is about."""
        self._iterate()
        self._told, plan = announced(self._told, self._told_to), self._plan
        assert plan.mechanism is not None  # otherwise nothing is announced
        query = SecondOrderQuery(
            model=self._told.features.digest,
            mechanism=plan.mechanism,
            epsilon=plan.epsilon,
            batch=self._over,
            own_h=plan.own_h,
        )
        self._announced.append(query.model)
        return query, self._told.features

    def _ask(self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int) -> list[SecondOrderRelease]:
        """Announce the model to a batch, and ask it."""
        private = self._fleet.hosts(PRIVATE)
        blocks = private.blocks(first, stop)
        private.ask(Announcement(model=query.model), blocks, _silent)
        return [one for told in private.ask(query, blocks, _releases, features) for one in told]

    def _fold(self, query: SecondOrderQuery, features: ItemFeatures, releases: Sequence[SecondOrderRelease]) -> None:
        """Take in a batch's releases; the iterations that use them are made when they are needed."""
        for release in releases:
            self._digest.update(release.payload)
        self._book.absorb(query, features, releases)
        first, stop = self._batches[self._over]
        self._over, self._due = self._over + 1, True
        self._fleet.more(stop - first)

    def _weigh(self) -> None:
        """Set the weight of releases, chosen with a model of the announced users without any releases."""
        weight, devices = self._plan.weight, self._book.devices
        last = self._over == len(self._batches)
        if not isinstance(weight, Weighing):
            self._weight = weight
        elif self._weighed == 0 or devices >= GROWTH * self._weighed or last:
            self._weight, self._weighed = weight.choose(self._alone, self._told_to, self._book), devices

    def _iterate(self) -> FittedModel:
        """Return the server's model after all batches so far; make the iterations that are due."""
        same = self._told_to is self._crowd
        if self._model is None:
            self._model = start(self._plan, self._crowd)
            self._told = self._alone = self._model if same else start(self._plan, self._told_to)
            self._models.append((0, self._model.features))
        if self._due:
            self._told, self._due = self._further(self._told, self._told_to), False
            self._model = self._told if same else self._further(self._model, self._crowd)
            first, stop = self._batches[self._over - 1]
            if self._plan.told_after(first, stop):
                self._models.append((stop, self._model.features))
        return self._model

    def _further(self, model: FittedModel, crowd: Crowd) -> FittedModel:
        plan = self._plan
        return iterate(model, crowd, plan.fitting, plan.batch_iterations, book=self._book, weight=self._weight)


def start(plan: BatchPlan, crowd: Crowd) -> FittedModel:
    """Fit public users alone."""
    model = begin(crowd, plan.fitting, lowest=plan.lowest, highest=plan.highest, scale=plan.levels)
    return iterate(model, crowd, plan.fitting, plan.iterations)


def public_only(plan: BatchPlan, crowd: Crowd) -> Course:
    """Return the course of public users alone, with the same number of iterations and without asking anybody."""
    model = start(plan, crowd)
    models = [(0, model.features)]
    for first, stop in plan.blocks():
        model = iterate(model, crowd, plan.fitting, plan.batch_iterations, weight=0.0)
        if plan.told_after(first, stop):
            models.append((stop, model.features))
    return Course(features=announced(model, crowd).features, model=model, models=models)


def _silent(_: Block, told: object) -> None:
    if told is not None:
        raise InputError(f"devices answered an announcement, with a {type(told).__name__}")


def _releases(block: Block, told: object) -> None:
    """Refuse anything but a list of releases of a block's devices, ascending."""
    if type(told) is not list:
        raise InputError(f"releases come as a list, not as a {type(told).__name__}")
    devices = [SecondOrderRelease.arrived(one).device for one in told]
    if devices != sorted({one for one in devices if block.first <= one < block.stop}):
        raise InputError("somebody answers for devices that were not asked, or twice")
