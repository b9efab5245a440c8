"""Nothing that a server sends gives anything back, or lets a device answer what it could not pay for."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from forging import forged
from nasty import COSTS

from actors.device import AdviceRequest, Cohort, Raters
from actors.host import DeviceHost, permit_of
from actors.keeper import Charge, Keeper, spent_by
from actors.ledger import Ledger
from actors.voters import PlantedVoters, TableVoters, VoterCohort
from coordinator.protocol.ballots import Ballot, Service
from coordinator.protocol.errors import InputError, LedgerError
from coordinator.protocol.messages import Model

WORLD = worlds.world(items=20, rated=4)
QUERY = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1))
VALID = (Fraction(1, 10**9), Fraction(31), Fraction(10**400), Fraction(1, 10**400))
NONE_SUCH = [one for one in COSTS if one not in VALID]
SERVICE = Service(client=0, recommender="p-rec", rounds=4, objects=2, epsilon=Fraction(1))


def host(keeper: Keeper) -> DeviceHost:
    """Ten devices with a budget of 1."""
    return DeviceHost(Raters(budget=Fraction(1)), worlds.block_ratings(WORLD), WORLD.secret, [(0, 10)], keeper)


def voters(first: int = 0, stop: int = 10, budget: Fraction | None = None) -> VoterCohort:
    """Some of ten voters."""
    votes = np.random.default_rng(0).integers(2, size=(4, 10), dtype=np.uint8)
    opinions = TableVoters(table=votes, group=np.arange(10, dtype=np.int32))
    return VoterCohort(opinions, WORLD.secret, first, stop, budget)


@pytest.mark.parametrize("cost", NONE_SUCH, ids=lambda cost: type(cost).__name__)
def test_a_query_gives_nothing_back_not_even_after_a_restart(cost: Any, tmp_path: Path) -> None:
    """A query of epsilon -100 made a budget of 1 pay for a hundred answers, and stood in the ledger's file."""
    asked = host(Keeper(tmp_path))
    with pytest.raises(InputError):
        asked.ask(forged(QUERY, epsilon=cost, round=99), 0, 10)
    for devices in (asked, host(Keeper(tmp_path))):
        queries = [forged(QUERY, round=number) for number in range(5)]
        refused = [devices.ask(query, 0, 10).refused for query in queries]
        assert refused == [0, 10, 10, 10, 10]
        assert spent_by(Keeper(tmp_path), 10) == [(0, 10, Fraction(1))]


@pytest.mark.parametrize("change", [{"design": "mine"}, {"items": 21}, {"epsilon": Fraction(31)}, {"parameters": {}}])
def test_nothing_is_booked_of_a_query_that_is_none(change: dict[str, Any]) -> None:
    keeper = Keeper()
    with pytest.raises(InputError):
        host(keeper).ask(forged(QUERY, **change), 0, 10)
    assert keeper.read(0, 10) == (0, [])


@pytest.mark.parametrize("block", [(0.0, 4), (False, 4), ("0", 4), (None, 4), (4, 0), (-1, 4), (0, 11), (0, 10**30)])
def test_a_block_is_two_whole_numbers_of_devices_that_are_here(block: tuple[Any, Any]) -> None:
    keeper = Keeper()
    asked, permit = host(keeper), permit_of(WORLD.secret)
    model = Model(cluster=np.zeros(20, np.int32), score=np.zeros(20), error=np.zeros(20), clusters=1)
    with pytest.raises(InputError):
        asked.ask(QUERY, *block)
    with pytest.raises(InputError):
        asked.inspect(permit, AdviceRequest(model, 5), *block)
    assert keeper.read(0, 10) == (0, [])


@pytest.mark.parametrize("many", [0, -1, 10**9, 2.0, True, None])
def test_a_list_of_advice_has_a_length(many: Any) -> None:
    model = Model(cluster=np.zeros(20, np.int32), score=np.zeros(20), error=np.zeros(20), clusters=1)
    with pytest.raises(InputError, match="k is"):
        host(Keeper()).inspect(permit_of(WORLD.secret), AdviceRequest(model, many), 0, 10)


@pytest.mark.parametrize("cost", NONE_SUCH, ids=lambda cost: type(cost).__name__)
def test_a_ledger_charges_privacy_parameters_and_has_one_as_its_budget(cost: Any) -> None:
    ledger = Ledger(0, 10, Fraction(1))
    with pytest.raises(InputError):
        ledger.charge(forged(Charge(bytes(16), Fraction(1), 0, 10), epsilon=cost), 0, 10)
    assert ledger.spending() == [(0, 10, Fraction(0))]
    with pytest.raises(InputError, match="budget"):
        Ledger(0, 10, cost)
    with pytest.raises(InputError, match="budget"):
        Cohort(worlds.block_ratings(WORLD), WORLD.secret, 0, 10, cost)


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
    assert ledger.charge(Fickle(), 0, 10) == []
    assert ledger.spending() == [(0, 10, Fraction(1))]


@pytest.mark.parametrize("epsilon", ["-100", "0", "0/3", 0.5, -1, True, [1], "one", "1/0"])
def test_a_ledgers_file_gives_nothing_back(epsilon: Any, tmp_path: Path) -> None:
    """Its line's digest is right: whoever wrote it, what devices spent is not known then."""
    Keeper(tmp_path).book(0, 10, 0, [json.dumps([bytes(16).hex(), epsilon, 0, 10])])
    with pytest.raises(LedgerError, match="what devices spent is not known"):
        Ledger(0, 10, None, Keeper(tmp_path)).spending()
    assert host(Keeper()).ask(QUERY, 0, 10).refused == 0
    with pytest.raises(LedgerError, match="what devices spent is not known"):
        host(Keeper(tmp_path)).ask(QUERY, 0, 10)


@pytest.mark.parametrize("cost", NONE_SUCH, ids=lambda cost: type(cost).__name__)
def test_no_service_gives_anything_back(cost: Any) -> None:
    devices = voters(budget=Fraction(1))
    with pytest.raises(InputError):
        devices.enter(forged(SERVICE, epsilon=cost))
    entered = [devices.enter(forged(SERVICE, client=number)).size for number in range(3)]
    assert entered == [10, 0, 0]
    assert devices.ledger.spending() == [(0, 10, Fraction(1))]


ELECTORS: dict[str, Any] = {
    "unsorted": [0, 5, 1, 9],
    "one twice": [0, 0],
    "beyond": [0, 10],
    "below": [-1, 3],
    "64 bits": np.array([0, 1]),
    "a table": np.array([[0, 1]], np.int32),
    "a list": [0, 1],
}


@pytest.mark.parametrize("name", ELECTORS)
def test_electors_are_an_ascending_list_of_devices_that_are_here(name: str) -> None:
    """Unsorted, they let device 5 vote that had not entered."""
    devices, service, who = voters(), forged(SERVICE, own_device=5), ELECTORS[name]
    devices.enter(service)
    electors = np.array(who, np.int32) if type(who) is list and name != "a list" else who
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
    devices = VoterCohort(planted, WORLD.secret, 0, 10, Fraction(1))
    longer, wider = [forged(SERVICE, rounds=rounds) for rounds in (5, 10**6)], forged(SERVICE, objects=3)
    for cohort, refused in ((devices, [*longer, wider]), (voters(), longer)):
        for bad in refused:
            with pytest.raises(InputError, match="service of client 0"):
                cohort.enter(bad)
        assert cohort.ledger.spending() == [(0, 10, Fraction(0))]
