"""What liars of a run agree on, from what the experimenter knows: their items, their share, and what they make up."""

import math

import numpy as np

from actors.lies import ANSWERS, RATINGS, SKETCHES, Collusion, lie_about
from coordinator.protocol.arrays import Floats, Indices
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.anchor.anchor_queries import AnchorSensing
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.mechanisms.totals import IDEAL
from coordinator.server.server_half import ANCHOR, ELIMINATE, FIXED, ONE_ROUND, TRUST_TWO_SERVERS
from scenarios.config.lying_settings import EARLY, FEW, INPUT, INPUT_LATE, LATE, UNTARGETED, Attack
from scenarios.config.run_spec import RunSpec, half_in
from scenarios.config.scenario import Scenario
from scenarios.data.populations import Population, liked_share
from scenarios.theory.liars import LUCK, influence_of, overthrown

MAKES_UP = {INPUT: RATINGS, INPUT_LATE: SKETCHES}  # What liars make up in attacks that stick to the local randomizer


def collusion_of(population: Population) -> Collusion | None:
    """Return what the liars of a settled population agree on; None if nobody lies."""
    scenario = population.scenario
    if (attack := scenario.plotted) is None:
        return None
    ordered = scenario.policy != ANCHOR
    truth = truth_of(population) if ordered else sides_of(population)
    return Collusion(
        shares=_shares(population, attack),
        wishes=_wishes(population, attack, truth),
        truth=truth,
        ordered=ordered,
        makes_up=MAKES_UP.get(attack.name, ANSWERS),
        rated=scenario.rated or 1,
        overflow=_overflow(scenario),
    )


def _overflow(scenario: Scenario) -> int:
    """Return what a liar adds to an item of a vector that nobody proves; 0 where vectors are proven, or there are none.

    A word holds less than 2**31 in all before its sign is lost, so that liars, of whom there are hardly ever twice as
    many as expected, share out half of that: 2**31 of a single one would make the item the last one.
    """
    if half_in(scenario).trust != TRUST_TWO_SERVERS or scenario.value("proofs") == IDEAL:
        return 0
    return (1 << 30) // (20 + math.ceil(2 * (scenario.malicious or 0.0) * (scenario.users or 1)))


def truth_of(population: Population) -> Indices:
    """Return 1 for items that more devices like than half way between the least and the most liked item, else -1.

    With a ratings file the border is the median, so that promoted items come from the less popular half.
    """
    liked = liked_share(population)
    border = np.median(liked) if population.truth is None else (liked.min() + liked.max()) / 2
    return np.where(liked > border, 1, -1).astype(np.int32)


def sides_of(population: Population) -> Indices:
    """Return 1 for items of the first cluster, else -1: clusters of anchor sensing may be liked equally often."""
    assert population.truth is not None  # a ratings file has none, and is refused
    return np.where(population.truth == 0, 1, -1).astype(np.int32)


def _wishes(population: Population, attack: Attack, truth: Indices) -> Indices:
    """Return the wishes: items are drawn by the run's seed among the less liked ones, and among all if both ways go.

    Where clusters have no order at most half of the items are turned: if more were, it would be fewer.
    """
    scenario = population.scenario
    lie = lie_about(half_in(scenario).query_name(scenario.settings))
    sides = scenario.policy == ANCHOR
    everywhere = sides or (attack.name in (UNTARGETED, EARLY, LATE) and lie is not None and lie.both_ways)
    among = np.arange(truth.size) if everywhere else np.flatnonzero(truth < 0)
    most = among.size // 2 if sides else among.size
    many = _number(population, attack, most)
    if many > most:
        why = "can change sides" if sides else "are liked less"
        raise InputError(f"attack is {attack.name}:{many}, but only {most} items {why}; name fewer")
    coins = np.random.default_rng(int.from_bytes(derive(scenario.seed, "wishes")))
    wishes = np.zeros(truth.size, np.int32)
    subset = coins.permutation(among)[:many]
    wishes[subset] = -truth[subset]
    return wishes


def _number(population: Population, attack: Attack, most: int) -> int:
    """Return how many items liars move: as many as are named, all in chosen rounds, else what mixes up most labels."""
    scenario, labels = population.scenario, population.truth
    if attack.name in (EARLY, LATE):
        return most
    if attack.name != UNTARGETED:
        return attack.number or 1
    influence = influence_of(scenario.model_copy(update={"policy": ONE_ROUND, "pool_size": None}))
    if influence is None or influence.tips_only:
        return min(FEW, most)
    if scenario.policy not in (ONE_ROUND, FIXED):
        plain = isinstance(design := RunSpec(scenario).design, SignSensing) and not design.centred
        many = influence.swift(scenario.malicious or 0.0, most, LUCK if plain else 1.0)
        assert labels is not None  # a ratings file has none, and is refused
        first = scenario.policy == ELIMINATE and scenario.pool_size is None
        return 1 if first and overthrown(scenario, influence, labels, promoted=1) > many else many
    return influence.worst(scenario.malicious or 0.0, scenario.users or 1, most)


def _shares(population: Population, attack: Attack) -> Floats:
    """Return the share of liars by the number of items that a query is about: they are spread evenly over rounds."""
    scenario = population.scenario
    items, share = scenario.items or 1, scenario.malicious or 0.0
    sizes = np.arange(items + 1)
    if not share or attack.name not in (EARLY, LATE):
        return np.full(sizes.size, share)
    if attack.name == LATE:
        targeted = sizes <= (attack.number or items)
    elif scenario.policy == ANCHOR:
        targeted = sizes == _paired_size(scenario)
    else:  # rounds that begin a run, the smallest of which has so many items
        targeted = sizes >= items // -(-items // (scenario.pool_size or items))
    return np.where(targeted, share, 0.0)


def _paired_size(scenario: Scenario) -> int:
    """Return of how many items anchor sensing's rounds about pairs are; later rounds are about all."""
    asking = RunSpec(scenario).design
    assert isinstance(asking, AnchorSensing)  # looked at by the caller
    many = asking.pool(b"").size  # coins choose which, not how many
    if many == asking.items:
        raise InputError(f"attack is {EARLY}, but all rounds are about {many} items; choose {UNTARGETED}")
    return many
