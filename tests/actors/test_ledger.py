"""Ledgers: device ranges against a dictionary a device, free repeats, refusals, and that nothing is ever given back."""

import pickle
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from messages import COSTS as NASTY_COSTS
from messages import forged

from actors.device import AdviceRequest, Cohort
from actors.host import DeviceHost, permit_of
from actors.keeper import Charge, Keeper, spent_by
from actors.ledger import Ledger
from actors.voters import PlantedVoters, TableVoters, VoterCohort
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.budget import Epsilon, parse_epsilon
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.messages import Model, Query, Release

FIRST, STOP = 5, 17

COSTS: list[Epsilon] = [Fraction(1, 3), Fraction(1, 2), Fraction(1), Fraction(2, 7), None]
QUERIES = [worlds.maxsense_query(items=4, sensing=0.5, epsilon=cost, round_number=k) for k, cost in enumerate(COSTS)]


@pytest.mark.parametrize(("first", "stop"), [(4, 6), (16, 18), (0, 5), (17, 20), (9, 7)])
def test_devices_of_others_are_not_charged(first: int, stop: int) -> None:
    ledger = Ledger(FIRST, STOP, Fraction(1))
    with pytest.raises(IndexError):
        ledger.charge(QUERIES[0], first, stop)
    assert [ledger.spent(device) for device in range(FIRST, STOP)] == [0] * (STOP - FIRST)


# A question is answered once: repeats are free and equal, what the budget does not hold is refused.
WORLD = worlds.world(items=30, rated=6)
RATINGS = worlds.block_ratings(WORLD)


def query(round_number: int, epsilon: Fraction | None, sensing: float = 1 / 6) -> Query:
    return worlds.maxsense_query(items=30, sensing=sensing, epsilon=epsilon, round_number=round_number)


def alone(budget: Fraction | None, index: int = 3) -> Callable[[Query], Release]:
    cohort = Cohort(RATINGS, WORLD.secret, index, index + 1, budget)
    return partial(cohort.answer, first=index, stop=index + 1)


def spent(answer: Any) -> Epsilon:
    cohort: Cohort = answer.func.__self__
    return cohort.ledger.spent(cohort.first)


def test_a_new_query_beyond_the_budget_is_refused() -> None:
    answer = alone(parse_epsilon("1.0"), index=1234)
    assert [answer(query(*asked)).refused for asked in ((0, parse_epsilon("0.8")), (7, parse_epsilon("0.5")))] == [0, 1]
    assert spent(answer) == Fraction(4, 5)
    assert answer(query(0, parse_epsilon("0.8"))).refused == 0
    assert answer(query(8, parse_epsilon("0.2"))).refused == 0
    assert spent(answer) == 1


def test_only_those_who_cannot_pay_refuse() -> None:
    cohort = Cohort(RATINGS, WORLD.secret, 0, 40, Fraction(1))
    cohort.answer(query(0, Fraction(1, 2)), 10, 25)
    late = cohort.answer(query(1, Fraction(3, 4)), 0, 40)
    expected = worlds.expected_bits(WORLD, query(1, Fraction(3, 4)), range(40))
    assert late.refused == 15
    assert late.answered_mask().tolist() == [not 10 <= index < 25 for index in range(40)]
    kept = [0 if 10 <= index < 25 else bit for index, bit in enumerate(expected)]
    assert late.unpacked()[:, 0].tolist() == kept


def test_a_device_asked_twice_repeats_and_spends_nothing() -> None:
    asked = alone(Fraction(1))
    first = asked(query(0, Fraction(1)))
    assert spent(asked) == 1
    for _ in range(3):
        assert asked(query(0, Fraction(1))) == first
        assert asked(pickle.loads(pickle.dumps(query(0, Fraction(1))))) == first
    assert spent(asked) == 1


@pytest.mark.parametrize(
    "change",
    [
        *({"design": "minsense"}, {"items": 31}, {"epsilon": Fraction(31)}, {"parameters": {}}),
        *({"parameters": {"sensing": sensing}} for sensing in (1.5, float("nan"))),
        {"parameters": {"sensing": 0.5, "other": 1.0}},
        *({"questions": questions} for questions in (0, -1, 2, 1000)),  # a release's length would belie one bit
    ],
    ids=str,
)
def test_a_query_that_cannot_be_answered_costs_nothing(change: dict[str, Any]) -> None:
    asked = alone(None)
    with pytest.raises(InputError, match=r"^[^\n]*$") as caught:
        asked(forged(query(0, Fraction(1)), **change))
    assert spent(asked) == 0
    assert all(str(change[name]) in str(caught.value) for name in ("design", "items") if name in change)


def test_a_query_that_changed_is_no_repeat_and_none_travels_under_another_id() -> None:
    """The device must not answer a second question for free because the object kept the id of the first."""
    asked, sent = alone(Fraction(1)), query(0, Fraction(1))
    asked(sent)
    sent.parameters["sensing"] = 1.0  # as a server can
    assert asked(sent).refused == 1
    with pytest.raises(TypeError):
        vars(sent)["id"] = bytes(16)


# Nothing that a server sends gives anything back, or lets a device answer what it could not pay for.
SERVED = worlds.world(items=20, rated=4)
HONEST = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1))
VALID = (Fraction(1, 10**9), Fraction(31), Fraction(10**400), Fraction(1, 10**400))
NONE_SUCH = [one for one in NASTY_COSTS if one not in VALID]
SERVICE = Service(client=0, recommender="p-rec", rounds=4, objects=2, epsilon=Fraction(1))


def host(keeper: Keeper) -> DeviceHost:
    """Ten devices with a budget of 1."""
    kind = partial(Cohort, budget=Fraction(1))
    return DeviceHost(kind, worlds.block_ratings(SERVED), SERVED.secret, [(0, 10)], keeper)


def voters(first: int = 0, stop: int = 10, budget: Fraction | None = None) -> VoterCohort:
    votes = np.random.default_rng(0).integers(2, size=(4, 10), dtype=np.uint8)
    opinions = TableVoters(table=votes, group=np.arange(10, dtype=np.int32))
    return VoterCohort(opinions, SERVED.secret, first, stop, budget)


@pytest.mark.parametrize("cost", NONE_SUCH, ids=lambda cost: type(cost).__name__)
def test_a_query_gives_nothing_back_not_even_after_a_restart(cost: Any, tmp_path: Path) -> None:
    """A query of epsilon -100 made a budget of 1 pay for a hundred answers, and stood in the ledger's file."""
    for number in range(2):
        keeper = worlds.keeper_on(tmp_path)
        devices = host(keeper)
        with pytest.raises(InputError):
            devices.ask(forged(HONEST, epsilon=cost, round=99), 0, 10)
        queries = [forged(HONEST, round=number) for number in range(5)]
        refused = [devices.ask(query, 0, 10).refused for query in queries]
        assert refused == [0, 10, 10, 10, 10], number
        assert spent_by(keeper, 10) == [(0, 10, Fraction(1))]


@pytest.mark.parametrize("many", [0, -1, 10**9, 2.0, True, None])
def test_a_list_of_advice_has_a_length(many: Any) -> None:
    model = Model(cluster=np.zeros(20, np.int32), score=np.zeros(20), error=np.zeros(20), clusters=1)
    with pytest.raises(InputError, match="k is"):
        host(Keeper()).inspect(permit_of(SERVED.secret), AdviceRequest(model, many), 0, 10)


def test_a_ledger_charges_privacy_parameters_and_has_one_as_its_budget() -> None:
    for cost in NONE_SUCH:
        ledger = Ledger(0, 10, Fraction(1))
        with pytest.raises(InputError):
            ledger.charge(forged(Charge(bytes(16), Fraction(1), 0, 10), epsilon=cost), 0, 10)
        assert ledger.spending() == [(0, 10, Fraction(0))]
        with pytest.raises(InputError, match="budget"):
            Ledger(0, 10, cost)
        with pytest.raises(InputError, match="budget"):
            Cohort(worlds.block_ratings(SERVED), SERVED.secret, 0, 10, cost)


def test_a_cost_that_changes_between_looks_is_looked_at_once() -> None:
    """It would be compared with the budget at one price, and booked at another one."""

    class Fickle:
        prices = iter([Fraction(1), *[Fraction(1, 100)] * 50])
        ids = iter(range(50))

        @property
        def id(self) -> bytes:
            return bytes([next(self.ids)]) * 16

        @property
        def epsilon(self) -> Fraction:
            return next(self.prices)

    ledger = Ledger(0, 10, Fraction(1))
    fickle: Any = Fickle()
    assert ledger.charge(fickle, 0, 10) == []
    assert ledger.spending() == [(0, 10, Fraction(1))]


def test_no_service_gives_anything_back() -> None:
    devices = voters(budget=Fraction(1))
    for cost in NONE_SUCH:
        with pytest.raises(InputError):
            devices.enter(forged(SERVICE, epsilon=cost))
    entered = [devices.enter(forged(SERVICE, client=number)).size for number in range(3)]
    assert entered == [10, 0, 0]
    assert devices.ledger.spending() == [(0, 10, Fraction(1))]


UNSORTED, TWICE, BEYOND, BELOW = (np.array(who, np.int32) for who in ([0, 5, 1, 9], [0, 0], [0, 10], [-1, 3]))
WIDE, TABLE, LIST = np.array([0, 1]), np.array([[0, 1]], np.int32), [0, 1]


@pytest.mark.parametrize("electors", [UNSORTED, TWICE, BEYOND, BELOW, WIDE, TABLE, LIST])
def test_electors_are_an_ascending_list_of_devices_that_are_here(electors: Any) -> None:
    """Unsorted, they let device 5 vote that had not entered."""
    devices, service = voters(), forged(SERVICE, own_device=5)
    devices.enter(service)
    with pytest.raises(InputError, match="electors"):
        devices.vote(Ballot(service=service, first=0, stop=2), electors)
    with pytest.raises(LedgerError):
        devices.vote(Ballot(service=service, first=0, stop=2), np.array([0, 5], np.int32))


@pytest.mark.parametrize(("first", "stop"), [(-1, 2), (0, 5), (2, 2), (3, 1), (0, 10**9), (0.0, 2)])
def test_a_ballot_has_rounds_of_its_service(first: Any, stop: Any) -> None:
    devices = voters()
    devices.enter(SERVICE)
    with pytest.raises(InputError, match="ballot"):
        devices.vote(forged(Ballot(service=SERVICE, first=0, stop=1), first=first, stop=stop), np.zeros(1, np.int32))


def test_voters_enter_no_service_that_goes_on_beyond_their_opinions() -> None:
    """Compiled code would read on behind the table."""
    taste = np.zeros((1, 4), np.uint8)
    planted = PlantedVoters(client=np.zeros(10, np.int32), taste=taste, diverse=taste == 1, objects=2, radius=1)
    devices = VoterCohort(planted, SERVED.secret, 0, 10, Fraction(1))
    longer, wider = [forged(SERVICE, rounds=rounds) for rounds in (5, 10**6)], forged(SERVICE, objects=3)
    for cohort, refused in ((devices, [*longer, wider]), (voters(), longer)):
        for bad in refused:
            with pytest.raises(InputError, match="service of client 0"):
                cohort.enter(bad)
        assert cohort.ledger.spending() == [(0, 10, Fraction(0))]
