"""A plan, and for a file of ratings what private advice takes among people like its own."""

import math
from typing import Any

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped, read_for, tell_remarks
from scenarios.log import console
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.planner.plan import DesignPlan
from scenarios.studies.planner.request import PlanRequest, planned_for


def planned(request: PlanRequest) -> tuple[DesignPlan, dict[str, Any]]:
    """Return the plan, and what `--json` prints of it: with a file also ``worth``, or ``worth_not`` and why not."""
    if request.worth is not None and not 0 < request.worth < math.inf:
        raise InputError(f"worth is {request.worth:g}; it must be above 0, like 0.95 of what plain popularity is worth")
    made, result = planned_for(request)
    if request.ratings is None:
        return made, result
    from scenarios.studies.compare.people_needed import SPLITS, WORTH, needs_or_why, popularity_of  # noqa: PLC0415 (other plans need not wait for it)

    names = ("ratings", "columns", "like_from", "duplicates", "bad_lines", "features", "held_out", "split_by")
    settings = validated(Comparison, None, {"seeds": SPLITS, **{name: getattr(request, name) for name in names}})
    several = request.epsilon is None and request.users is not None
    epsilons = () if several else (parse_epsilon(1 if request.epsilon is None else request.epsilon),)
    rows, why = needs_or_why(settings, epsilons=epsilons, users=request.users, worth=request.worth or WORTH)
    table = read_for(request)
    tell_remarks(table, console())
    return made, {
        **result,
        **(popularity_of(settings) if rows else {}),
        **lines_skipped(request, table),
        "remarks": table.remarks,
        "worth": rows,
        "worth_not": why,
    }
