"""Designs by name: what each fills in, builds, promises and asks devices, and what settings it does not know."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from runs import small

from actors.sketches import SKETCHES
from coordinator.decoders import DECODERS
from coordinator.designs import MultiMaxSense, Pairwise
from coordinator.open_designs import ItemQuery, Reveal
from coordinator.pool_designs import MaxSense, SignSensing
from coordinator.protocol.errors import InputError
from coordinator.protocol.questions import KINDS
from coordinator.schedules import OneRound, UntilLearned
from scenarios.config import Scenario, load_scenario
from scenarios.experiment import asked_epsilon, learner_of
from scenarios.kinds import DESIGNS, design_of, guarantee
from scenarios.policies import policy_of
from scenarios.questions import settle

NAMES = list(DESIGNS)
OPEN = ["item-query", "full-reveal"]
CURATOR = ["curator-items", "curator-pairs"]


def filled(**changes: Any) -> Scenario:
    return settle(small(**changes).complete())


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_enough(name: str) -> None:
    scenario = filled(design=name)
    assert scenario.decoder == DESIGNS[name].decoders[0]
    assert scenario.epsilon == (None if name in OPEN else 1)
    assert design_of(scenario).items == 40
    assert load_scenario(None, {"design": name}) == Scenario(design=name)


def test_decoders_are_those_that_there_are() -> None:
    assert {name: kind.decoders for name, kind in DESIGNS.items()} == {
        "maxsense": ("centred", "paper", "posterior"),
        "sign": ("posterior",),
        **dict.fromkeys(("multi-maxsense", "pairwise"), ("centred", "paper")),
        **dict.fromkeys(OPEN, ("shares",)),
        **dict.fromkeys(CURATOR, ("totals",)),
    }
    assert set(DECODERS) == {"centred", "paper"}


@pytest.mark.parametrize("name", OPEN)
def test_infinite_may_be_said_of_what_is_not_private(name: str) -> None:
    assert small(design=name, epsilon="inf") == small(design=name)


def test_designs_are_built_from_what_the_scenario_says() -> None:
    assert design_of(filled(theta=2)) == MaxSense(items=40, rated=5, theta=2)
    assert design_of(filled(design="sign", vectors=8)) == SignSensing(items=40, rated=5, vectors=8)
    assert design_of(filled(design="sign", signs="plain")) == SignSensing(items=40, rated=5, centred=False)
    multi = filled(design="multi-maxsense", theta=0.5, questions=7)
    assert design_of(multi) == MultiMaxSense(items=40, rated=5, theta=0.5, questions=7)
    for public in ("private", "public"):
        paired = filled(design="pairwise", agreement="positive", rated_items=public)
        assert design_of(paired) == Pairwise(items=40, agreement="positive", rated_public=public == "public")
    assert design_of(filled(design="item-query")) == ItemQuery(items=40)
    assert design_of(filled(design="full-reveal")) == Reveal(
        name="full-reveal", items=40, most=40, share=1 / math.log2(40)
    )
    assert design_of(filled(design="full-reveal", reveal_share=0.25)) == Reveal(
        name="full-reveal", items=40, most=40, share=0.25
    )
    for name in CURATOR:
        assert design_of(filled(design=name)) == Reveal(name=name, items=40, most=5, share=1)


@pytest.mark.parametrize(
    ("epsilon", "questions"), [("1/2", 1), ("1", 1), ("1.000001", 2), ("3", 3), ("4.5", 5), ("5", 5), ("7", 5)]
)
def test_the_papers_number_of_questions_is_epsilon_rounded_up_but_at_most_1_over_p(
    epsilon: str, questions: int
) -> None:
    design = design_of(filled(design="multi-maxsense", epsilon=epsilon))
    assert isinstance(design, MultiMaxSense)
    assert (design.questions, design.set_size) == (questions, 8)


def test_every_design_asks_what_devices_know() -> None:
    for name in NAMES:
        for public in ("private", "public") if name == "pairwise" else ("private",):
            query = design_of(filled(design=name, rated_items=public)).query(
                round_number=0, public_seed=bytes(16), epsilon=None
            )
            assert query.design in SKETCHES
            assert query.parameters.keys() == KINDS[query.design].parameters
            assert KINDS[query.design].private == (name not in OPEN + CURATOR)


@pytest.mark.parametrize("name", NAMES)
def test_devices_privatize_unless_a_curator_is_trusted(name: str) -> None:
    """A design with an epsilon reaches devices with it, or the curator with it; never neither, never both."""
    scenario = filled(design=name)
    curator, policy = learner_of(scenario).curator, policy_of(scenario)
    if name in CURATOR:
        assert asked_epsilon(scenario) is None
        assert curator is not None
        assert (curator.epsilon, curator.rated, len(curator.seed)) == (Fraction(1), 5, 16)
        assert learner_of(filled(design=name, seed=1)).curator != curator
    else:
        assert curator is None
        assert asked_epsilon(scenario) == scenario.epsilon
    if name == "item-query":
        assert isinstance(policy, UntilLearned)
        assert (policy.rated, policy.answers) == (5, 1)
    else:
        assert isinstance(policy, OneRound)
        assert policy.epsilon == asked_epsilon(scenario)


def test_guarantees_say_what_is_private_towards_whom() -> None:
    local = guarantee(filled())
    assert "local" in local
    assert guarantee(filled(design="multi-maxsense")) == guarantee(filled(design="pairwise")) == local
    public = guarantee(filled(design="pairwise", rated_items="public"))
    assert "which items it rated is public" in public
    assert all(guarantee(filled(design=name)).startswith("none") for name in OPEN)
    for name in CURATOR:
        told = guarantee(filled(design=name))
        assert "local" not in told
        assert "curator" in told
    for name in ("maxsense", "sign", "pairwise", "multi-maxsense", *CURATOR):
        assert guarantee(
            filled(design=name, epsilon="inf", **({"questions": 1} if "multi" in name else {}))
        ).startswith("none")


SETTINGS: dict[str, tuple[Any, set[str]]] = {
    "theta": (2.0, {"maxsense", "multi-maxsense"}),
    "questions": (2, {"multi-maxsense"}),
    "agreement": ("equal", {"pairwise"}),
    "rated_items": ("public", {"pairwise"}),
    "answers_per_item": (3, {"item-query"}),
    "reveal_share": (0.5, {"full-reveal"}),
    "vectors": (4, {"sign"}),
    "signs": ("plain", {"sign"}),
    "confidence": (0.9, {"maxsense", "sign"}),
}


def test_every_setting_belongs_to_somebody() -> None:
    assert {name for kind in DESIGNS.values() for name in kind.own} == set(SETTINGS)


@pytest.mark.parametrize("design", NAMES)
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_one_design_are_refused_by_the_others(name: str, design: str) -> None:
    value, owners = SETTINGS[name]
    if design in owners:
        assert getattr(load_scenario(None, {"design": design, name: value}), name) == value
        return
    with pytest.raises(InputError) as caught:
        load_scenario(None, {"design": design, name: value})
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"{name} is ")
    assert all(word in line for word in (str(value), design, *owners)), line


@pytest.mark.parametrize("design", NAMES)
@pytest.mark.parametrize("decoder", ["centred", "paper", "posterior", "shares", "totals", "best"])
def test_decoders_of_other_designs_are_refused(design: str, decoder: str) -> None:
    if decoder in DESIGNS[design].decoders:
        assert load_scenario(None, {"design": design, "decoder": decoder}).decoder == decoder
        return
    with pytest.raises(InputError) as caught:
        load_scenario(None, {"design": design, "decoder": decoder})
    line = str(caught.value)
    assert all(word in line for word in (f"decoder is '{decoder}'", design, *DESIGNS[design].decoders))


@pytest.mark.parametrize("design", NAMES)
def test_nobody_rates_more_items_than_there_are(design: str) -> None:
    """Compiled code checks no bounds: devices of such a world would read and write memory that is not theirs."""
    with pytest.raises(InputError) as caught:
        load_scenario(None, {"design": design, "items": 30, "rated": 31})
    assert all(word in str(caught.value) for word in ("rated is 31", "30"))
