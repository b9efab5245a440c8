"""The main job as work for a place: devices that rated items, and rounds of queries about them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from actors.absence import PRESENT, Absence
from actors.device import AdviceRequest, Raters
from actors.lying.devices import Liars
from actors.lying.lies import Collusion
from actors.ratings import Ratings
from coordinator.protocol.arrays import Indices2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.server.design import MOST_ROUNDS
from coordinator.server.fleet.cohorts import Layout
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.policies import policy_name
from coordinator.server.rounds.rounds import Outcome, QueryPlan
from coordinator.server.rounds.state import Policy, ServerState, total
from coordinator.server.statistics.statistic import Statistic
from scenarios.data.populations import Population
from scenarios.given.config import Scenario
from scenarios.given.policies import packages_of_policy
from scenarios.given.run_spec import RunSpec
from scenarios.own.halves import packages_of
from scenarios.places.session import Backend, BackendJob, Costs, DeviceGroup, ExperimenterView, Progress, SessionResult
from scenarios.places.spending import Spent, spent_by
from scenarios.store.round_store import NoStore, RoundStore

RATERS = "devices"
"""The kind of devices of the main job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: the private side's share, the server's share, and the layout."""

    ratings: Ratings  # Private: goes to devices only
    secret: bytes  # Private: the population's master secret
    budget: Epsilon  # Each device's budget [nats]
    policy: Policy  # The server's
    learner: Learner
    layout: Layout  # Speed only
    most_rounds: int = MOST_ROUNDS  # A policy that goes on after so many rounds is stopped
    # Those that an interrupted run went through; told every new one
    rounds: RoundStore = field(default_factory=NoStore)
    ledger: Path | None = None  # Folder in which the devices' keeper keeps what they have spent; None: in memory only
    absence: Absence = PRESENT  # Which devices drop out, or answer too late
    collusion: Collusion | None = None  # What liars among the devices agreed on; None if nobody lies
    population: Population | None = field(default=None, repr=False)  # What the experimenter knows, and no place is told
    spec: RunSpec | None = field(default=None, repr=False)  # What the run began with

    @property
    def kind(self) -> Raters:
        """The kind of the devices."""
        if self.collusion is None:
            return Raters(budget=self.budget, absence=self.absence)
        return Liars(budget=self.budget, absence=self.absence, collusion=self.collusion)

    @property
    def plan(self) -> QueryPlan:
        """The server's share."""
        return QueryPlan(
            policy=self.policy,
            learner=self.learner,
            devices=self.layout.devices,
            budget=self.budget,
            most_rounds=self.most_rounds,
        )

    @contextmanager
    def naming_policy(self) -> Iterator[None]:
        """Name the policy where devices refuse its first query."""
        try:
            yield
        except InputError as error:
            start = ServerState(devices=self.layout.devices)
            raise PolicyError(f"{policy_name(self.policy, start)}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(SessionResult[Outcome]):
    """What came of a job."""

    job: Job = field(repr=False)  # What was run
    advice: Indices2 = field(repr=False)  # shape (advised devices, k); Each advised device's own top k
    spent: Sequence[Spent] = field(repr=False)  # What devices have spent, by stretches ``(first, stop, spent)`` [nats]

    @property
    def population(self) -> Population:
        """The experimenter's knowledge."""
        assert self.job.population is not None  # of all jobs but those of tests
        return self.job.population

    @property
    def spec(self) -> RunSpec:
        """What the run began with."""
        assert self.job.spec is not None  # of all jobs but those of tests
        return self.job.spec

    @property
    def scenario(self) -> Scenario:
        """The scenario, filled in."""
        return self.population.scenario

    @property
    def statistic(self) -> Statistic:
        """Sums over all rounds."""
        return total(self.outcome.state)


def run_job(
    job: Job,
    session: Backend,
    *,
    advised: int,
    top: int,
    progress: Progress,
    listed: bool = False,
    features: PublicFeatures | None = None,
) -> Result:
    """Run a job; let the first ``advised`` devices draw their own ``top`` recommendations from the model.

    If they are ``listed``, devices are handed the model as one cluster, and so rank all items by score; with public
    ``features`` they weigh these scores.
    """

    def finish(outcome: Outcome, backstage: ExperimenterView, costs: Costs) -> Result:
        model = outcome.model
        if listed:
            model = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)
        advice = backstage.inspect(RATERS, AdviceRequest(model, top, features), advised)
        return Result(
            job=job,
            outcome=outcome,
            advice=np.concatenate(advice) if advice else np.empty((0, top), np.int32),
            spent=spent_by(backstage.keeper, job.layout.devices),
            costs=costs,
            backend=session.name,
            layout=job.layout,
        )

    work = BackendJob(
        plan=job.plan,
        device_groups={RATERS: DeviceGroup(kind=job.kind, holdings=job.ratings, bounds=job.layout.cohorts)},
        secret=job.secret,
        layout=job.layout,
        finish=finish,
        records=job.rounds,
        ledger=job.ledger,
        naming=job.naming_policy,
        packages=_packages(job),
    )
    return session.run(work, progress)


def _packages(job: Job) -> frozenset[str]:
    """Return where the code of a policy and a mechanism of one's own lies."""
    own = job.learner.own
    return frozenset(packages_of_policy(job.policy) | (packages_of(type(own.mechanism), own.helpers) if own else set()))
