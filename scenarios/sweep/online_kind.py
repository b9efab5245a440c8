"""What a sweep of online recommenders is told, by flags or a grid file, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, found, recommender_of, still_names
from scenarios.data.datasets import read_for, tell_remarks
from scenarios.given.files import file_sha256
from scenarios.given.validation import validated
from scenarios.given.values import names_of_columns
from scenarios.log import console
from scenarios.online.adversaries import halving_world
from scenarios.online.config import OnlineScenario
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.sweep.kind import Kind
from scenarios.sweep.online import OnlineSweep, RatingsSweep
from scenarios.sweep.online_axes import HALVING, OnlineSetting, parse_axes
from scenarios.sweep.online_ratings import RATINGS, RatingsGrid, check_file
from scenarios.sweep.online_settings import OnlineGrid, Point

SEEDS = 60
CLIENTS = 50
_STILL = ", ".join(still_names())
_HALVED = compared_in("theorem-6")
HELP = f"""Compare online recommenders: their loss and what they leak, beside the bounds; or on clients of a file.

Each panel of the figure is an axis; all else is as in --rounds, --objects, --voters, --peers, --diversity, --radius:

\b
  rounds          loss against T, all recommenders: the table
  ratio           loss against N/P, D = R = 0, the halving adversary of Theorem 6
  radius          loss against R, D = 0
  diversity       loss against D, with m = 3, R = 4, P = 8
  epsilon-rounds  epsilon against T; {_STILL} with D = R = 0
  epsilon-peers   epsilon against P at the same N/P; {_STILL} with D = R = 0

Worlds are random environments. Theorem 6's lower bound holds against its adversary, who halves the voters: on the
axes rounds and radius {", ".join(_HALVED[:-1])} and {_HALVED[-1]} meet that one, too, where N/P is a power of two.
Beside the loss stand the proved bound (L) and p-REC_sim's exact worst case; beside the exact privacy loss of runs
stand epsilon as proved, exactly for p-rec-sim (dynamic programme; an upper bound where T < N), and what it is at
least, by p-REC's own chain of adjacent voters.

Recommenders are chosen an axis each; --recommenders names those for all axes where they apply. A round costs about 25
microseconds: the default is 9,360 runs, about 5 minutes on 2 idle cores. Axes take values:

\b
  blindrec sweep online --out compared
  blindrec sweep online --seeds 20 --axes rounds=100,1000,radius=0,8,ratio --out some

With --ratings there are no axes: all recommenders serve the same clients of a ratings file. The table tells the loss,
in numbers and as a share of the rounds, with intervals over clients, and its difference to random recommendations (as
expected, exactly) and to plurality, client by client; what P, D and R were measured; and the epsilon it takes.

\b
  blindrec sweep online --ratings ratings.csv --clients 50 --out served

Every finished run is kept in the folder at once: Ctrl-C loses only what is under way, and the same command goes on;
with more --seeds, --axes or --recommenders it goes on, too. The same seeds give the same numbers on every backend. At
the end the folder holds result.json, units.parquet (every run), table.csv, figure.png with figure.csv (every point in
it, bounds included) and versions.json.
"""


class Told(BaseModel):
    """What is told beside the keys of an online scenario."""

    model_config = ConfigDict(frozen=True)

    axes: Any = Field(None, description="Some of them, by ',', with values after '=' [all].")
    recommenders: Any = Field(None, description="Some of them, by ',' [each axis' own].")
    seeds: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Runs of every recommender and setting [60; of a file: 1]."
    )
    clients: int | None = Field(None, description="Clients of the file, drawn anew for every seed [50].")


_PLANTED: tuple[str, ...] = ("voters", "peers", "diversity", "radius", "axes")
_OF_FILE: tuple[str, ...] = ("clients", "columns", "duplicates", "bad_lines", "like_from")
_SCENARIO: tuple[str, ...] = (
    "rounds",
    "objects",
    "voters",
    "peers",
    "diversity",
    "radius",
    "ratings",
    "columns",
    "duplicates",
    "bad_lines",
    "like_from",
)


def read(values: Mapping[str, Any]) -> OnlineSweep | RatingsSweep:
    """Check a sweep over planted worlds, or on clients of a file."""
    ratings = values.get("ratings")
    wrong, why = _OF_FILE, "ratings files; give --ratings too"
    if ratings is not None:
        wrong, why = _PLANTED, f"planted worlds, and {ratings} brings its own; leave it out"
    for name in wrong:
        if values.get(name) is not None:
            raise InputError(f"{name} is {values[name]!r}, which is about {why}")
    told = validated(Told, None, {name: values.get(name) for name in Told.model_fields})
    return _planted(values, told) if ratings is None else _of_file(Path(ratings), values, told)


def _planted(values: Mapping[str, Any], told: Told) -> OnlineSweep:
    base = validated(OnlineScenario, None, {name: values.get(name) for name in OnlineSetting._fields[:-1]})
    wanted = OnlineGrid(
        base=OnlineSetting(*(getattr(base, name) for name in OnlineSetting._fields[:-1])),
        axes=parse_axes(told.axes),
        recommenders=recommenders_of(told.recommenders, tuple(found())),
        seeds=told.seeds or SEEDS,
    )
    check_grid(wanted)
    return OnlineSweep(wanted)


def _of_file(ratings: Path, values: Mapping[str, Any], told: Told) -> RatingsSweep:
    wanted = RatingsGrid(
        ratings=ratings.absolute(),  # tasks of Ray run in another directory
        sha256=file_sha256(ratings, "ratings file"),
        columns=names_of_columns(values.get("columns")),
        duplicates=values.get("duplicates"),
        bad_lines=values.get("bad_lines") or "refuse",
        like_from=values.get("like_from"),
        clients=CLIENTS if told.clients is None else told.clients,
        rounds=values.get("rounds"),
        objects=2 if values.get("objects") is None else values["objects"],
        recommenders=recommenders_of(told.recommenders, compared_in(RATINGS)),
        seeds=told.seeds or 1,
    )
    tell_remarks(read_for(wanted).table, console())
    check_file(wanted)
    return RatingsSweep(wanted)


def check_grid(wanted: OnlineGrid) -> None:
    """Refuse what cannot be run, before anything runs.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    for recommender in wanted.recommenders or ():
        if recommender not in {point.recommender for point in wanted.points}:
            named = recommender_of(recommender)
            why = "" if named.promised else "needs D = R = 0"
            why = "has two objects only" if named.sharp else why
            raise InputError(
                f"recommender {recommender} applies on none of the axes {', '.join(wanted.axes)}"
                f"{f': it {why}' if why else ''}; leave it out, or add an axis"
            )
    for axis in wanted.axes:
        if axis not in {point.axis for point in wanted.points}:
            raise InputError(f"axis {axis} has none of the recommenders; leave it out, or add one of its own")
    for point in wanted.points:
        try:
            _check_point(point)
        except InputError as error:
            raise InputError(f"axis {point.axis} at {point.x}: {error}") from None


def _check_point(point: Point) -> None:
    scenario = point.scenario(0)
    if point.setting.environment == HALVING:
        halving_world(scenario)
    epsilon_proved(point.recommender, **point.setting.shape())


def recommenders_of(told: str | Sequence[str] | None, known: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return recommenders in their own order; None for None.

    Raises
    ------
    InputError
        If there is no such recommender here.
    """
    if told is None:
        return None
    names = [part.strip() for part in (told.split(",") if isinstance(told, str) else told)]
    for name in names:
        if name not in known:
            raise InputError(f"recommender is {name!r}; choose among {', '.join(known)}")
    return tuple(name for name in found() if name in names)


ONLINE = Kind(
    name="online",
    help=HELP,
    fields={**Told.model_fields, **{name: OnlineScenario.model_fields[name] for name in _SCENARIO}},
    read=read,
)
