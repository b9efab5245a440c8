"""Settings that are drawn together, of design, policy, decoder, trust and liars: they run, or are refused in a line."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from evidence import size
from runs import here

from coordinator.protocol.errors import BlindrecError
from scenarios.config.custom_kinds import MechanismKind
from scenarios.config.mechanism_settings import designs
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.config.settings import validated

pytestmark = pytest.mark.usefixtures("few_draws")

POLICIES = ("one-round", "fixed", "eliminate", "item-by-item", "until-learned", "groups", "anchor", "two-rounds")
DECODERS = ("centred", "paper", "posterior", "k-means", "totals")
TRUST = ("local", "shuffled", "two-servers")
RARE: dict[str, tuple[Any, ...]] = {
    "answers_per_device": (2,),
    "assume_malicious": (0.01,),
    "attack": ("promote:2", "input:2", "untargeted"),
    "clusters": (3,),
    "confidence": (0.9,),
    "counted_group": (0.1,),
    "delta": (0, 1e-6, 1e-3),
    "dropout": (0.1,),
    "epsilon": ("2", "inf"),
    "expected_answers": (0.8,),
    "malicious": (0.05, 0),
    "noise": ("devices",),
    "own_questions": (True,),
    "pool_size": (10,),
    "questions": (2,),
    "rated_items": ("public",),
    "rounds": (3, 4),
    "short_rounds": ("tell",),
    "smallest_round": (500,),
}
"""Settings, each of which one draw in eight has."""


def drawn(half: MechanismKind, coins: random.Random) -> dict[str, Any]:
    """Draw settings of a design; half of the policies and decoders are drawn from its own."""
    flags: dict[str, Any] = {"design": half.name, "items": 12, "rated": 4, "users": 1200}
    for share, name, of_all, of_design in (
        (0.4, "policy", POLICIES, half.policies),
        (0.25, "decoder", DECODERS, half.decoders),
        (0.4, "trust", TRUST, (half.trust if half.trust in TRUST else "local",)),
    ):
        if coins.random() < share:
            flags[name] = coins.choice(coins.choice((of_all, of_design)))
    flags |= {name: coins.choice(values) for name, values in RARE.items() if coins.random() < 1 / 8}
    return {**flags, "like": "0.9,0.1;0.1,0.9"} if half.name == "anchor" else flags


def resolved(flags: dict[str, Any]) -> Scenario | None:
    """The scenario of these settings, from which all was made that a run begins with; None where they are refused."""
    with refused_in_a_line():
        scenario = validated(Scenario, None, flags).complete()
        spec = resolve(scenario)
        if all(part is not None for part in (spec.policy, spec.learner, spec.account.guarantee.text)):
            return scenario
    return None


@contextmanager
def refused_in_a_line() -> Iterator[None]:
    """Let errors of ours pass whose text is one line."""
    try:
        yield
    except BlindrecError as error:
        if len(str(error).splitlines()) != 1:
            raise


@pytest.mark.parametrize("name", designs())
def test_settings_that_are_drawn_together_run_or_are_refused(name: str) -> None:
    coins, accepted = random.Random(name), list[Scenario]()
    for _ in range(size(800, 100)):
        flags = drawn(designs()[name], coins)
        try:
            scenario = resolved(flags)
        except Exception as error:
            raise AssertionError(f"{flags} end in a {type(error).__name__}") from error
        accepted += [scenario] if scenario else []
    assert accepted
    for scenario in coins.sample(accepted, min(len(accepted), size(8, 1))):
        with refused_in_a_line():
            here(scenario)
