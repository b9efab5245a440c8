"""A design turns its public parameters into queries, and refuses parameters outside their ranges by name."""

import re
from typing import Any

import pytest
from worlds import in_world

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.moments.count_moments import NoSignal
from scenarios.config.mechanism_settings import all_settings
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario


def test_there_is_no_signal_only_where_all_items_are_sensed() -> None:
    for theta, none in ((3.0, True), (2.9, False), (1.0, False)):
        world = resolve(Scenario(items=6, rated=3, theta=theta)).world
        assert isinstance(MaxSense(theta=theta).moments(world), NoSignal) is none


def test_defaults_are_those_that_their_descriptions_tell() -> None:
    told = {name: re.search(r"\[([\d.]+)\]\.$", field.description or "") for name, field in all_settings().items()}
    found = {name: float(default[1]) for name, default in told.items() if default}
    assert found.keys() >= {"theta", "pair_items", "first_group", "second_group", "answers_per_item"}
    assert found == {name: float(all_settings()[name].default) for name in found}


IMPOSSIBLE: dict[str, tuple[Any, ...]] = {"items": (0,), "rated": (0, 11), "theta": (3.1,)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in IMPOSSIBLE.items() for value in values])
def test_impossible_parameters_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        in_world(MaxSense, **{"items": 10, "rated": 3, "theta": 1.0, name: value})
    text = str(caught.value)
    assert text.startswith(f"{name} is {value}; ")
    assert "\n" not in text
    assert any(remedy in text for remedy in ("must lie", "at least"))
