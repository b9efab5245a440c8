"""The learner of several classes and clusters: tables of like rates given the guess, fitted to all rounds at once."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import scipy

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Indices2
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import derive
from coordinator.protocol.decoding.posterior import Posterior, fit, joint, on_a_grid
from coordinator.protocol.decoding.threads import k_means, one_thread
from coordinator.protocol.mechanism import QueryHeader
from coordinator.protocol.mechanisms.anchor import SENSING_LEVELS, AnchorSensing, Tables
from coordinator.protocol.messages import Model, Query
from coordinator.protocol.moments.sign_moments import pair_contrast
from coordinator.protocol.pools import COUNTS, GUESS, LEAN, LEVELS, SENSED
from coordinator.server.anchor import anchor_queries
from coordinator.server.rounds.state import AnchorRound

GUESS_UNIT = 256  # Steps of a rating's log-likelihood in a guess
REACH = 9.0  # A sum of public signs is taken to lie within so many standard deviations of 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundEstimates:
    """A round's means of ``H_i S``, and how they depend on the table of like rates given the guess.

    For an item of cluster c the mean is ``offset_i + sum_k slopes[k, i] B[k, c]``, where B[k, c] is the share of likes
    among ratings of cluster c by devices that guess class k.
    """

    # shape (N,); Mean over the devices that sensed an item, and how many these are; both are 0 where nobody did
    means: Floats
    users: Floats
    # shape (K, N); Share of the devices that guess k, times what a like adds to the mean over a dislike
    slopes: Floats2
    offset: Floats  # shape (N,); The mean if every rating is a dislike
    controls: Bools  # shape (N,); Decided items that were sensed all the same


def turned_estimates(anchor_round: AnchorRound, shares: Floats, *, rated: int, control: int) -> RoundEstimates:
    """Return the estimates of one round."""
    # Given that item i is sensed and rated, and that class k was guessed, the device's other ratings add up to a
    # symmetric sum. So ``E[H_i S] = t (w / N) sum_k P(k) (B[k, c] G_k(counts of a like) + (1 - B[k, c]) G_k(counts of a
    # dislike))``, where ``G_k(v) = P(|sum| < v) + P(|sum| = v) / 2`` is odd in v.
    # Shapes: ``shares`` (K,).
    # Why G_k: the item adds H v to the sum, H its public sign, and the others add X, which is symmetric, also given H.
    # The answer S is the sign of H v + X, a fair coin for 0, so that E[H S] = E[sign(v + H X)] = P(X > -v) - P(X < -v)
    # = P(-v < X <= v) for v > 0. The flip of the answer multiplies this by the contrast t, and the item is rated with
    # probability w / N.
    query, statistic = anchor_round.query, anchor_round.statistic
    passes = passing(query, rated=rated) * bit_channel(query.epsilon).contrast * rated / query.items
    if len(passes) == 2:  # a plain round knows one class only
        passes = np.tile(passes, (shares.size, 1))
    return RoundEstimates(
        means=statistic.means,
        users=statistic.sensed.astype(np.float64),
        slopes=(passes[1::2] - passes[0::2]) * shares[:, None],
        offset=shares @ passes[0::2],
        controls=query.arrays[SENSED] == control,
    )


def passing(query: Query, *, rated: int) -> Floats2:
    """Return G_k of every number that an item may add, with its sign, shape (2 K, N)."""
    # A device's other ``w - 1`` ratings are taken to be drawn independently, so that the sum's distribution is a power
    # of one rating's, which Fourier transforms find exactly.
    counts, sensed = query.arrays[COUNTS], query.arrays[SENSED] / query.parameters[LEVELS]
    guess, probabilities = query.arrays[GUESS] / GUESS_UNIT, np.zeros((len(counts), query.items))
    rates = scipy.special.expit(guess[1::2] - guess[0::2])  # how probably devices that guess a class like each item
    for k in range(len(rates)):
        class_counts = counts[2 * k : 2 * k + 2]
        chances = np.stack([1 - rates[k], rates[k]]) * sensed / query.items
        size = _ring(class_counts, chances, rated)
        rating_law = np.zeros(size)
        for sign in (1, -1):
            np.add.at(rating_law, sign * class_counts % size, chances / 2)
        rating_law[0] += 1 - chances.sum()
        # One rating adds +v or -v, equally often, or nothing: a symmetric law, whose transform is real. The sum of w -
        # 1 has the (w - 1)-th power as its transform, on a ring so long that sums hardly ever wrap around.
        masses = scipy.fft.irfft(scipy.fft.rfft(rating_law).real ** (rated - 1), size)[: size // 2]
        within = masses[0] + 2 * np.cumsum(np.append(0.0, masses[1:]))  # P(|sum| <= v)
        passes = np.append(0.0, (within[:-1] + within[1:]) / 2)
        probabilities[2 * k : 2 * k + 2] = (
            np.sign(class_counts) * passes[np.minimum(np.abs(class_counts), size // 2 - 1)]
        )
    return probabilities


def _ring(counts: Indices2, chances: Floats2, rated: int) -> int:
    """Return the length of a ring of whole numbers that sums hardly ever wrap around, a power of two."""
    spread = math.sqrt(rated * float((counts.astype(np.float64) ** 2 * chances).sum()))
    return 1 << math.ceil(math.log2(2 * (REACH * spread + 2.0 * int(np.abs(counts).max()) + 2)))


TIE, FIRST = 0.05, 0.15
"""Standard deviations of a like rate's step from one round to the next, and of the first round's from its start."""
STEPS = 40  # Steps of expectation and maximisation
LEAST_RATE = 0.02  # Like rates lie so far from 0 and 1 at least
SHARE_ITEMS = 5.0  # Items that each cluster is taken to have beside those of the catalogue, so that none vanishes


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFit:
    """Items' clusters and tables, from all rounds."""

    # shape (N, L); Probability of every item's cluster, with the tables' own errors added to the means' errors
    clusters: Floats2
    tables: Floats  # shape (R, K, L); Like rates given the guess, of each round
    errors: Floats  # shape (L, R, K, K); Covariances of the tables' columns

    def strays(self, reading: RoundEstimates, round_index: int) -> float:
        """Return by how many standard deviations a round's controls are farther from its table than noise has them."""
        controls = reading.controls & (reading.users > 0)
        if not controls.any():
            return 0.0
        at = self.clusters.argmax(axis=1)[controls]
        expected_means = np.einsum("ki,ki->i", reading.slopes[:, controls], self.tables[round_index][:, at])
        squares = reading.users[controls] * (reading.means[controls] - reading.offset[controls] - expected_means) ** 2
        return float((squares.sum() - squares.size) / np.sqrt(2 * squares.size))


def fit_tables(readings: Sequence[RoundEstimates], first: Floats2, early: Floats2) -> TableFit:
    """Return the likeliest tables, each tied to its neighbours, and the posterior of every item's cluster."""
    # Shapes: ``first`` (K, L); ``early`` (N, L).
    # With clusters known, means are linear in the tables and the ties are normal, so that the likeliest tables of all
    # rounds solve one linear system for each cluster. Expectation and maximisation go to and fro between both.
    # In round r an item i of cluster c has mean m_ri = sum_k s_rki B_r[k, c] + noise of variance 1 / users_ri (its
    # offset is taken off, and a mean of signs has variance 1 / users at most). Column c of the tables is a random walk,
    # B_0 ~ N(first, FIRST^2), B_r - B_(r-1) ~ N(0, TIE^2), in each of the K classes. Expectation: P(i in c) from the
    # squared residuals of all rounds. Maximisation: minus the logarithm of the posterior of column c is quadratic, with
    # matrix T x 1_K + diag_r(sum_i P(i in c) users_ri s_ri s_ri^T), T the walk's precision (`_ties`), and right side
    # sum_i P(i in c) users_ri s_ri m_ri, plus first / FIRST^2 in round 0. The inverse of the matrix is the column's
    # covariance, whose blocks of a round widen the noise of its means in the probabilities that are returned.
    means = np.array([reading.means - reading.offset for reading in readings])
    users, slopes = (
        np.array([reading.users for reading in readings]),
        np.array([reading.slopes for reading in readings]),
    )
    rounds, classes, items = slopes.shape
    clusters = first.shape[1]
    ties, weighted = np.kron(_ties(rounds, TIE), np.eye(classes)), slopes * users[:, None]
    tables = np.repeat(first[None], rounds, axis=0)
    shares = np.full(clusters, 1 / clusters)
    errors = np.zeros((clusters, rounds, classes, classes))
    for _ in range(STEPS):
        off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
        odds = early + np.log(shares) - np.einsum("ri,ric->ic", users, off**2) / 2
        membership = scipy.special.softmax(odds, axis=1)
        shares = (membership.sum(axis=0) + SHARE_ITEMS) / (items + clusters * SHARE_ITEMS)
        for c in range(clusters):
            weights = weighted * membership[:, c]
            system = ties + scipy.linalg.block_diag(*np.einsum("rki,rli->rkl", weights, slopes))
            right = np.einsum("rki,ri->rk", weights, means)
            right[0] += first[:, c] / FIRST**2
            inverse = np.linalg.inv(system)
            tables[:, :, c] = np.clip((inverse @ right.ravel()).reshape(rounds, classes), LEAST_RATE, 1 - LEAST_RATE)
            errors[c] = np.einsum("rkrl->rkl", inverse.reshape(rounds, classes, rounds, classes))
    noise = np.divide(1.0, users, out=np.zeros_like(users), where=users > 0)
    spread = noise[:, :, None] + np.einsum("rki,crkl,rli->ric", slopes, errors, slopes)
    off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
    misfit = np.where(
        users[:, :, None] > 0, off**2 / np.maximum(spread, 1e-300) + np.log(np.maximum(spread, 1e-300)), 0
    )
    membership = scipy.special.softmax(early + np.log(shares) - misfit.sum(axis=0) / 2, axis=1)
    return TableFit(clusters=membership, tables=tables, errors=errors)


def _ties(rounds: int, tie: float) -> Floats:
    """Return the precision of a walk of so many rounds that starts near a given place."""
    steps = np.diff(np.eye(rounds), axis=0) / tie
    precision: Floats = steps.T @ steps
    precision[0, 0] += 1 / FIRST**2
    return precision


def walk(values: Floats, errors: Floats, places: Sequence[int], rounds: int, *, start: float, tie: float) -> Floats:
    """Return the likeliest walk of so many rounds through noisy values at some of its places."""
    system, right = _ties(rounds, tie), np.zeros(rounds)
    right[0] = start / FIRST**2
    for value, error, step in zip(values, errors, places, strict=True):
        system[step, step] += error**-2
        right[step] += value / error**2
    return np.asarray(np.linalg.solve(system, right), np.float64)


OPEN = 0.6  # How often an open item is sensed that says most of the class, where all say as much
COUNT_UNIT, MOST_UNITS = 64, 8
"""Steps of the root mean square of what ratings count, and how many times that one may count."""
PROBES, CONTROL_PART = 0.05, 8
"""Share of open items that count by random signs of the guess, and by what part less controls count."""
LEAST_ASKED_RATE = 0.02


def turned_tables(
    membership: Floats2, table: Floats2, shares: Floats, decided: Bools, *, control: int, coins: np.random.Generator
) -> Tables:
    """Return the arrays of a round about turned signs: what ratings count by two likely clusters of each item."""
    items, (classes, _) = len(membership), table.shape
    # Each open item carries a pair of clusters that it may well be of. A like then counts by how much more the class
    # that was guessed likes one of them than the other, over how much it likes the item; a dislike the other way round.
    # That centres ratings, turns them and uses first order at once. Some items and all decided ones count by a random
    # sign of each class instead, which lets the tables be told apart; decided ones so little that they matter only to
    # devices that sense no open one.
    rates = np.clip(table @ membership.T, LEAST_ASKED_RATE, 1 - LEAST_ASKED_RATE)
    guess = np.empty((2 * classes, items))
    guess[0::2], guess[1::2] = np.log1p(-rates), np.log(rates)
    gap = table @ _pairs(membership, coins)
    counts = np.empty_like(guess)
    counts[0::2], counts[1::2] = -gap / (1 - rates), gap / rates
    squares = shares @ (rates * counts[1::2] ** 2 + (1 - rates) * counts[0::2] ** 2)
    counts /= np.sqrt(max(float(squares.mean()), 1e-12))
    patterns = np.array([(1, *rest) for rest in itertools.islice(itertools.product((1, -1), repeat=classes - 1), 64)])
    sample = patterns[coins.integers(len(patterns), size=items)].T
    probes = decided | (coins.random(items) < PROBES)
    signs = np.where(decided, 1 / CONTROL_PART, 1.0) * sample
    counts[0::2, probes], counts[1::2, probes] = -signs[:, probes], signs[:, probes]
    return Tables(
        prior=np.zeros(classes, np.int32),
        guess=np.rint(GUESS_UNIT * guess).astype(np.int32),
        counts=np.rint(COUNT_UNIT * np.clip(counts, -MOST_UNITS, MOST_UNITS)).astype(np.int32),
        lean=np.zeros(classes, np.int32),
        sensed=_sensed(rates, shares, decided, control),
    )


def _pairs(membership: Floats2, coins: np.random.Generator) -> Floats2:
    """Return +1 and -1 at two clusters of each item, drawn by how probable they are, shape (L, N)."""
    items, clusters = membership.shape
    pairs = np.zeros((clusters, items))
    if clusters == 2:
        pairs[0], pairs[1] = 1, -1
        return pairs
    order = np.argsort(-(np.log(np.sqrt(membership) + 0.02) + coins.gumbel(size=membership.shape)), axis=1)
    pairs[order[:, 0], np.arange(items)], pairs[order[:, 1], np.arange(items)] = 1, -1
    return pairs


def _sensed(rates: Floats2, shares: Floats, decided: Bools, control: int) -> Indices:
    """Return how often items are sensed: the less, the more they say of the class; always, if hardly any are open."""
    # Where only the pool is known, it hardly does anything but serve the guess: a device rated few of its items, and
    # guesses by fewer yet confuse two classes, of three until nothing separates them any more.
    apart = shares @ (rates - shares @ rates) ** 2
    most, open_share = max(float(apart.max()), 1e-12), 1 - float(decided.mean())
    alike = OPEN * float(apart.mean()) / most
    least = alike + (1 - alike) * max(0.0, 1 - 2 * open_share)
    often = 1 - (1 - least) * np.sqrt(apart / most)
    return np.where(decided, control, np.rint(SENSING_LEVELS * often)).astype(np.int32)


def guess_tables(tables: Tables, k: int) -> Tables:
    """Return the arrays of a round that asks whether class k was guessed, by the same guess."""
    lean = np.where(np.arange(tables.lean.size) == k, 1, -1).astype(np.int32)
    return replace(tables, counts=np.zeros_like(tables.counts), lean=lean)


def plain_tables(pool: Indices, items: int, levels: int) -> Tables:
    """Return the arrays of a round of first-order signs of a pool: there is one class, and every rating is sensed."""
    sensed, none = np.zeros(items, np.int32), np.zeros((2, items), np.int32)
    sensed[pool] = levels
    counts = np.repeat(np.array([[-1], [1]], np.int32), items, axis=1)
    return Tables(prior=none[0, :1], guess=none, counts=counts, lean=none[0, :1], sensed=sensed)


LEAST_START_RATE = 0.04  # Like rates of a start lie so far from 0 and 1 at least
STANDS_OUT, TELLS = 1.0, 2.5
"""First order goes on while its signal passes noise by so many sd, and suffices at so many times noise's variance."""
CROWD = 20_000  # Synthetic devices from which the tables of the first guess follow
STARTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class InitialAnchors:
    """First anchors."""

    pool: Indices  # shape (M,); The items that something is known of
    clusters: Floats2  # shape (M, L); Probability of each one's cluster
    likes: Floats2  # shape (K, L); How probably each class likes each cluster, roughly
    stands: bool  # Whether this is worth building on

    def tables(self, *, items: int, rated: int) -> Floats2:
        """Return like rates given the guess, by synthetic devices that sense half of what they rated, shape (K, L)."""
        coins, (classes, _) = np.random.default_rng(0), self.likes.shape
        rates = self.likes @ self.clusters.T
        classes_of_devices = coins.integers(classes, size=CROWD)
        labels = (coins.random((CROWD, self.pool.size, 1)) > np.cumsum(self.clusters, axis=1)[:, :-1]).sum(axis=2)
        liked = coins.random(labels.shape) < self.likes[classes_of_devices[:, None], labels]
        serves = coins.random(labels.shape) < rated / items / 2
        scores = (serves & liked) @ np.log(rates).T + (serves & ~liked) @ np.log1p(-rates).T
        guesses = np.argmax(scores + 1e-9 * coins.random(scores.shape), axis=1)
        joint_counts = np.full((classes, classes), 0.5)
        np.add.at(joint_counts, (guesses, classes_of_devices), 1.0)
        return np.asarray(joint_counts / joint_counts.sum(axis=1, keepdims=True) @ self.likes)


def initial_anchors(course: anchor_queries.AnchorHistory, *, rated: int, clusters: int, classes: int) -> InitialAnchors:
    """Return the start by first-order signs if they suffice, else by pairs."""
    if course.plain and not course.pairs:
        return of_signs(course.plain, rated=rated)
    if clusters == 2:
        start = anchor_queries.spectral_start(course, rated=rated)
        first = scipy.special.expit(start.odds)
        membership = np.stack([first, 1 - first], axis=1)
        moments = start.level**2 * np.array([[1.0, -1.0], [-1.0, 1.0]])
        return InitialAnchors(pool=start.pool, clusters=membership, likes=_likes(moments, classes), stands=start.stands)
    return _of_many(course, rated=rated, clusters=clusters, classes=classes)


def _of_many(course: anchor_queries.AnchorHistory, *, rated: int, clusters: int, classes: int) -> InitialAnchors:
    """Return the start by the first L - 1 eigenvectors: k-means, then normal posteriors around its centres."""
    query, users = course.pairs[0].query, max(course.paired_users, 1)
    assert query.pool is not None  # pairs are those of a pool
    pool_items = query.pool.size
    with one_thread():
        values, vectors = np.linalg.eigh(course.agreements)
    edges = np.maximum(values[:-clusters:-1] / (2 * math.sqrt(pool_items * users)), 1.001)
    stands = bool(edges[-1] >= anchor_queries.ENOUGH)
    strengths = edges + np.sqrt(edges**2 - 1)
    overlap = 1 - strengths**-2
    points = vectors[:, :-clusters:-1] * np.sqrt(pool_items * overlap)
    centres = k_means(points, clusters, starts=STARTS).cluster_centers_
    centres = centres[np.lexsort(centres.T[::-1])]
    off = (points[:, None] - centres) ** 2 / (overlap * (1 - overlap))
    membership = scipy.special.softmax(np.maximum(-off.sum(axis=2) / 2, -anchor_queries.CLIP), axis=1)
    contrast = pair_contrast(pool_items, items=query.items, rated=rated, epsilon=query.epsilon)
    scaled = centres / np.sqrt(np.maximum(overlap, 0.2))
    moments = scaled * strengths / (contrast * math.sqrt(pool_items * users)) @ scaled.T
    return InitialAnchors(pool=query.pool, clusters=membership, likes=_likes(moments, classes), stands=stands)


def _likes(moments: Floats2, classes: int) -> Floats2:
    """Return like probabilities of K classes, of equal shares, that have these second moments of mean ratings."""
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, 0.0)
    # two classes are mirrored; more are the columns of a root, which leaves a rotation open that rounds settle
    if classes == 2:
        top = vectors[:, -1] * math.sqrt(max(values[-1], 0.01))
        rates = np.stack([top, -top])
    else:
        root = math.sqrt(classes) * (vectors * np.sqrt(values)) @ vectors.T
        rates = np.resize(root, (classes, len(moments)))
        rates = rates - rates.mean(axis=0)
    return np.clip((1 + rates) / 2, LEAST_START_RATE, 1 - LEAST_START_RATE)


def signal_of(rounds: tuple[AnchorRound, ...], *, rated: int) -> tuple[Floats, Floats, float]:
    """Return means of ``H_i S`` of the pool's items in first-order rounds, their errors, and signal over noise."""
    # The last is the variance among items over that of noise, less 1.
    users = np.stack([anchor_round.statistic.sensed for anchor_round in rounds]).sum(axis=0)
    pool = users > 0
    sums = np.stack([2 * anchor_round.statistic.scores - anchor_round.statistic.sensed for anchor_round in rounds]).sum(
        axis=0
    )[pool]
    estimates = turned_estimates(rounds[0], np.ones(1), rated=rated, control=0)
    gain = estimates.slopes[0][pool] / 2  # for each unit of a mean rating in [-1, 1]
    values, errors = sums / users[pool] / gain, 1 / (np.sqrt(users[pool]) * gain)
    return values, errors, float(((values - values.mean()) ** 2 / errors**2).sum() / (values.size - 1) - 1)


def of_signs(rounds: tuple[AnchorRound, ...], *, rated: int) -> InitialAnchors:
    """Return the start by first-order signs of the pool, for two clusters; the other class is taken to be mirrored."""
    values, errors, signal = signal_of(rounds, rated=rated)
    pool = np.flatnonzero(rounds[0].query.arrays[SENSED]).astype(np.int32)
    mixture = fit(values, errors, 2)
    membership = scipy.special.softmax(np.clip(joint(mixture, values, errors), -1e3, 1e3), axis=1)
    rates = np.stack([mixture.levels, -mixture.levels])
    likes = np.clip((1 + rates) / 2, LEAST_START_RATE, 1 - LEAST_START_RATE)
    return InitialAnchors(pool=pool, clusters=membership, likes=likes, stands=signal >= TELLS)


CONTROL = 1  # How often, of `SENSING_LEVELS`, decided items are sensed, as controls
EARLY = 12  # Rounds of turned signs after which what the start said of items is dropped; it never decides anything
STRAYED = 3.0  # A round is discarded if its controls lie so many standard deviations off
SHARE_STEP = 0.02  # Standard deviation of the step of a guess's share from one round to the next
APART = 20.0  # Log-odds by which items must have clusters before any of them is decided [nats]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableBelief:
    """What the server believes after some rounds."""

    first: InitialAnchors  # What it started from
    table: Floats2  # shape (K, L); Like rates given the guess that the next round should have
    shares: Floats  # shape (K,); Shares of the devices that guess each class
    posterior: Posterior  # Of every item's cluster
    membership: Floats2  # shape (N, L); Probability of every item's cluster, for what is asked next
    # How much more probable turned signs are if items have clusters than if all are liked alike [nats]
    evidence: float = 0.0
    # shape (N,); Users of the last round's kind that should decide an item, on average; None before turned signs
    need: Floats | None = None

    def model(self, clusters: int) -> Model:
        """Return the item model to hand to devices; an item's score is how probably devices like it."""
        score = self.posterior.expected
        return Model(cluster=self.posterior.cluster, score=score, error=np.zeros_like(score), clusters=clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLearner:
    """K classes and L clusters: what the server believes, and what it asks next."""

    design: AnchorSensing  # What is asked
    failure: float  # Allowed probability that any label is wrong

    def believe(self, course: anchor_queries.AnchorHistory) -> TableBelief:
        """Return what follows from all rounds, at least one about pairs or first-order signs."""
        design = self.design
        first = initial_anchors(course, rated=design.rated, clusters=design.clusters, classes=design.classes)
        start = first.tables(items=design.items, rated=design.rated)
        early = np.full((design.items, design.clusters), 1 / design.clusters)
        early[first.pool] = first.clusters
        sensing = [anchor_round for anchor_round in course.turned if not asks_guess(anchor_round)]
        shares = self._shares(course.turned, max(len(sensing), 1))
        if not sensing:
            posterior = _posterior(early, early @ start.mean(axis=0), apart=False)
            return TableBelief(first=first, table=start, shares=shares[0], posterior=posterior, membership=early)
        readings = [
            turned_estimates(anchor_round, share, rated=design.rated, control=CONTROL)
            for anchor_round, share in zip(sensing, shares, strict=True)
        ]
        sound = readings
        weight = np.log(early) if len(readings) < EARLY else np.zeros_like(early)
        fit = fit_tables(sound, start, weight)
        if any(off := [fit.strays(reading, number) > STRAYED for number, reading in enumerate(sound)]) and not all(off):
            sound = [reading for reading, stray in zip(sound, off, strict=True) if not stray]
            fit = fit_tables(sound, start, weight)
        evidence = _evidence(sound, fit)
        return TableBelief(
            first=first,
            table=fit.tables[-1],
            shares=shares[-1],
            evidence=evidence,
            need=self._need(sound[-1], fit),
            posterior=_posterior(fit.clusters, fit.clusters @ (shares[-1] @ fit.tables[-1]), apart=evidence >= APART),
            membership=fit.clusters,
        )

    def _shares(self, turned: tuple[AnchorRound, ...], rounds: int) -> Floats:
        """Return the share of each guess in each round, from what was asked of the guess itself, shape (rounds, K)."""
        classes, rates = self.design.classes, np.empty((rounds, self.design.classes))
        seen: list[tuple[int, int, float, float]] = []
        at = 0
        for anchor_round in turned:
            if not asks_guess(anchor_round):
                at += 1
                continue
            contrast = bit_channel(anchor_round.query.epsilon).contrast
            answers = max(anchor_round.statistic.answered, 1)
            share = ((2 * anchor_round.statistic.ones / answers - 1) / contrast + 1) / 2
            guess = int(anchor_round.query.arrays[LEAN].argmax())
            seen.append((guess, min(at, rounds - 1), share, 1 / (2 * contrast * math.sqrt(answers))))
        for k in range(classes):
            observations = [(at, share, error) for guess, at, share, error in seen if guess == k]
            values, errors = (
                np.array([observation[1] for observation in observations]),
                np.array([observation[2] for observation in observations]),
            )
            places = [observation[0] for observation in observations]
            rates[:, k] = walk(values, errors, places, rounds, start=1 / classes, tie=SHARE_STEP)
        if classes == 2:
            rates[:, 1] = 1 - rates[:, 0]
        rates = np.clip(rates, 0.02, 0.98)
        return np.asarray(rates / rates.sum(axis=1, keepdims=True))

    def _need(self, reading: RoundEstimates, fit: TableFit) -> Floats:
        """Return the users who should bring every item's log-odds over the edge: they drift by half the squared gap."""
        best, other = np.argsort(-fit.clusters, axis=1)[:, :2].T
        gap = np.einsum("ki,ki->i", reading.slopes, fit.tables[-1][:, best] - fit.tables[-1][:, other])
        doubt = np.clip(1 - fit.clusters.max(axis=1), 1e-12, 1 - 1e-12)
        missing = math.log(self.design.items / self.failure) - np.log((1 - doubt) / doubt)
        return np.asarray(np.maximum(missing, 1.0) / np.maximum(gap**2 / 2, 1e-12))

    def ask(self, belief: TableBelief, *, kind: int | None = None, **header: Unpack[QueryHeader]) -> Query:
        """Return the next round's query: about turned signs, or about whether class ``kind`` is guessed."""
        coins = np.random.default_rng(
            int.from_bytes(derive(header["public_seed"], f"anchor round {header['round_number']}"))
        )
        tables = turned_tables(
            belief.membership,
            belief.table,
            belief.shares,
            belief.posterior.decided(self.failure),
            control=CONTROL,
            coins=coins,
        )
        tables = tables if kind is None else guess_tables(tables, kind)
        return self.design.turned(tables, **header)

    def ask_plain(self, **header: Unpack[QueryHeader]) -> Query:
        """Return a query about first-order signs of the pool."""
        tables = plain_tables(self.design.pool(header["public_seed"]), self.design.items, SENSING_LEVELS)
        return self.design.turned(tables, **header)


def asks_guess(anchor_round: AnchorRound) -> bool:
    """Return whether a round asked for the guess itself."""
    return bool(anchor_round.query.arrays[LEAN].any())


def _posterior(membership: Floats2, expected: Floats, *, apart: bool) -> Posterior:
    """Return the posterior that these probabilities of clusters are."""
    doubt = on_a_grid(1 - membership.max(axis=1))
    least = 0.0 if apart else 1 - 1 / membership.shape[1]
    return Posterior(
        cluster=membership.argmax(axis=1).astype(np.int32),
        doubt=np.maximum(doubt, least),
        expected=expected,
        mixture=None,
        apart=apart,
    )


def _evidence(readings: list[RoundEstimates], fit: TableFit) -> float:
    """Return how much more probable all means are [nats] if items have clusters than if all are liked alike."""
    means = np.array([reading.means - reading.offset for reading in readings])
    users, slopes = (
        np.array([reading.users for reading in readings]),
        np.array([reading.slopes for reading in readings]),
    )
    shares = fit.clusters.mean(axis=0)
    tables = np.concatenate([fit.tables, (fit.tables @ shares)[:, :, None]], axis=2)
    off = means[:, :, None] - np.einsum("rki,rkc->ric", slopes, tables)
    fits = -np.einsum("ri,ric->ic", users, off**2) / 2
    return float((scipy.special.logsumexp(fits[:, :-1], b=shares, axis=1) - fits[:, -1]).sum())
