"""A plan for a block model, or of a file of ratings what lists are worth on each rung to people like its own."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rich.console import Console

from coordinator.protocol.errors import InputError
from coordinator.protocol.trust_models import LADDER
from scenarios.backends.session import Backend
from scenarios.config.settings import validated
from scenarios.data.datasets import RatingTable, lines_skipped, read_for, tell
from scenarios.data.rating_split import describe, judge_likes
from scenarios.data.side_tables import descriptions_of
from scenarios.log import console
from scenarios.show.tables import remark
from scenarios.studies.answer import Answer, show_answer
from scenarios.studies.planner.plan import DesignPlan
from scenarios.studies.planner.request import PlanRequest, check_request, learnable_of, planned_for

if TYPE_CHECKING:
    from scenarios.studies.study import Study

QUICK = (
    *("chance", "popularity", "popularity (Gaussian)", "pairs with EASE"),
    *("set", "set (few likes)", "MaxSense", "pairs"),
)
"""Rows that are measured here: of each rung those that lead it, none of which learns from everybody's ratings."""
WHOLE = ("item kNN", "SVD", "EASE")  # Those that do: the best list without privacy is one of them
_DATED = ("people_left_out", "items_unseen")
TARGET = {"worth": 0.95, "of": "popularity"}
Opening = Callable[[], AbstractContextManager[Backend]]


@dataclass(frozen=True, kw_only=True, eq=False)
class FileAnswer:
    """What lists are worth on each rung to people like a file's; or why nothing can be said."""

    study: Study[Any, Any] | None = None
    result: Mapping[str, Any] | None = None
    others: str = ""  # What was not measured, and the command that does
    why_not: str | None = None

    @property
    def words(self) -> str:
        """What to do at each epsilon, or why nothing can be said."""
        if self.result is None:
            return f"nothing can be said: {self.why_not}"
        return " ".join(at["advice"]["headline"] for at in self.result["answer"]["by_epsilon"])

    def record(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        if self.result is None:
            return {"answer": None, "answer_not": self.why_not, "rows": []}
        names = {"answer", "rows", "people", "level", "warnings", "splits", "held_out", "split_by", *_DATED}
        return {name: value for name, value in self.result.items() if name in names} | {"answer_not": None}

    def show(self, console: Console, *, details: bool) -> None:
        """Print the answer, and every row if that is asked for."""
        if self.study is None or self.result is None:
            remark(console, self.words)
            return
        remark(console, *self.result["about_answer"], *self.result["warnings"])
        more = f"All {len(self.result['rows'])} rows: --details. {self.others}"
        show_answer(console, Answer.model_validate(self.result["answer"]), more)
        if details and self.study.details is not None:
            self.study.details(console, self.result, "every row")


def planned(
    request: PlanRequest, opening: Opening, options: Mapping[str, Any] = MappingProxyType({})
) -> tuple[DesignPlan | FileAnswer, dict[str, Any]]:
    """Return the plan, or of a file, unless the block model of its shape is requested, an answer; and their JSON.

    ``options`` are what a study of block models is asked for beside the request.
    """
    if request.worth is not None and not 0 < request.worth < math.inf:
        raise InputError(f"worth is {request.worth:g}; it must be above 0, like 0.95 of what plain popularity is worth")
    check_request(request, options)
    if request.ratings is None:
        return planned_for(request)
    made, result = planned_for(request) if request.block_model else _of_file(request, opening)
    table = read_for(request)
    described = descriptions_of(request, table.item_labels)
    tell(remarks := [*table.remarks, *(described.remarks if described else ())], console())
    return made, {**result, **lines_skipped(request, table), "remarks": remarks}


def describe_file(
    values: Mapping[str, Any], opening: Opening, *, block_model: bool
) -> tuple[dict[str, Any], FileAnswer, dict[str, Any]]:
    """Return what is in a file of ratings, what lists are worth to people like its own, and all as JSON."""
    # other plans need not wait for them
    from scenarios.studies.compare.comparison_settings import Comparison  # noqa: PLC0415
    from scenarios.studies.compare.worlds import feature_remarks, split_remarks, table_of  # noqa: PLC0415

    flags = {name: value for name, value in values.items() if value is not None}
    settings = validated(Comparison, None, flags)
    table = table_of(settings)
    described = describe(table, settings.liked_from)
    answer = answer_of_file(flags, table, opening)
    record = {
        **described,
        **lines_skipped(settings, table),
        "remarks": [*table.remarks, *split_remarks(settings), *feature_remarks(settings)],
        **({"learnable": learnable_of(table, settings.liked_from)} if block_model else {}),
        **answer.record(),
    }
    return described, answer, record


def answer_of_file(values: Mapping[str, Any], table: RatingTable, opening: Opening) -> FileAnswer:
    """Return what a comparison says with the rows that take seconds; or why it says nothing."""
    from scenarios.studies.compare.comparison import comparison  # noqa: PLC0415 (as above)
    from scenarios.studies.compare.rungs import too_small, why_no_answer  # noqa: PLC0415
    from scenarios.studies.compare.worlds import world_of  # noqa: PLC0415
    from scenarios.studies.study import run_study  # noqa: PLC0415

    flags = {**TARGET, **values}
    rows = (*QUICK, *WHOLE) if flags["of"] == "best" else QUICK
    if why := too_small(table):
        return FileAnswer(why_not=why)
    study = comparison({"trust_models": LADDER, "mechanisms": rows, **flags}, risk=False)
    try:
        world_of(study.settings, study.settings.seed)
    except InputError as error:  # nobody has a like to hold out
        return FileAnswer(why_not=str(error))
    done = run_study(study, opening(), None, console())
    if done.result["answer"] is None:
        return FileAnswer(why_not=why_no_answer(study.settings, done.units, table))
    rest = "Volunteers" if flags["of"] == "best" else "Volunteers, and the best list without privacy"
    return FileAnswer(
        study=study, result={**done.result, "splits": study.settings.seeds}, others=f"{rest}: {_command(values)}"
    )


def _command(values: Mapping[str, Any]) -> str:
    """Return the command that compares the same file in full, for the same target."""
    from scenarios.studies.compare.comparison_settings import Comparison  # noqa: PLC0415 (as above)

    flags = (
        f"--{name.replace('_', '-')} {','.join(map(str, value)) if isinstance(value, tuple) else value}"
        for name, value in {**TARGET, **values}.items()
        if name != "ratings" and value != Comparison.model_fields[name].default
    )
    return shlex.join(["blindrec", "compare", Path(str(values["ratings"])).name]) + "".join(
        f" {flag}" for flag in flags
    )


def _of_file(request: PlanRequest, opening: Opening) -> tuple[FileAnswer, dict[str, Any]]:
    from scenarios.studies.compare.comparison_settings import Comparison  # noqa: PLC0415 (other plans need not wait)

    files = ("ratings", "columns", "like_from", "duplicates", "bad_lines", "unrated", "features", "feature_columns")
    values = {name: getattr(request, name) for name in (*files, "held_out", "split_by", "epsilon", "worth", "of")}
    values = {name: value for name, value in {**values, "people": request.users}.items() if value is not None}
    table, settings = read_for(request), validated(Comparison, None, values)
    likes = int(judge_likes(table, settings.liked_from).sum())
    made = answer_of_file(values, table, opening)
    counts = {"ratings": table.ratings, "likes": likes, "users": table.users, "items": table.count}
    return made, {**counts, **made.record()}
