"""What liars of a run agree on, from what the experimenter knows: their items, their share, and what they make up."""

from __future__ import annotations

import numpy as np

from actors.lying.answers import lie_about
from actors.lying.plot import ANSWERS, RATINGS, SKETCHES, Plot
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.server_half import ONE_ROUND
from scenarios.data.liked import liked_share
from scenarios.data.populations import Population
from scenarios.given.attacks import BEFORE, EARLY, FEW, GRIND, INPUT, INPUT_LATE, LATE, STALL, UNTARGETED, Attack
from scenarios.given.config import Scenario
from scenarios.theory.lying import sway_of
from scenarios.theory.lying_rounds import early, ground, late, stalling

MAKES_UP = {INPUT: RATINGS, INPUT_LATE: SKETCHES}
"""What liars make up in attacks that stick to the local randomizer."""


def plot_of(population: Population) -> Plot | None:
    """Return what the liars of a settled population agree on; None if nobody lies.

    Raises
    ------
    InputError
        If they want more items than there are.
    """
    scenario = population.scenario
    if (attack := scenario.plotted) is None:
        return None
    truth = truth_of(population)
    shares, until = _shares(population, attack)
    return Plot(
        shares=shares,
        wishes=_wishes(scenario, attack, truth),
        truth=truth,
        makes_up=MAKES_UP.get(attack.name, ANSWERS),
        rated=scenario.rated or 1,
        grinds=attack.name == GRIND and scenario.coins_drawn == BEFORE,
        until=until,
    )


def truth_of(population: Population) -> Indices:
    """Return 1 for items that more devices like than half way between the least and the most liked item, else -1.

    With a ratings file the border is the median, so that promoted items come from the less popular half.
    """
    liked = liked_share(population)
    border = np.median(liked) if population.truth is None else (liked.min() + liked.max()) / 2
    return np.where(liked > border, 1, -1).astype(np.int32)


def _wishes(scenario: Scenario, attack: Attack, truth: Indices) -> Indices:
    """Return the wishes: items are drawn by the run's seed among the less liked ones, and among all if both ways go."""
    lie = lie_about(scenario.half.query_name(scenario.settings))
    everywhere = attack.name in (UNTARGETED, EARLY, LATE) and lie is not None and lie.both_ways
    among = np.arange(truth.size) if everywhere else np.flatnonzero(truth < 0)
    many = _number(scenario, attack, among.size)
    if many > among.size:
        raise InputError(f"attack is {attack.name}:{many}, but only {among.size} items are liked less; name fewer")
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "wishes")))
    wishes = np.zeros(truth.size, np.int32)
    chosen = coins.permutation(among)[:many]
    wishes[chosen] = -truth[chosen]
    return wishes


def _number(scenario: Scenario, attack: Attack, most: int) -> int:
    """Return how many items liars move: as many as are named, all in chosen rounds, else what mixes up most labels."""
    if attack.name in (EARLY, LATE):
        return most
    if attack.name != UNTARGETED:
        return attack.number or 1
    sway = sway_of(scenario.model_copy(update={"policy": ONE_ROUND, "pool_size": None}))
    if sway is None:
        return min(FEW, most)
    return sway.worst(scenario.malicious or 0.0, scenario.users or 1, most)


def _shares(population: Population, attack: Attack) -> tuple[Floats, int | None]:
    """Return the share of liars by the number of items that a query is about, and the device before which they came.

    Where coins and rounds are drawn before devices register, liars choose the rounds that they come to, or ids whose
    coins suit them. Afterwards they are spread evenly, over rounds and over coins.
    """
    scenario, labels = population.scenario, population.truth
    items, before = scenario.items or 1, scenario.coins_drawn == BEFORE
    evenly = np.full(items + 1, scenario.malicious or 0.0)
    if attack.name == STALL:
        assert labels is not None  # a ratings file has none, and is refused
        return stalling(scenario, labels, attack.number or 1), None
    if attack.name == GRIND and before:
        return np.full(items + 1, ground(scenario, attack.number or 1)), None
    if attack.name in (EARLY, LATE):
        assert labels is not None  # as above
        largest = min(attack.number or items, items)
        if before:
            return early(scenario, labels) if attack.name == EARLY else late(scenario, labels, largest=largest)
        sizes = np.arange(items + 1)
        return np.where(sizes <= largest if attack.name == LATE else sizes == items, evenly, 0.0), None
    return evenly, None
