"""Private devices in batches, each a conductor's round: announce a model, ask once, fold the releases in."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import numpy as np

from coordinator.protocol.arrays import Bits2, Floats2, Ints
from coordinator.protocol.budget import Epsilon, as_float
from coordinator.protocol.coins import on_grid, significant, step_of
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.messages import Query, Release
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.server.completion.crowd import PublicUsers, spread_public_users
from coordinator.server.completion.fitting import FittedModel, Fitting, ReleaseBook, begin, iterate
from coordinator.server.completion.weighing import Weighing
from coordinator.server.rounds.conductor import Block, Fleet
from coordinator.server.rounds.state import RunProgress

SIZED_USERS = 1000  # Most public users over whom the common h is averaged; they are taken evenly
VECTOR_BITS = 16  # Significant bits of the largest entry of V; the others lie on the same grid and have fewer


def announced(model: FittedModel, public_users: PublicUsers) -> FittedModel:
    """Return a model as it is announced to private devices, with all numbers on the public grid and with common h."""
    # EM goes on from the announced model, so that processors which differed in last bits agree again
    features = gridded(model.features)
    every = max(1, -(-public_users.users // SIZED_USERS))
    sizes = public_users.ask("sizes", features, every)
    common = sum(total for total, _ in sizes) / max(1, sum(count for _, count in sizes))
    return replace(model, features=replace(features, common_h=significant(common)), steps=list(model.steps))


def gridded(features: ItemFeatures) -> ItemFeatures:
    """Return features with mean, vectors, kappa and mean degree on the public grid; range and scale are public."""
    return replace(
        features,
        mean=on_grid(features.mean),
        vectors=canonical(features.vectors),
        kappa=significant(features.kappa),
        mean_degree=None if features.mean_degree is None else significant(features.mean_degree),
    )


def canonical(vectors: Floats2) -> Floats2:
    """Return V on the grid, shape (m, r), columns and signs in an order that follows from the rounded numbers."""
    # A column's squared length is its singular value of S~. The longest column comes first; equal ones are ordered by
    # their bytes. The largest entry of a column (the first one, if several are as large) is positive.
    step = step_of(float(np.abs(vectors).max(initial=0.0)), VECTOR_BITS)
    steps = np.rint(vectors / step).astype(np.int64)
    if steps.size:
        leads = np.take_along_axis(steps, np.abs(steps).argmax(axis=0)[None], axis=0)
        steps *= np.where(leads < 0, -1, 1)
    lengths = np.square(steps).sum(axis=0).tolist()
    order = sorted(range(steps.shape[1]), key=lambda k: (-lengths[k], steps[:, k].astype("<i8").tobytes()))
    return np.ascontiguousarray(steps[:, order] * step)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch that has answered, as it is stored."""

    query_id: bytes  # Digests of its query and of the model that was announced to it
    model: bytes
    batch: int  # Its number, from 0
    mechanism: str  # The mechanism through which it answered
    devices: Ints  # Addresses of those that answered, ascending
    payloads: Bits2 = field(repr=False)  # Their releases, a row of bytes each
    weight: float  # Weight of a release in the iterations that followed
    weighed: int  # Number of releases when the weight was chosen last

    def require(self, query: SecondOrderQuery) -> None:
        """Refuse a batch that answered something else than it would be asked now."""
        if self.query_id != query.id:
            raise InputError(
                f"batch {self.batch} answered about model {self.model.hex()[:8]}, and would be asked about "
                f"{query.model.hex()[:8]} here: models were computed by other code, or on another kind of processor; "
                "go on there, or start in a new folder"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionOutcome:
    """The result of a course."""

    features: ItemFeatures  # The final model
    model: FittedModel  # The final model with its iterations
    models: list[tuple[int, ItemFeatures]]  # Number of private devices so far, and the model at that time
    # Digest of every model that devices were asked about, in order
    announced: list[bytes] = field(default_factory=list)
    answered: int = 0  # Number of releases that count, and of those that arrived again
    duplicates: int = 0
    releases_sha256: str = hashlib.sha256().hexdigest()  # Digest of all releases in the devices' order
    weight: float | None = None  # Last weight of a release
    # Number of public users on whom the weight was chosen, who are in no announced model; None if it was given
    validation_users: int | None = None
    alone: CompletionOutcome | None = None  # The course of public users alone, if it was asked for


PRIVATE = "private"  # The kind of devices that a fleet must have if any are asked
GROWTH = 2  # A validated weight is chosen again when the releases have grown by this factor, and at the end


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What is fitted, and what devices are asked; see `coordinator.server.rounds.conductor.ServerSpec`."""

    custom: ClassVar[None] = None  # No custom mechanism
    agreement: ClassVar[None] = None  # about queries alone
    in_step: ClassVar[bool] = (
        True  # other answers would change the next model, and a batch that took one would refuse it
    )

    public: Rows  # Public users' ratings
    private: int  # Addresses of private devices lie below this
    mechanism: str | None  # The mechanism through which devices answer; None if they are not asked
    epsilon: Epsilon = None  # The mechanism's privacy parameter [nats], where it has one
    fitting: Fitting
    lowest: float  # Range of ratings
    highest: float
    levels: tuple[float, ...] | None  # The set S of ratings
    iterations: int  # EM iterations on public users alone; devices of a batch; EM iterations after each batch
    batch: int
    batch_iterations: int
    # Weight of a release, or how to choose it; announced models then leave some public users out
    weight: float | Weighing
    every: int = 0  # Number of private devices between two models that are returned; 0 for the last model only
    own_h: bool = False  # Whether devices report how large their signs are, where the mechanism has signs of one size
    clip: bool = False  # Whether no release counts more than a public user's row does on average
    # Whether to return the course of public users alone as well, with the same number of iterations
    beside: bool = False
    first_fit: FittedModel | None = None  # The result of `start`, where another course of the same public users has it

    def rehearsal(self) -> Query | None:
        """Return None, because devices answer about a model that does not exist yet."""
        return None

    def begin(self, fleet: Fleet) -> Batches:
        """Return the course in its state before the first batch."""
        return Batches(self, fleet)

    def blocks(self) -> list[tuple[int, int]]:
        """Return the batches, ``[first, stop)`` each."""
        return [(first, min(first + self.batch, self.private)) for first in range(0, self.private, max(self.batch, 1))]

    def returns_model_after(self, first: int, stop: int) -> bool:
        """Return whether the model after a batch is returned."""
        return stop == self.private or bool(self.every and stop // self.every > first // self.every)


class Batches:
    """Learns from batches of private devices; see `coordinator.server.rounds.conductor.ServerProcess`."""

    def __init__(self, plan: BatchPlan, fleet: Fleet) -> None:
        self._plan, self._fleet, self._batches = plan, fleet, plan.blocks()
        # the server's own model is fitted to all public users; announced models may leave validation users out
        self._public_users = self._announcing_users = spread_public_users(plan.public, fleet)
        if plan.mechanism is not None and isinstance(plan.weight, Weighing):
            self._announcing_users = spread_public_users(plan.weight.announced_to, fleet)
        self._book, self._digest = ReleaseBook(self._public_users.items, clip=plan.clip), hashlib.sha256()
        self._announced, self._models = list[bytes](), list[tuple[int, ItemFeatures]]()
        self._weight, self._weighed = 0.0, 0
        self._batch_number, self._due = 0, False
        self._model: FittedModel | None = None
        self._announced_model: FittedModel
        self._alone: FittedModel

    def run_round(self) -> Batch | None:
        """Announce a model to the next batch, ask about it, and weigh the releases in the book."""
        if self._plan.mechanism is None or self._batch_number == len(self._batches):
            return None
        query, features = self._announce()
        devices, payloads = self._ask(query, features, *self._batches[self._batch_number])
        self._fold(query, features, devices, payloads)
        self._weigh()
        return Batch(
            query_id=query.id,
            model=query.model,
            batch=query.batch,
            mechanism=query.mechanism,
            devices=devices,
            payloads=payloads,
            weight=self._weight,
            weighed=self._weighed,
        )

    def replay(self, record: Batch) -> None:
        """Take in a stored batch of an interrupted run; models are fitted again."""
        query, features = self._announce()
        record.require(query)
        self._fold(query, features, record.devices, record.payloads)
        self._weight, self._weighed = record.weight, record.weighed

    def outcome(self) -> CompletionOutcome:
        """Return the final model and its history."""
        if self._plan.mechanism is None:
            return public_only(self._plan, self._public_users)
        model = self._iterate()
        return CompletionOutcome(
            features=announced(model, self._public_users).features,
            model=model,
            models=self._models,
            announced=self._announced,
            answered=self._book.devices,
            duplicates=self._book.duplicates,
            releases_sha256=self._digest.hexdigest(),
            weight=self._weight,
            validation_users=None
            if self._announcing_users is self._public_users
            else self._public_users.users - self._announcing_users.users,
            alone=public_only(self._plan, self._public_users) if self._plan.beside else None,
        )

    def progress(self) -> RunProgress:
        """Return how far the batches have come; a device answers once."""
        asks_devices = self._plan.mechanism is not None
        return RunProgress(
            rounds=self._batch_number,
            planned=len(self._batches) if asks_devices else 0,
            answers=self._book.devices,
            refused=None,
            epsilon=as_float(self._plan.epsilon) if self._batch_number else 0.0,
        )

    def _announce(self) -> tuple[SecondOrderQuery, ItemFeatures]:
        """Return the next batch's query and the model that it is about."""
        self._iterate()
        self._announced_model, plan = announced(self._announced_model, self._announcing_users), self._plan
        assert plan.mechanism is not None  # otherwise nothing is announced
        query = SecondOrderQuery(
            model=self._announced_model.features.digest,
            mechanism=plan.mechanism,
            epsilon=plan.epsilon,
            batch=self._batch_number,
            own_h=plan.own_h,
        )
        self._announced.append(query.model)
        return query, self._announced_model.features

    def _ask(self, query: SecondOrderQuery, features: ItemFeatures, first: int, stop: int) -> tuple[Ints, Bits2]:
        """Announce the query to a batch, and ask it; return the devices that answered, and their releases."""
        private = self._fleet.hosts(PRIVATE)
        blocks = private.blocks(first, stop)
        private.ask(query, blocks, _silent)
        releases = private.ask(query, blocks, partial(_check_release, query, features), features)
        devices, payloads = zip(*(query.payloads(release, features) for release in releases), strict=True)
        return np.concatenate(devices), np.concatenate(payloads)

    def _fold(self, query: SecondOrderQuery, features: ItemFeatures, devices: Ints, payloads: Bits2) -> None:
        """Take in a batch's releases; the iterations that use them are made when they are needed."""
        self._digest.update(payloads.tobytes())
        self._book.absorb(query, features, devices, payloads)
        first, stop = self._batches[self._batch_number]
        self._batch_number, self._due = self._batch_number + 1, True
        self._fleet.report_progress(stop - first)

    def _weigh(self) -> None:
        """Set the weight of releases, chosen with a model of the announced users without any releases."""
        weight, devices = self._plan.weight, self._book.devices
        last = self._batch_number == len(self._batches)
        if not isinstance(weight, Weighing):
            self._weight = weight
        elif self._weighed == 0 or devices >= GROWTH * self._weighed or last:
            self._weight, self._weighed = weight.choose(self._alone, self._announcing_users, self._book), devices

    def _iterate(self) -> FittedModel:
        """Return the server's model after all batches so far; make the iterations that are due."""
        same = self._announcing_users is self._public_users
        if self._model is None:
            self._model = start(self._plan, self._public_users)
            self._announced_model = self._alone = self._model if same else start(self._plan, self._announcing_users)
            self._models.append((0, self._model.features))
        if self._due:
            self._announced_model, self._due = self._further(self._announced_model, self._announcing_users), False
            self._model = self._announced_model if same else self._further(self._model, self._public_users)
            first, stop = self._batches[self._batch_number - 1]
            if self._plan.returns_model_after(first, stop):
                self._models.append((stop, self._model.features))
        return self._model

    def _further(self, model: FittedModel, public_users: PublicUsers) -> FittedModel:
        plan = self._plan
        return iterate(model, public_users, plan.fitting, plan.batch_iterations, book=self._book, weight=self._weight)


def start(plan: BatchPlan, public_users: PublicUsers) -> FittedModel:
    """Fit public users alone."""
    if (
        plan.first_fit is not None and public_users.users == plan.public.users
    ):  # a crowd that announces may leave some out
        return plan.first_fit
    model = begin(public_users, plan.fitting, lowest=plan.lowest, highest=plan.highest, scale=plan.levels)
    return iterate(model, public_users, plan.fitting, plan.iterations)


def public_only(plan: BatchPlan, public_users: PublicUsers) -> CompletionOutcome:
    """Return the course of public users alone, with the same number of iterations and without asking anybody."""
    model = start(plan, public_users)
    models = [(0, model.features)]
    for first, stop in plan.blocks():
        model = iterate(model, public_users, plan.fitting, plan.batch_iterations, weight=0.0)
        if plan.returns_model_after(first, stop):
            models.append((stop, model.features))
    return CompletionOutcome(features=announced(model, public_users).features, model=model, models=models)


def _silent(_: Block, answer: object) -> None:
    if answer is not None:
        raise InputError(f"devices answered an announcement, with a {type(answer).__name__}")


def _check_release(query: SecondOrderQuery, features: ItemFeatures, block: Block, release: Release) -> None:
    """Refuse anything but a release of a block's devices."""
    query.payloads(release, features)
    if (release.first, release.first + release.count) != (block.first, block.stop):
        raise InputError(f"{block.name} are asked, and others answer; let both sides run the same code")
