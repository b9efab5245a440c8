"""Recommenders by name against the paper in plain Python: dictionaries, exact weights, phi without logarithms."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import reference
from statistical import FALSE_ALARM, chi_square_fits

from coordinator.protocol.arrays import Bits2, Bools2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import Promise, named_recommenders, recommender_of
from coordinator.server.online.service import Pick, Served, by_coin, by_sequence, serve

Rows = Sequence[Sequence[int]]
WEIGHTED = ("multiplicative-weights", "dsybil")
KEEPERS = ("p-rec", "p-rec-lean", "p-rec-sharp", "p-rec-wide")


class Written:
    """Voters and a client whose votes and likes are written down."""

    def __init__(self, votes: Rows, likes: Rows) -> None:
        self.votes: Bits2 = np.array(votes, np.uint8).reshape(len(votes), -1)
        self.likes: Bools2 = np.array(likes, np.bool_)

    def enter(self, service: Service) -> Indices:  # noqa: ARG002 (a protocol)
        return np.arange(self.votes.shape[1], dtype=np.int32)

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        return self.votes[ballot.first : ballot.stop][:, electors]

    def offer(self, client: int, round_number: int, chosen: int) -> bool:  # noqa: ARG002 (a protocol)
        return bool(self.likes[round_number, chosen])


def liking(objects: int, *liked: Sequence[int]) -> list[list[int]]:
    """The liked objects of every round as rows of 0 and 1."""
    return [[int(k in row) for k in range(objects)] for row in liked]


def served(name: str, written: Written, pick: Pick | Sequence[int], **told: Any) -> Served:
    """A service that is over."""
    rounds, objects = written.likes.shape
    promise = Promise(**{"rounds": rounds, "objects": objects, **told})
    announced = Service(client=0, recommender=name, rounds=rounds, objects=objects, epsilon=None)
    drawn = pick if callable(pick) else by_sequence(np.array(pick, np.uint8))
    return serve(announced, promise, written, drawn)


@dataclass
class Plain:
    """What the oracle finds."""

    log_likelihood: float
    first: dict[int, int]
    second: dict[int, int]
    alive: set[int]
    survivors: list[int]


def survives(name: str, a: int, b: int, d: int, r: int) -> bool:
    """The table of rules in the spec's section 2."""
    return {
        "p-rec": b <= 2 * r and a + b <= 2 * (d + r),
        "naive": b <= 2 * r and a + b <= 2 * (d + r),
        "p-rec-wide": b <= 2 * r and a <= 2 * (d + r),
        "p-rec-literal": b <= 2 * r and a <= 2 * d,
        "p-rec-sim": a + b == 0,
    }.get(name, (b <= r and a + b <= d + r) if name in {"p-rec-lean", "p-rec-sharp", "plurality"} else True)


def law(name: str, sums: Sequence[Fraction], told: Promise, steeper: float = 1.0) -> list[float]:
    """Each object's probability: phi as it is written in the paper, without logarithms."""
    total, objects, most = sum(sums), len(sums), max(sums)
    uniform = [1 / objects] * objects
    if name == "random" or not total:
        return uniform
    if name == "multiplicative-weights":
        return [float(weight / total) for weight in sums]
    if name in {"plurality", "dsybil"}:
        pool = [weight == most if name == "plurality" else weight >= Fraction(told.peers, 2) for weight in sums]
        return [good / sum(pool) for good in pool] if any(pool) else uniform
    if name == "naive":
        marks = [math.exp(told.epsilon / told.rounds * float(weight)) for weight in sums]
        return [mark / sum(marks) for mark in marks]
    rho, power = (Fraction(0), objects) if name == "p-rec-sharp" else (Fraction(1, 2 * objects), 2 * objects)
    base = float(told.rounds) ** (power * steeper)
    phi = [base ** float(x) - base ** float(rho) if x > rho else 0.0 for x in (weight / total for weight in sums)]
    coin = 1 / told.rounds
    return [coin / objects + (1 - coin) * part / sum(phi) for part in phi]


def plain(name: str, written: Written, sequence: Sequence[int], told: Promise, steeper: float = 1.0) -> Plain:
    """A service, voter by voter."""
    electors = range(written.votes.shape[1])
    first, second, alive = dict.fromkeys(electors, 0), dict.fromkeys(electors, 0), set(electors)
    weight = dict.fromkeys(electors, Fraction(1))
    found, survivors = 0.0, list[int]()
    for number, chosen in enumerate(sequence):
        survivors.append(len(alive))
        vote = {voter: int(written.votes[number, voter]) for voter in alive}
        sums = [sum((weight[v] for v in alive if vote[v] == k), Fraction(0)) for k in range(told.objects)]
        chance = law(name, sums, told, steeper)[chosen]
        found += math.log(chance) if chance > 0 else -math.inf
        liked = bool(written.likes[number, chosen])
        for voter in sorted(alive):
            agrees = vote[voter] == chosen
            first[voter] += liked and not agrees
            second[voter] += agrees and not liked
            if name == "multiplicative-weights" and agrees != liked:
                weight[voter] /= 2
            if name == "dsybil" and agrees:
                weight[voter] *= (2 if sums[chosen] < Fraction(told.peers, 2) else 1) if liked else Fraction(1, 2)
            if not survives(name, first[voter], second[voter], told.diversity, told.radius):
                alive.remove(voter)
    return Plain(found, first, second, alive, survivors)


def test_the_list_says_what_is_proved_and_what_is_not() -> None:
    private = {name for name, kind in named_recommenders().items() if kind.private}
    assert private == {"p-rec", "p-rec-sim", "p-rec-lean", "p-rec-sharp", "p-rec-wide", "naive", "random"}
    assert {name for name, kind in named_recommenders().items() if kind.weighted} == set(WEIGHTED)
    assert {name for name, kind in named_recommenders().items() if not kind.promised} == {"p-rec-sim"}
    assert all("ours" in named_recommenders()[name].about for name in ("p-rec-lean", "p-rec-sharp"))
    with pytest.raises(InputError, match=r"recommender is 'p-wreck'; choose among p-rec, p-rec-sim, .*, random$"):
        recommender_of("p-wreck")


def random_world(seed: int, objects: int) -> tuple[Written, Promise]:
    """A small world: votes lean towards what is liked, so that some voters survive for long."""
    world = np.random.default_rng([seed, objects])
    rounds, voters = int(world.integers(2, 13)), int(world.integers(0, 9))
    likes = world.random((rounds, objects)) < 0.4
    likes[np.arange(rounds), world.integers(objects, size=rounds)] = True
    votes = np.where(
        world.random((rounds, voters)) < 0.5,
        likes.argmax(axis=1)[:, None],
        world.integers(objects, size=(rounds, voters)),
    )
    told = Promise(
        rounds=rounds,
        objects=objects,
        diversity=int(world.integers(4)),
        radius=int(world.integers(4)),
        peers=int(world.integers(1, 7)),
        epsilon=float(world.uniform(0.5, 20)),
    )
    return Written(votes.tolist(), likes.tolist()), told


WORLDS = [(seed, objects) for seed in range(12) for objects in (2, 3, 4)]


@pytest.mark.parametrize("name", named_recommenders())
def test_every_recommender_is_what_the_oracle_is(name: str) -> None:
    kicked = 0
    for seed, objects in WORLDS:
        if name == "p-rec-sharp" and objects != 2:
            continue
        written, told = random_world(seed, objects)
        over = served(name, written, by_coin(reference.derive(seed, name)), **fields(told))
        same = plain(name, written, over.chosen.tolist(), told)
        assert over.log_likelihood == pytest.approx(same.log_likelihood, rel=1e-11, abs=1e-11)
        assert over.survivors.tolist() == same.survivors
        assert set(np.flatnonzero(over.alive).tolist()) == same.alive
        assert over.first_strikes.tolist() == list(same.first.values()) or kicks_nobody(name)
        assert over.second_strikes.tolist() == list(same.second.values()) or kicks_nobody(name)
        assert over.liked.tolist() == [bool(written.likes[t, k]) for t, k in enumerate(over.chosen)]
        assert over.loss == over.liked.tolist().count(False)
        kicked += len(over.electors) - len(same.alive)
    assert (kicked > 0) == (not kicks_nobody(name))


def fields(told: Promise) -> dict[str, Any]:
    """A promise as keywords."""
    return {name: getattr(told, name) for name in Promise.__slots__}


def kicks_nobody(name: str) -> bool:
    """Whether a recommender needs no strikes."""
    return name in {*WEIGHTED, "random"}


@pytest.mark.parametrize("name", named_recommenders())
def test_exposure_is_the_log_likelihood_ratio_of_a_replay_without_the_voter(name: str) -> None:
    """Exactly the definition of the privacy loss; where weights differ it is not computed, and says so."""
    largest = 0.0
    for seed, objects in WORLDS[::2]:
        if name == "p-rec-sharp" and objects != 2:
            continue
        written, told = random_world(seed, objects)
        over = served(name, written, by_coin(reference.derive(seed, name)), **fields(told))
        if name in WEIGHTED:
            assert np.isnan(over.exposure).all()
            continue
        for voter in range(written.votes.shape[1]):
            fewer = Written(np.delete(written.votes, voter, axis=1).tolist(), written.likes.tolist())
            without = served(name, fewer, over.chosen.tolist(), **fields(told))
            ratio = over.log_likelihood - without.log_likelihood
            assert over.exposure[voter] == pytest.approx(ratio, rel=1e-10, abs=1e-10)
            largest = max(largest, abs(over.exposure[voter]))
    assert (largest > 0.3) == (name not in {*WEIGHTED, "random"})


def environment(seed: int) -> tuple[Written, Promise, list[int], int]:
    """Peers within R, in as bad a mood as they can be, a client of diversity D, and any recommendations at all."""
    world = np.random.default_rng([seed, 1])
    rounds, objects, peers = int(world.integers(2, 40)), int(world.integers(2, 5)), 5
    diversity, radius = int(world.integers(0, min(rounds, 6) + 1)), int(world.integers(0, min(rounds, 6) + 1))
    likes = np.eye(objects, dtype=np.bool_)[world.integers(objects, size=rounds)]
    for number in world.permutation(rounds)[:diversity]:
        likes[number, world.integers(objects)] = True
    votes = np.empty((rounds, peers), np.int64)
    for peer in range(peers):
        errs = set(world.permutation(rounds)[:radius].tolist())
        for number in range(rounds):
            choice = np.flatnonzero(~likes[number] if number in errs else likes[number])
            votes[number, peer] = world.choice(choice if choice.size else np.arange(objects))
    sequence = world.integers(objects, size=rounds).tolist()
    told = Promise(rounds=rounds, objects=objects, diversity=diversity, radius=radius)
    return Written(votes.tolist(), likes.tolist()), told, sequence, peers


@pytest.mark.parametrize("name", KEEPERS)
def test_no_peer_is_ever_kicked_out(name: str) -> None:
    """Whatever is recommended: random environments of any D and R."""
    for seed in range(400):
        written, told, sequence, peers = environment(seed)
        if name != "p-rec-sharp" or told.objects == 2:
            over = served(name, written, sequence, **fields(told))
            assert over.alive.sum() == peers, f"seed {seed}"


def test_the_literal_rule_kicks_peers_out_and_only_where_r_exceeds_d() -> None:
    kicked = {False: 0, True: 0}
    for seed in range(400):
        written, told, sequence, peers = environment(seed)
        over = served("p-rec-literal", written, sequence, **fields(told))
        kicked[told.radius > told.diversity] += peers - int(over.alive.sum())
    assert kicked[False] == 0
    assert kicked[True] > 20


@pytest.mark.parametrize("name", [*KEEPERS, "p-rec-literal"])
def test_no_peer_is_kicked_out_in_any_tiny_world(name: str) -> None:
    """All clients, voters and recommendations of three rounds of two objects, and every R; D is the client's own."""
    votes = np.array(list(itertools.product((0, 1), repeat=3))).T.tolist()
    kicked = 0
    for liked in itertools.product(([0], [1], [0, 1]), repeat=3):
        written = Written(votes, liking(2, *liked))
        far = [sum(row[v] not in good for row, good in zip(votes, liked, strict=True)) for v in range(8)]
        diversity = sum(len(good) > 1 for good in liked)
        for sequence, radius in itertools.product(itertools.product((0, 1), repeat=3), range(4)):
            over = served(name, written, sequence, diversity=diversity, radius=radius)
            kicked += sum(not over.alive[v] for v in range(8) if far[v] <= radius)
    assert (kicked > 0) == (name == "p-rec-literal")


@pytest.fixture(scope="module")
def sequences() -> tuple[list[int], dict[float, list[float]]]:
    """How often 6000 seeds recommend each sequence of three rounds, and the law: as it is, and with another lambda."""
    votes = [[0, 0, 0, 0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1, 1, 0, 0], [1, 0, 1, 0, 0, 1, 0, 0, 1]]
    written, told = Written(votes, liking(2, [0, 1], [1], [0])), Promise(rounds=20, objects=2, diversity=1, radius=0)
    kinds = list(itertools.product((0, 1), repeat=3))
    counts = dict.fromkeys(kinds, 0)
    for seed in range(6000):
        over = served("p-rec", written, by_coin(reference.derive(seed, "recommender")), **fields(told))
        counts[tuple(over.chosen.tolist())] += 1
    laws = {
        steeper: [math.exp(plain("p-rec", written, kind, told, steeper).log_likelihood) for kind in kinds]
        for steeper in (1.0, 0.85, 1.15)
    }
    return list(counts.values()), laws


@pytest.mark.statistical
def test_recommendations_follow_equation_2(sequences: tuple[list[int], dict[float, list[float]]]) -> None:
    """Pearson's test over the eight sequences of three rounds, survivors' deaths included; false alarm: 1e-6."""
    counts, laws = sequences
    assert sum(laws[1.0]) == pytest.approx(1, abs=1e-12)
    assert chi_square_fits(counts, laws[1.0], false_alarm=FALSE_ALARM)


@pytest.mark.parametrize("steeper", [0.85, 1.15])
def test_the_test_of_equation_2_would_notice_another_lambda(
    steeper: float, sequences: tuple[list[int], dict[float, list[float]]]
) -> None:
    counts, laws = sequences
    assert not chi_square_fits(counts, laws[steeper], false_alarm=FALSE_ALARM)
