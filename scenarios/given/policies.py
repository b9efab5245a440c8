"""A user's own policies by import path, and the code that a policy is made of."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenarios import PACKAGES
from scenarios.own.identity import OURS, modules_of
from scenarios.own.importing import import_object

if TYPE_CHECKING:
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Policy


def import_policy(path: str) -> Callable[[Setting], Any]:
    """Return what ``package.module:Name`` names; see `scenarios.own.importing.import_object`."""
    policy: Callable[[Setting], Any] = import_object(path, "policy")
    return policy


def code_digest(policy: str) -> str:
    """Return the SHA-256 of the code that asks: this package's, and of a user's own policy what it is made of."""
    code = [*_our_code()]
    if ":" in policy:
        import_policy(policy)
        code += [text.encode() for _, text in sorted(modules_of([policy.partition(":")[0]]).items())]
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
    return {name.partition(".")[0] for name in (module, *modules_of([module]))} - OURS - {"__main__"}
