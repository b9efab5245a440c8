"""The weight of releases, chosen on public users whom no announced model knows.

A device completes its vector with the announced model, so its release repeats what that model knows about the users it
was fitted to. Judged by these users, any release looks good, even noise. So some public users, the validation users,
are kept out of every announced model. Trial models with different weights are fitted without them and predict their
ratings. The server's own model, which is never announced, is fitted to all public users. Only public ratings and
releases that have arrived are used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.features import ItemFeatures
from coordinator.protocol.rows import Rows
from coordinator.server.completion.crowd import Crowd
from coordinator.server.completion.fitting import FittedModel, Fitting, iterate
from coordinator.server.completion.folding import ReleaseBook
from coordinator.server.completion.predicting import squared_errors

WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5)
"""Weights to choose from; the last one is the paper's."""
ITERATIONS = 8
"""EM iterations of a trial, after the iterations on public users alone."""
SURE = 1.0
"""Number of standard errors that are subtracted from a weight's gain before gains are compared."""
DIGITS = 6
"""Decimals of a gain, as a share of the error without releases, that are compared, so that last bits decide nothing."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Fold:
    """Public users to learn from, and others whose ``asked`` ratings are predicted from ``seen`` ones."""

    train: Rows
    seen: Rows
    asked: Rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Weighing:
    """How a course chooses its weight.

    Attributes
    ----------
    folds : list of Fold
        Public users to whom announced models are fitted, and the validation users' shown and asked ratings. Only the
        choice of shown ratings differs between folds.
    fitting : Fitting
    """

    folds: list[Fold]
    fitting: Fitting

    @property
    def announced_to(self) -> Rows:
        """The public users that announced models are fitted to."""
        return self.folds[0].train

    def choose(self, start: FittedModel, crowd: Crowd, book: ReleaseBook) -> float:
        """Choose the weight of the releases in a book.

        Parameters
        ----------
        start : FittedModel
            A model of the crowd's users without releases, from which every trial starts.
        crowd : Crowd
            Public users that announced models are fitted to.
        book : ReleaseBook
            Releases so far.

        Returns
        -------
        float
            The chosen weight, one of `WEIGHTS`.
        """
        trials = [iterate(start, crowd, self.fitting, ITERATIONS, book=book, weight=weight) for weight in WEIGHTS]
        return WEIGHTS[surest(np.stack([self.errors(trial.features) for trial in trials]))]

    def errors(self, features: ItemFeatures) -> Floats:
        """Return the mean squared error of every validation user that is asked anything, float64."""
        asked = self.folds[0].asked.degrees
        sums = np.zeros(asked.size)
        for fold in self.folds:
            owners = np.repeat(np.arange(asked.size), asked)
            sums += np.bincount(owners, squared_errors(features, fold.seen, fold.asked), minlength=asked.size)
        errors: Floats = sums[asked > 0] / (len(self.folds) * asked[asked > 0])
        return errors


def surest(errors: Floats2) -> int:
    """Return the setting with the largest gain over the first one, after subtracting what may be chance.

    Parameters
    ----------
    errors : ndarray of float64, shape (settings, users)
        Mean squared errors.

    Returns
    -------
    int
        The setting whose mean gain less `SURE` standard errors (paired over users) is largest, and the first of equals;
        0 if none is above 0 or there is only one user.
    """
    users = errors.shape[1]
    if users < 2 or not errors[0].any():
        return 0
    gains = (errors[0] - errors) / errors[0].mean()
    sure = gains.mean(axis=1) - SURE * gains.std(axis=1, ddof=1) / np.sqrt(users)
    return int(np.argmax(np.round(sure, DIGITS)))
