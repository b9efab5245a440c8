"""What all audits of central promises share: how an event is chosen and measured, and which numbers they take."""

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Floats2
from coordinator.protocol.checked import MOST_ITEMS, require_whole
from coordinator.protocol.errors import InputError
from scenarios.studies.scrutiny.attacks import CHOOSE, FEWEST, FIT, MEASURE, attack_of, best_event, learned_scores
from scenarios.studies.scrutiny.mechanism import Size
from scenarios.studies.scrutiny.verdicts import AttackResult

CONFIDENCE = 0.999
MOST_REPORTS, MOST_PLAYERS = 1 << 27, 1 << 18  # what devices send that is looked at in all, and devices of a round
LEARNABLE = 500  # rounds that a learner needs at least
PARTS = (0.1, 0.2, 0.7)  # shares of the rounds that fit looks, choose an event, and measure it


def central_attack(
    scores: Mapping[str, Floats],
    features: Floats2,
    secret: Bools,
    *,
    name: str,
    meaning: str,
    claimed: float,
    delta: float,
    doubt: float,
    coins: np.random.Generator,
) -> AttackResult:
    """Return what the best event of all rounds shows, by these scores or by what a learner makes of the features."""
    use = coins.choice([FIT, CHOOSE, MEASURE], secret.size, p=PARTS)
    looks = dict(scores)
    if features.shape[1] and np.count_nonzero(use == FIT) >= LEARNABLE:
        looks |= learned_scores(features, secret, use)
    event = best_event(looks, secret, use, doubt, delta)
    return attack_of(event, name=name, meaning=meaning, times=1, claimed=Fraction(claimed))


def require_game(*, users: int, releases: int, items: int, rated: int, confidence: float) -> Size:
    """Return the size of the world that an audit plays in, or refuse numbers that are none."""
    require_whole("users", users, 2, MOST_PLAYERS)
    require_whole("releases", releases, FEWEST, MOST_REPORTS)
    if not 0.5 <= confidence < 1:
        raise InputError(f"confidence is {confidence:g}; give a probability from 0.5 to below 1")
    require_whole("items", items, 2, MOST_ITEMS)
    return Size(items=items, rated=require_whole("rated", rated, 1, items), users=users)
