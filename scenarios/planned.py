"""A plan, and for a file of ratings what private advice takes among people like its own."""

from __future__ import annotations

import math
from typing import Any

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.compare.settings import Comparison
from scenarios.data.datasets import lines_skipped, read_for, tell_remarks
from scenarios.given.settings import validated
from scenarios.log import console
from scenarios.planner.asking import Asked, planned_for
from scenarios.planner.plan import DesignPlan


def planned(asked: Asked) -> tuple[DesignPlan, dict[str, Any]]:
    """Return the plan, and what `--json` prints of it: with a file also ``worth``, or ``worth_not`` and why not.

    Where users are told and no epsilon is, advice is forecast at several epsilons.
    """
    if asked.worth is not None and not 0 < asked.worth < math.inf:
        raise InputError(f"worth is {asked.worth:g}; it must be above 0, like 0.95 of what plain popularity is worth")
    made, result = planned_for(asked)
    if asked.ratings is None:
        return made, result
    from scenarios.compare.needs import SPLITS, WORTH, needs_or_why  # noqa: PLC0415 (other plans need not wait for it)

    names = ("ratings", "columns", "like_from", "duplicates", "bad_lines", "features")
    wanted = validated(Comparison, None, {"seeds": SPLITS, **{name: getattr(asked, name) for name in names}})
    several = asked.epsilon is None and asked.users is not None
    epsilons = () if several else (parse_epsilon(1 if asked.epsilon is None else asked.epsilon),)
    rows, why = needs_or_why(wanted, epsilons=epsilons, users=asked.users, worth=asked.worth or WORTH)
    table = read_for(asked).table
    tell_remarks(table, console())
    return made, {**result, **lines_skipped(asked, table), "remarks": table.remarks, "worth": rows, "worth_not": why}
