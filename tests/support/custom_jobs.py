"""Runs of custom mechanisms in a small world, without the command line."""

from fractions import Fraction
from typing import Any

import numpy as np

from actors.ratings import BlockRatings
from coordinator.protocol.custom import Mechanism
from coordinator.protocol.custom_adapter import adapter
from coordinator.protocol.mechanism import KMEANS, POSTERIOR, World
from coordinator.protocol.messages import Query
from coordinator.server.design import LearnerOptions
from coordinator.server.fleet.cohorts import plan_layout
from coordinator.server.parts import learner_of
from coordinator.server.rounds.policies import Eliminate, Fixed
from coordinator.server.rounds.rounds import Outcome, QueryPlan
from coordinator.server.rounds.setting import Setting
from scenarios.backends.selection import InProcess
from scenarios.backends.session import NoStore, RoundStore
from scenarios.config.admission import admitted_for
from scenarios.families.main.run import Job, run_job

ITEMS, RATED, USERS = 20, 5, 20_000
EPSILON = Fraction(2)
SECRET = bytes(range(16))
WORLD = World(items=ITEMS, rated=RATED, users=USERS, clusters=2, epsilon=EPSILON)
LIKE = np.array([[0.9, 0.1]])
RATINGS = BlockRatings(
    users=USERS, rated_items=RATED, like=LIKE, class_shares=np.ones(1), clusters=(np.arange(ITEMS) % 2).astype(np.int32)
)
TRUE = 2 * LIKE[0, RATINGS.clusters] - 1


def job(
    mechanism: Mechanism,
    *,
    rounds: int = 2,
    adaptive: bool = False,
    each: int | None = None,
    workers: int = 2,
    kept: RoundStore | None = None,
) -> Job:
    own, _ = admitted_for(mechanism, WORLD, epsilon=EPSILON)
    design = adapter(own).design(WORLD)
    setting = Setting(design=design, epsilon=EPSILON, public_seed=bytes(16))
    decoder = POSTERIOR if adaptive else KMEANS
    policy = Eliminate(setting=setting) if adaptive else Fixed(setting=setting, rounds=rounds)
    learner = learner_of(adapter(own), WORLD, LearnerOptions(decoder=decoder))
    return Job(
        ratings=RATINGS,
        secret=SECRET,
        plan=QueryPlan(policy=policy, learner=learner, devices=USERS, budget=EPSILON),
        layout=plan_layout(devices=USERS, workers=workers, devices_per_actor=each),
        rounds=kept or NoStore(),
    )


def first_query(mechanism: Mechanism, *, pool: list[int] | None = None) -> tuple[Any, Query]:
    design = adapter(admitted_for(mechanism, WORLD, epsilon=EPSILON)[0]).design(WORLD)
    some = None if pool is None else np.array(pool, np.int32)
    return design, design.query(round_number=0, public_seed=bytes(16), epsilon=EPSILON, pool=some)


def outcome(of: Job, workers: int = 2) -> Outcome:
    return run_job(of, InProcess(workers), advised=0, top=1, progress=lambda _: None).outcome
