"""Anchor sensing's policy: signs of pairs until they stand out, then turned signs until every item is decided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from coordinator.server.anchor.belief import Belief
from coordinator.server.anchor.start import NEXT_LOOK, first_look
from coordinator.server.anchor.told import Course, course_of
from coordinator.server.anchor.two_class import TwoClasses
from coordinator.server.rounds.setting import Setting, users_on_grid
from coordinator.server.rounds.state import Ask, ServerState

GROWTH = 0.12
"""A round of turned signs asks this share of the users asked so far."""
TRIAL, CLEAR = 0.75, 5.0
"""After so many users of turned signs, as a share of those who told pairs, these must stand out by so many sd."""
AGAIN = 1.5
"""If they do not, pairs are asked again until so many times the users have told them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchoring:
    """Pairs of a pool give the first anchors; turned signs of all items make everything else.

    Every device answers one question under its whole epsilon. The policy needs no like rates. It stops when all items
    are decided at the setting's confidence, or when no device has an answer left.

    Attributes
    ----------
    setting : Setting
        Its design must be anchor sensing.
    learner : TwoClasses
        What rounds tell, and what is asked next.
    """

    asks_undecided: ClassVar[bool] = False
    setting: Setting
    learner: TwoClasses

    def next_query(self, state: ServerState) -> Ask | None:
        """Return the next round, or None once every item is decided or every answer was given."""
        setting, rounds = self.setting, state.readings.anchors
        design = self.learner.design
        if not rounds:
            many = design.pool(setting.public_seed).size
            users = first_look(many, items=design.items, rated=design.rated, epsilon=setting.epsilon)
            return self._ask_pairs(state, users)
        course = course_of(rounds)
        belief = self.learner.believe(course)
        if not course.turned:
            missing = AGAIN * course.given_up - course.paired_users
            if missing >= 1 or not belief.start.stands:
                return self._ask_pairs(state, missing if missing >= 1 else NEXT_LOOK * course.paired_users)
        elif astray(course, belief):
            return self._ask_pairs(state, (AGAIN - 1) * course.paired_users)
        if belief.posterior.decided(setting.failure).all():
            return None
        query = self.learner.ask(
            belief, round_number=len(state.asked), public_seed=setting.public_seed, epsilon=setting.epsilon
        )
        return setting.send(state, query, users=users_on_grid(GROWTH * state.answers_asked))

    def _ask_pairs(self, state: ServerState, users: float) -> Ask | None:
        return self.setting.ask(state, users=users_on_grid(users))


def astray(course: Course, belief: Belief) -> bool:
    """Return whether turned signs should have told something by now, and did not: the first anchors were noise."""
    many = belief.estimates.information.size
    enough = course.turned_users >= TRIAL * course.paired_users
    return enough and belief.chi_square < many + CLEAR * math.sqrt(2 * many)
