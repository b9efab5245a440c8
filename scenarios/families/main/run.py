"""The main job: a population answers, the untrusted server learns a model of the items, devices take advice from it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from actors.absence import PRESENT, Absence
from actors.device import AdviceRequest, Cohort
from actors.device_half import DeviceKind
from actors.keeper import Spent, spent_by
from actors.lies import Collusion
from actors.lying import LyingCohort
from actors.ratings import Ratings
from coordinator.protocol.arrays import Bools, Indices2
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.server.fleet.cohorts import Layout, plan_layout
from coordinator.server.rounds.policies import policy_name
from coordinator.server.rounds.rounds import Outcome, QueryPlan, require_same
from coordinator.server.rounds.state import total
from coordinator.server.statistics.statistic import Statistic
from scenarios.backends.session import (
    Backend,
    BackendJob,
    Costs,
    DeviceGroup,
    ExperimenterView,
    Progress,
    SessionResult,
    silent,
)
from scenarios.config.custom_halves import packages_of
from scenarios.config.mechanism_settings import packages_of_policy
from scenarios.config.run_spec import RunSpec
from scenarios.config.scenario import Scenario
from scenarios.data.populations import Population, populate, settled
from scenarios.families.main.liars_plan import collusion_of
from scenarios.store.round_store import NoStore, RoundStore

RATERS = "devices"  # The kind of devices of the main job


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One run: the private side's share, the server's share, and the layout."""

    ratings: Ratings  # Private: goes to devices only
    secret: bytes  # Private: the population's master secret
    plan: QueryPlan  # The server's, and each device's budget
    layout: Layout  # Speed only
    # Those of an interrupted run, and where every new one is stored
    rounds: RoundStore = field(default_factory=NoStore)
    ledger: Path | None = None  # Folder in which the devices' keeper keeps what they have spent; None: in memory only
    absence: Absence = PRESENT  # Which devices drop out, or answer too late
    server_secrets: dict[str, bytes] = field(default_factory=dict, repr=False)  # Private: each of two servers' own
    collusion: Collusion | None = None  # What liars among the devices agreed on; None if nobody lies
    population: Population | None = field(default=None, repr=False)  # What the experimenter knows, and no backend
    spec: RunSpec | None = field(default=None, repr=False)  # What the run began with

    @property
    def kind(self) -> DeviceKind:
        """The kind of the devices."""
        if self.collusion is None:
            return partial(Cohort, budget=self.plan.budget, absence=self.absence)
        return partial(LyingCohort, budget=self.plan.budget, absence=self.absence, collusion=self.collusion)

    @contextmanager
    def naming_policy(self) -> Iterator[None]:
        """Name the policy where devices refuse its first query."""
        try:
            yield
        except InputError as error:
            raise PolicyError(f"{policy_name(self.plan.policy, self.plan.start)}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class MainResult(SessionResult[Outcome]):
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

    @property
    def decided(self) -> Bools | None:
        """Which items are decided at the scenario's confidence; None where the server does not know how sure it is."""
        posterior = self.outcome.posterior
        return None if posterior is None else posterior.decided(1 - self.scenario.confidence)


def run_job(
    job: Job,
    session: Backend,
    *,
    advised: int,
    top: int,
    progress: Progress,
    listed: bool = False,
    features: PublicFeatures | None = None,
) -> MainResult:
    """Run a job; let the first ``advised`` devices draw their own ``top`` recommendations from the model.

    If they are ``listed``, devices are handed the model as one cluster, and so rank all items by score; with public
    ``features`` they weigh these scores.
    """

    def finish(outcome: Outcome, backstage: ExperimenterView, costs: Costs) -> MainResult:
        model = outcome.model
        if listed:
            model = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)
        advice = backstage.inspect(RATERS, AdviceRequest(model, top, features), advised)
        return MainResult(
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
        packages=_packages(job.plan),
        server_secrets=job.server_secrets,
    )
    return session.run(work, progress)


def _packages(plan: QueryPlan) -> frozenset[str]:
    """Return where the code of a custom policy and a custom mechanism lies."""
    packages = packages_of(type(own.mechanism), own.helpers) if (own := plan.own) else set()
    return frozenset(packages_of_policy(plan.policy) | packages)


TOP = 10  # Length of a device's recommendation


def run(
    scenario: Scenario,
    session: Backend,
    *,
    devices_per_actor: int | None = None,
    population: Population | None = None,
    progress: Progress = silent,
    rounds: RoundStore | None = None,
    ledger: Path | None = None,
) -> MainResult:
    """Run a scenario."""
    population = settled(population or populate(scenario))
    filled = population.scenario
    spec = RunSpec(filled, population.public)
    users, records = population.ratings.users, rounds or NoStore()
    plan = QueryPlan(
        policy=spec.policy,
        learner=spec.learner,
        devices=users,
        budget=spec.budget,
        most_rounds=filled.most_rounds,
        trust=spec.terms,
    )
    if not records.trusted:
        require_same(plan.policy, plan.learner, records, devices=users, budget=plan.budget)
    workers = session.choose_workers(plan, users * filled.answers_per_device)
    job = Job(
        ratings=population.ratings,
        secret=derive(filled.seed, "devices"),
        plan=plan,
        layout=plan_layout(devices=users, workers=workers, devices_per_actor=devices_per_actor),
        rounds=records,
        ledger=ledger,
        absence=filled.absence,
        collusion=collusion_of(population),
        server_secrets={side: secret_of(filled.seed, side) for side in SIDES},
        population=population,
        spec=spec,
    )
    # With a ratings file one device for each person takes advice, else at most a thousand
    advised = min(1000, users) if population.split is None else population.people
    # With a ratings file devices rank items by score alone, if scores rank them by popularity: clusters of such scores
    # are a file's popular and unpopular items, and tell less than the scores. In a block model all items are rated
    # equally often, and clusters let devices of different classes follow what their own class likes.
    listed = population.split is not None and spec.half.ranks
    features = population.descriptions.features if population.descriptions else None
    return run_job(job, session, advised=advised, top=TOP, progress=progress, listed=listed, features=features)
