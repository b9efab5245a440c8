"""The plain class behind the actor: several cohorts in one host answer as they would alone. No Ray is started."""

from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from faults import Deaf
from messages import forged

from actors.device import AdviceRequest, Cohort
from actors.host import DeviceHost, permit_of
from actors.keeper import Keeper, LedgerClient
from coordinator.protocol.errors import InputError
from coordinator.protocol.messages import Model

WORLD = worlds.world(items=20, rated=4)
BOUNDS = [(10, 30), (50, 51), (60, 100)]
QUERY = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1))
MODEL = Model(cluster=np.zeros(20, np.int32), score=np.arange(20.0), error=np.ones(20), clusters=1)


def host(keeper: LedgerClient | None = None) -> DeviceHost:
    return DeviceHost(partial(Cohort, budget=Fraction(1)), worlds.block_ratings(WORLD), WORLD.secret, BOUNDS, keeper)


@pytest.mark.parametrize(("first", "stop"), [(10, 30), (29, 30), (50, 51), (60, 61), (64, 100)])
def test_a_host_answers_from_the_right_cohort(first: int, stop: int) -> None:
    asked = host()
    release = asked.ask(QUERY, first, stop)
    assert release.unpacked()[:, 0].tolist() == worlds.expected_bits(WORLD, QUERY, range(first, stop))


LACKS = [(0, 5), (30, 40), (51, 60), (20, 51), (90, 101), (64, 60), (-1, 4), (60, 10**30)]


@pytest.mark.parametrize(("first", "stop"), [*LACKS, (60.0, 64), (False, 64), ("60", 64), (None, 64)])
def test_a_host_does_not_answer_for_devices_it_lacks_nor_for_what_are_none(first: Any, stop: int) -> None:
    keeper = Keeper()
    devices = host(keeper)
    with pytest.raises(InputError):
        devices.ask(QUERY, first, stop)
    with pytest.raises(InputError):
        devices.inspect(permit_of(WORLD.secret), AdviceRequest(MODEL, 5), first, stop)
    assert keeper.read(0, 100) == (0, [])


def test_a_process_that_is_new_refuses_what_its_devices_cannot_pay_and_repeats_what_they_said(tmp_path: Path) -> None:
    """The server that started it anew says nothing, or asks out of order: the keeper knows."""
    second = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1), round_number=1)
    first = host(keeper := worlds.keeper_on(tmp_path)).ask(QUERY, 10, 30)
    booked = keeper.read(0, 100)
    for _ in range(2):
        asked = host(keeper := worlds.keeper_on(tmp_path))
        assert asked.ask(second, 10, 30).refused == 20
        assert asked.ask(second, 10, 30).bits == bytes(len(first.bits))
        assert asked.ask(QUERY, 10, 30) == first
    assert keeper.read(0, 100) == booked


def test_devices_whose_keeper_does_not_answer_refuse_and_are_counted() -> None:
    """Nothing is answered; with it back they answer, and what they know that they booked they repeat meanwhile."""
    keeper = Keeper()
    asked = host(deaf := Deaf(keeper))
    gone = asked.ask(QUERY, 10, 30)
    assert (gone.refused, int(gone.answered_mask().sum()), any(gone.bits)) == (20, 0, False)
    assert keeper.read(0, 100) == (0, [])
    deaf.below = 0
    part = asked.ask(QUERY, 10, 18)
    deaf.below = 100
    whole = asked.ask(QUERY, 10, 30)
    assert whole.refused == 12
    assert whole.bits[:1] == part.bits
    assert whole.answered_mask().tolist() == [True] * 8 + [False] * 12


def test_a_warm_up_is_free_and_advice_comes_from_the_right_devices() -> None:
    asked = host()
    asked.warm_up(QUERY)
    assert asked.ask(QUERY, 10, 30).refused == 0
    model = Model(cluster=np.arange(20, dtype=np.int32) % 2, score=np.arange(20.0), error=np.ones(20), clusters=2)
    alone = Cohort(worlds.block_ratings(WORLD), WORLD.secret, 60, 70, None).recommend(model, 60, 70, 5)
    np.testing.assert_array_equal(asked.inspect(permit_of(WORLD.secret), AdviceRequest(model, 5), 60, 70), alone)


def test_the_server_gets_no_advice() -> None:
    """Its handle reaches the same actor; what a device would not recommend, it has rated."""
    with pytest.raises(PermissionError, match="only the experimenter may look"):
        host().inspect(permit_of(worlds.PUBLIC), AdviceRequest(MODEL, 20), 60, 70)


BROKEN: list[dict[str, Any]] = [
    *({"cluster": np.full(20, cluster, np.int32)} for cluster in (200_000_000, -1)),
    *({"score": score} for score in (np.full(20, np.nan), np.zeros(21))),
    *({"error": np.zeros((20, 1))}, {"clusters": 0}, {"cluster": np.zeros(19, np.int32), "score": np.zeros(19)}),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_model_that_is_none_is_refused(broken: dict[str, Any]) -> None:
    fields = {name: getattr(MODEL, name) for name in ("cluster", "score", "error", "clusters")}
    with pytest.raises(InputError, match=r"of a model|number of clusters"):
        Model(**{**fields, **broken})
    with pytest.raises(InputError, match=r"of a model|number of clusters|model has 19 items"):
        host().inspect(permit_of(WORLD.secret), AdviceRequest(forged(MODEL, **broken), 5), 60, 70)
