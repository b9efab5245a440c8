"""Policies by name, as `blindrec run --policy` knows them, and a user's own by import path."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.elimination import Eliminate, ItemByItem
from coordinator.open_designs import ItemQuery
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError, PolicyError
from coordinator.schedules import Fixed, OneRound, UntilLearned
from coordinator.server import Policy
from coordinator.setting import Setting
from scenarios.kinds import CURATOR, DESIGNS, design_of

if TYPE_CHECKING:
    from scenarios.config import Scenario

_ROOMS = ("actors", "coordinator", "scenarios")


def setting_of(scenario: Scenario) -> Setting:
    """Return what the policy of a filled-in scenario is told; a trusted curator's devices answer without noise."""
    return Setting(
        design=design_of(scenario),
        epsilon=None if DESIGNS[scenario.design].trust_model == CURATOR else scenario.epsilon,
        public_seed=derive(scenario.seed, "public"),
        clusters=scenario.clusters or 2,
        confidence=scenario.confidence,
        answers_per_device=scenario.answers_per_device,
    )


def _one_round(scenario: Scenario, setting: Setting) -> Policy:  # noqa: ARG001 (as all builders)
    return OneRound(design=setting.design, epsilon=setting.epsilon, public_seed=setting.public_seed)


def _fixed(scenario: Scenario, setting: Setting) -> Policy:
    answers = (scenario.users or 0) * scenario.answers_per_device
    if scenario.rounds > answers:
        raise InputError(f"rounds is {scenario.rounds}, but all devices give {answers} answers; ask for fewer rounds")
    return Fixed(setting=setting, rounds=scenario.rounds)


def _until_learned(scenario: Scenario, setting: Setting) -> Policy:
    assert isinstance(setting.design, ItemQuery)  # kinds offer it to no other
    return UntilLearned(
        design=setting.design,
        rated=scenario.rated or 1,
        answers=scenario.answers_per_item,
        public_seed=setting.public_seed,
    )


POLICIES: dict[str, Callable[[Scenario, Setting], Policy]] = {
    "one-round": _one_round,
    "fixed": _fixed,
    "eliminate": lambda _, setting: Eliminate(setting=setting),
    "item-by-item": lambda _, setting: ItemByItem(setting=setting),
    "until-learned": _until_learned,
}


def policy_of(scenario: Scenario) -> Policy:
    """Return the server's policy of a filled-in scenario.

    Raises
    ------
    PolicyError
        If it is a user's own and cannot be imported or made.
    """
    setting = setting_of(scenario)
    if scenario.policy in POLICIES:
        return POLICIES[scenario.policy](scenario, setting)
    try:
        policy = import_policy(scenario.policy)(setting)
    except PolicyError:
        raise
    except Exception as error:
        raise PolicyError(
            f"policy {scenario.policy} cannot be made: {type(error).__name__}: {error}; it is called with one "
            "coordinator.setting.Setting before the first round"
        ) from error
    if not callable(getattr(policy, "next_query", None)):
        raise PolicyError(f"policy {scenario.policy} has no method next_query(state); see coordinator.server.Policy")
    return policy  # type: ignore[no-any-return] # looked at above


def import_policy(path: str) -> Callable[[Setting], Any]:
    """Return what ``package.module:Name`` names; modules of the working directory are found, too.

    Raises
    ------
    PolicyError
        If there is no such module or name.
    """
    module_name, _, name = path.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise PolicyError(
            f"policy {path} cannot be imported: {type(error).__name__}: {error}; modules are looked for in the working "
            "directory and where Python finds packages"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        raise PolicyError(f"policy {path}: module {module_name} has nothing called {name} that makes a policy")
    return found  # type: ignore[no-any-return] # a callable


def code_digest(policy: str) -> str:
    """Return the SHA-256 of the code that asks: this package's, and the module of a user's own policy.

    A policy that is built of other modules may change without it.
    """
    code = sorted(path for room in _ROOMS for path in (Path(__file__).parents[1] / room).rglob("*.py"))
    if ":" in policy:
        import_policy(policy)
        if file := getattr(sys.modules[policy.partition(":")[0]], "__file__", None):
            code.append(Path(file))
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in code)).hexdigest()


def check_policy(scenario: Scenario) -> None:
    """Refuse a policy that there is not, or that the design cannot follow, and settings of another policy.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    known = DESIGNS[scenario.design].policies
    own = ":" in scenario.policy
    if not own and scenario.policy not in known:
        told = ", ".join(known)
        raise InputError(
            f"policy is {scenario.policy!r}; choose one of {told} for {scenario.design}, or your own, "
            "mypackage.mymodule:MyPolicy"
        )
    if own and len(known) == 1:
        raise InputError(f"policy is {scenario.policy!r}, but {scenario.design} has one way of asking; leave it out")
    if scenario.rounds != 2 and scenario.policy != "fixed":
        raise InputError(
            f"rounds is {scenario.rounds}, which is about policy fixed, not {scenario.policy}; leave it out"
        )
    single = scenario.policy in ("one-round", "until-learned")
    if scenario.answers_per_device != 1 and single:
        raise InputError(
            f"answers_per_device is {scenario.answers_per_device}, but policy {scenario.policy} asks a device once; "
            "leave it out, or choose another policy"
        )
    if scenario.policy == "fixed" and scenario.rounds % scenario.answers_per_device:
        raise InputError(
            f"rounds is {scenario.rounds}, a device answers in {scenario.answers_per_device} of them; give a multiple"
        )
    if scenario.policy in ("eliminate", "item-by-item") and scenario.decoder != "posterior":
        raise InputError(f"decoder is {scenario.decoder!r}; policy {scenario.policy} needs posterior, leave it out")
