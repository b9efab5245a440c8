"""The main job: a population answers, the untrusted server learns a model of the items, devices take advice from it."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from actors.absence import PRESENT, Absence
from actors.device import AdviceRequest, Cohort
from actors.device_block import DeviceKind
from actors.keeper import Refusal, Spent, refusals_of, spent_by
from actors.lies import ANSWERS, RATINGS, Collusion, lie_about
from actors.lying import LyingCohort
from actors.ratings import Ratings
from coordinator.protocol.arrays import Bools, Indices, Indices2
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.protocol.item_models import PublicFeatures
from coordinator.protocol.mechanism import ANCHOR, ELIMINATE, FIXED, ONE_ROUND
from coordinator.protocol.mechanisms.sign import Sign
from coordinator.protocol.shared_vector import IDEAL
from coordinator.protocol.shares import SIDES, secret_of
from coordinator.protocol.statistics.statistic import Statistic
from coordinator.protocol.trust_models import TWO_SERVERS
from coordinator.server.fleet.cohorts import Layout, plan_layout
from coordinator.server.rounds.policies import policy_name
from coordinator.server.rounds.rounds import Outcome, QueryPlan, require_same
from coordinator.server.rounds.state import total
from scenarios.backends.session import (
    Backend,
    BackendJob,
    Costs,
    DeviceGroup,
    ExperimenterView,
    NoStore,
    Progress,
    RoundStore,
    SessionResult,
    silent,
)
from scenarios.config.custom_kinds import mechanism_with, packages_of
from scenarios.config.mechanism_settings import packages_of_policy
from scenarios.config.resolve import ResolvedRun
from scenarios.config.scenario import FEW, INPUT, UNTARGETED, Attack, Scenario
from scenarios.data.populations import Population, liked_share, populate, resolved_run
from scenarios.theory.liars import LUCK, influence_of, overthrown


def collusion_of(population: Population, resolved: ResolvedRun) -> Collusion | None:
    """Return what the liars of a run agree on; None if nobody lies."""
    scenario = resolved.scenario
    if (attack := scenario.plotted) is None:
        return None
    truth = truth_of(population)
    return Collusion(
        share=scenario.malicious or 0.0,
        wishes=_wishes(population, resolved, attack, truth),
        truth=truth,
        ordered=scenario.policy != ANCHOR,
        makes_up=RATINGS if attack.name == INPUT else ANSWERS,
        rated=resolved.world.rated,
        overflow=_overflow(resolved),
    )


def _overflow(resolved: ResolvedRun) -> int:
    """Return what a liar adds to an item of a vector that nobody proves; 0 where vectors are proven, or none."""
    # A word holds less than 2**31 in all before its sign is lost, so that liars, of whom there are hardly ever twice as
    # many as expected, share out half of that.
    scenario = resolved.scenario
    if resolved.mechanism.trust != TWO_SERVERS or scenario.value("proofs") == IDEAL:
        return 0
    return (1 << 30) // (20 + math.ceil(2 * (scenario.malicious or 0.0) * resolved.world.users))


def truth_of(population: Population) -> Indices:
    """Return 1 for items that more devices like than half way between the least and the most liked item, else -1."""
    # With a ratings file the border is the median, so that promoted items come from the less popular half. Clusters of
    # anchor sensing may be liked equally often: its items of the first cluster are 1.
    liked = liked_share(population)
    border = np.median(liked) if population.truth is None else (liked.min() + liked.max()) / 2
    upper = population.truth == 0 if population.scenario.policy == ANCHOR else liked > border
    return np.where(upper, 1, -1).astype(np.int32)


def _wishes(population: Population, resolved: ResolvedRun, attack: Attack, truth: Indices) -> Indices:
    """Return the wishes: items are drawn by the run's seed among the less liked ones, and among all if both ways go."""
    # Where clusters have no order at most half of the items are turned: if more were, it would be fewer.
    scenario = resolved.scenario
    lie = lie_about(mechanism_with(scenario.settings).query_name())
    sides = scenario.policy == ANCHOR
    everywhere = sides or (attack.name == UNTARGETED and lie is not None and lie.both_ways)
    among = np.arange(truth.size) if everywhere else np.flatnonzero(truth < 0)
    most = among.size // 2 if sides else among.size
    many = _number(population, resolved, attack, most)
    if many > most:
        why = "can change sides" if sides else "are liked less"
        raise InputError(f"attack is {attack.name}:{many}, but only {most} items {why}; name fewer")
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "wishes")))
    wishes = np.zeros(truth.size, np.int32)
    subset = coins.permutation(among)[:many]
    wishes[subset] = -truth[subset]
    return wishes


def _number(population: Population, resolved: ResolvedRun, attack: Attack, most: int) -> int:
    """Return how many items liars move: the named number, else the one that mixes up most labels."""
    scenario, labels = resolved.scenario, population.truth
    if attack.name != UNTARGETED:
        return attack.number or 1
    whole = scenario.model_copy(update={"policy": ONE_ROUND, "pool_size": None})
    influence = influence_of(replace(resolved, scenario=whole))
    if influence is None or influence.tips_only:
        return min(FEW, most)
    if scenario.policy not in (ONE_ROUND, FIXED):
        plain = isinstance(settings := scenario.settings, Sign) and settings.signs == "plain"
        many = influence.swift(scenario.malicious or 0.0, most, LUCK if plain else 1.0)
        assert labels is not None  # a ratings file has none, and is refused
        first = scenario.policy == ELIMINATE and scenario.pool_size is None
        return 1 if first and overthrown(resolved, influence, labels, promoted=1) > many else many
    return influence.worst(scenario.malicious or 0.0, resolved.world.users, most)


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
    resolved: ResolvedRun | None = field(default=None, repr=False)  # What the run began with

    @property
    def kind(self) -> DeviceKind:
        """The kind of the devices."""
        settings: Any = {"budget": self.plan.budget, "absence": self.absence, "agreement": self.plan.agreement}
        if self.collusion is None:
            return partial(Cohort, **settings)
        return partial(LyingCohort, **settings, collusion=self.collusion)

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
    refusals: Sequence[Refusal] = ()  # Why devices refused, round by round

    @property
    def population(self) -> Population:
        """The experimenter's knowledge."""
        assert self.job.population is not None  # of all jobs but those of tests
        return self.job.population

    @property
    def resolved(self) -> ResolvedRun:
        """What the run began with."""
        assert self.job.resolved is not None  # of all jobs but those of tests
        return self.job.resolved

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
    rank_by_score: bool = False,
    features: PublicFeatures | None = None,
) -> MainResult:
    """Run a job; let the first ``advised`` devices draw their own ``top`` recommendations from the model."""
    # With ``rank_by_score`` devices are handed the model as one cluster, and so rank all items by score.

    def finish(outcome: Outcome, backstage: ExperimenterView, costs: Costs) -> MainResult:
        model = outcome.model
        if rank_by_score:
            model = replace(model, cluster=np.zeros_like(model.cluster), clusters=1)
        advice = backstage.inspect(RATERS, AdviceRequest(model, top, features), advised)
        lists = np.concatenate(advice) if advice else np.empty((0, top), np.int32)
        keeper, devices, state = backstage.keeper, job.layout.devices, outcome.state
        rounds = [
            (ask.query.id, ask.query.epsilon, ask.first, ask.stop, counts.refused)
            for ask, counts in zip(state.asked, state.counts, strict=True)
        ]
        answers = None if job.plan.agreement is None else job.plan.agreement.answers
        return MainResult(
            job=job,
            outcome=outcome,
            advice=lists,
            spent=spent_by(keeper, devices),
            refusals=refusals_of(keeper, devices, state.budget, rounds, answers),
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
    packages = packages_of(type(custom.mechanism), custom.mechanism.helpers) if (custom := plan.custom) else set()
    return frozenset(packages_of_policy(plan.policy) | packages)


def query_plan(resolved: ResolvedRun) -> QueryPlan:
    """Return the server's share of a run: what devices are asked, whoever carries the queries to them."""
    return QueryPlan(
        policy=resolved.policy,
        learner=resolved.learner,
        devices=resolved.world.users,
        budget=resolved.account.budget,
        most_rounds=resolved.scenario.most_rounds,
        agreement=resolved.agreement,
    )


def _absence(resolved: ResolvedRun) -> Absence:
    """Return which devices are missing: by coins, and where time counts those who have left."""
    absence, asking = resolved.scenario.absence, resolved.asking
    if asking is None or not resolved.scenario.churn:
        return absence
    return replace(absence, churn=resolved.scenario.churn, stretches=tuple(group[:3] for group in asking.groups))


TOP = 10  # Length of a device's recommendation


def run(
    scenario: Scenario,
    session: Backend,
    *,
    devices_per_actor: int | None = None,
    population: Population | None = None,
    resolved: ResolvedRun | None = None,
    progress: Progress = silent,
    rounds: RoundStore | None = None,
    ledger: Path | None = None,
) -> MainResult:
    """Run a scenario."""
    population = population or populate(scenario)
    resolved = resolved or resolved_run(population)
    population, filled = replace(population, scenario=resolved.scenario), resolved.scenario
    users, records = population.ratings.users, rounds or NoStore()
    if (agreement := records.agree(resolved.agreement)) != resolved.agreement:
        resolved = resolved.resumed(agreement)
    plan = query_plan(resolved)
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
        absence=_absence(resolved),
        collusion=collusion_of(population, resolved),
        server_secrets={side: secret_of(filled.seed, side) for side in SIDES},
        population=population,
        resolved=resolved,
    )
    # With a ratings file one device for each person takes advice, else at most a thousand
    advised = min(1000, users) if population.split is None else population.people
    if resolved.asking is not None and population.split is not None:
        advised = users  # since people stand where their period of arrival puts them
    # With a ratings file devices rank items by score alone, if scores rank them by popularity: clusters of such scores
    # are a file's popular and unpopular items, and tell less than the scores. In a block model all items are rated
    # equally often, and clusters let devices of different classes follow what their own class likes.
    rank_by_score = population.split is not None and resolved.mechanism.ranks
    features = population.descriptions.features if population.descriptions else None
    return run_job(
        job, session, advised=advised, top=TOP, progress=progress, rank_by_score=rank_by_score, features=features
    )
