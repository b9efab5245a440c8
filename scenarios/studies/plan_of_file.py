"""A plan for a block model, or for a file of ratings what private advice takes among people like its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from coordinator.protocol.budget import parse_epsilon
from coordinator.protocol.errors import InputError
from scenarios.config.settings import validated
from scenarios.data.datasets import lines_skipped, read_for, tell
from scenarios.data.rating_split import describe, judge_likes
from scenarios.data.side_tables import descriptions_of
from scenarios.log import console
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.planner.plan import DesignPlan
from scenarios.studies.planner.request import PlanRequest, check_request, learnable_of, planned_for

if TYPE_CHECKING:
    from scenarios.studies.compare.people_needed import FileForecast


def planned(
    request: PlanRequest, options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DesignPlan | FileForecast, dict[str, Any]]:
    """Return the plan, or of a file, unless the block model of its shape is requested, a forecast; and their JSON.

    ``options`` are what a study of block models is asked for beside the request.
    """
    if request.worth is not None and not 0 < request.worth < math.inf:
        raise InputError(f"worth is {request.worth:g}; it must be above 0, like 0.95 of what plain popularity is worth")
    check_request(request, options)
    made, result = planned_for(request) if request.ratings is None or request.block_model else _forecast(request)
    if request.ratings is None:
        return made, result
    table = read_for(request)
    described = descriptions_of(request, table.item_labels)
    tell(remarks := [*table.remarks, *(described.remarks if described else ())], console())
    return made, {**result, **lines_skipped(request, table), "remarks": remarks}


def describe_file(
    values: Mapping[str, Any], *, block_model: bool
) -> tuple[dict[str, Any], FileForecast, dict[str, Any]]:
    """Return what is in a file of ratings, what private advice takes among people like its own, and all as JSON."""
    # other plans need not wait for them
    from scenarios.studies.compare.people_needed import SPLITS, forecast_of  # noqa: PLC0415
    from scenarios.studies.compare.worlds import feature_remarks, split_remarks, table_of  # noqa: PLC0415

    settings = validated(Comparison, None, {"seeds": SPLITS, **values})
    table = table_of(settings)
    described = describe(table, settings.liked_from)
    forecast = forecast_of(settings)
    record = {
        **described,
        **lines_skipped(settings, table),
        "remarks": [*table.remarks, *split_remarks(settings), *feature_remarks(settings)],
        **({"learnable": learnable_of(table, settings.liked_from)} if block_model else {}),
        **forecast.record(),
    }
    return described, forecast, record


def _forecast(request: PlanRequest) -> tuple[FileForecast, dict[str, Any]]:
    from scenarios.studies.compare.people_needed import SPLITS, WORTH, forecast_of  # noqa: PLC0415 (other plans need not wait for it)

    files = ("ratings", "columns", "like_from", "duplicates", "bad_lines", "unrated", "features", "feature_columns")
    names = (*files, "held_out", "split_by")
    settings = validated(Comparison, None, {"seeds": SPLITS, **{name: getattr(request, name) for name in names}})
    several = request.epsilon is None and request.users is not None
    epsilons = () if several else (parse_epsilon(1 if request.epsilon is None else request.epsilon),)
    table = read_for(request)
    likes = int(judge_likes(table, settings.liked_from).sum())
    made = forecast_of(settings, epsilons=epsilons, users=request.users, share=request.worth or WORTH)
    counts = {"ratings": table.ratings, "likes": likes, "users": table.users, "items": table.count}
    return made, {**counts, **made.record()}
