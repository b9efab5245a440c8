"""The public face of blindrec: what a script or a notebook imports; ``docs/reference/api.md`` has an example of each.

Names are loaded where they are first used, so that ``import blindrec`` loads nothing but this file and what it checks
below. Whatever is not named here is private and may change with any version.
"""

from __future__ import annotations

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from blindrec import errors as errors
    from coordinator.protocol.channels import Likelihood as Likelihood
    from coordinator.protocol.channels import independent_bits as independent_bits
    from coordinator.protocol.channels import matrix_channel as matrix_channel
    from coordinator.protocol.custom import (
        Catalogue,
        CoinsBlock,
        Mechanism,
        Question,
        RatingsBlock,
        SharedVector,
        Tally,
    )
    from coordinator.protocol.schedule import Horizon, Panel, Schedule
    from coordinator.server.rounds.setting import Setting
    from coordinator.server.rounds.state import Ask, Policy, ServerState
    from scenarios.backends.selection import InProcess, Ray
    from scenarios.config.scenario import Scenario
    from scenarios.families.online.online_scenario import OnlineScenario
    from scenarios.families.two_tier.two_tier_scenario import TwoTierScenario
    from scenarios.from_python import (
        DataResult,
        PlanResult,
        Result,
        RunResult,
        SweepResult,
        compare,
        data,
        plan,
        report,
        risk,
        run,
        sweep,
        years,
    )
    from scenarios.studies.scrutiny.audit import audit
    from scenarios.studies.scrutiny.composing import Composition, composed
    from scenarios.studies.scrutiny.shuffled_checks import check
    from scenarios.studies.scrutiny.shuffling import Amplification, amplified, local_epsilon
    from scenarios.studies.scrutiny.verdicts import Audit, Conformance


NEIGHBOURS = ("actors", "coordinator", "scenarios")
"""Blindrec's own packages; distributions with each of these names exist on PyPI."""
MARK = 'PART_OF = "blindrec"'  # The line that the ``__init__.py`` of each of them holds


def foreign(home: Path) -> str | None:
    """Return in one line which package is missing or another project's, and what to do; None where all are ours."""
    # A package is ours if its first file says so, wherever Ray, an editable install or a zip puts it; a foreign wheel
    # that was installed over ours left its own. Where no source can be read, the place beside ``home`` decides.
    for name in NEIGHBOURS:
        spec = _spec(name)
        if spec is None or not _is_ours(spec, home / name):
            where = "is not there" if spec is None else f"in {_location_of(spec)} is another project's package"
            return (
                f"{name} {where}, blindrec needs its own; pip uninstall {name}, then pip install --force-reinstall "
                "blindrec, or give blindrec an environment of its own"
            )
    return None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a module of this name was made by hand
        return ModuleSpec(name, None, origin="this process")


def _is_ours(spec: ModuleSpec, expected: Path) -> bool:
    source = getattr(spec.loader, "get_source", lambda _: None)(spec.name)
    return MARK in source.splitlines() if source is not None else Path(_location_of(spec)) == expected


def _location_of(spec: ModuleSpec) -> str:
    """Return the folder of a package, the file of a module."""
    return next(iter(spec.submodule_search_locations or ()), None) or str(spec.origin)


__version__ = "0.1.0"

__all__ = [
    "Amplification",
    "Ask",
    "Audit",
    "Catalogue",
    "CoinsBlock",
    "Composition",
    "Conformance",
    "DataResult",
    "Horizon",
    "InProcess",
    "Likelihood",
    "Mechanism",
    "OnlineScenario",
    "Panel",
    "PlanResult",
    "Policy",
    "Question",
    "RatingsBlock",
    "Ray",
    "Result",
    "RunResult",
    "Scenario",
    "Schedule",
    "ServerState",
    "Setting",
    "SharedVector",
    "SweepResult",
    "Tally",
    "TwoTierScenario",
    "__version__",
    "amplified",
    "audit",
    "check",
    "compare",
    "composed",
    "data",
    "errors",
    "independent_bits",
    "local_epsilon",
    "matrix_channel",
    "plan",
    "report",
    "risk",
    "run",
    "sweep",
    "years",
]

_HOMES = {
    "coordinator.protocol.channels": ("Likelihood", "independent_bits", "matrix_channel"),
    "coordinator.protocol.custom": (
        "Catalogue",
        "CoinsBlock",
        "Mechanism",
        "Question",
        "RatingsBlock",
        "SharedVector",
        "Tally",
    ),
    "coordinator.protocol.schedule": ("Horizon", "Panel", "Schedule"),
    "coordinator.server.rounds.setting": ("Setting",),
    "coordinator.server.rounds.state": ("Ask", "Policy", "ServerState"),
    "scenarios.backends.selection": ("InProcess", "Ray"),
    "scenarios.config.scenario": ("Scenario",),
    "scenarios.families.online.online_scenario": ("OnlineScenario",),
    "scenarios.families.two_tier.two_tier_scenario": ("TwoTierScenario",),
    "scenarios.studies.scrutiny.audit": ("audit",),
    "scenarios.studies.scrutiny.shuffled_checks": ("check",),
    "scenarios.studies.scrutiny.composing": ("Composition", "composed"),
    "scenarios.studies.scrutiny.shuffling": ("Amplification", "amplified", "local_epsilon"),
    "scenarios.studies.scrutiny.verdicts": ("Audit", "Conformance"),
    "scenarios.from_python": (
        "DataResult",
        "PlanResult",
        "Result",
        "RunResult",
        "SweepResult",
        "compare",
        "data",
        "plan",
        "report",
        "risk",
        "run",
        "sweep",
        "years",
    ),
}
"""The names that each module holds."""

if line := foreign(Path(__file__).parents[1]):
    if Path(sys.argv[0] if sys.argv else "").stem == "blindrec":  # who typed the command needs no trace
        sys.exit(f"blindrec: {line}")
    raise ImportError(line, name=__name__)  # named, so that `python -m blindrec` says it in a line, too


if not TYPE_CHECKING:  # else type checkers would take any name for a public one

    def __getattr__(name: str) -> Any:
        """Load a public name where it is first used."""
        if name == "errors":
            return importlib.import_module("blindrec.errors")
        for home, names in _HOMES.items():
            if name in names:
                found = globals()[name] = getattr(importlib.import_module(home), name)
                return found
        raise AttributeError(f"blindrec has no public name {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return list(__all__)
