"""Predictions for a mechanism without known moments, from a simulation of at most a minute."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from scenarios.data.populations import known_world
from scenarios.given.config import Scenario
from scenarios.given.run_spec import half_in
from scenarios.places.in_process import InProcess
from scenarios.report.intervals import mean_interval
from scenarios.run.experiment import run

SECONDS, FEWEST, MOST = 60.0, 3, 20
"""Most seconds of a simulation, and its fewest and most seeds."""
USERS = 20_000
"""Devices of one seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The measured information of one answer about an item."""

    contrast: float  # Square root of the information that one answer brings about an item's ``2 b - 1``
    low: float  # Its 95 % interval over seeds, Student's t
    high: float
    seeds: int  # How many

    def users(self, needed: int) -> tuple[int | None, int | None]:
        """Return the interval of a number of users, which falls with the contrast's square; None for no end."""
        ends = [math.ceil(needed * (self.contrast / end) ** 2) if end > 0 else None for end in (self.high, self.low)]
        return ends[0], ends[1]


@lru_cache(maxsize=64)
def simulated(scenario: Scenario) -> Simulated | None:
    """Return the measured information in a block model; None if moments give it, or nothing can be measured.

    Values are regressed on what users like; the contrast is the slope over the scatter around it, for one user.
    """
    if half_in(scenario).moments(scenario.settings, known_world(scenario)) is not None:
        return None
    begin, contrasts = time.monotonic(), list[float]()
    likes = np.array(scenario.like)
    shares = np.full(len(likes), 1 / len(likes)) if scenario.class_shares is None else np.array(scenario.class_shares)
    level = 2 * (shares @ likes) - 1
    if np.allclose(level, level[0]):  # clusters are liked alike: there is nothing to regress on
        return None
    while len(contrasts) < MOST and (len(contrasts) < FEWEST or time.monotonic() - begin < SECONDS):
        sample = {
            "users": USERS,
            "seed": scenario.seed + len(contrasts),
            "policy": "one-round",
            "answers_per_device": 1,
        }
        ran = run(scenario.model_copy(update=sample), InProcess(1))
        assert ran.population.truth is not None  # a block model
        truth = level[ran.population.truth]
        regression = scipy.stats.linregress(truth, ran.outcome.model.score)
        scatter = float(np.std(ran.outcome.model.score - regression.intercept - regression.slope * truth, ddof=2))
        contrasts.append(float(regression.slope) / scatter / math.sqrt(USERS))
    mean, low, high = mean_interval(contrasts)
    assert mean is not None  # of several seeds
    assert low is not None
    assert high is not None
    return Simulated(contrast=mean, low=low, high=high, seeds=len(contrasts)) if mean > 0 else None
