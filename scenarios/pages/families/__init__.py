"""What each family of results says on a page, a module each kind of record."""

from __future__ import annotations

from collections.abc import Callable

from scenarios.pages.families.asking import told_of_audit, told_of_data, told_of_plan
from scenarios.pages.families.experiments import told_of_experiment
from scenarios.pages.families.measuring import told_of_comparison, told_of_sweep
from scenarios.pages.subject import Subject
from scenarios.pages.told import Told

FAMILIES: dict[str, Callable[[Subject], Told]] = {
    "run": told_of_experiment,
    "online": told_of_experiment,
    "two-tier": told_of_experiment,
    "sweep": told_of_sweep,
    "compare": told_of_comparison,
    "plan": told_of_plan,
    "data": told_of_data,
    "audit": told_of_audit,
}
"""By the command that a record is of."""
