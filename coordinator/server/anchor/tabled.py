"""The learner of K classes and L clusters, by tables of like rates given the guess, which every round measures."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy

from coordinator.protocol.arrays import Floats, Floats2
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.mechanisms.anchor import LEAN
from coordinator.protocol.messages import Model, Query
from coordinator.server.anchor.asking import asked_guess, plain_tables, turned_tables
from coordinator.server.anchor.first import First, first_anchors
from coordinator.server.anchor.reading import Reading, read_turned
from coordinator.server.anchor.sensing import SENSING_LEVELS, AnchorSensing
from coordinator.server.anchor.tables import Fit, fit_tables, walk
from coordinator.server.anchor.told import Course
from coordinator.server.decoding.posterior import Posterior, on_a_grid
from coordinator.server.rounds.readings import AnchorRound

CONTROL = 1
"""How often, of `SENSING_LEVELS`, decided items are sensed, as controls."""
EARLY = 12
"""Rounds of turned signs after which what the start said of items is dropped; it never decides anything."""
STRAYED = 3.0
"""A round is discarded if its controls lie so many standard deviations off."""
SHARE_STEP = 0.02
"""Standard deviation of the step of a guess's share from one round to the next."""
APART = 20.0
"""Log-odds by which items must have clusters before any of them is decided [nats]."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tabled:
    """What the server believes after some rounds.

    Attributes
    ----------
    first : First
        What it started from.
    fit : Fit or None
        Tables and clusters; None before the first turned signs.
    table : ndarray of float64, shape (K, L)
        Like rates given the guess that the next round should have.
    shares : ndarray of float64, shape (K,)
        Shares of the devices that guess each class.
    told : float
        How much more probable turned signs are if items have clusters than if all are liked alike [nats].
    need : ndarray of float64, shape (N,)
        Users of the last round's kind that should decide an item, on average.
    discarded : int
        Rounds whose controls were off.
    posterior : Posterior
        Of every item's cluster.
    known : ndarray of float64, shape (N, L)
        Probability of every item's cluster, for what is asked next.
    """

    first: First
    fit: Fit | None
    table: Floats2
    shares: Floats
    told: float
    need: Floats
    discarded: int
    posterior: Posterior
    known: Floats2

    def model(self, clusters: int) -> Model:
        """Return the item model to hand to devices; an item's score is how probably devices like it."""
        score = self.posterior.expected
        return Model(cluster=self.posterior.cluster, score=score, error=np.zeros_like(score), clusters=clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLearner:
    """K classes and L clusters: what the server believes, and what it asks next.

    Attributes
    ----------
    design : AnchorSensing
        What is asked.
    failure : float
        Allowed probability that any label is wrong.
    """

    design: AnchorSensing
    failure: float

    def believe(self, course: Course) -> Tabled:
        """Return what all rounds tell, at least one about pairs or first-order signs."""
        design = self.design
        first = first_anchors(course, rated=design.rated, clusters=design.clusters, classes=design.classes)
        start = first.tables(items=design.items, rated=design.rated)
        early = np.full((design.items, design.clusters), 1 / design.clusters)
        early[first.pool] = first.clusters
        sensing = [told for told in course.turned if not asked(told)]
        shares = self._shares(course.turned, max(len(sensing), 1))
        if not sensing:
            posterior = _posterior(early, early @ start.mean(axis=0), apart=False)
            return Tabled(
                first=first,
                fit=None,
                table=start,
                shares=shares[0],
                told=0.0,
                need=np.full(design.items, math.inf),
                discarded=0,
                posterior=posterior,
                known=early,
            )
        readings = [
            read_turned(told, share, rated=design.rated, control=CONTROL)
            for told, share in zip(sensing, shares, strict=True)
        ]
        kept = readings
        weight = np.log(early) if len(readings) < EARLY else np.zeros_like(early)
        fit = fit_tables(kept, start, weight)
        if any(off := [fit.strays(one, place) > STRAYED for place, one in enumerate(kept)]) and not all(off):
            kept = [one for one, stray in zip(kept, off, strict=True) if not stray]
            fit = fit_tables(kept, start, weight)
        told = _told(kept, fit)
        return Tabled(
            first=first,
            fit=fit,
            table=fit.tables[-1],
            shares=shares[-1],
            told=told,
            need=self._need(kept[-1], fit),
            discarded=len(readings) - len(kept),
            posterior=_posterior(fit.clusters, fit.clusters @ (shares[-1] @ fit.tables[-1]), apart=told >= APART),
            known=fit.clusters,
        )

    def _shares(self, turned: tuple[AnchorRound, ...], rounds: int) -> Floats:
        """Return the share of each guess in each round, from what was asked of the guess itself, shape (rounds, K)."""
        classes, found = self.design.classes, np.empty((rounds, self.design.classes))
        seen: list[tuple[int, int, float, float]] = []
        at = 0
        for told in turned:
            if not asked(told):
                at += 1
                continue
            contrast, answers = bit_channel(told.query.epsilon).contrast, max(told.statistic.answered, 1)
            share = ((2 * told.statistic.ones / answers - 1) / contrast + 1) / 2
            guess = int(told.query.arrays[LEAN].argmax())
            seen.append((guess, min(at, rounds - 1), share, 1 / (2 * contrast * math.sqrt(answers))))
        for k in range(classes):
            own = [(at, share, error) for guess, at, share, error in seen if guess == k]
            values, errors = np.array([one[1] for one in own]), np.array([one[2] for one in own])
            places = [one[0] for one in own]
            found[:, k] = walk(values, errors, places, rounds, start=1 / classes, tie=SHARE_STEP)
        if classes == 2:
            found[:, 1] = 1 - found[:, 0]
        found = np.clip(found, 0.02, 0.98)
        shares: Floats = found / found.sum(axis=1, keepdims=True)
        return shares

    def _need(self, reading: Reading, fit: Fit) -> Floats:
        """Return the users who should bring every item's log-odds over the edge: they drift by half the squared gap."""
        best, other = np.argsort(-fit.clusters, axis=1)[:, :2].T
        gap = np.einsum("ki,ki->i", reading.slopes, fit.tables[-1][:, best] - fit.tables[-1][:, other])
        doubt = np.clip(1 - fit.clusters.max(axis=1), 1e-12, 1 - 1e-12)
        missing = math.log(self.design.items / self.failure) - np.log((1 - doubt) / doubt)
        need: Floats = np.maximum(missing, 1.0) / np.maximum(gap**2 / 2, 1e-12)
        return need

    def ask(
        self, belief: Tabled, *, kind: int | None = None, round_number: int, public_seed: bytes, epsilon: Epsilon
    ) -> Query:
        """Return the next round's query: about turned signs, or about whether class ``kind`` is guessed."""
        coins = np.random.default_rng(int.from_bytes(derive(public_seed, f"anchor round {round_number}")))
        tables = turned_tables(
            belief.known,
            belief.table,
            belief.shares,
            belief.posterior.decided(self.failure),
            control=CONTROL,
            coins=coins,
        )
        tables = tables if kind is None else asked_guess(tables, kind)
        return self.design.turned(tables, round_number=round_number, public_seed=public_seed, epsilon=epsilon)

    def ask_plain(self, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return a query about first-order signs of the pool."""
        tables = plain_tables(self.design.pool(public_seed), self.design.items, SENSING_LEVELS)
        return self.design.turned(tables, round_number=round_number, public_seed=public_seed, epsilon=epsilon)


def asked(told: AnchorRound) -> bool:
    """Return whether a round asked for the guess itself."""
    return bool(told.query.arrays[LEAN].any())


def _posterior(known: Floats2, expected: Floats, *, apart: bool) -> Posterior:
    """Return the posterior that these probabilities of clusters are."""
    doubt = on_a_grid(1 - known.max(axis=1))
    least = 0.0 if apart else 1 - 1 / known.shape[1]
    return Posterior(
        cluster=known.argmax(axis=1).astype(np.int32),
        doubt=np.maximum(doubt, least),
        expected=expected,
        mixture=None,
        apart=apart,
    )


def _told(readings: list[Reading], fit: Fit) -> float:
    """Return how much more probable all means are [nats] if items have clusters than if all are liked alike."""
    means = np.array([one.means - one.offset for one in readings])
    users, slopes = np.array([one.users for one in readings]), np.array([one.slopes for one in readings])
    shares = fit.clusters.mean(axis=0)
    tables = np.concatenate([fit.tables, (fit.tables @ shares)[:, :, None]], axis=2)
    off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
    fits = -np.einsum("ri,ric->ic", users, off**2) / 2
    return float((scipy.special.logsumexp(fits[:, :-1], b=shares, axis=1) - fits[:, -1]).sum())
