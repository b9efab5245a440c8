"""Voters' devices: whom a service charges, who stays away, and that nobody votes unasked."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import reference
from deaf import Deaf
from hypothesis import given, settings
from hypothesis import strategies as st
from thoroughness import examples

from actors.client import ClientCohort
from actors.host import DeviceHost
from actors.keeper import Keeper, UnreachableError
from actors.voters import PlantedVoters, TableVoters, VoterCohort, Voters, VotingDevices
from coordinator.protocol.ballots import Ballot, Offer, Service, Votes
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.errors import InputError, LedgerError

SECRET = reference.derive(2, "devices")
COUNT = 10
SERVICE = Service(client=0, recommender="p-rec", rounds=4, objects=2, epsilon=Fraction(1, 3))


def table(seed: int = 0) -> TableVoters:
    """Ten voters with opinions of their own."""
    votes = np.random.default_rng(seed).integers(2, size=(4, COUNT), dtype=np.uint8)
    return TableVoters(table=votes, group=np.arange(COUNT, dtype=np.int32))


def cohort(budget: Epsilon = None, *, first: int = 0, stop: int = COUNT, voters: Voters | None = None) -> VoterCohort:
    """Some of ten devices."""
    return VoterCohort(voters or table(), SECRET, first, stop, budget)


def spent(of: VoterCohort) -> list[Epsilon]:
    """What each device has spent."""
    return [of.ledger.spent(device) for device in range(of.first, of.stop)]


def test_voters_whose_keeper_does_not_answer_say_so_instead_of_staying_away() -> None:
    """Else who takes part would follow from the network: announced again, a service would have other voters."""
    keeper = Deaf(Keeper())
    devices = VoterCohort(table(), SECRET, 0, COUNT, Fraction(1, 2), keeper)
    with pytest.raises(UnreachableError):
        devices.enter(SERVICE)
    keeper.below = 0
    assert devices.enter(SERVICE).tolist() == list(range(COUNT))
    assert spent(devices) == [Fraction(1, 3)] * COUNT


def test_entering_twice_costs_once() -> None:
    devices = cohort(Fraction(1, 2))
    for _ in range(3):
        assert devices.enter(SERVICE).tolist() == list(range(COUNT))
    assert spent(devices) == [Fraction(1, 3)] * COUNT
    assert devices.enter(replace(SERVICE)).size == COUNT, "the same content is the same service"


DIFFERENT = {
    "client": 1,
    "recommender": "p-rec-lean",
    "rounds": 5,
    "objects": 3,
    "epsilon": Fraction(1, 4),
    "titles": np.zeros((4, 2), np.int32),
    "own_device": 3,
}


def test_a_service_that_differs_in_anything_is_another_one() -> None:
    others = [replace(SERVICE, **{name: value}) for name, value in DIFFERENT.items()]  # type: ignore[arg-type] # by name
    others.append(replace(SERVICE, titles=np.ones((4, 2), np.int32)))
    others.append(replace(SERVICE, epsilon=None))
    assert len({one.id for one in [SERVICE, *others]}) == len(others) + 1
    assert all(len(one.id) == 16 for one in others)


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
    host = DeviceHost(VotingDevices(budget=budget), table(), SECRET, bounds)
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


def test_the_clients_own_device_stays_away_and_pays_nothing() -> None:
    devices = cohort(Fraction(1, 3), first=2, stop=8)
    assert devices.enter(replace(SERVICE, own_device=5)).tolist() == [2, 3, 4, 6, 7]
    assert spent(devices) == [0 if v == 5 else Fraction(1, 3) for v in range(2, 8)]
    assert devices.enter(replace(SERVICE, own_device=0)).tolist() == [5], "somebody else's own device"


VOTE = Ballot(service=SERVICE, first=1, stop=3)


@pytest.mark.parametrize("who", [[0], [9], [3, 4], list(range(COUNT))])
def test_nobody_votes_without_having_entered(who: list[int]) -> None:
    with pytest.raises(LedgerError, match=r"service of client 0 .* has not entered it"):
        cohort().vote(VOTE, np.array(who, np.int32))


def test_one_that_stays_away_among_many_that_do_not_is_enough() -> None:
    devices, asked = cohort(), replace(SERVICE, own_device=4)
    ballot = replace(VOTE, service=asked)
    devices.enter(asked)
    others = np.array([0, 1, 3, 5, 9], np.int32)
    assert devices.vote(ballot, others).votes.shape == (2, 5)
    for who in ([4], [3, 4], [4, 5], [0, 4, 9], list(range(COUNT))):
        with pytest.raises(LedgerError):
            devices.vote(ballot, np.array(who, np.int32))
    with pytest.raises(LedgerError):
        devices.vote(VOTE, others)


def test_a_device_of_another_cohort_does_not_vote_here() -> None:
    """It has not entered here; that this cohort could draw its coins is nobody's business."""
    devices = cohort(first=0, stop=5)
    devices.enter(SERVICE)
    with pytest.raises(InputError, match="outside 0 to 4"):
        devices.vote(VOTE, np.array([3, 7], np.int32))


def test_votes_say_what_they_answer() -> None:
    devices = cohort()
    devices.enter(SERVICE)
    votes = devices.vote(VOTE, np.array([1, 8], np.int32))
    assert (votes.service_id, votes.first, votes.electors.tolist()) == (SERVICE.id, 1, [1, 8])
    assert votes.votes.tolist() == table().table[1:3][:, [1, 8]].tolist()


def voting() -> PlantedVoters:
    """Ten voters with coins and four peers."""
    client = np.array([-1, 0, -1, -1, 0, 0, -1, -1, -1, 0], np.int32)
    taste = np.array([[0, 1, 1, 0]], np.uint8)
    return PlantedVoters(client=client, taste=taste, diverse=taste == 1, objects=2, radius=1)


@pytest.mark.parametrize("cuts", [[], [3], [1, 2, 3, 9], list(range(1, 10))])
def test_votes_are_the_same_in_any_cohorts(cuts: list[int]) -> None:
    whole = cohort(voters=voting())
    bounds = list(itertools.pairwise([0, *cuts, COUNT]))
    host = DeviceHost(VotingDevices(budget=None), voting(), SECRET, bounds)
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


@pytest.mark.parametrize(("first", "stop"), [(-1, 3), (4, 11), (5, 4)])
def test_a_cohort_is_a_part_of_the_voters(first: int, stop: int) -> None:
    with pytest.raises(IndexError, match="10 voters"):
        cohort(first=first, stop=stop)


def test_a_host_of_clients_knows_them_by_number() -> None:
    class Fickle:
        number = 3

        def answer(self, round_number: int, chosen: int) -> bool:
            return chosen == round_number

    fickle: Any = Fickle()  # it does what a client can do
    host = ClientCohort({3: fickle}, 0, 8)
    offers = [Offer(client=3, round=0, recommendation=chosen) for chosen in (0, 1)]
    assert [host.ask(offer, 3, 4) for offer in offers] == [True, False]
