"""A design turns its public parameters into queries, and refuses parameters outside their ranges by name."""

import re
from typing import Any

import pytest
from pydantic import ValidationError
from worlds import in_world

from coordinator.protocol.errors import InputError
from coordinator.protocol.mechanism import Settings
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.anchor import Anchor
from coordinator.protocol.mechanisms.maxsense import MaxSense
from coordinator.protocol.mechanisms.sets import Pairs
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


@pytest.mark.parametrize(
    ("settings", "name", "most"),
    [(Pairs, "pair_likes", 50), (Pairs, "pair_items", 400), (Anchor, "classes", 64)],
)
def test_the_most_that_a_setting_takes(settings: type[Settings], name: str, most: int) -> None:
    settings.model_validate({name: most})
    with pytest.raises(ValidationError, match=f"less than or equal to {most}"):
        settings.model_validate({name: most + 1})


@pytest.mark.parametrize(("yeses", "words"), [(None, ""), (1, ", 1 yes an item"), (5, ", 5 yeses an item")])
def test_item_queries_tell_how_many_yeses_an_item_needs(yeses: int | None, words: str) -> None:
    assert registered_mechanisms()["item-query"].label({"answers_per_item": yeses}) == f"item-query{words}"


IMPOSSIBLE: dict[str, tuple[Any, ...]] = {"items": (0,), "rated": (0, 11), "theta": (3.1,)}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in IMPOSSIBLE.items() for value in values])
def test_impossible_parameters_are_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        in_world(MaxSense, **{"items": 10, "rated": 3, "theta": 1.0, name: value})
    text = str(caught.value)
    assert text.startswith(f"{name} is {value}; ")
    assert "\n" not in text
    assert any(remedy in text for remedy in ("must lie", "at least"))
