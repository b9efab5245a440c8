"""Rank and kappa chosen by validation: public users are held out whole, thinned to few ratings, the rest is predicted.

Held-out ratings of public users mislead, since heavy users overfit and noise looks good; users do not. Only what the
server has is used: public ratings. The weight of releases is another matter: see
`coordinator.server.completion.weighing`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coordinator.protocol.arrays import Floats
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.rounding import significant
from coordinator.server.completion.crowd import local_crowd
from coordinator.server.completion.fitting import Fitting, begin, iterate
from coordinator.server.completion.weighing import Fold, squared_errors
from scenarios.backends.session import Backend
from scenarios.families.two_tier.two_tier_scenario import Scale
from scenarios.families.two_tier.two_tier_worlds import fold_of

FOLDS = 5
MANY_USERS = 500  # From so many public users on, one fold is enough
RANKS = (5, 10, 20)
START, STEPS_DOWN, STEPS_UP = 2, -8, 16
"""Kappas are the ratings' spread times a power of sqrt 2, from the 2nd on downhill within these powers."""
ITERATIONS = 12  # EM iterations of a trial


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One setting on one fold."""

    fold: Fold
    fitting: Fitting
    scale: Scale


def folds_of(public: Rows, seed: int) -> list[Fold]:
    """Deal out public users; a function of the seed and their ratings."""
    if public.users < 2:
        raise InputError(
            f"public is {public.users}; validation holds public users out, give --rank and --regularisation"
        )
    order = np.random.default_rng(as_words(derive(seed, "two-tier folds"))).permutation(public.users)
    held_out = np.array_split(order, min(FOLDS, public.users))
    return [fold_of(public, holdout, seed) for holdout in held_out[: 1 if public.users > MANY_USERS else FOLDS]]


def trial_error(trial: Trial) -> float:
    """Return the sum of squared errors of the held-out users' asked ratings."""
    scale, crowd = trial.scale, local_crowd(trial.fold.train)
    model = begin(crowd, trial.fitting, lowest=scale.lowest, highest=scale.highest, scale=scale.levels)
    features = iterate(model, crowd, trial.fitting, ITERATIONS).features
    return float(squared_errors(features, trial.fold.seen, trial.fold.targets).sum())


def errors_of(trials: Sequence[Trial], session: Backend) -> Floats:
    """Return every setting's root mean squared error, on the public grid; trials of a setting stand fold by fold.

    Settings that are as good up to last bits tie, so that what is chosen does not depend on the processor.
    """
    sums_by_trial = dict(session.each(trial_error, trials))
    folds = list(dict.fromkeys(id(trial.fold) for trial in trials))
    sums = np.array([sums_by_trial[place] for place in range(len(trials))]).reshape(-1, len(folds))
    target_count = sum(trial.fold.targets.items.size for trial in trials[: len(folds)])
    errors = np.sqrt(sums.sum(axis=1) / max(1, target_count))
    return np.array([significant(error) for error in errors.tolist()])


def choose_fitting(
    folds: Sequence[Fold], fitting: Fitting, scale: Scale, session: Backend, *, rank: int | None, kappa: float | None
) -> tuple[Fitting, list[tuple[int, float, float]]]:
    """Choose rank and kappa on held-out public users."""
    users = min(fold.train.users for fold in folds)
    ranks = [rank] if rank else [one for one in RANKS if one <= users] or [users]
    unit = float(np.std(folds[0].train.values))
    error_of: dict[tuple[int, float], float] = {}

    def tried(one: int, powers: Sequence[int]) -> list[float]:
        candidates = [(one, kappa or significant(unit * 2 ** (power / 2))) for power in powers]
        new = [pair for pair in dict.fromkeys(candidates) if pair not in error_of]
        trials = [
            Trial(fold=fold, fitting=replace(fitting, rank=one, kappa=size), scale=scale)
            for one, size in new
            for fold in folds
        ]
        if trials:
            error_of.update(zip(new, errors_of(trials, session).tolist(), strict=True))
        return [error_of[pair] for pair in candidates]

    at = START
    for one in ranks:
        if kappa:
            tried(one, [0])
        else:
            at = downhill(partial(tried, one), at)
    best = min(error_of, key=lambda pair: (error_of[pair], pair))
    return replace(fitting, rank=best[0], kappa=best[1]), [(*pair, error) for pair, error in sorted(error_of.items())]


def downhill(tried: Callable[[Sequence[int]], list[float]], start: int) -> int:
    """Return the power of a local minimum: from ``start`` on, step by step, as long as it goes down."""
    at = start
    while True:
        powers = [power for power in (at - 1, at, at + 1) if STEPS_DOWN <= power <= STEPS_UP]
        errors = tried(powers)
        best = powers[int(np.argmin(errors))]
        if best == at:
            return at
        at = best
