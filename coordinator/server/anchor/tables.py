"""Tables of like rates given the guess, fitted to all rounds at once, and what follows for every item's cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.server.anchor.reading import Reading

TIE, FIRST = 0.05, 0.15
"""Standard deviations of a like rate's step from one round to the next, and of the first round's from its start."""
STEPS = 40
"""Steps of expectation and maximisation."""
LEAST_RATE = 0.02
"""Like rates lie so far from 0 and 1 at least."""
SHARE_ITEMS = 5.0
"""Items that each cluster is taken to have beside those of the catalogue, so that none vanishes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What all rounds tell of items and tables.

    Attributes
    ----------
    clusters : ndarray of float64, shape (N, L)
        Probability of every item's cluster, with the tables' own errors added to the means' errors.
    tables : ndarray of float64, shape (R, K, L)
        Like rates given the guess, of each round.
    errors : ndarray of float64, shape (L, R, K, K)
        Covariances of the tables' columns.
    """

    clusters: Floats2
    tables: Floats
    errors: Floats

    def strays(self, reading: Reading, place: int) -> float:
        """Return by how many standard deviations a round's controls are farther from its table than noise has them."""
        own = reading.controls & (reading.users > 0)
        if not own.any():
            return 0.0
        at = self.clusters.argmax(axis=1)[own]
        told = np.einsum("ki,ki->i", reading.slopes[:, own], self.tables[place][:, at])
        squares = reading.users[own] * (reading.means[own] - reading.offset[own] - told) ** 2
        return float((squares.sum() - squares.size) / np.sqrt(2 * squares.size))


def fit_tables(readings: Sequence[Reading], first: Floats2, early: Floats2) -> Fit:
    """Return the likeliest tables, each tied to its neighbours, and the posterior of every item's cluster.

    Parameters
    ----------
    readings : sequence of Reading
        Rounds in order, at least one.
    first : ndarray of float64, shape (K, L)
        Like rates that the first round should have.
    early : ndarray of float64, shape (N, L)
        Log-probabilities of clusters before any round.

    Notes
    -----
    With clusters known, means are linear in the tables and the ties are normal, so that the likeliest tables of all
    rounds solve one linear system for each cluster. Expectation and maximisation go to and fro between both.
    """
    means = np.array([one.means - one.offset for one in readings])
    users, slopes = np.array([one.users for one in readings]), np.array([one.slopes for one in readings])
    rounds, classes, items = slopes.shape
    clusters = first.shape[1]
    ties, weighted = np.kron(_ties(rounds, TIE), np.eye(classes)), slopes * users[:, None]
    tables = np.repeat(first[None], rounds, axis=0)
    shares = np.full(clusters, 1 / clusters)
    errors = np.zeros((clusters, rounds, classes, classes))
    for _ in range(STEPS):
        off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
        known = _softmax(early + np.log(shares) - np.einsum("ri,ric->ic", users, off**2) / 2)
        shares = (known.sum(axis=0) + SHARE_ITEMS) / (items + clusters * SHARE_ITEMS)
        for c in range(clusters):
            own = weighted * known[:, c]
            system = ties + scipy.linalg.block_diag(*np.einsum("rki,rli->rkl", own, slopes))
            right = np.einsum("rki,ri->rk", own, means)
            right[0] += first[:, c] / FIRST**2
            inverse = np.linalg.inv(system)
            tables[:, :, c] = np.clip((inverse @ right.ravel()).reshape(rounds, classes), LEAST_RATE, 1 - LEAST_RATE)
            errors[c] = np.einsum("rkrl->rkl", inverse.reshape(rounds, classes, rounds, classes))
    noise = np.divide(1.0, users, out=np.zeros_like(users), where=users > 0)
    spread = noise[:, :, None] + np.einsum("rki,crkl,rli->ric", slopes, errors, slopes)
    off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
    told = np.where(users[:, :, None] > 0, off**2 / np.maximum(spread, 1e-300) + np.log(np.maximum(spread, 1e-300)), 0)
    return Fit(clusters=_softmax(early + np.log(shares) - told.sum(axis=0) / 2), tables=tables, errors=errors)


def _ties(rounds: int, tie: float) -> Floats:
    """Return the precision of a walk of so many rounds that starts near a given place."""
    steps = np.diff(np.eye(rounds), axis=0) / tie
    precision: Floats = steps.T @ steps
    precision[0, 0] += 1 / FIRST**2
    return precision


def _softmax(odds: Floats2) -> Floats2:
    found: Floats2 = scipy.special.softmax(odds, axis=1)
    return found


def walk(values: Floats, errors: Floats, places: Sequence[int], rounds: int, *, start: float, tie: float) -> Floats:
    """Return the likeliest walk of so many rounds through noisy values at some of its places.

    Parameters
    ----------
    values, errors : ndarray of float64, shape (V,)
        What was measured, with standard errors.
    places : sequence of int
        At which round each was.
    rounds : int
        How many rounds there are.
    start : float
        Where the walk starts, within `FIRST`.
    tie : float
        Standard deviation of a step.
    """
    system, right = _ties(rounds, tie), np.zeros(rounds)
    right[0] = start / FIRST**2
    for value, error, place in zip(values, errors, places, strict=True):
        system[place, place] += error**-2
        right[place] += value / error**2
    return np.asarray(np.linalg.solve(system, right), np.float64)
