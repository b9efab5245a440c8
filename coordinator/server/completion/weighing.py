"""Errors of features, and the weight of releases, chosen on public users who are held out."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, read_only
from coordinator.protocol.features import ItemFeatures, predictions_of, tastes
from coordinator.protocol.rating_table import Rows
from coordinator.server.completion.crowd import PublicUsers
from coordinator.server.completion.fitting import FittedModel, Fitting, ReleaseBook, iterate

BLOCK = 2048  # Users that are scored at once; it does not affect the result


def squared_errors(features: ItemFeatures, seen: Rows, targets: Rows, workers: int = 1) -> Floats:
    """Return the squared error of every asked rating, predicted from a user's seen ones and clipped to the range."""
    ends = features.lowest, features.highest

    def score(bounds: tuple[int, int]) -> Floats:
        shown, hidden = seen.block(*bounds), targets.block(*bounds)
        user_tastes = tastes(features, shown.starts, shown.items, shown.values - features.mean[shown.items])
        predictions = predictions_of(
            read_only(features.vectors), read_only(features.mean), user_tastes, hidden.starts, hidden.items, *ends
        )
        return np.square(predictions - hidden.values)

    blocks = list(seen.blocks(BLOCK))
    if workers == 1 or len(blocks) == 1:
        return np.concatenate([score(bounds) for bounds in blocks])
    with ThreadPoolExecutor(workers) as threads:
        return np.concatenate(list(threads.map(score, blocks)))


def rmse(errors: Floats) -> float:
    """Return the root of the mean of squared errors."""
    return float(np.sqrt(errors.mean()))


def baseline_errors(features: ItemFeatures, targets: Rows) -> Floats:
    """Return the squared errors of the items' means alone."""
    predictions = np.clip(features.mean[targets.items], features.lowest, features.highest)
    return np.square(predictions - targets.values)


WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)  # Weights to choose from; the last one is the paper's
ITERATIONS = 8  # EM iterations of a trial, after the iterations on public users alone
SURE = 1.0  # Number of standard errors that are subtracted from a weight's gain before gains are compared
DIGITS = 6
"""Decimals of a gain, as a share of the error without releases, that are compared, so that last bits decide nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """Public users to learn from, and others whose ``asked`` ratings are predicted from ``seen`` ones."""

    train: Rows
    seen: Rows
    targets: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighing:
    """How a course chooses its weight."""

    # Public users to whom announced models are fitted, and the validation users' shown and asked ratings. Only the
    # choice of shown ratings differs between folds
    folds: list[Fold]
    fitting: Fitting

    @property
    def announced_to(self) -> Rows:
        """The public users that announced models are fitted to."""
        return self.folds[0].train

    def choose(self, start: FittedModel, public_users: PublicUsers, book: ReleaseBook) -> float:
        """Choose the weight of the releases in a book."""
        trials = [
            iterate(start, public_users, self.fitting, ITERATIONS, book=book, weight=weight) for weight in WEIGHTS
        ]
        return WEIGHTS[surest(np.stack([self.errors(trial.features) for trial in trials]))]

    def errors(self, features: ItemFeatures) -> Floats:
        """Return the mean squared error of every validation user that is asked anything, float64."""
        counts = self.folds[0].targets.degrees
        sums = np.zeros(counts.size)
        for fold in self.folds:
            owners = np.repeat(np.arange(counts.size), counts)
            sums += np.bincount(owners, squared_errors(features, fold.seen, fold.targets), minlength=counts.size)
        return sums[counts > 0] / (len(self.folds) * counts[counts > 0])


def surest(errors: Floats2) -> int:
    """Return which row of errors (settings, users) gains most over the first, less what may be chance."""
    users = errors.shape[1]
    if users < 2 or not errors[0].any():
        return 0
    gains = (errors[0] - errors) / errors[0].mean()
    sure = gains.mean(axis=1) - SURE * gains.std(axis=1, ddof=1) / np.sqrt(users)
    return int(np.argmax(np.round(sure, DIGITS)))
