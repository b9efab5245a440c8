"""What turned signs tell of items, where two mirrored classes of users rate two clusters of items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.mechanisms.anchor import COUNTS
from coordinator.protocol.messages import Query
from coordinator.protocol.signs import UNIT
from coordinator.server.anchor.belief import Belief, unsure
from coordinator.server.anchor.sensing import AnchorSensing, Tables
from coordinator.server.anchor.start import spectral_start
from coordinator.server.anchor.synthetic import DEVICES, simulated
from coordinator.server.anchor.told import Course
from coordinator.server.decoding.estimates import Estimates
from coordinator.server.decoding.posterior import believe, expected_levels
from coordinator.server.rounds.readings import AnchorRound

READS, STEP = (DEVICES // 8,) * 5 + (DEVICES,), 0.7
"""Synthetic devices of each reading of all rounds, and how far all but the first go towards what they let expect.

What a reading lets the server expect is where the next one begins, and their fixed point is what rounds tell. The first
knows the pool alone and puts levels far too high, the second therefore too low, and so on.
"""
PAIRS_COUNT = 3
"""Rounds of turned signs after which the pairs' own posterior is dropped; it never decides anything."""
GUESS_UNIT = 256
"""Steps of a rating's log-odds in a guess."""
SURE = 0.98
"""A mean rating is taken to be so far from 0 at most."""
LEVELS_TRIED, TRIED_BY = (4, 6, 8, 10, 12, 14, 16), DEVICES // 4
"""Of `SENSING_LEVELS`, how often an open item may be sensed, and synthetic devices that tell which is best."""


def read(told: AnchorRound, expected: Floats, *, rated: int, devices: int = DEVICES) -> Estimates:
    """Return a round's estimates of every item's mean rating d in the first class.

    For an item with centre m of the N that a device senses and rated, given that the guess is right (s = 1) or wrong
    (s = -1), ``E[H_i S] = t (w/N) sum_s P(s) ((1 + s d) G_s(1 - m) - (1 - s d) G_s(1 + m)) / 2``, where G_s(v) is the
    probability that the device's other ratings sum up to less than v. That is linear in d.
    """
    query, statistic = told.query, told.statistic
    scale, offset = contrasts(query, expected, rated=rated, devices=devices)
    variance = np.maximum(1 - (offset + scale * expected) ** 2, 0.5)
    power = statistic.sensed / variance
    return Estimates(weighted=scale * power * (statistic.means - offset), information=scale**2 * power)


def contrasts(query: Query, expected: Floats, *, rated: int, devices: int = DEVICES) -> tuple[Floats, Floats]:
    """Return slope and offset of every item's mean of ``H_i S``, over devices whose coins have them sense it."""
    masses = simulated(query, expected, rated=rated - 1, devices=devices)[:, :-1]
    wrong, right = np.cumsum(masses, axis=1) - masses / 2
    near, far = (np.minimum(np.abs(query.arrays[COUNTS][row]), 2 * UNIT) for row in (1, 0))
    told = bit_channel(query.epsilon).contrast * rated / query.items
    slope, offset = (right - wrong)[near] + (right - wrong)[far], (right + wrong)[near] - (right + wrong)[far]
    return told * slope / 2, told * offset / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoClasses:
    """Two mirrored classes and two clusters: what the server believes, and what it asks next.

    Attributes
    ----------
    design : AnchorSensing
        What is asked.
    failure : float
        Allowed probability that any label is wrong.
    """

    design: AnchorSensing
    failure: float

    def believe(self, course: Course) -> Belief:
        """Return what all rounds tell, at least one about pairs."""
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
        if len(course.turned) > PAIRS_COUNT:
            return Belief(
                start=start,
                estimates=estimates,
                posterior=believe(estimates, clusters=2, failure=self.failure),
            )
        return Belief(start=start, estimates=estimates, posterior=unsure(expected))

    def _read(self, rounds: Sequence[AnchorRound], expected: Floats, devices: int) -> Estimates:
        first, *others = (read(told, expected, rated=self.design.rated, devices=devices) for told in rounds)
        return sum(others, start=first)

    def ask(self, belief: Belief, *, round_number: int, public_seed: bytes, epsilon: Epsilon) -> Query:
        """Return what the next round asks: decided items only serve the guess, open ones are sensed or serve it.

        How often they are sensed is what lets an answer tell most of them, by the server's own model.
        """
        decided = belief.posterior.decided(self.failure)
        expected = np.clip(belief.posterior.expected, -SURE, SURE)
        best: tuple[float, Query] | None = None
        for level in LEVELS_TRIED:
            sensed = np.where(decided, 0, level).astype(np.int32)
            tables = two_class_tables(expected, np.zeros_like(expected), sensed)
            plain = self.design.turned(tables, round_number=round_number, public_seed=public_seed, epsilon=epsilon)
            wrong, right = simulated(plain, expected, rated=self.design.rated - 1, devices=TRIED_BY).sum(axis=1)
            tables = two_class_tables(expected, (right - wrong) * expected, sensed)
            query = self.design.turned(tables, round_number=round_number, public_seed=public_seed, epsilon=epsilon)
            slope, _ = contrasts(query, expected, rated=self.design.rated, devices=TRIED_BY)
            told = level * float((slope[~decided] ** 2).sum())
            if best is None or told > best[0]:
                best = told, query
        assert best is not None
        return best[1]


def two_class_tables(expected: Floats, centres: Floats, sensed: Indices) -> Tables:
    """Return the arrays of two mirrored classes; ``expected`` and ``centres`` are mean ratings in the first of them."""
    guess = np.rint(GUESS_UNIT * np.arctanh(expected)).astype(np.int32)
    centre = np.rint(UNIT * centres).astype(np.int32)
    return Tables(
        prior=np.zeros(2, np.int32),
        guess=np.stack([-guess, guess, guess, -guess]),
        counts=np.stack([-UNIT - centre, UNIT - centre, UNIT - centre, -UNIT - centre]),
        lean=np.zeros(2, np.int32),
        sensed=sensed,
    )
