"""The plain class behind the actor: several cohorts in one host answer as they would alone. No Ray is started."""

from __future__ import annotations

import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import worlds
from forging import forged

from actors.device import Cohort
from actors.host import DeviceHost, advice_permit
from coordinator.protocol.errors import ForgottenError, InputError
from coordinator.protocol.messages import Model

WORLD = worlds.world(items=20, rated=4)
BOUNDS = [(10, 30), (50, 51), (60, 100)]
QUERY = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1))


def host(ledger: Path | None = None) -> DeviceHost:
    return DeviceHost(worlds.block_ratings(WORLD), WORLD.secret, BOUNDS, Fraction(1), ledger)


@pytest.mark.parametrize(("first", "stop"), [(10, 30), (29, 30), (50, 51), (60, 61), (64, 100)])
def test_a_host_answers_from_the_right_cohort(first: int, stop: int) -> None:
    asked = host()
    release = asked.answer(QUERY, first, stop, asked.incarnation())
    assert release.unpacked()[:, 0].tolist() == worlds.expected_bits(WORLD, QUERY, range(first, stop))


@pytest.mark.parametrize(("first", "stop"), [(0, 5), (30, 40), (51, 60), (20, 51), (90, 101)])
def test_a_host_does_not_answer_for_devices_it_lacks(first: int, stop: int) -> None:
    asked = host()
    with pytest.raises(IndexError):
        asked.answer(QUERY, first, stop, asked.incarnation())


def test_each_cohort_keeps_its_own_books() -> None:
    asked, second = host(), worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1), round_number=1)
    asked.answer(QUERY, 10, 30, asked.incarnation())
    assert asked.answer(second, 10, 30, asked.incarnation()).refused == 20
    assert asked.answer(second, 60, 100, asked.incarnation()).refused == 0


def test_a_process_answers_nobody_who_takes_it_for_another_one() -> None:
    """It charges nothing either, and its error tells its own token, on whatever way it travels."""
    before, asked = host(), host()
    nothing = asked.spent(asked.incarnation())
    for call in (asked.answer, asked.recall, lambda *given: asked.spent(given[-1])):
        with pytest.raises(ForgottenError, match=f"^[^\\n]*{asked.incarnation().hex()}[^\\n]*$") as raised:
            call(QUERY, 10, 30, before.incarnation())
        assert raised.value.incarnation == asked.incarnation()
        sent = pickle.loads(pickle.dumps(raised.value))
        assert (type(sent), sent.incarnation, str(sent)) == (ForgottenError, asked.incarnation(), str(raised.value))
    assert asked.spent(asked.incarnation()) == nothing
    assert [spent for _, _, spent in nothing] == [0, 0, 0]


def test_a_process_without_its_ledger_is_reminded_and_goes_on(tmp_path: Path) -> None:
    """What it has not forgotten it books no second time; what its budget did not hold it refuses once more."""
    before, forgetful, mindful = host(tmp_path), host(), host(tmp_path)
    second = worlds.maxsense_query(items=20, sensing=0.25, epsilon=Fraction(1), round_number=1)
    first = [before.answer(query, 10, 30, before.incarnation()) for query in (QUERY, second)]
    for asked in (forgetful, mindful):
        for query in (QUERY, second):
            asked.recall(query, 10, 30, asked.incarnation())
        assert asked.spent(asked.incarnation()) == before.spent(before.incarnation())
        assert [asked.answer(query, 10, 30, asked.incarnation()) for query in (QUERY, second)] == first
    assert [release.refused for release in first] == [0, 20]


def test_a_warm_up_is_free_and_advice_comes_from_the_right_devices() -> None:
    asked = host()
    asked.warm_up(QUERY)
    assert asked.answer(QUERY, 10, 30, asked.incarnation()).refused == 0
    model = Model(cluster=np.arange(20, dtype=np.int32) % 2, score=np.arange(20.0), error=np.ones(20), clusters=2)
    alone = Cohort(worlds.block_ratings(WORLD), WORLD.secret, 60, 70, None).recommend(model, 60, 70, 5)
    np.testing.assert_array_equal(asked.recommend(model, 60, 70, 5, advice_permit(WORLD.secret)), alone)


def test_the_server_gets_no_advice() -> None:
    """Its handle reaches the same actor; what a device would not recommend, it has rated."""
    model = Model(cluster=np.zeros(20, np.int32), score=np.arange(20.0), error=np.ones(20), clusters=1)
    with pytest.raises(PermissionError, match="stays on the device"):
        host().recommend(model, 60, 70, 20, advice_permit(worlds.PUBLIC))


@pytest.mark.parametrize(
    "broken",
    [
        {"cluster": np.full(20, 200_000_000, np.int32)},
        {"cluster": np.full(20, -1, np.int32)},
        {"cluster": np.zeros(19, np.int32), "score": np.zeros(19)},
        {"error": np.zeros((20, 1))},
        {"score": np.full(20, np.nan)},
        {"score": np.zeros(21)},
        {"clusters": 0},
    ],
)
def test_a_model_that_is_none_is_refused(broken: dict[str, Any]) -> None:
    fields = {"cluster": np.zeros(20, np.int32), "score": np.zeros(20), "error": np.ones(20), "clusters": 1}
    with pytest.raises(InputError, match=r"of a model|number of clusters"):
        Model(**{**fields, **broken})
    model = forged(Model(**fields), **broken)  # type: ignore[arg-type] # by name
    with pytest.raises(InputError, match=r"of a model|number of clusters|model has 19 items"):
        host().recommend(model, 60, 70, 5, advice_permit(WORLD.secret))
