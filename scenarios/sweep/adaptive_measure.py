"""Units of the adaptive sweep: one seed's users of one scheme, by devices or from exact moments.

One round's threshold is sought from the users S on at which all labels should be right with the chance asked for: a
seed's threshold lies at or below S exactly if all are right at S. Success comes and goes near a threshold; where S is
right, the share of seeds whose threshold is at most S is the chance of success there all the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from scenarios.data.metrics import clustering_scores
from scenarios.data.populations import populate
from scenarios.given.config import Scenario
from scenarios.given.run_spec import RunSpec
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.run.experiment import run
from scenarios.store.round_store import Held, KeptRounds, Nowhere
from scenarios.sweep.adaptive_settings import DEVICES
from scenarios.sweep.course import Standing, steps
from scenarios.sweep.emulated import EmulatedPrefixes, emulate
from scenarios.sweep.prefixes import Prefixes
from scenarios.sweep.threshold import adapts, crossing

RESOLUTION = 0.005
"""Relative width at which bisection stops; a block of emulated users is this share of the start."""


class Key(NamedTuple):
    """A unit."""

    scheme: str
    items: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is measured at one go, in one process.

    Attributes
    ----------
    scenario : Scenario
        A scheme with its seed, filled in; ``users`` is the most that may be asked.
    statistic : {"devices", "moments"}
        Where answers come from.
    start : int
        Users of one round at which all labels should be right at the confidence.
    told : bool
        Whether an adaptive run's trajectory is wanted, too.
    """

    scenario: Scenario
    statistic: str
    start: int
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one unit found.

    Attributes
    ----------
    users : int or None
        Of an adaptive run: the answers it asked for until it stopped. Of one round: the population at which all labels
        get right, None where the most users did not do.
    right : bool or None
        Of an adaptive run: whether all labels are right.
    undecided, rounds : int
        Of an adaptive run: items that it left undecided as users ran out, and its rounds.
    seconds : float
        Time taken.
    steps : tuple of Standing
        The trajectory, where it was wanted.
    """

    users: int | None
    seconds: float
    right: bool | None = None
    undecided: int = 0
    rounds: int = 1
    steps: tuple[Standing, ...] = ()


def measure(unit: Unit) -> Measured:
    """Measure one unit."""
    begin = time.perf_counter()
    if adapts(unit.scenario):
        return _adaptive(unit, begin)
    users = _by_devices(unit) if unit.statistic == DEVICES else _from_moments(unit)
    return Measured(users=users, seconds=time.perf_counter() - begin)


def _by_devices(unit: Unit) -> int | None:
    prefixes, decoder = Prefixes(unit.scenario), unit.scenario.decoder

    def right(users: int) -> bool:
        return prefixes.scores(users, decoder).exact

    return crossing(right, start=unit.start, most=unit.scenario.users or 0, resolution=RESOLUTION)


def _from_moments(unit: Unit) -> int | None:
    block = max(1, round(unit.start * RESOLUTION))
    prefixes = EmulatedPrefixes(unit.scenario, block=block)
    blocks = crossing(
        lambda count: prefixes.scores(count).exact,
        start=round(unit.start / block),
        most=(unit.scenario.users or 0) // block,
        resolution=RESOLUTION,
    )
    return None if blocks is None else blocks * block


def _adaptive(unit: Unit, begin: float) -> Measured:
    population = populate(unit.scenario)
    rounds: KeptRounds = Held() if unit.told else Nowhere()
    if unit.statistic == DEVICES:
        outcome = run(
            unit.scenario,
            InProcess(1),
            population=population,
            progress=lambda _: stop_if_abandoned(),
            rounds=rounds,
        ).outcome
    else:
        outcome = emulate(population, rounds)
    truth, failure = population.truth, 1 - unit.scenario.confidence
    assert truth is not None  # sweeps run on the block model
    assert outcome.posterior is not None  # adaptive designs have one
    return Measured(
        users=outcome.state.answers_asked,
        right=clustering_scores(outcome.model.cluster, truth).exact,
        undecided=int((~outcome.posterior.decided(failure)).sum()),
        rounds=len(outcome.state.asked),
        steps=steps(
            rounds, RunSpec(unit.scenario).learner, failure=failure, devices=outcome.state.devices, truth=truth
        ),
        seconds=time.perf_counter() - begin,
    )
