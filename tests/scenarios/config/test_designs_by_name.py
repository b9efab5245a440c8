"""Designs by name: what each fills in, builds, promises and asks devices, and what settings it does not know."""

from fractions import Fraction
from typing import Any

import pytest
from pydantic.fields import FieldInfo
from runs import complains, small

from coordinator.protocol.decoding.line import Curator
from coordinator.protocol.mechanism import POSTERIOR
from coordinator.protocol.mechanisms import mechanisms as registered_mechanisms
from coordinator.protocol.mechanisms.toys import ItemQuery
from coordinator.server.anchor.policy import AnchorPolicy
from coordinator.server.rounds.group_policies import ChoiceAndPairs, Groups, UntilLearned
from coordinator.server.rounds.learner import SumLearner
from coordinator.server.rounds.policies import OneRound
from scenarios.config.resolve import load_scenario, resolve
from scenarios.config.scenario import Scenario
from scenarios.studies.scrutiny.mechanism_under_test import alternatives

NAMES = list(registered_mechanisms())
OPEN = ["item-query", "full-reveal"]
CURATOR = ["curator-items", "curator-pairs"]


def filled(**changes: Any) -> Scenario:
    return resolve(small(**changes)).scenario


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_enough(name: str) -> None:
    scenario = filled(design=name)
    assert scenario.decoder == registered_mechanisms()[name].decoders[0]
    assert scenario.epsilon == (None if name in OPEN else 1)
    assert resolve(scenario).design.items == 40
    assert load_scenario(None, {"design": name}) == Scenario(design=name)


@pytest.mark.parametrize("name", OPEN)
def test_infinite_may_be_said_of_what_is_not_private(name: str) -> None:
    assert small(design=name, epsilon="inf") == small(design=name)


@pytest.mark.parametrize(
    ("epsilon", "questions"), [("1/2", 1), ("1", 1), ("1.000001", 2), ("3", 3), ("4.5", 5), ("5", 5), ("7", 5)]
)
def test_the_papers_number_of_questions_is_epsilon_rounded_up_at_most_1_over_p(epsilon: str, questions: int) -> None:
    query = resolve(filled(design="multi-maxsense", epsilon=epsilon)).design.query(
        round_number=0, public_seed=bytes(16), epsilon=None
    )
    assert (query.questions, query.parameters["set_size"]) == (questions, 8)


def curator_of(scenario: Scenario) -> Curator | None:
    learner = resolve(scenario).learner
    return learner.how.curator if isinstance(learner, SumLearner) else None


@pytest.mark.parametrize("name", NAMES)
def test_devices_privatize_unless_a_curator_is_trusted(name: str) -> None:
    """A design with an epsilon reaches devices with it, or the curator with it; never neither, never both."""
    scenario = filled(design=name)
    curator, policy = curator_of(scenario), resolve(scenario).policy
    if name in CURATOR:
        assert resolve(scenario).account.budget is None
        assert curator is not None
        assert (curator.epsilon, curator.rated, len(curator.seed)) == (Fraction(1), 5, 16)
        assert curator_of(filled(design=name, seed=1)) != curator
    else:
        assert curator is None
        assert resolve(scenario).account.budget == scenario.epsilon
    if name == "item-query":
        assert isinstance(policy, UntilLearned)
        assert policy.design == ItemQuery(answers_per_item=1).design(resolve(scenario).world)
    elif name == "anchor":
        assert isinstance(policy, AnchorPolicy)
        assert policy.setting.epsilon == resolve(scenario).account.budget
    else:
        assert isinstance(policy, Groups | ChoiceAndPairs | OneRound)
        assert type(policy) is {"pairs": Groups, "pair-totals": ChoiceAndPairs}.get(name, OneRound)
        assert policy.epsilon == resolve(scenario).account.budget


def test_guarantees_say_what_is_private_towards_whom() -> None:
    local = resolve(filled()).account.guarantee.text
    assert "local" in local
    assert (
        resolve(filled(design="multi-maxsense")).account.guarantee.text
        == resolve(filled(design="pairwise")).account.guarantee.text
        == local
    )
    public = resolve(filled(design="pairwise", rated_items="public")).account.guarantee.text
    assert "which items it rated is public" in public
    assert all(resolve(filled(design=name)).account.guarantee.text.startswith("none") for name in OPEN)
    assert not any("local" in resolve(filled(design=name)).account.guarantee.text for name in CURATOR)
    for name in ("maxsense", "sign", "pairwise", "multi-maxsense", *CURATOR):
        inf = filled(design=name, epsilon="inf", **({"questions": 1} if "multi" in name else {}))
        assert resolve(inf).account.guarantee.text.startswith("none")


def another(field: FieldInfo) -> Any:
    """A value of a setting that is not its default: another name that its type has, or another number."""
    named = [name for name in alternatives(field.annotation) if name not in (None, field.default)]
    return named[0] if named else 0.5 if field.default is None else 2 * field.default or type(field.default)(0.25) or 2


SETTINGS: dict[str, tuple[Any, set[str]]] = {
    name: (
        another(field),
        {other.name for other in registered_mechanisms().values() if name in other.settings.model_fields},
    )
    for half in registered_mechanisms().values()
    for name, field in half.settings.model_fields.items()
} | {"confidence": (0.9, {name for name, half in registered_mechanisms().items() if POSTERIOR in half.decoders})}


@pytest.mark.parametrize("design", NAMES)
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_one_design_are_refused_by_the_others(name: str, design: str) -> None:
    value, owners = SETTINGS[name]
    if design in owners:
        assert load_scenario(None, {"design": design, name: value}).value(name) == value
        return
    with complains(f"{name} is ", str(value), design, *owners):
        load_scenario(None, {"design": design, name: value})


@pytest.mark.parametrize("design", NAMES)
@pytest.mark.parametrize("decoder", ["centred", "paper", "posterior", "shares", "totals", "best"])
def test_decoders_of_other_designs_are_refused(design: str, decoder: str) -> None:
    if decoder in registered_mechanisms()[design].decoders:
        assert load_scenario(None, {"design": design, "decoder": decoder}).decoder == decoder
        return
    with complains(f"decoder is '{decoder}'", design, *registered_mechanisms()[design].decoders):
        load_scenario(None, {"design": design, "decoder": decoder})


@pytest.mark.parametrize("design", NAMES)
def test_nobody_rates_more_items_than_there_are(design: str) -> None:
    """Compiled code checks no bounds: devices of such a world would read and write memory that is not theirs."""
    with complains("rated is 31", "30"):
        load_scenario(None, {"design": design, "items": 30, "rated": 31})
