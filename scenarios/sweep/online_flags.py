"""From the flags of `blindrec sweep online` to a checked sweep: over planted worlds, or on clients of a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, found
from scenarios.given import file_sha256, three_columns
from scenarios.online.config import OnlineScenario
from scenarios.sweep import (
    online_figure,
    online_ratings,
    online_ratings_figure,
    online_ratings_summary,
    online_summary,
    online_tables,
    online_units,
)
from scenarios.sweep.online_axes import OnlineSetting, parse_axes
from scenarios.sweep.online_checks import check_sweep, recommenders_of
from scenarios.sweep.online_ratings import RATINGS, RatingsSweep, check_ratings_sweep
from scenarios.sweep.online_settings import OnlineSweep
from scenarios.validation import validated

SEEDS = 60
CLIENTS = 50


@dataclass(frozen=True, kw_only=True)
class CheckedSweep:
    """A checked sweep, and what is done with it."""

    wanted: OnlineSweep | RatingsSweep
    run: Callable[..., Any]
    units_table: Callable[..., Any]
    summarize: Callable[..., dict[str, Any]]
    rows_table: Callable[..., Any]
    draw: Callable[..., Any]
    show: Callable[..., None]


def sweep_of(
    ratings: Path | None, *, planted: Mapping[str, Any], of_file: Mapping[str, Any], shared: Mapping[str, Any]
) -> CheckedSweep:
    """Return the sweep that flags ask for, checked; None stands for what was not said.

    Parameters
    ----------
    ratings : Path or None
        A file of ratings.
    planted : dict
        Flags that are about planted worlds: voters, peers, diversity, radius, axes.
    of_file : dict
        Flags that are about a file: clients, columns, like_from.
    shared : dict
        recommenders, seeds, rounds, objects.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    wrong, why = of_file, "ratings files; give --ratings too"
    if ratings is not None:
        wrong, why = planted, f"planted worlds, and {ratings} brings its own; leave it out"
    for name, value in wrong.items():
        if value is not None:
            raise InputError(f"{name} is {value!r}, which is about {why}")
    return _planted(planted, shared) if ratings is None else _of_file(ratings, of_file, shared)


def _planted(planted: Mapping[str, Any], shared: Mapping[str, Any]) -> CheckedSweep:
    named = {name: value for name, value in {**planted, **shared}.items() if name in OnlineSetting._fields}
    base = validated(OnlineScenario, None, named)
    wanted = OnlineSweep(
        base=OnlineSetting(**{name: getattr(base, name) for name in OnlineSetting._fields if name != "environment"}),
        axes=parse_axes(planted["axes"]),
        recommenders=recommenders_of(shared["recommenders"], tuple(found())),
        seeds=SEEDS if shared["seeds"] is None else shared["seeds"],
    )
    check_sweep(wanted)
    return CheckedSweep(
        wanted=wanted,
        run=online_units.run_sweep,
        units_table=online_units.units_table,
        summarize=online_summary.summarize,
        rows_table=online_tables.rows_table,
        draw=online_figure.draw,
        show=online_tables.show,
    )


def _of_file(ratings: Path, of_file: Mapping[str, Any], shared: Mapping[str, Any]) -> CheckedSweep:
    wanted = RatingsSweep(
        ratings=ratings.absolute(),  # tasks of Ray run in another directory
        sha256=file_sha256(ratings, "ratings file"),
        columns=three_columns(of_file["columns"]),
        like_from=of_file["like_from"],
        clients=CLIENTS if of_file["clients"] is None else of_file["clients"],
        rounds=shared["rounds"],
        objects=2 if shared["objects"] is None else shared["objects"],
        recommenders=recommenders_of(shared["recommenders"], compared_in(RATINGS)),
        seeds=1 if shared["seeds"] is None else shared["seeds"],
    )
    check_ratings_sweep(wanted)
    return CheckedSweep(
        wanted=wanted,
        run=online_ratings.run_sweep,
        units_table=online_ratings.units_table,
        summarize=online_ratings_summary.summarize,
        rows_table=online_ratings_summary.rows_table,
        draw=online_ratings_figure.draw,
        show=online_ratings_figure.show,
    )
