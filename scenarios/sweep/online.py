"""The sweeps of online recommenders: along axes over planted worlds, or on clients of a file."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, named_recommenders, recommender_of, still_names
from scenarios.data.datasets import lines_skipped, read_for, tell_remarks
from scenarios.given.files import file_sha256
from scenarios.given.settings import BadLines, Duplicates
from scenarios.given.validation import validated
from scenarios.given.values import names_of_columns
from scenarios.log import console
from scenarios.online.adversaries import halving_world
from scenarios.online.config import REFERENCE, OnlineScenario
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.online.results import client_record
from scenarios.online.run import build_world, proved, run_online
from scenarios.online.worlds import World
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.report.intervals import CONFIDENCE, mean_interval, named, standard_error
from scenarios.report.tables import interval_of, number, percent, remark, show_table
from scenarios.sweep.kinds import Kind, Sweep
from scenarios.sweep.online_planted import (
    AXES,
    HALVING,
    OnlineGrid,
    OnlineSetting,
    PlantedKey,
    PlantedMeasurement,
    PlantedUnit,
    Point,
    json_number,
    measure_planted,
    parse_axes,
    points_table,
    rows_table,
    same,
    summarize_planted,
)

RATINGS = "ratings"
"""What recommenders that are compared on ratings files say in `NamedRecommender.compared`."""
KEPT = ["client", "rounds", "voters", "peers", "diversity", "radius", "skipped", "loss", "loss_random", "loss_bound"]
KEPT += ["epsilon_proved", "privacy_loss_of_run", "privacy_loss_of_peers", "peers_alive", "peers_kicked"]


@dataclass(frozen=True, kw_only=True)
class RatingsGrid:
    """A sweep on clients of a ratings file."""

    ratings: Path  # As in `scenarios.online.config.OnlineScenario`
    sha256: str  # Of the file: it is known by its content, not by its name
    columns: tuple[str, ...] | None
    duplicates: Duplicates | None = None
    bad_lines: BadLines = "refuse"
    like_from: float | None
    clients: int
    rounds: int | None
    objects: int
    recommenders: tuple[str, ...] | None  # None: all that apply
    seeds: int  # Each draws its own clients

    @property
    def names(self) -> tuple[str, ...]:
        """The recommenders that are compared."""
        return self.recommenders or tuple(
            name for name in compared_in(RATINGS) if not recommender_of(name).sharp or self.objects == 2
        )

    def scenario(self, recommender: str, seed: int) -> OnlineScenario:
        """Return what is run."""
        names = ("ratings", "columns", "duplicates", "bad_lines", "like_from", "clients", "rounds", "objects")
        shared = {name: getattr(self, name) for name in names}
        return validated(OnlineScenario, None, {"recommender": recommender, "seed": seed, **shared})

    def content(self) -> dict[str, Any]:
        """Return what every unit depends on, as JSON values."""
        shared = {
            name: getattr(self, name)
            for name in ("like_from", "duplicates", "bad_lines", "clients", "rounds", "objects")
        }
        columns = None if self.columns is None else list(self.columns)
        return {"sweep": "online ratings", "ratings_sha256": self.sha256, "columns": columns, **shared}


class ClientsKey(NamedTuple):
    """A unit's name."""

    recommender: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsMeasurement:
    """What one recommender found with all clients: a row each, with the columns `KEPT`."""

    clients: tuple[dict[str, Any], ...]
    seconds: float


def check_file(wanted: RatingsGrid) -> None:
    """Refuse what cannot be run, before anything runs; the first seed's clients are drawn for that."""
    for recommender in wanted.names:
        scenario = wanted.scenario(recommender, 0)
        for client in world_of(scenario.model_copy(update={"recommender": REFERENCE})).clients:
            proved(scenario, client, recommender)


@functools.lru_cache(maxsize=1)
def world_of(scenario: OnlineScenario) -> World:
    """Return a scenario's world; the last one is kept, since all recommenders serve the same clients."""
    return build_world(scenario)


def measure_clients(scenario: OnlineScenario) -> ClientsMeasurement:
    """Measure one unit, in this process."""
    begin = time.perf_counter()
    world = world_of(scenario.model_copy(update={"recommender": REFERENCE}))
    run = run_online(scenario, InProcess(1), world=world, over=lambda _: stop_if_abandoned())
    rows = [client_record(run, client) for client in run.clients]
    kept = tuple({name: row[name] for name in KEPT} for row in rows)
    return ClientsMeasurement(clients=kept, seconds=time.perf_counter() - begin)


def clients_table(units: Mapping[ClientsKey, ClientsMeasurement]) -> pd.DataFrame:
    """Return every client of every unit, one row each; NaN: not computed or not proved."""
    table = pd.DataFrame([{**key._asdict(), **row} for key, one in units.items() for row in one.clients])
    return table.astype(
        dict.fromkeys(("loss_bound", "epsilon_proved", "privacy_loss_of_run", "privacy_loss_of_peers"), float)
    )


WORLD = ("rounds", "skipped", "voters", "peers", "diversity", "radius", "loss_random", "radius_share", "random_share")
"""What is measured of each client."""
BESIDE = "plurality"
"""Whose loss is set beside every other's, client by client: ``to_plurality`` is a key of the result."""
_SIZES = {
    "epsilon": "epsilon_proved",
    "privacy_loss": "privacy_loss_of_run",
    "privacy_loss_any": "privacy_loss_of_peers",
}


def summarize_clients(wanted: RatingsGrid, units: Mapping[ClientsKey, ClientsMeasurement]) -> dict[str, Any]:
    """Return what `--json` prints.

    A client that several seeds drew counts once, with its means: intervals are Student's, over clients. ``share`` is
    the loss as a share of the client's rounds. ``to_random`` and ``to_plurality`` are paired differences, client by
    client: below 0 is better. Random recommendations' loss is the exact expectation, not a run's. ``epsilon`` is what
    is proved, with its ``_mean``, ``_least``, ``_median`` and ``_most`` over clients, ``privacy_loss``
    what the runs leaked of voters that are no peers where there are no more than P, ``privacy_loss_any`` of any voter.
    """
    table = clients_table(units)
    table["share"] = table["loss"] / table["rounds"]
    table["random_share"] = table["loss_random"] / table["rounds"]
    table["radius_share"] = table["radius"] / table["rounds"]
    means = table.groupby(["recommender", "client"], sort=False).mean(numeric_only=True)
    first = means.loc[wanted.names[0]]
    world = {name: _spread(first[name]) for name in WORLD}
    rows = [_row(name, means, table[table["recommender"] == name]) for name in wanted.names]
    asked = {"seeds": wanted.seeds, "interval": CONFIDENCE, "distinct_clients": len(first)}
    return {**wanted.content(), **asked, "world": world, "recommenders": rows}


def _spread(values: pd.Series[float]) -> dict[str, float]:
    some = {"mean": values.mean(), "least": values.min(), "median": values.median(), "most": values.max()}
    return {which: float(value) for which, value in some.items()}


def _row(name: str, means: pd.DataFrame, every: pd.DataFrame) -> dict[str, Any]:
    mine = means.loc[name]
    row: dict[str, Any] = {"recommender": name, "clients": len(mine), "services": len(every)}
    row |= {**_interval("loss", mine["loss"]), "loss_se": standard_error(list(mine["loss"]))}
    row |= _interval("share", mine["share"])
    row |= _interval("to_random", mine["loss"] - mine["loss_random"])
    row |= _interval("to_random_share", mine["share"] - mine["random_share"])
    if BESIDE in means.index.get_level_values("recommender"):
        other = means.loc[BESIDE]
        row |= _interval("to_plurality", mine["loss"] - other["loss"])
        row |= _interval("to_plurality_share", mine["share"] - other["share"])
    row["loss_bound"] = json_number(float(mine["loss_bound"].mean(skipna=False)))
    for shown, column in _SIZES.items():
        row |= {f"{shown}_{which}": value for which, value in _sizes(every[column]).items()}
    return {**row, "peers_alive": float(mine["peers_alive"].mean()), "peers_kicked": int(every["peers_kicked"].sum())}


def _interval(name: str, values: pd.Series[float]) -> dict[str, float | None]:
    return named(mean_interval(list(values)), name)


def _sizes(values: pd.Series[float]) -> dict[str, float | str | None]:
    """Return mean, least, median and most; all None where it is not known of every service."""
    found = values.to_numpy(np.float64)
    if np.isnan(found).any():
        return dict.fromkeys(("mean", "least", "median", "most"))
    some = {"mean": found.mean(), "least": found.min(), "median": np.median(found), "most": found.max()}
    return {which: json_number(float(value)) for which, value in some.items()}


def clients_and_rows(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return all recommenders, one row each, and in every row what was measured of the clients; NaN: not known."""
    spread = {f"{name}_{which}": value for name, found in summary["world"].items() for which, value in found.items()}
    return rows_table([{**row, **spread} for row in summary["recommenders"]])


Row = Mapping[str, Any]
_COLUMNS: tuple[str, ...] = ("loss", "s.e.", "95 %", "bound (L)", "Thm 6", "epsilon", "exact", "at least")
_COLUMNS += ("leaks", "most", "peers alive", "kicked")
_REMARKS = (
    "bound (L): proved for any world; Thm 6: no algorithm expects less against Theorem 6's adversary (rows with *)",
    "epsilon: proved; exact: worst case of p-rec-sim by dynamic programme, <= where T < N: an upper bound",
    "at least: what epsilon is at least, by a chain of adjacent voters",
    "leaks: exact privacy loss of a run, mean and largest over seeds [nats]; kicked: peers, all seeds together",
)


def show(console: Console, summary: Row, title: str) -> None:
    """Print a table an axis: the loss of every recommender beside its bounds, and what it leaks."""
    remark(console, f"{title}: means over {summary['seeds']} seeds")
    for axis in summary["axes"]:
        rows = [row for row in summary["points"] if row["axis"] == axis]
        cells: list[list[str] | None] = []
        for place, row in enumerate(rows):
            if place and row["x"] != rows[place - 1]["x"]:
                cells.append(None)
            against = " *" if row["environment"] != rows[0]["environment"] else ""
            cells.append([f"{row['x']:,}", row["recommender"] + against, *_cells(row)])
        columns = [AXES[axis].label.rpartition(" ")[2], "recommender", *_COLUMNS]
        title = f"{axis}: {same(axis, rows)}"
        show_table(console, columns, cells, title=title, words=("recommender",), names=2)
    remark(console, *_REMARKS)


def _cells(row: Row) -> list[str]:
    before = [number(row["loss"]), number(row["loss_se"]), interval_of(row, "loss")]
    bounds = [number(row[name]) for name in ("loss_bound", "loss_lower_bound", "epsilon_proved")]
    exact = number(row["epsilon_exact"]) + (" <=" if row["exact_is_bound"] else "")
    leaks = [number(row[name]) for name in ("epsilon_lower", "privacy_loss", "privacy_loss_most", "peers_alive")]
    return [*before, *bounds, exact, *leaks, str(row["peers_kicked"])]


_WORLD = {
    "rounds": "rounds T", "skipped": "rounds skipped", "voters": "voters N", "peers": "peers P",
    "diversity": "diversity D", "radius": "radius R", "radius_share": "R / T",
    "random_share": "random's loss / T",
}  # fmt: skip
_SPREAD = ("mean", "least", "median", "most")
_LOSSES: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "loss": ("loss", number),
    "share": ("share", percent),
    "less random": ("to_random_share", percent),
    "less plurality": ("to_plurality_share", percent),
}
_SIZE_COLUMNS = {
    "bound (L)": "loss_bound",
    "epsilon": "epsilon_median",
    "least": "epsilon_least",
    "most": "epsilon_most",
    "run leaks": "privacy_loss_any_median",
    "most leaked": "privacy_loss_any_most",
}
_FILE_REMARKS = (
    "share: of the rounds; less random, less plurality: differences of shares, client by client, below 0 is better",
    "random's loss is its expectation where others are compared with it",
    "bound (L): mean over clients; epsilon: proved; run leaks: exact loss of any voter in a run; medians [nats]",
)


def show_clients(console: Console, summary: Row, title: str) -> None:
    """Print what was measured of the clients, and every recommender beside random and plurality."""
    seeds = summary["seeds"]
    remark(console, f"{title}: {summary['distinct_clients']} clients, {seeds} seed{'s' if seeds > 1 else ''}")
    first = "measured of clients"
    world = [[label, *(number(summary["world"][name][one]) for one in _SPREAD)] for name, label in _WORLD.items()]
    show_table(console, [first, *_SPREAD], world, words=(first,))
    losses = [heading for name in _LOSSES for heading in (name, "95 %")]
    rows = [
        [row["recommender"]]
        + [told for name, how in _LOSSES.values() for told in (how(row.get(name)), interval_of(row, name, write=how))]
        for row in summary["recommenders"]
    ]
    show_table(console, ["recommender", *losses], rows, words=("recommender",))
    rows = [
        [row["recommender"], *(number(row[name]) for name in _SIZE_COLUMNS.values()), str(row["peers_kicked"])]
        for row in summary["recommenders"]
    ]
    show_table(console, ["recommender", *_SIZE_COLUMNS, "kicked"], rows, words=("recommender",))
    remark(console, *_FILE_REMARKS)


@dataclass(frozen=True, slots=True)
class OnlineSweep(Sweep[PlantedKey, PlantedUnit, PlantedMeasurement]):
    """Recommenders over planted worlds."""

    wanted: OnlineGrid
    key, found, measure = PlantedKey, PlantedMeasurement, staticmethod(measure_planted)
    rows, show = staticmethod(points_table), staticmethod(show)

    def units(self, done: Mapping[PlantedKey, PlantedMeasurement]) -> dict[PlantedKey, PlantedUnit]:
        """Return every unit once, seed by seed, so that an unfinished sweep tells something of all settings."""
        return {
            PlantedKey(point.recommender, *point.setting, seed): PlantedUnit(
                point.scenario(seed), point.setting.environment
            )
            for seed in range(self.wanted.seeds)
            for point in self.wanted.points
        }

    def result(self, units: Mapping[PlantedKey, PlantedMeasurement]) -> dict[str, Any]:
        """Return loss and privacy loss at every point, beside their bounds; see `summarize_planted`."""
        return summarize_planted(self.wanted, units)


@dataclass(frozen=True, slots=True)
class RatingsSweep(Sweep[ClientsKey, OnlineScenario, ClientsMeasurement]):
    """Recommenders on clients of a file."""

    wanted: RatingsGrid
    key, found, measure = ClientsKey, ClientsMeasurement, staticmethod(measure_clients)
    table, rows, show = staticmethod(clients_table), staticmethod(clients_and_rows), staticmethod(show_clients)

    def units(self, done: Mapping[ClientsKey, ClientsMeasurement]) -> dict[ClientsKey, OnlineScenario]:
        """Return a unit a recommender and seed."""
        seeds, names = range(self.wanted.seeds), self.wanted.names
        return {ClientsKey(name, seed): self.wanted.scenario(name, seed) for seed in seeds for name in names}

    def result(self, units: Mapping[ClientsKey, ClientsMeasurement]) -> dict[str, Any]:
        """Return means and paired differences over clients; see `summarize_clients`."""
        told = lines_skipped(self.wanted, read_for(self.wanted).table)
        return {**summarize_clients(self.wanted, units), **told}

    def drawn(
        self, units: Mapping[ClientsKey, ClientsMeasurement], result: Mapping[str, Any]
    ) -> dict[str, pd.DataFrame]:
        """Return every service, for what is leaked."""
        return {"units": self.table(units)}


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


class OnlineSweepOptions(BaseModel):
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
    told = validated(OnlineSweepOptions, None, {name: values.get(name) for name in OnlineSweepOptions.model_fields})
    return _planted(values, told) if ratings is None else _of_file(Path(ratings), values, told)


def _planted(values: Mapping[str, Any], told: OnlineSweepOptions) -> OnlineSweep:
    base = validated(OnlineScenario, None, {name: values.get(name) for name in OnlineSetting._fields[:-1]})
    wanted = OnlineGrid(
        base=OnlineSetting(*(getattr(base, name) for name in OnlineSetting._fields[:-1])),
        axes=parse_axes(told.axes),
        recommenders=recommenders_of(told.recommenders, tuple(named_recommenders())),
        seeds=told.seeds or SEEDS,
    )
    check_grid(wanted)
    return OnlineSweep(wanted)


def _of_file(ratings: Path, values: Mapping[str, Any], told: OnlineSweepOptions) -> RatingsSweep:
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
    """Refuse what cannot be run, before anything runs."""
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
    """Return recommenders in their own order; None for None."""
    if told is None:
        return None
    names = [part.strip() for part in (told.split(",") if isinstance(told, str) else told)]
    for name in names:
        if name not in known:
            raise InputError(f"recommender is {name!r}; choose among {', '.join(known)}")
    return tuple(name for name in named_recommenders() if name in names)


ONLINE = Kind(
    name="online",
    help=HELP,
    fields={**OnlineSweepOptions.model_fields, **{name: OnlineScenario.model_fields[name] for name in _SCENARIO}},
    read=read,
)
