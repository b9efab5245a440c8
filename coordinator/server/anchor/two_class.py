"""The learner of two mirrored classes: what turned signs say of items, and how often the guess is right."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

import numpy as np
from numba import int64, uint64

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints2, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled
from coordinator.protocol.hashing import LOW, device_streams, draw
from coordinator.protocol.mechanisms.anchor import COUNTS, GUESS, LEVELS, SENSED
from coordinator.protocol.messages import CENTRE_UNIT, Model, Query
from coordinator.server.anchor.anchor_queries import AnchorHistory, AnchorSensing, SpectralStart, Tables, spectral_start
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import Posterior, believe, expected_levels, unsure
from coordinator.server.design import RoundTerms
from coordinator.server.rounds.state import AnchorRound


@dataclass(frozen=True, slots=True, kw_only=True)
class Belief:
    """What the server believes after some rounds."""

    start: SpectralStart  # From answers about pairs
    estimates: Estimates  # Of how the first class rates every item on average, in [-1, 1], by turned signs alone
    posterior: Posterior  # Of every item's cluster; its expected levels are what anchors and centres are made of

    @property
    def chi_square(self) -> float:
        """Sum of squared estimates over their variances: about N, with variance 2 N, if they hold no signal."""
        return float((self.estimates.value**2 * self.estimates.information).sum())

    def model(self, clusters: int) -> Model:
        """Return the item model to hand to devices; scores are the first class's, by sign of no meaning."""
        return self.posterior.model(self.estimates, clusters)


DEVICES = 1 << 12
_FAR = np.uint64(1 << 40)
_SENSES, _COIN = np.uint64(0x7FF), 2.0**-20


@compiled
def _simulate(
    streams: Words, rated: int, guess: Indices2, counts: Indices2, sensed: Indices, levels: int, likes: Floats
) -> Ints2:
    """Return devices by whether their guess is right (row 1), and by their sum's size up to 2 `CENTRE_UNIT`."""
    item_count, most = sensed.size, 2 * CENTRE_UNIT + 1
    tallies, items = np.zeros((2, most + 1), np.int64), np.arange(item_count)
    codes = np.empty(rated, np.int64)
    for k in range(streams.size):
        score, sensed_count = 0, 0
        for step in range(rated):
            word = draw(streams[k], uint64(step))  # its halves choose an item, and what becomes of that
            swap, coin = step + int((word & LOW) * uint64(item_count - step) >> uint64(32)), word >> uint64(32)
            items[step], items[swap] = items[swap], items[step]
            item = items[step]
            row = int(int64(coin >> uint64(12)) * _COIN < likes[item])
            if ((coin >> uint64(1)) & _SENSES) * uint64(levels) >> uint64(11) < uint64(sensed[item]):
                codes[sensed_count] = 2 * item + row + 1 if coin & uint64(1) else -(2 * item + row + 1)
                sensed_count += 1
            else:
                score += guess[row, item] - guess[2 + row, item]
        coin = draw(streams[k], _FAR - uint64(1))
        right = score > 0 or (score == 0 and coin >> uint64(63) == uint64(1))
        total = 0
        for at in range(sensed_count):
            code = abs(codes[at]) - 1
            value = counts[(code & 1) + (0 if right else 2), code >> 1]
            total += value if codes[at] > 0 else -value
        tallies[int(right), min(abs(total), most)] += 1
    return tallies


def simulated(query: Query, expected: Floats, *, rated: int, devices: int = DEVICES) -> Floats2:
    """Return shares of synthetic devices by whether their guess is right, and by the size of their sum."""
    # coins are public, so that everybody finds the same; each round has its own, so that their errors average out
    key = as_words(derive(query.public_seed, f"synthetic devices of round {query.round}"))
    streams = device_streams(key, 0, devices)
    arrays, likes = query.arrays, (1 + expected) / 2
    tallies = _simulate(
        streams, rated, arrays[GUESS], arrays[COUNTS], arrays[SENSED], int(query.parameters[LEVELS]), likes
    )
    return np.asarray(tallies / devices)


READS, STEP = (DEVICES // 8,) * 5 + (DEVICES,), 0.7
"""Synthetic devices of each reading of all rounds, and how far all but the first go towards what they let expect.

What a reading lets the server expect is where the next one begins, and their fixed point is the result. The first
knows the pool alone and puts levels far too high, the second therefore too low, and so on.
"""
PAIRS_COUNT = 3  # Rounds of turned signs after which the pairs' own posterior is dropped; it never decides anything
GUESS_UNIT = 256  # Steps of a rating's log-odds in a guess
SURE = 0.98  # A mean rating is taken to be so far from 0 at most
LEVELS_TRIED, TRIED_BY = (4, 6, 8, 10, 12, 14, 16), DEVICES // 4
"""Of `SENSING_LEVELS`, how often an open item may be sensed, and synthetic devices that show which is best."""


def round_estimates(anchor_round: AnchorRound, expected: Floats, *, rated: int, devices: int = DEVICES) -> Estimates:
    """Return a round's estimates of every item's mean rating d in the first class.

    For an item with centre m of the N that a device senses and rated, given that the guess is right (s = 1) or wrong
    (s = -1), ``E[H_i S] = t (w/N) sum_s P(s) ((1 + s d) G_s(1 - m) - (1 - s d) G_s(1 + m)) / 2``, where G_s(v) is the
    probability that the device's other ratings sum up to less than v. That is linear in d.
    """
    query, statistic = anchor_round.query, anchor_round.statistic
    scale, offset = contrasts(query, expected, rated=rated, devices=devices)
    variance = np.maximum(1 - (offset + scale * expected) ** 2, 0.5)
    power = statistic.sensed / variance
    return Estimates(weighted=scale * power * (statistic.means - offset), information=scale**2 * power)


def contrasts(query: Query, expected: Floats, *, rated: int, devices: int = DEVICES) -> tuple[Floats, Floats]:
    """Return slope and offset of every item's mean of ``H_i S``, over devices whose coins have them sense it."""
    masses = simulated(query, expected, rated=rated - 1, devices=devices)[:, :-1]
    wrong, right = np.cumsum(masses, axis=1) - masses / 2
    near, far = (np.minimum(np.abs(query.arrays[COUNTS][row]), 2 * CENTRE_UNIT) for row in (1, 0))
    gain = bit_channel(query.epsilon).contrast * rated / query.items
    slope, offset = (right - wrong)[near] + (right - wrong)[far], (right + wrong)[near] - (right + wrong)[far]
    return gain * slope / 2, gain * offset / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoClasses:
    """Two mirrored classes and two clusters: what the server believes, and what it asks next."""

    design: AnchorSensing  # What is asked
    failure: float  # Allowed probability that any label is wrong

    def believe(self, course: AnchorHistory) -> Belief:
        """Return what follows from all rounds, at least one about pairs."""
        start = spectral_start(course, rated=self.design.rated)
        odds, level = np.zeros(self.design.items), min(start.level, SURE)
        odds[start.pool] = start.odds
        expected = level * np.tanh(odds / 2)
        estimates = Estimates(weighted=np.zeros(odds.size), information=np.zeros(odds.size))
        for number, devices in enumerate(READS if course.turned else ()):
            before = np.clip(expected, -SURE, SURE)
            estimates = self._read(course.turned, before, devices)
            if len(course.turned) <= PAIRS_COUNT:
                expected = level * np.tanh(odds / 2 + level * estimates.weighted)
            elif (likeliest := expected_levels(estimates, clusters=2)) is not None:
                expected = likeliest
            if number:
                expected = before + STEP * (expected - before)
        by_signs = len(course.turned) > PAIRS_COUNT  # before that, what is expected comes from pairs alone
        posterior = believe(estimates, clusters=2, failure=self.failure) if by_signs else unsure(expected, 2)
        return Belief(start=start, estimates=estimates, posterior=posterior)

    def _read(self, rounds: Sequence[AnchorRound], expected: Floats, devices: int) -> Estimates:
        first, *others = (
            round_estimates(anchor_round, expected, rated=self.design.rated, devices=devices) for anchor_round in rounds
        )
        return sum(others, start=first)

    def ask(self, belief: Belief, **terms: Unpack[RoundTerms]) -> Query:
        """Return what the next round asks: decided items only serve the guess, open ones are sensed or serve it."""
        decided = belief.posterior.decided(self.failure)
        expected = np.clip(belief.posterior.expected, -SURE, SURE)
        best: tuple[float, Query] | None = None
        # how often they are sensed decides how much an answer says of them, by the server's own model
        for level in LEVELS_TRIED:
            sensed = np.where(decided, 0, level).astype(np.int32)
            tables = two_class_tables(expected, np.zeros_like(expected), sensed)
            plain = self.design.turned(tables, **terms)
            wrong, right = simulated(plain, expected, rated=self.design.rated - 1, devices=TRIED_BY).sum(axis=1)
            tables = two_class_tables(expected, (right - wrong) * expected, sensed)
            query = self.design.turned(tables, **terms)
            slope, _ = contrasts(query, expected, rated=self.design.rated, devices=TRIED_BY)
            information = level * float((slope[~decided] ** 2).sum())
            if best is None or information > best[0]:
                best = information, query
        assert best is not None
        return best[1]


def two_class_tables(expected: Floats, centres: Floats, sensed: Indices) -> Tables:
    """Return the arrays of two mirrored classes; ``expected`` and ``centres`` are mean ratings in the first of them."""
    guess = np.rint(GUESS_UNIT * np.arctanh(expected)).astype(np.int32)
    centre = np.rint(CENTRE_UNIT * centres).astype(np.int32)
    return Tables(
        prior=np.zeros(2, np.int32),
        guess=np.stack([-guess, guess, guess, -guess]),
        counts=np.stack([-CENTRE_UNIT - centre, CENTRE_UNIT - centre, CENTRE_UNIT - centre, -CENTRE_UNIT - centre]),
        lean=np.zeros(2, np.int32),
        sensed=sensed,
    )
