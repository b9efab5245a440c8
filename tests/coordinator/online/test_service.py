"""A client's service against p-REC in plain Python: dictionaries, exact weights, no kernel."""

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

from coordinator.online import service
from coordinator.online.recommenders import RECOMMENDERS, Promise
from coordinator.online.service import Pick, Served, by_coin, by_sequence, serve
from coordinator.protocol.arrays import Bits2, Bools2, Indices
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.errors import InputError

Rows = Sequence[Sequence[int]]
WEIGHTED = ("multiplicative-weights", "dsybil")


class Written:
    """Voters and a client whose votes and likes are written down; ``addresses`` are the voters that take part."""

    def __init__(self, votes: Rows, likes: Rows, addresses: Sequence[int] | None = None) -> None:
        self.votes: Bits2 = np.array(votes, np.uint8).reshape(len(votes), -1)
        self.likes: Bools2 = np.array(likes, np.bool_)
        self.addresses = np.array(range(self.votes.shape[1]) if addresses is None else addresses, np.int32)
        self.ballots: list[tuple[int, int, list[int]]] = []

    def enter(self, asked: Service) -> Indices:
        return self.addresses

    def vote(self, ballot: Ballot, electors: Indices) -> Bits2:
        self.ballots.append((ballot.first, ballot.stop, electors.tolist()))
        return self.votes[ballot.first : ballot.stop][:, np.searchsorted(self.addresses, electors)]

    def offer(self, client: int, round_number: int, chosen: int) -> bool:
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


VOTES = [[0, 0, 1, 1, 1], [0, 1, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 0, 1, 0]]
WITH_EXTRA = [[*row, extra] for row, extra in zip(VOTES, [1, 0, 1, 1], strict=True)]
SIM_LIKES, PREC_LIKES = liking(2, [0], [0], [0], [1]), liking(2, [0, 1], [0], [0], [1])


@pytest.mark.parametrize(
    ("sequence", "log_likelihood", "survivors", "loss", "privacy_loss"),
    [
        ((0, 0, 0, 1), -2.311155170482, [5, 2, 1, 1], 0, -0.417642407907),
        ((1, 0, 0, 0), -3.205868481536, [5, 2, 1, 1], 2, 0.112727302508),
        ((0, 1, 1, 1), -4.257065319537, [5, 2, 1, 1], 2, -0.417642407907),
    ],
)
def test_check_values_of_p_rec_sim(
    sequence: Sequence[int], log_likelihood: float, survivors: list[int], loss: int, privacy_loss: float
) -> None:
    """Section 9, item 2: to all twelve digits."""
    without = served("p-rec-sim", Written(VOTES, SIM_LIKES), sequence)
    extra = served("p-rec-sim", Written(WITH_EXTRA, SIM_LIKES), sequence)
    assert without.log_likelihood == pytest.approx(log_likelihood, abs=5.1e-13)
    assert without.survivors.tolist() == survivors
    assert without.loss == loss
    assert np.flatnonzero(without.alive).tolist() == [0]
    assert extra.log_likelihood - without.log_likelihood == pytest.approx(privacy_loss, abs=5.1e-13)
    assert extra.exposure[-1] == pytest.approx(privacy_loss, abs=5.1e-13)


@pytest.mark.parametrize(
    ("name", "sequence", "log_likelihood", "privacy_loss", "first", "second", "alive"),
    [
        ("p-rec", (0, 0, 0, 1), -2.250190304688, -0.585586616780, [0, 2, 3, 1, 3], [0] * 5, [1] * 5),
        ("p-rec", (0, 1, 1, 0), -5.403780818693, -0.595129199607, [0, 0, 1, 1, 1], [0, 2, 2, 0, 2], [1] * 5),
        ("p-rec-lean", (0, 1, 1, 0), -4.745982794579, -0.835284815814, None, None, [1, 0, 0, 1, 0]),
    ],
)
def test_check_values_of_p_rec(
    name: str,
    sequence: Sequence[int],
    log_likelihood: float,
    privacy_loss: float,
    first: list[int] | None,
    second: list[int] | None,
    alive: list[int],
) -> None:
    """Section 9, item 2: to all twelve digits, with strikes."""
    without = served(name, Written(VOTES, PREC_LIKES), sequence, diversity=1, radius=1)
    extra = served(name, Written(WITH_EXTRA, PREC_LIKES), sequence, diversity=1, radius=1)
    assert without.log_likelihood == pytest.approx(log_likelihood, abs=5.1e-13)
    assert extra.log_likelihood - without.log_likelihood == pytest.approx(privacy_loss, abs=5.1e-13)
    assert extra.exposure[-1] == pytest.approx(privacy_loss, abs=5.1e-13)
    assert without.alive.tolist() == [bool(one) for one in alive]
    if first is not None:
        assert (without.first_strikes.tolist(), without.second_strikes.tolist()) == (first, second)


@pytest.mark.parametrize(("name", "alive"), [("p-rec-literal", [0, 1, 1]), ("p-rec", [1, 1, 1])])
def test_check_values_of_the_counter_example(name: str, alive: list[int]) -> None:
    """Section 9, item 7: the literal rule kicks a peer out that spent its distance."""
    over = served(name, Written([[1, 0, 0]], liking(2, [0])), (0,), rounds=2, radius=1)
    assert over.alive.tolist() == [bool(one) for one in alive]


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


@pytest.mark.parametrize("name", RECOMMENDERS)
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
    return {name: getattr(told, name) for name in Promise.__slots__}  # type: ignore[attr-defined] # a dataclass of slots


def kicks_nobody(name: str) -> bool:
    """Whether a recommender needs no strikes."""
    return name in {*WEIGHTED, "random"}


@pytest.mark.parametrize("name", RECOMMENDERS)
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


@pytest.mark.parametrize("most", [1, 7, 40, 1 << 22])
@pytest.mark.parametrize("name", ["p-rec", "p-rec-lean", "multiplicative-weights"])
def test_the_size_of_ballots_never_changes_the_result(name: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def all_of(written: Written, told: Promise) -> list[object]:
        over = served(name, written, by_coin(bytes(range(16))), **fields(told))
        numbers = [over.chosen, over.liked, over.survivors, over.alive, over.first_strikes, over.exposure.round(12)]
        return [over.log_likelihood, *(part.astype(str).tolist() for part in numbers)]

    for seed, objects in WORLDS[::5]:
        written, told = random_world(seed, objects)
        usual = all_of(written, told)
        with monkeypatch.context() as patch:
            patch.setattr(service, "MOST_VOTES", most)
            patch.setattr(service, "MOST_ROUNDS", 5)
            written.ballots.clear()
            assert all_of(written, told) == usual
        rounds = [number for first, stop, _ in written.ballots for number in range(first, stop)]
        assert rounds == list(range(told.rounds))
        assert all(stop - first <= max(1, min(5, most // max(len(who), 1))) for first, stop, who in written.ballots)


def test_only_survivors_are_asked_by_their_addresses() -> None:
    addresses = [2, 3, 5, 11, 20]
    written = Written(VOTES, SIM_LIKES, addresses)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service, "MOST_ROUNDS", 1)
        over = served("p-rec-sim", written, (0, 0, 0, 1))
    assert over.electors.tolist() == addresses
    assert [who for _, _, who in written.ballots] == [addresses, [2, 3], [2], [2]]


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_where_nobody_votes_any_object_is_recommended(name: str) -> None:
    objects, rounds = 2, 6
    written = Written([[]] * rounds, liking(objects, *[[0]] * rounds))
    over = served(name, written, (0, 1, 0, 1, 1, 1), epsilon=1.0)
    assert over.log_likelihood == pytest.approx(-rounds * math.log(objects), abs=1e-12)
    assert (over.loss, over.exposure.size, over.survivors.sum()) == (4, 0, 0)


def test_a_vote_for_no_object_names_round_voter_and_range() -> None:
    votes = [[0, 1, 1], [1, 0, 2], [0, 0, 0]]
    with pytest.raises(InputError, match=r"^round 1: voter 2 votes for object 2, .* from 0 to 1$"):
        served("p-rec", Written(votes, liking(2, [0], [0], [0])), (0, 0, 0), radius=3)


def test_a_wrong_vote_is_the_voters_at_its_address() -> None:
    """Where not all devices take part, a voter's place among the others is not its address."""
    votes = [[0, 1, 1], [1, 0, 2], [0, 0, 0]]
    with pytest.raises(InputError, match=r"^round 1: voter 9 votes for object 2"):
        served("p-rec", Written(votes, liking(2, [0], [0], [0]), [4, 7, 9]), (0, 0, 0), radius=3)


def test_a_vote_of_the_dead_is_not_looked_at() -> None:
    """Ballots ask for several rounds ahead, so votes of voters that die meanwhile are there, too."""
    votes = [[0, 0, 1], [0, 0, 200]]
    over = served("p-rec-sim", Written(votes, liking(2, [0], [0])), (0, 0))
    assert over.survivors.tolist() == [3, 2]


def test_progress_is_told_ballot_by_ballot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "MOST_ROUNDS", 3)
    told: list[int] = []
    written = Written(VOTES, SIM_LIKES)
    announced = Service(client=0, recommender="random", rounds=4, objects=2, epsilon=None)
    serve(announced, Promise(rounds=4, objects=2), written, by_coin(bytes(16)), over=told.append)
    assert told == [3, 4]


def test_coins_are_the_coordinators_stream_lane_by_lane() -> None:
    """Round t's recommendation inverts lane t of SplitMix64 of the coin's words; drawn again, it is the same."""
    coin = reference.derive(7, "a coin")
    low, high = reference.as_key(coin)
    chances = np.array([0.2, 0.5, 0.3])
    points = [(reference.draw(low ^ high, number) >> 11) / 2**53 for number in range(300)]
    drawn = [by_coin(coin)(number, chances) for number in reversed(range(300))][::-1]
    assert drawn == [0 if point < 0.2 else 1 if point < 0.7 else 2 for point in points]
    assert drawn != [by_coin(reference.derive(8, "a coin"))(number, chances) for number in range(300)]


def test_an_object_without_probability_is_never_recommended() -> None:
    pick = by_coin(bytes(16))
    assert {pick(number, np.array([0.0, 1.0, 0.0])) for number in range(200)} == {1}


@pytest.fixture(scope="module")
def sequences() -> tuple[list[int], dict[float, list[float]]]:
    """How often 6000 seeds recommend each sequence of three rounds, and the law: as it is, and with another lambda."""
    votes, likes = [[0, 0, 1, 0, 1], [0, 1, 1, 1, 0], [1, 0, 1, 0, 0]], liking(2, [0, 1], [1], [0])
    written, told = Written(votes, likes), Promise(rounds=3, objects=2, diversity=1, radius=0)
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
