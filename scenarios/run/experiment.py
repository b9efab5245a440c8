"""The main job: a population answers, the untrusted server learns a model of the items, devices take advice from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coordinator.protocol.coins import derive
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.rounds.rounds import require_same
from scenarios.data.populations import Population, populate, settled
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.session import Backend, Progress, silent
from scenarios.run.job import Job, Result, run_job
from scenarios.run.plotting import collusion_of
from scenarios.store.round_store import NoStore, RoundStore

TOP = 10
"""Length of a device's recommendation."""


def run(
    scenario: Scenario,
    session: Backend,
    *,
    devices_per_actor: int | None = None,
    population: Population | None = None,
    progress: Progress = silent,
    rounds: RoundStore | None = None,
    ledger: Path | None = None,
) -> Result:
    """Run a scenario."""
    population = settled(population or populate(scenario))
    filled = population.scenario
    spec = RunSpec(filled, population.public)
    collusion = collusion_of(population)
    users = population.ratings.users
    job = Job(
        ratings=population.ratings,
        secret=derive(filled.seed, "devices"),
        budget=spec.budget,
        policy=spec.policy,
        learner=spec.learner,
        layout=plan_layout(devices=users, workers=session.workers, devices_per_actor=devices_per_actor),
        most_rounds=filled.most_rounds,
        rounds=rounds or NoStore(),
        ledger=ledger,
        absence=filled.absence,
        collusion=collusion,
        population=population,
        spec=spec,
    )
    if not job.rounds.trusted:
        require_same(job.policy, job.learner, job.rounds, devices=users, budget=job.budget)
    workers = session.choose_workers(job.plan, users * filled.answers_per_device)
    layout = plan_layout(devices=users, workers=workers, devices_per_actor=devices_per_actor)
    job = replace(job, layout=layout)
    advised, listed = _advised(population), _listed(population, spec)
    features = population.descriptions.features if population.descriptions else None
    return run_job(job, session, advised=advised, top=TOP, progress=progress, listed=listed, features=features)


def _advised(population: Population) -> int:
    """Return how many devices take advice: with a ratings file one for each person, else at most a thousand."""
    return min(1000, population.ratings.users) if population.split is None else population.people


def _listed(population: Population, spec: RunSpec) -> bool:
    """Return whether devices rank items by score alone, not by clusters and their own ratings of these.

    They do with a ratings file, if scores rank items by popularity: clusters of such scores are a file's popular and
    unpopular items, and tell less than the scores. In a block model all items are rated equally often, and clusters
    let devices of different classes follow what their own class likes.
    """
    return population.split is not None and spec.half.ranks
