"""Voters' opinions, what services cost voters' devices, and the client's own device."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial

import evidence
import numpy as np
import pytest
from evidence import examples
from faults import Deaf
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.host import DeviceHost
from actors.keeper import Keeper, UnreachableError
from actors.voters import Client, PlantedVoters, RatingVoters, TableVoters, VoterCohort, Voters
from coordinator.protocol.arrays import Bits2
from coordinator.protocol.ballots import Ballot, Service, Votes
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import as_words
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.rating_table import Rows
from coordinator.server.online.recommenders import named_recommenders

SECRET = evidence.derive(5, "devices")


def announced(rounds: int, objects: int, **changes: object) -> Service:
    told: dict[str, object] = {"client": 0, "recommender": "p-rec", "epsilon": None, **changes}
    return Service(rounds=rounds, objects=objects, **told)  # type: ignore[arg-type] # by name


def cast(voters: Voters, service: Service, who: Sequence[int], first: int = 0, stop: int | None = None) -> Bits2:
    ballot = Ballot(service=service, first=first, stop=service.rounds if stop is None else stop)
    return voters.cast_votes(as_words(SECRET), ballot, np.array(who, np.int32))


def planted(users: int, rounds: int, objects: int, radius: int, diversity: int, peers: Sequence[int]) -> PlantedVoters:
    """Voters of which some are client 0's peers, and some client 1's; others are nobody's."""
    world = np.random.default_rng(3)
    client = np.full(users, -1, np.int32)
    client[list(peers)] = np.arange(len(peers)) % 2
    diverse = np.zeros((2, rounds), np.bool_)
    diverse[0, world.permutation(rounds)[:diversity]] = True
    taste = world.integers(objects, size=(2, rounds), dtype=np.uint8)
    return PlantedVoters(client=client, taste=taste, diverse=diverse, objects=objects, radius=radius)


SPLITS = st.lists(st.integers(0, 12), max_size=4)


@settings(max_examples=examples(40))
@given(electors=SPLITS, rounds=SPLITS, kind=st.sampled_from(["planted", "rating", "table"]))
def test_votes_are_the_same_in_any_split_of_voters_or_rounds(electors: list[int], rounds: list[int], kind: str) -> None:
    voters = opinions(kind)
    service = announced(12, 3, titles=TITLES)
    whole = cast(voters, service, range(12))
    marks, ends = sorted({0, *electors, 12}), sorted({0, *rounds, 12})
    for first, stop in itertools.pairwise(ends):
        parts = [cast(voters, service, range(a, b), first, stop) for a, b in itertools.pairwise(marks)]
        assert np.concatenate(parts, axis=1).tolist() == whole[first:stop].tolist()
    some = [0, 3, 4, 9, 11]
    assert cast(voters, service, some).tolist() == whole[:, some].tolist()
    assert cast(voters, service, []).shape == (12, 0)


TITLES = np.random.default_rng(8).permuted(np.tile(np.arange(30, dtype=np.int32), (12, 1)), axis=1)[:, :3].copy()


def rated(rows: Sequence[dict[int, float]]) -> RatingVoters:
    flat = [pair for row in rows for pair in sorted(row.items())]
    table = Rows(
        starts=np.cumsum([0, *map(len, rows)]),
        items=np.array([item for item, _ in flat], np.int32),
        values=np.array([value for _, value in flat], np.float64),
        count=30,
    )
    return RatingVoters(rows=table)


def raters() -> list[dict[int, float]]:
    """Twelve users who rated between none and all of thirty titles with few different ratings, and one below 0."""
    world = np.random.default_rng(4)
    counts = [0, 1, 5, 10, 15, 20, 25, 30, 30, 30, 8, 3]
    return [{int(item): float(world.integers(-1, 3)) for item in world.permutation(30)[:count]} for count in counts]


def opinions(kind: str) -> Voters:
    if kind == "planted":
        return planted(users=12, rounds=12, objects=3, radius=4, diversity=3, peers=[0, 4, 5, 6, 11])
    if kind == "rating":
        return rated(raters())
    return TableVoters(
        table=np.random.default_rng(1).integers(3, size=(12, 4), dtype=np.uint8),
        group=np.array([0, 1, 2, 3, 3, 3, 2, 1, 0, 0, 0, 2], np.int32),
    )


def test_coins_are_the_voters_own_and_do_not_ask_who_recommends() -> None:
    """The same votes for every recommender, epsilon and client's address; others for other titles or clients."""
    voters, service = opinions("rating"), announced(12, 3, titles=TITLES)
    usual = cast(voters, service, range(12)).tolist()
    for name in named_recommenders():
        assert cast(voters, replace(service, recommender=name, own_device=3), range(12)).tolist() == usual
    assert cast(voters, replace(service, client=1), range(12)).tolist() != usual
    assert not np.array_equal(replace(service, titles=TITLES[::-1].copy()).series, service.series)


@pytest.mark.parametrize("kind", ["planted", "rating", "table"])
def test_opinions_are_not_shown(kind: str) -> None:
    voters = opinions(kind)
    assert voters.users == 12
    assert "array" not in repr(voters)
    assert not any(digit in repr(voters) for digit in "[{")


# Voters' devices: whom a service charges, who stays away, and that nobody votes unasked.
COHORT_SECRET = evidence.derive(2, "devices")
COUNT = 10
SERVICE = Service(client=0, recommender="p-rec", rounds=4, objects=2, epsilon=Fraction(1, 3))


def table(seed: int = 0) -> TableVoters:
    votes = np.random.default_rng(seed).integers(2, size=(4, COUNT), dtype=np.uint8)
    return TableVoters(table=votes, group=np.arange(COUNT, dtype=np.int32))


def cohort(budget: Epsilon = None, *, first: int = 0, stop: int = COUNT, voters: Voters | None = None) -> VoterCohort:
    return VoterCohort(voters or table(), COHORT_SECRET, first, stop, budget)


def spent(of: VoterCohort) -> list[Epsilon]:
    return [of.ledger.spent(device) for device in range(of.first, of.stop)]


def test_voters_whose_keeper_does_not_answer_say_so_instead_of_staying_away() -> None:
    """Else who takes part would follow from the network: announced again, a service would have other voters."""
    keeper = Deaf(Keeper())
    devices = VoterCohort(table(), COHORT_SECRET, 0, COUNT, Fraction(1, 2), keeper)
    with pytest.raises(UnreachableError):
        devices.enter(SERVICE)
    keeper.below = 0
    assert devices.enter(SERVICE).tolist() == list(range(COUNT))
    assert spent(devices) == [Fraction(1, 3)] * COUNT


CLIENTS = st.lists(
    st.tuples(st.fractions(Fraction(1, 50), 2, max_denominator=50), st.none() | st.integers(0, COUNT - 1)), max_size=8
)


@settings(max_examples=examples(60))
@given(clients=CLIENTS, budget=st.none() | st.fractions(Fraction(1, 9), 4, max_denominator=9), cut=st.integers(1, 9))
def test_services_of_several_clients_add_up_exactly(
    clients: list[tuple[Fraction, int | None]], budget: Epsilon, cut: int
) -> None:
    """Against a sum a device, in one cohort or in two; the client's own device pays nothing."""
    paid = [Fraction(0)] * COUNT
    whole, bounds = cohort(budget), [(0, cut), (cut, COUNT)]
    host = DeviceHost(partial(VoterCohort, budget=budget), table(), COHORT_SECRET, bounds)
    for number, (epsilon, own) in enumerate(clients):
        service = replace(SERVICE, client=number, epsilon=epsilon, own_device=own)
        taking = [v for v in range(COUNT) if v != own and (budget is None or paid[v] + epsilon <= budget)]
        assert whole.enter(service).tolist() == taking
        assert [device for own in bounds for device in host.ask(service, *own)] == taking
        for v in taking:
            paid[v] += epsilon
        assert spent(whole) == paid
    if budget is not None:
        assert max(paid) <= budget


def test_whether_a_device_stays_away_does_not_depend_on_its_opinions() -> None:
    taken = set()
    for seed in range(20):
        devices = cohort(Fraction(1, 2), voters=table(seed))
        devices.enter(replace(SERVICE, own_device=4))
        devices.vote(Ballot(service=replace(SERVICE, own_device=4), first=0, stop=4), np.array([0, 1], np.int32))
        taken.add(tuple(devices.enter(replace(SERVICE, client=1)).tolist()))
    assert taken == {(4,)}


def test_a_service_without_a_bound_needs_a_device_without_a_budget() -> None:
    unproved = replace(SERVICE, epsilon=None)
    assert cohort(Fraction(1000)).enter(unproved).size == 0
    free = cohort(None)
    assert free.enter(unproved).size == COUNT
    assert spent(free) == [None] * COUNT


VOTE = Ballot(service=SERVICE, first=1, stop=3)


def test_nobody_votes_without_having_entered_and_one_among_many_that_have_is_enough() -> None:
    devices, asked = cohort(), replace(SERVICE, own_device=4)
    ballot = replace(VOTE, service=asked)
    for who in ([0], [9], [3, 4], list(range(COUNT))):
        with pytest.raises(LedgerError, match=r"service of client 0 .* has not entered it"):
            devices.vote(ballot, np.array(who, np.int32))
    devices.enter(asked)
    others = np.array([0, 1, 3, 5, 9], np.int32)
    assert devices.vote(ballot, others).votes.shape == (2, 5)
    for who in ([4], [3, 4], [4, 5], [0, 4, 9], list(range(COUNT))):
        with pytest.raises(LedgerError):
            devices.vote(ballot, np.array(who, np.int32))
    with pytest.raises(LedgerError):
        devices.vote(VOTE, others)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 3, 9], list(range(1, 10))])
def test_votes_are_the_same_in_any_cohorts(cuts: list[int]) -> None:
    voters = planted(users=COUNT, rounds=4, objects=2, radius=1, diversity=2, peers=[1, 4, 5, 9])
    whole = cohort(voters=voters)
    bounds = list(itertools.pairwise([0, *cuts, COUNT]))
    host = DeviceHost(partial(VoterCohort, budget=None), voters, COHORT_SECRET, bounds)
    assert whole.enter(SERVICE).tolist() == [device for own in bounds for device in host.ask(SERVICE, *own)]
    for who in ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 4, 9], [7]):
        asked = np.array(who, np.int32)
        one, others = whole.vote(VOTE, asked), list[Votes]()
        for first, stop in bounds:
            own = asked[(first <= asked) & (asked < stop)]
            others.append(host.ask(VOTE, first, stop, own))
            assert others[-1].electors.tolist() == own.tolist()
        assert one.votes.tolist() == np.concatenate([other.votes for other in others], axis=1).tolist()
        assert {(other.service_id, other.first) for other in others} == {(one.service_id, one.first)}


# The client's device: it answers, one recommendation at a time, and shows nothing.
LIKES = np.array([[1, 0, 0], [0, 1, 1], [1, 1, 1], [0, 0, 1]], np.bool_)


@pytest.mark.parametrize(("nothing", "named", "rounds"), [([2], 2, 1), ([0, 3], 0, 2), ([1, 2, 3], 1, 3)])
def test_rounds_in_which_it_likes_nothing_are_refused_by_number(nothing: list[int], named: int, rounds: int) -> None:
    likes = LIKES.copy()
    likes[nothing] = False
    with pytest.raises(InputError) as raised:
        Client(7, likes)
    words = f"round {named}: client 7 likes none of 3 objects (so in {rounds} rounds); leave such rounds out"
    assert str(raised.value) == words


def test_likes_are_not_shown() -> None:
    assert repr(Client(3, LIKES)) == "Client(number=3, rounds=4)"


VOTE_PURPOSE, OWN_ROUNDS = 9, 1 << 31


def stream_of(device: int, series: tuple[int, int] = (0, 0)) -> int:
    return evidence.siphash_words(evidence.device_secret(SECRET, device), VOTE_PURPOSE, *series, 0)


def own_rounds(stream: int, rounds: int, radius: int) -> list[int]:
    """Floyd's sample without replacement (Bentley and Floyd, 1987)."""
    drawn: list[int] = []
    for j in range(radius):
        last = rounds - radius + j
        found = evidence.below(stream, OWN_ROUNDS + j, last + 1)
        drawn.append(last if found in drawn else found)
    return drawn


def planted_vote(voters: PlantedVoters, device: int, number: int) -> int:
    stream, client = stream_of(device), int(voters.client[device])
    if client < 0:
        return evidence.below(stream, number, voters.objects)
    taste = int(voters.taste[client, number])
    step = evidence.below(stream, number, 2) if voters.diverse[client, number] else 0
    if number in own_rounds(stream, voters.taste.shape[1], voters.radius):
        step = 1 + evidence.below(stream, number, voters.objects - 1)
    return (taste + step) % voters.objects


@pytest.mark.parametrize("sizes", [(2, 0, 0), (2, 5, 9), (3, 9, 4), (7, 20, 20), (256, 3, 0)])
def test_planted_votes_are_the_oracles(sizes: tuple[int, int, int]) -> None:
    objects, radius, diversity = sizes
    voters = planted(users=9, rounds=20, objects=objects, radius=radius, diversity=diversity, peers=[1, 2, 5, 7, 8])
    votes = cast(voters, announced(20, objects), range(9))
    assert votes.dtype == np.uint8
    assert votes.tolist() == [[planted_vote(voters, v, number) for v in range(9)] for number in range(20)]
