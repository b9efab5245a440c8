"""Policies by name, as `blindrec run --policy` knows them, and a user's own by import path."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.protocol.budget import Epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import PolicyError
from coordinator.server.server_half import TRUST_CURATOR
from scenarios import PACKAGES
from scenarios.own.importing import found_at
from scenarios.own.sources import OURS, modules_with

if TYPE_CHECKING:
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy
    from scenarios.given.config import Scenario


def asked_epsilon(scenario: Scenario) -> Epsilon:
    """Return the epsilon that devices privatize their answers with; a trusted curator gets ratings as they are."""
    return None if scenario.half.trust == TRUST_CURATOR else scenario.epsilon


def setting_of(scenario: Scenario) -> Setting:
    """Return what the policy of a filled-in scenario is told; a trusted curator's devices answer without noise."""
    from coordinator.server.rounds.setting import Setting  # noqa: PLC0415 (numerical, as all policies)

    return Setting(
        design=scenario.asking(),
        epsilon=asked_epsilon(scenario),
        public_seed=derive(scenario.seed, "public"),
        clusters=scenario.clusters or 2,
        confidence=scenario.confidence,
        answers_per_device=scenario.answers_per_device,
        pool_size=scenario.pool_size,
        assume_malicious=scenario.assume_malicious or 0.0,
    )


def policy_of(scenario: Scenario) -> Policy:
    """Return the server's policy of a filled-in scenario.

    Raises
    ------
    PolicyError
        If it is a user's own and cannot be imported or made.
    """
    setting = setting_of(scenario)
    if ":" not in scenario.policy:
        from coordinator.server.rounds.policies import PolicyOptions  # noqa: PLC0415 (numerical)

        options = PolicyOptions(devices=scenario.users or 0, rounds=scenario.rounds, verify=scenario.verify)
        return scenario.half.policy(scenario.policy, setting, options)
    try:
        policy = import_policy(scenario.policy)(setting)
    except PolicyError:
        raise
    except (Exception, SystemExit) as error:
        raise PolicyError(
            f"policy {scenario.policy} cannot be made: {type(error).__name__}: {error}; it is called with one "
            "blindrec.Setting before the first round"
        ) from error
    if not callable(getattr(policy, "next_query", None)):
        raise PolicyError(f"policy {scenario.policy} has no method next_query(state); see blindrec.Policy")
    return policy  # type: ignore[no-any-return] # looked at above


def import_policy(path: str) -> Callable[[Setting], Any]:
    """Return what ``package.module:Name`` names; see `scenarios.own.importing.found_at`."""
    found: Callable[[Setting], Any] = found_at(path, "policy")
    return found


def code_digest(policy: str) -> str:
    """Return the SHA-256 of the code that asks: this package's, and of a user's own policy what it is made of."""
    code = [*_our_code()]
    if ":" in policy:
        import_policy(policy)
        code += [text.encode() for _, text in sorted(modules_with(policy.partition(":")[0]).items())]
    return hashlib.sha256(b"".join(hashlib.sha256(one).digest() for one in code)).hexdigest()


@cache
def _our_code() -> tuple[bytes, ...]:
    """Return the text of this package's modules; a process goes on with what it has loaded, so they are read once."""
    specs = [importlib.util.find_spec(name) for name in PACKAGES]
    folders = [folder for spec in specs if spec for folder in spec.submodule_search_locations or ()]
    return tuple(path.read_bytes() for folder in folders for path in sorted(Path(folder).rglob("*.py")))


def packages_of_policy(policy: Policy) -> set[str]:
    """Return the packages that a user's own policy is made of: its module's, and those beside it that this imports."""
    module = type(policy).__module__
    return {name.partition(".")[0] for name in (module, *modules_with(module))} - OURS - {"__main__"}
