"""Adversaries against the loss and against epsilon, and what each does beside the bound, in rows that are printed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.voters import Client, TableVoters
from coordinator.protocol.arrays import Bits, Bits2, Bools2, Indices, Ints
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError, name_choices
from coordinator.protocol.hashing import device_streams
from coordinator.server.online.recommenders import PublicFacts, compared_in
from coordinator.server.online.service import Pick, Served, by_coin, by_sequence, serve
from scenarios.backends.session import Backend
from scenarios.config.settings import validated
from scenarios.families.online import online_bounds as bounds
from scenarios.families.online.online_run import run_online
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import ClientWorld, OnlineWorld
from scenarios.show.columns import finite
from scenarios.show.tables import text_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """Voters and a client that do as it is written."""

    likes: Bools2 = field(repr=False)  # shape (rounds, m); What the client likes
    votes: Bits2 = field(repr=False)  # shape (rounds, groups); A column a group of voters that vote alike
    group: Indices = field(repr=False)  # shape (voters,); Each voter's column

    def enter(self, service: Service) -> Indices:  # noqa: ARG002 (a protocol)
        """Let all voters take part."""
        return np.arange(self.group.size, dtype=np.int32)

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        """Return their votes."""
        return np.ascontiguousarray(self.votes[ballot.first : ballot.stop][:, self.group[electors]])

    def offer(self, client: int, round_number: int, recommendation: int) -> bool:  # noqa: ARG002 (a protocol)
        """Return whether the client likes a recommendation."""
        return Client(0, self.likes).answer(round_number, recommendation)


def replay(recommender: str, facts: PublicFacts, pattern: Pattern, pick: Pick) -> Served:
    """Serve the client of a pattern."""
    rounds, objects = pattern.likes.shape
    service = Service(client=0, recommender=recommender, rounds=rounds, objects=objects, epsilon=None)
    return serve(service, facts, pattern, pick)


def likes_of(liked: list[tuple[int, ...]], objects: int) -> Bools2:
    """Return a table of likes from the objects liked in each round."""
    likes: Bools2 = np.zeros((len(liked), objects), np.bool_)
    for row, liked_objects in zip(likes, liked, strict=True):
        row[list(liked_objects)] = True
    return likes


UNFINISHED = 1e-6  # Chance that a split of slow halving is left before its wrong half is kicked out


def halving_world(scenario: OnlineScenario) -> OnlineWorld:
    """Return Theorem 6's adversary, by a scenario's rounds, objects, voters, peers, radius and seed."""
    # In the first R rounds everybody votes for object 0 and the client likes an object at random. Then the voters, in
    # groups of P, split in halves over objects 0 and 1, ``log2(N / P)`` times, and the half that the client likes is
    # random. After that all agree with the client. One group never errs after the first part: the client's peers.
    splits = splits_of(scenario)
    radius, rounds = scenario.radius or 0, scenario.rounds or 0
    if radius + splits > rounds:
        raise InputError(f"rounds is {rounds}; Theorem 6 takes {radius} + {splits} here (radius, halvings)")
    random = _random(scenario)
    path = random.integers(2, size=splits)
    liked = np.zeros(rounds, np.uint8)
    liked[:radius] = random.integers(scenario.objects, size=radius)
    liked[radius : radius + splits] = path
    table = np.zeros((rounds, 1 << splits), np.uint8)
    table[radius : radius + splits] = _halves(splits)
    return _world(scenario, table, liked, path, diversity=0)


def slow_halving_world(scenario: OnlineScenario) -> OnlineWorld:
    """Return slow halving: every split is repeated until strikes have surely kicked out the half that errs."""
    # D is promised as T, so that only R-strikes kill; the loss is about ``B log2(N / P)``, B strikes a split. Rounds
    # are as many as that takes, whatever the scenario says.
    splits = splits_of(scenario)
    strikes = bounds.strikes_to_die(scenario.recommender, 0, scenario.radius or 0)
    repeats = 2 * strikes  # even rounds after which so many losses have come but for a chance of `UNFINISHED`
    while scipy.stats.binom.cdf(strikes - 1, repeats, 0.5) > UNFINISHED:
        repeats += 1
    path = _random(scenario).integers(2, size=splits)
    table = np.repeat(_halves(splits), repeats, axis=0)
    liked = np.repeat(path, repeats).astype(np.uint8)
    rounds = max(len(table), 2)
    table, liked = np.resize(table, (rounds, 1 << splits)), np.resize(liked, rounds)
    return _world(scenario, table, liked, path, diversity=rounds)


def splits_of(scenario: OnlineScenario) -> int:
    """Return ``log2(N / P)``."""
    voters, peers = scenario.voters or 0, scenario.peers or 1
    groups = voters // peers
    if groups * peers != voters or groups & (groups - 1):
        raise InputError(f"voters is {voters}, peers {peers}; halving needs peers times a power of two as voters")
    return groups.bit_length() - 1


def _random(scenario: OnlineScenario) -> np.random.Generator:
    return np.random.default_rng(int.from_bytes(derive(scenario.seed, "world")))


def _halves(splits: int) -> Bits2:
    """Return what each of ``2**splits`` groups votes for in each split: its bits."""
    return np.asarray((np.arange(1 << splits)[None, :] >> np.arange(splits)[:, None] & 1).astype(np.uint8))


def _world(scenario: OnlineScenario, table: Bits2, liked: Bits, path: Ints, *, diversity: int) -> OnlineWorld:
    """Return the world of these votes; beyond the splits, all vote as the client likes (object 0)."""
    rounds, groups = table.shape
    likes = np.zeros((rounds, scenario.objects), np.bool_)
    likes[np.arange(rounds), liked] = True
    group = np.repeat(np.arange(groups, dtype=np.int32), scenario.peers or 1)
    peer = group == int((path << np.arange(path.size)).sum())
    client = ClientWorld(
        client=Client(0, likes),
        rounds=rounds,
        objects=scenario.objects,
        diversity=diversity,
        radius=scenario.radius or 0,
        peer=peer,
        name="the client",
    )
    return OnlineWorld(scenario=scenario, voters=TableVoters(table=table, group=group), clients=(client,))


def claim_1(rounds: int, peers: int, *, recommender: str = "p-rec-sim", objects: int = 2) -> list[float]:
    """Return the log-ratios of Claim 1's chain, in which D = R = 0.

    In one round P voters vote for each of two objects; the one that the client dislikes is recommended. Its voters are
    removed one by one. In all other rounds everybody agrees, so that one before and one after stand for all.

    >>> ratios = claim_1(1000, 10)
    >>> round(sum(ratios), 9), round(max(ratios), 6)
    (6.907755279, 1.721811)
    """
    bounds.check(rounds, objects, 2 * peers, peers)
    votes: Bits2 = np.array([[0, 0], [0, 1], [0, 0]], np.uint8)
    likes = likes_of([(0,)] * 3, objects)
    sizes = [(peers, left) for left in range(peers, -1, -1)]
    return _chain(recommender, PublicFacts(rounds=rounds, objects=objects, peers=peers), likes, votes, sizes, [0, 1, 0])


def theorem_15_chain(
    rounds: int, peers: int, diversity: int, radius: int, *, recommender: str = "p-rec", objects: int = 2
) -> list[float]:
    """Return the log-ratios of the 2P steps of Theorem 15's chain against p-REC itself.

    The client likes object 0, in D rounds object 1, too. P voters always vote for object 0, P others for object 1 in
    those D rounds and in R more, where it is disliked; ``D + R <= T``. Object 0 is recommended throughout. From the
    first P voters the chain leads to all 2P, and then to the second P. Rounds in which all agree leak nothing; one
    stands for them. For p-rec with two objects the steps' total is ``(D + R) ln(2T - 1)`` exactly.

    >>> round(sum(theorem_15_chain(8, 3, 2, 1)), 12)
    8.124150603307
    """
    bounds.check(rounds, objects, 2 * peers, peers, diversity, radius)
    apart = diversity + radius
    if apart > rounds:
        raise InputError(f"diversity {diversity} and radius {radius} do not fit into {rounds} rounds; give D + R <= T")
    played = min(rounds, apart + 1)
    votes: Bits2 = np.zeros((played, 2), np.uint8)
    votes[:apart, 1] = 1
    likes = likes_of([(0, 1)] * diversity + [(0,)] * (played - diversity), objects)
    joining = [(peers, more) for more in range(peers + 1)]
    leaving = [(left, peers) for left in range(peers - 1, -1, -1)]
    facts = PublicFacts(rounds=rounds, objects=objects, diversity=diversity, radius=radius, peers=peers)
    return _chain(recommender, facts, likes, votes, joining + leaving, [0] * played)


def _chain(
    recommender: str, facts: PublicFacts, likes: Bools2, votes: Bits2, sizes: list[tuple[int, int]], sequence: list[int]
) -> list[float]:
    """Return ``ln Pr[sequence]`` before each step between patterns of two groups, less after it [nats]."""
    pick = by_sequence(np.array(sequence, np.uint8))
    logs = [
        replay(recommender, facts, Pattern(likes=likes, votes=votes, group=groups(*size)), pick).log_likelihood
        for size in sizes
    ]
    return [before - after for before, after in pairwise(logs)]


def groups(first: int, second: int) -> Indices:
    """Return the columns of ``first`` voters of the first group and ``second`` of the second."""
    return np.repeat(np.arange(2, dtype=np.int32), [first, second])


LIKED = {1: (0,), 2: (1,), 3: (0, 1), 4: (0,)}  # What the client likes in Settings 1 to 4
VOTES = {1: (0, 0), 2: (1, 1), 3: (0, 1), 4: (0, 1)}  # What v and v' vote for


class Divergence(NamedTuple):
    """What a client loses under random configurations, and how well its recommendations tell v from v'."""

    loss: float  # Mean of disliked recommendations over seeds
    ratio: float  # Mean of ``ln Pr[sequence]`` under v less under v' [nats]: the Kullback-Leibler divergence
    ratio_error: float  # Its standard error; NaN for a single seed, or where a ratio is infinite


def measure(
    recommender: str,
    rounds: int,
    peers: int,
    diversity: int,
    radius: int,
    seeds: Sequence[int],
    *,
    share: float | None = None,
) -> Divergence:
    """Return the means of `draw` over seeds (N = 2P, m = 2)."""
    samples = [draw(recommender, rounds, peers, diversity, radius, seed, share=share) for seed in seeds]
    losses, ratios = np.array(samples, np.float64).T
    spread = float(ratios.std(ddof=1)) if len(samples) > 1 and np.isfinite(ratios).all() else math.nan
    return Divergence(float(losses.mean()), float(ratios.mean()), spread / math.sqrt(len(samples)))


def draw(
    recommender: str, rounds: int, peers: int, diversity: int, radius: int, seed: int, *, share: float | None = None
) -> tuple[int, float]:
    """Draw a configuration, serve the client of P voters v, and return its loss and log-ratio of v to v' [nats]."""
    bounds.check(rounds, 2, 2 * peers, peers, diversity, radius)
    # At most T/4 disagreements, as Theorem 15 has it, so that its bound is about the loss that is measured.
    settings = configuration(rounds, *bounds.narrowed(rounds, diversity, radius), seed, share=share)
    likes = likes_of([LIKED[setting] for setting in settings], 2)
    votes: Bits2 = np.array([VOTES[setting] for setting in settings], np.uint8)
    facts = PublicFacts(rounds=rounds, objects=2, diversity=diversity, radius=radius, peers=peers)
    pattern, other = (Pattern(likes=likes, votes=votes, group=groups(*size)) for size in ((peers, 0), (0, peers)))
    served = replay(recommender, facts, pattern, by_coin(derive(seed, "recommendations")))
    against = replay(recommender, facts, other, by_sequence(served.chosen))
    return served.loss, served.log_likelihood - against.log_likelihood


def configuration(rounds: int, diversity: int, radius: int, seed: int, *, share: float | None = None) -> list[int]:
    """Return the Settings of all rounds."""
    # Settings 1 and 2 alike often, else v and v' disagree: D times in Setting 3, then R times in Setting 4, then no
    # more (Setting 1), so that both stay peers of the client.
    share = (diversity + radius) / (4 * rounds) if share is None else share
    if not 0 <= share <= 1:
        raise InputError(f"share of disagreements is {share:g}: it is a probability; give 0 to 1, or D + R <= 4T")
    streams = device_streams(as_words(derive(seed, "theorem 15")), 0, rounds)
    points = (streams >> np.uint64(11)) * 2.0**-53
    apart = points < share
    used: Ints = np.cumsum(apart)
    settings = np.where(points < (1 + share) / 2, 1, 2)
    settings[apart] = np.where(used <= diversity, 3, np.where(used <= diversity + radius, 4, 1))[apart]
    return [int(setting) for setting in settings]


def show_rows(console: Console, rows: Sequence[Mapping[str, Any]], title: str) -> None:
    """Print rows as transposed tables, as many as fit: names down, one column per row."""
    names = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    labels = [name.replace("_", " ") for name in names]
    columns = [["" if row[name] is None else text_of(row[name]) for name in names] for row in rows]
    frame = len(" │ │")
    while columns:
        room, shown = console.width - max(map(len, labels)) - frame, 0
        while shown < len(columns) and (room := room - max(map(len, columns[shown])) - len(" │ ")) >= 0:
            shown += 1
        beside, columns = columns[: shown or 1], columns[shown or 1 :]
        table = Table(title=Text(title), title_justify="left", show_header=False)
        for cells in zip(labels, *beside, strict=True):
            table.add_row(*map(Text, cells))
        console.print(table)


Row = dict[str, Any]
Adversary = Callable[[OnlineScenario, int, Backend], Row]


def halving(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:
    """Return Theorem 6's adversary against one recommender: loss over seeds beside what no algorithm avoids."""
    shape = scenario.rounds or 0, scenario.objects, scenario.voters or 0, scenario.peers or 0, scenario.radius or 0
    bound = {"no_algorithm_expects_less": bounds.loss_lower_bound(*shape)}
    return _loss_row(scenario, seeds, session, halving_world, bound)


def slow_halving(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:
    """Return slow halving against one recommender: loss over seeds beside ``B log2(N / P)``."""
    shape = scenario.recommender, scenario.voters or 0, scenario.peers or 0, 0, scenario.radius or 0
    about = {"strikes_times_halvings": bounds.slow_halving_loss(*shape)}
    return _loss_row(scenario, seeds, session, slow_halving_world, about)


def _loss_row(
    scenario: OnlineScenario, seeds: int, session: Backend, build: Callable[[OnlineScenario], OnlineWorld], bound: Row
) -> Row:
    losses, kicked = [], 0
    for seed in range(scenario.seed, scenario.seed + seeds):
        world = build(scenario.model_copy(update={"seed": seed}))
        client = run_online(world.scenario, session, world=world).clients[0]
        losses.append(client.served.loss)
        kicked += int(np.count_nonzero(~client.served.alive & client.world.peer))
    return {
        "recommender": scenario.recommender,
        "rounds": client.world.rounds,
        "loss": float(np.mean(losses)),
        "loss_error": float(np.std(losses, ddof=1)) / math.sqrt(seeds) if seeds > 1 else None,
        **bound,
        "loss_bound": bounds.loss_bound(scenario.recommender, **client.world.shape()),
        "seeds": seeds,
        "peers_kicked": kicked,
    }


def chain_1(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:  # noqa: ARG001 (an adversary like the others)
    """Return Claim 1's chain of adjacent patterns against one recommender, D = R = 0."""
    rounds, peers = scenario.rounds or 0, scenario.peers or 0
    steps = claim_1(rounds, peers, recommender=scenario.recommender, objects=scenario.objects)
    size = (rounds, scenario.objects, 2 * peers, peers)
    return {
        **_chain_row(scenario, steps),
        "log_of_rounds": math.log(rounds),
        "epsilon_needed": bounds.epsilon_needed(*size, 0, 0, bounds.loss_bound(scenario.recommender, *size)),
        "epsilon_proved": bounds.epsilon_proved(scenario.recommender, *size),
    }


def chain_15(scenario: OnlineScenario, seeds: int, session: Backend) -> Row:  # noqa: ARG001 (an adversary like the others)
    """Return Theorem 15's chain against one recommender, and its random configuration's divergence over seeds."""
    rounds, peers = scenario.rounds or 0, scenario.peers or 0
    shape = (rounds, peers, scenario.diversity or 0, scenario.radius or 0)
    steps = theorem_15_chain(*shape, recommender=scenario.recommender, objects=scenario.objects)
    apart = measure(scenario.recommender, *shape, range(scenario.seed, scenario.seed + seeds))
    size = (rounds, 2, 2 * peers, *shape[1:])
    at_least = max(apart.loss, 1 / seeds)  # a mean of 0 in so few runs is no expectation of 0
    return {
        **_chain_row(scenario, steps),
        "p_rec_total": sum(shape[2:]) * math.log(2 * rounds - 1),
        "loss": apart.loss,
        "divergence": finite(apart.ratio),
        "divergence_error": finite(apart.ratio_error),
        "epsilon_implied": finite(apart.ratio / (2 * peers)),
        "epsilon_at_least": bounds.theorem_15(*size, at_least),
        "epsilon_conjectured": bounds.conjecture(*size, at_least),
        "epsilon_proved": bounds.epsilon_proved(scenario.recommender, *size),
        "seeds": seeds,
    }


def _chain_row(scenario: OnlineScenario, ratios: list[float]) -> Row:
    return {
        "recommender": scenario.recommender,
        "steps": len(ratios),
        "total": finite(list(accumulate(ratios))[-1]),
        "largest_step": finite(max(map(abs, ratios))),
    }


ADVERSARIES: dict[str, tuple[Adversary, dict[str, int], str]] = {
    "theorem-6": (
        halving,
        {"rounds": 500, "radius": 32, "diversity": 0},
        "R rounds in which nobody can know, then voters halve: what any algorithm loses",
    ),
    "slow-halving": (
        slow_halving,
        {"radius": 5, "diversity": 0},
        "every split repeated until the wrong half is out: B log2(N/P), which (L) cannot go below",
    ),
    "claim-1": (
        chain_1,
        {"peers": 10, "diversity": 0, "radius": 0},
        "P adjacent steps that must leak ln T in all (p-rec-sim)",
    ),
    "theorem-15": (
        chain_15,
        {"peers": 3, "diversity": 2, "radius": 1},
        "2P adjacent steps between two groups of peers; and their random configuration's divergence",
    ),
}
"""By name: the adversary, its own defaults, and a line about it; recommenders declare that they are compared in it."""


def rows_against(
    name: str, recommenders: tuple[str, ...] | None, options: Row, seeds: int, session: Backend
) -> list[Row]:
    """Return an adversary's rows, one a recommender."""
    if name not in ADVERSARIES:
        raise InputError(f"adversary is {name!r}; {name_choices(name, ADVERSARIES)}")
    if seeds < 1:
        raise InputError(f"repeat is {seeds}; it must be at least 1")
    adversary, defaults, _ = ADVERSARIES[name]
    values = {**defaults, **{key: value for key, value in options.items() if value is not None}}
    return [
        adversary(validated(OnlineScenario, None, {**values, "recommender": recommender}), seeds, session)
        for recommender in recommenders or compared_in(name)
    ]
