"""The main job: a population answers, the untrusted server learns a model of the items, devices take advice from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from actors.lying.plot import Plot
from coordinator.protocol.admitted import Own
from coordinator.protocol.coins import derive
from coordinator.server.decoding.public_counts import PublicCounts
from coordinator.server.design import LearnerOptions
from coordinator.server.fleet.layout import plan_layout
from coordinator.server.own import server_half
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import Outcome
from coordinator.server.rounds.resuming import require_same
from coordinator.server.rounds.state import Ask, total
from coordinator.server.statistics.statistic import Statistic
from scenarios.data.block_world import settled
from scenarios.data.populations import Population, populate
from scenarios.given.config import Scenario
from scenarios.given.policies import asked_epsilon, policy_of
from scenarios.own.admitting import of_run
from scenarios.own.checking import Checked
from scenarios.places.in_process import InProcess
from scenarios.places.session import Progress, Session, silent
from scenarios.run.job import Job, Ran, run_job
from scenarios.run.plotting import plot_of
from scenarios.store.round_store import KeptRounds, Nowhere

TOP = 10
"""Length of a device's recommendation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, with everything that reports are made of.

    Attributes
    ----------
    population : Population
        The experimenter's knowledge.
    ran : Ran
        What the backend brought back.
    backend : str
        Where it ran.
    workers, devices_per_actor : int
        Its layout.
    plot : Plot or None
        What liars agreed on; None if nobody lied.
    """

    population: Population = field(repr=False)
    ran: Ran = field(repr=False)
    backend: str
    workers: int
    devices_per_actor: int
    plot: Plot | None = field(default=None, repr=False)

    @property
    def scenario(self) -> Scenario:
        """The scenario, filled in."""
        return self.population.scenario

    @property
    def outcome(self) -> Outcome:
        """What the server learned."""
        return self.ran.outcome

    @property
    def statistic(self) -> Statistic:
        """Sums over all rounds."""
        return total(self.outcome.state)


def learner_of(scenario: Scenario, public: PublicCounts | None = None) -> Learner:
    """Return how the server of a filled-in scenario learns; a trusted curator has coins that nobody else knows."""
    options = LearnerOptions(
        decoder=scenario.decoder,
        confidence=scenario.confidence,
        assume_malicious=scenario.assume_malicious or 0.0,
        verifies=scenario.verify is not None,
        curator_seed=derive(scenario.seed, "curator"),
        public=public,
    )
    own = own_of(scenario)
    half = scenario.half if own is None else server_half(own[0])
    return half.learner(scenario.settings, scenario.world, options)


def own_of(scenario: Scenario) -> tuple[Own, Checked] | None:
    """Return the mechanism of one's own of a filled-in scenario, checked, and how; None where it is none.

    Raises
    ------
    MechanismError
        If its class asks nothing that can be asked, or its channel tells more than it claims.
    """
    epsilon = asked_epsilon(scenario)
    answer = None if epsilon is None else epsilon / scenario.answers_per_device
    return of_run(scenario.settings, scenario.world, answer)


def run(
    scenario: Scenario,
    session: Session,
    *,
    devices_per_actor: int | None = None,
    population: Population | None = None,
    progress: Progress = silent,
    rounds: KeptRounds | None = None,
    ledger: Path | None = None,
) -> Run:
    """Run a scenario.

    Parameters
    ----------
    scenario : Scenario
        What is simulated, and under which privacy.
    session : Session
        Where: `scenarios.places.in_process.InProcess` or what `scenarios.places.cluster.on_ray` yields.
    devices_per_actor : int, optional
        Size of a cohort; default: one cohort a worker.
    population : Population, optional
        The scenario's population, where it was made already.
    progress : callable, optional
        Told how many answers are in.
    rounds : KeptRounds, optional
        What an interrupted run of the same scenario kept: these rounds are not asked again. Every new one is kept
        there soon after it is over. Default: nowhere.
    ledger : Path, optional
        Folder in which the devices' keeper keeps what they have spent.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        If something in the scenario cannot be used; no device has been asked then.
    PolicyError
        If the policy went astray before anything was asked; after that the outcome tells the failure. If its code has
        changed and it would ask the rounds that were kept otherwise.
    """
    population = settled(population or populate(scenario))
    filled = population.scenario
    plot = plot_of(population, partial(_honest_course, population, session.workers))
    users = population.ratings.users
    job = Job(
        ratings=population.ratings,
        secret=derive(filled.seed, "devices"),
        budget=asked_epsilon(filled),
        policy=policy_of(filled),
        learner=learner_of(filled, population.public),
        layout=plan_layout(devices=users, workers=session.workers, devices_per_actor=devices_per_actor),
        most_rounds=filled.most_rounds,
        rounds=rounds or Nowhere(),
        ledger=ledger,
        absence=filled.absence,
        plot=plot,
    )
    if not job.rounds.trusted:
        require_same(job.policy, job.learner, job.rounds, devices=users, budget=job.budget)
    workers = session.enough(job.plan, users * filled.answers_per_device)
    layout = plan_layout(devices=users, workers=workers, devices_per_actor=devices_per_actor)
    job = replace(job, layout=layout)
    advised, listed = _advised(population), _listed(population)
    features = population.told.features if population.told else None
    ran = run_job(job, session, advised=advised, top=TOP, progress=progress, listed=listed, features=features)
    return Run(
        population=population,
        ran=ran,
        backend=session.name,
        workers=layout.workers,
        devices_per_actor=layout.devices_per_actor,
        plot=plot,
    )


def _honest_course(population: Population, workers: int) -> Sequence[Ask]:
    """Return what the same run asks if nobody lies: it is run, in this process."""
    free = population.scenario.model_copy(update={"malicious": None})
    return run(free, InProcess(workers), population=population.with_scenario(free)).outcome.state.asked


def _advised(population: Population) -> int:
    """Return how many devices take advice: with a ratings file one for each person, else at most a thousand."""
    return min(1000, population.ratings.users) if population.split is None else population.people


def _listed(population: Population) -> bool:
    """Return whether devices rank items by score alone, not by clusters and their own ratings of these.

    They do with a ratings file, if scores rank items by popularity: clusters of such scores are a file's popular and
    unpopular items, and tell less than the scores. In a block model all items are rated equally often, and clusters
    let devices of different classes follow what their own class likes.
    """
    return population.split is not None and population.scenario.half.ranks
