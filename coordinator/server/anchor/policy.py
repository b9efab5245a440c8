"""Anchor sensing's policies: pairs until they stand out, then turned signs or tables; and what learns from them."""

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np

from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model
from coordinator.server.anchor.anchor_queries import NEXT_LOOK, AnchorHistory, AnchorSensing, first_look, history_of
from coordinator.server.anchor.like_tables import STANDS_OUT, TELLS, TableBelief, TableLearner, asks_guess, signal_of
from coordinator.server.anchor.two_class import Belief, TwoClasses
from coordinator.server.decoding.posterior import Posterior
from coordinator.server.moments.sign_moments import sign_contrast
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.setting import Setting, information_to_decide, users_on_grid
from coordinator.server.rounds.state import Ask, ServerState


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
        query = self.learner.ask(belief, **setting.terms(state))
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

    Every device answers one question under its whole epsilon. The policy needs no like rates. It stops when all items
    are decided at the setting's confidence, or when no device has an answer left.
    """

    asks_undecided: ClassVar[bool] = False
    setting: Setting  # Its design must be anchor sensing
    learner: TableLearner  # Reads rounds, and asks what comes next

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting, course = self.setting, history_of(state.readings.anchors)
        if not course.pairs and (users := self._plain_users(course)):
            query = self.learner.ask_plain(**setting.terms(state))
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
        query = self.learner.ask(belief, kind=kind, **setting.terms(state))
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
