"""Anchor sensing's policies: pairs first, then turned signs or tables; and the learner of two mirrored classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Unpack, cast

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Indices2, Ints2, Words
from coordinator.protocol.channels import bit_channel
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.compiled import compiled, int64, uint64
from coordinator.protocol.decoding.estimates import Estimates
from coordinator.protocol.decoding.posterior import Posterior, believe, expected_levels, unsure
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import LOW, device_streams, draw
from coordinator.protocol.mechanism import QueryHeader
from coordinator.protocol.mechanisms.anchor import AnchorSensing, Tables
from coordinator.protocol.messages import CENTRE_UNIT, Model, Query
from coordinator.protocol.moments.sign_moments import sign_contrast
from coordinator.protocol.pools import COUNTS, GUESS, LEVELS, SENSED
from coordinator.server.anchor.anchor_queries import (
    NEXT_LOOK,
    AnchorHistory,
    SpectralStart,
    first_look,
    history_of,
    spectral_start,
)
from coordinator.server.anchor.like_tables import STANDS_OUT, TELLS, TableBelief, TableLearner, asks_guess, signal_of
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.setting import Setting, information_to_decide, users_on_grid
from coordinator.server.rounds.state import AnchorRound, Ask, ServerState


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
    """Return a round's estimates of every item's mean rating d in the first class."""
    # For an item with centre m of the N that a device senses and rated, given that the guess is right (s = 1) or wrong
    # (s = -1), ``E[H_i S] = t (w/N) sum_s P(s) ((1 + s d) G_s(1 - m) - (1 - s d) G_s(1 + m)) / 2``, where G_s(v) is the
    # probability that the device's other ratings sum up to less than v. That is linear in d.
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

    def ask(self, belief: Belief, **header: Unpack[QueryHeader]) -> Query:
        """Return what the next round asks: decided items only serve the guess, open ones are sensed or serve it."""
        decided = belief.posterior.decided(self.failure)
        expected = np.clip(belief.posterior.expected, -SURE, SURE)
        best: tuple[float, Query] | None = None
        # how often they are sensed decides how much an answer says of them, by the server's own model
        for level in LEVELS_TRIED:
            sensed = np.where(decided, 0, level).astype(np.int32)
            tables = two_class_tables(expected, np.zeros_like(expected), sensed)
            plain = self.design.turned(tables, **header)
            wrong, right = simulated(plain, expected, rated=self.design.rated - 1, devices=TRIED_BY).sum(axis=1)
            tables = two_class_tables(expected, (right - wrong) * expected, sensed)
            query = self.design.turned(tables, **header)
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


def learner_for(design: AnchorSensing, failure: float) -> TwoClasses | TableLearner:
    """Return the learner of a design; ``failure`` is the allowed probability that any label is wrong."""
    crossed = design.clusters == design.classes == 2
    if design.learner == "mirrored" and not crossed:
        raise InputError(
            f"learner mirrored knows two classes and two clusters, not {design.classes} and {design.clusters}; "
            "choose tables"
        )
    if crossed and design.learner in ("auto", "mirrored"):
        return TwoClasses(design=design, failure=failure)
    return TableLearner(design=design, failure=failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLearner(Learner):
    """Reads all rounds of anchor sensing together."""

    anchors: TwoClasses | TableLearner  # Reads rounds
    clusters: int  # Number of item clusters L

    @property
    def asks(self) -> tuple[str, ...]:
        """Signs of pairs, and turned signs of items."""
        return AnchorSensing.pairs, AnchorSensing.name

    def learn(self, state: ServerState) -> tuple[Model, Posterior | None]:
        """Return the model and the posterior; see `Learner.learn`."""
        belief = self.anchors.believe(history_of(state.readings.anchors))
        return belief.model(self.clusters), belief.posterior


PAIR_GROWTH = 0.12  # A round of turned signs asks this share of the users asked so far
TRIAL, CLEAR = 0.75, 5.0
"""After so many users of turned signs, as a share of those asked about pairs, these must stand out by so many sd."""
PAIR_AGAIN = 1.5  # If they do not, pairs are asked again until so many times the users have answered


def more_pairs(course: AnchorHistory, again: float, *, stands: bool) -> float | None:
    """Return how many more users should answer about pairs, ``again`` times those of a start that was given up."""
    missing = again * course.given_up - course.paired_users
    if course.turned or (missing < 1 and stands):
        return None
    return missing if missing >= 1 else NEXT_LOOK * course.paired_users


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPolicy:
    """Pairs of a pool give the first anchors; turned signs of all items make everything else.

    Every device answers one question under its whole epsilon. The policy needs no like rates. It stops when all items
    are decided at the setting's confidence, or when no device has an answer left.
    """

    asks_undecided: ClassVar[bool] = False
    setting: Setting  # Its design must be anchor sensing
    learner: TwoClasses  # Reads rounds, and asks what comes next

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting, rounds = self.setting, state.readings.anchors
        if not rounds:
            users = first_look(self.learner.design, public_seed=setting.public_seed, epsilon=setting.epsilon)
            return setting.ask(state, users=users_on_grid(users))
        course = history_of(rounds)
        belief = self.learner.believe(course)
        if (more := more_pairs(course, PAIR_AGAIN, stands=belief.start.stands)) is not None:
            return setting.ask(state, users=users_on_grid(more))
        if course.turned and pairs_failed(course, belief):
            return setting.ask(state, users=users_on_grid((PAIR_AGAIN - 1) * course.paired_users))
        if belief.posterior.decided(setting.failure).all():
            return None
        query = self.learner.ask(belief, **setting.header(state))
        return setting.send(state, query, users=users_on_grid(PAIR_GROWTH * state.answers_asked))


def pairs_failed(course: AnchorHistory, belief: Belief) -> bool:
    """Return whether turned signs should show a signal by now, and do not: the first anchors were noise."""
    items = belief.estimates.information.size
    enough = course.turned_users >= TRIAL * course.paired_users
    return enough and belief.chi_square < items + CLEAR * math.sqrt(2 * items)


TABLE_GROWTH, LEAST_GROWTH = 0.06, 0.2
"""A round asks at most this share of the users asked so far, and at least that share of this."""
SOON = 0.7  # As soon as some items are decided, a round should decide this share of the others
TRIALS = ((0.5, 2.0), (0.75, 6.0), (1.5, 30.0))
"""After so many users of turned signs, as multiples of those of the start, clusters must have such log-odds [nats]."""
TABLE_AGAIN = 1.5  # If they do not, pairs are asked until so many times the users have answered
ASKED, ASKED_MORE, ASKED_OFTEN = 0.005, 0.25, 0.05
"""Share of the users who are asked for the guess itself, for each class, and by how much of it they run ahead.

The last is for three classes and more, whose shares move fast in the first rounds: each round must know its own.
"""
PLAIN_FIRST, PLAIN_MOST, PLAIN_MORE = 2 / 0.64, 8, 0.5
"""First-order users: at the first look, in units of ``1 / g1^2``, the most, and by what share later looks have more."""
LOOKS = 6
"""First looks at pairs that a start usually takes. First order may need fewer users, but rounds are no smaller then."""
RATINGS = 2.0  # The farthest that mean ratings of two clusters lie apart


def users_of_anchors(setting: Setting) -> float:
    """Return about how many users all rounds ask: those of a usual start, and of turned signs as if of sign sensing."""
    design = cast("AnchorSensing", setting.design)
    looks = first_look(design, public_seed=setting.public_seed, epsilon=setting.epsilon)
    contrast = sign_contrast(
        design.items, items=design.items, rated=design.rated, vectors=1, best_count=1, epsilon=setting.epsilon
    )
    return LOOKS * looks + information_to_decide(setting, RATINGS) / contrast**2 if contrast else math.inf


MIXED = "mixed"  # The learner that begins with first-order signs


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePolicy:
    """First anchors from first-order signs or pairs of a pool; then turned signs of all items, by measured tables.

    Devices answer, and it stops, as for `AnchorPolicy`.
    """

    asks_undecided: ClassVar[bool] = False
    setting: Setting  # Its design must be anchor sensing
    learner: TableLearner  # Reads rounds, and asks what comes next

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting, course = self.setting, history_of(state.readings.anchors)
        if not course.pairs and (users := self._plain_users(course)):
            query = self.learner.ask_plain(**setting.header(state))
            return setting.send(state, query, users=users_on_grid(users))
        if not course.pairs and not self._by_signs(course):
            return setting.ask(state, users=users_on_grid(self._first_look()))
        belief = self.learner.believe(course)
        if course.pairs and (more := more_pairs(course, TABLE_AGAIN, stands=belief.first.stands)) is not None:
            return setting.ask(state, users=users_on_grid(more))
        if course.turned and tables_failed(course, belief, self._usual()):
            users = (TABLE_AGAIN - 1) * course.paired_users if course.pairs else self._first_look()
            return setting.ask(state, users=users_on_grid(users))
        if belief.posterior.decided(setting.failure).all():
            return None
        return self._turned(state, course, belief)

    def _turned(self, state: ServerState, course: AnchorHistory, belief: TableBelief) -> Ask | None:
        setting, answers = self.setting, state.answers_asked
        guesses = [anchor_round for anchor_round in course.turned if asks_guess(anchor_round)]
        classes = self.learner.design.classes
        kinds = 1 if classes == 2 else classes
        asks = sum(anchor_round.statistic.answered for anchor_round in guesses)
        target = ASKED * 2 * kinds * answers
        kind = len(guesses) % kinds if asks < target else None
        query = self.learner.ask(belief, kind=kind, **setting.header(state))
        users = TABLE_GROWTH * max(answers, self._usual())
        if kind is not None:
            users = (target * (1 + (ASKED_MORE if classes == 2 else ASKED_OFTEN)) - asks) / (kinds - kind)
        else:
            open_ones = ~belief.posterior.decided(setting.failure)
            if belief.need is not None and open_ones.mean() < 1 - 1 / 10:
                users = float(np.clip(np.quantile(belief.need[open_ones], SOON), LEAST_GROWTH * users, users))
        return setting.send(state, query, users=users_on_grid(users))

    def _by_signs(self, course: AnchorHistory) -> bool:
        """Return whether first-order signs alone are a start."""
        return bool(course.plain) and signal_of(course.plain, rated=self.learner.design.rated)[2] >= TELLS

    def _usual(self) -> float:
        """Return the users that a start usually takes."""
        return LOOKS * self._first_look()

    def _first_look(self) -> float:
        return first_look(self.learner.design, public_seed=self.setting.public_seed, epsilon=self.setting.epsilon)

    def _plain_users(self, course: AnchorHistory) -> float:
        """Return how many more users should answer with first-order signs, 0 for none."""
        design, setting = self.learner.design, self.setting
        if design.learner != MIXED or (design.clusters, design.classes) != (2, 2) or course.turned:
            return 0.0
        pool_items = design.pool(setting.public_seed).size
        contrast = sign_contrast(
            pool_items, items=design.items, rated=design.rated, vectors=1, best_count=1, epsilon=setting.epsilon
        )
        first = PLAIN_FIRST / contrast**2 if contrast else math.inf
        users = sum(anchor_round.statistic.answered for anchor_round in course.plain)
        if not users:
            return first
        signal = signal_of(course.plain, rated=design.rated)[2]
        if signal >= TELLS or signal < STANDS_OUT * math.sqrt(2 / (pool_items - 1)) or users >= PLAIN_MOST * first:
            return 0.0
        return PLAIN_MORE * users


def tables_failed(course: AnchorHistory, belief: TableBelief, usual: float) -> bool:
    """Return whether turned signs should show a signal by now, and do not: the first anchors were noise."""
    # only rounds that pass one of `TRIALS` check it; where first order was the start, it took as many users as is usual
    start = course.paired_users or usual
    now, before = course.turned_users, course.turned_users - course.turned[-1].statistic.answered
    return any(before < share * start <= now and belief.evidence < least for share, least in TRIALS)
