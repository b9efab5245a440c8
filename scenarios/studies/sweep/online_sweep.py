"""The sweeps of online recommenders: along axes over planted worlds, or on clients of a file."""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field
from rich.console import Console

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, named_recommenders, recommender_of, still_names
from scenarios.config.files import file_sha256
from scenarios.config.settings import names_among, validated
from scenarios.families.online import online_bounds as bounds
from scenarios.families.online import online_report as report
from scenarios.families.online import online_run as online
from scenarios.families.online.adversaries import halving_world
from scenarios.families.online.online_scenario import OnlineScenario
from scenarios.families.online.online_worlds import OnlineWorld
from scenarios.show.columns import finite
from scenarios.show.intervals import CONFIDENCE, mean_interval, named, standard_error
from scenarios.show.tables import Cell, interval_of, number, remark, show_rows
from scenarios.studies.study import Measure, Row, Study, Values
from scenarios.studies.sweep.online_clients import CLIENTS, RATINGS, STYLE, ClientsGrid, rows_table, serve
from scenarios.studies.sweep.sweeps import Kind, values_of

RANDOM, HALVING = "random", "halving"
WORLDS: dict[str, Callable[[OnlineScenario], OnlineWorld]] = {RANDOM: online.build_world, HALVING: halving_world}
"""How votes come about: the random environment of `blindrec online`, or the adversary of Theorem 6."""
THEOREM_6 = "theorem-6"
"""Recommenders that say they are compared there meet the halving adversary on axes that are halved."""
MOST_STEPS = 2e9  # Steps of the exact loss' dynamic programme: seconds
SEEDS = 60


class OnlineSetting(NamedTuple):
    """One client's world: T, m, N, P, D, R, and one of `WORLDS`."""

    rounds: int
    objects: int
    voters: int
    peers: int
    diversity: int
    radius: int
    environment: str = RANDOM

    def shape(self) -> dict[str, int]:
        """Return the numbers, as bounds take them."""
        return {name: value for name, value in self._asdict().items() if name != "environment"}


@dataclass(frozen=True)
class SweepAxis:
    """An axis, a panel of the figure."""

    label: str  # Of the panel's abscissa
    shared: str  # What is the same at all its points
    values: tuple[int, ...]  # Unless others are asked for
    at: Callable[[OnlineSetting, int], OnlineSetting]  # (base, value) to the setting
    # Whether recommenders that Theorem 6's adversary is about meet it there, too, where N/P is a power of two and there
    # are enough rounds
    halved: bool = False
    epsilon: bool = False  # Whether the panel shows epsilon, and not the loss

    def same(self, rows: Sequence[Row]) -> str:
        """Return what all points of the axis share."""
        shared = {name: max(row[name] for row in rows) for name in OnlineSetting._fields}
        return self.shared.format(**shared, ratio=shared["voters"] / shared["peers"], still=", ".join(still_names()))


_LONG = (100, 300, 1000, 3000, 10000)
_ALL = "N = {voters}, P = {peers}, D = {diversity}, R = {radius}"
AXES: dict[str, SweepAxis] = {
    "rounds": SweepAxis(
        "rounds T", f"m = {{objects}}, {_ALL}", _LONG, lambda base, value: base._replace(rounds=value), halved=True
    ),
    "ratio": SweepAxis(
        "voters a peer, N/P",
        "halving adversary, D = R = 0, m = {objects}, T = {rounds}",
        (4, 16, 64, 256),
        lambda base, value: base._replace(voters=value * base.peers, diversity=0, radius=0, environment=HALVING),
    ),
    "radius": SweepAxis(
        "radius R",
        "D = 0, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        (0, 2, 8, 32),
        lambda base, value: base._replace(radius=value, diversity=0),
        halved=True,
    ),
    "diversity": SweepAxis(
        "diversity D",
        "R = {radius}, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        (0, 8, 64),
        lambda base, value: base._replace(diversity=value, objects=3, radius=4, peers=8),
    ),
    "epsilon-rounds": SweepAxis(
        "rounds T", f"{_ALL} ({{still}}: 0)", _LONG, lambda base, value: base._replace(rounds=value), epsilon=True
    ),
    "epsilon-peers": SweepAxis(
        "peers P",
        "N/P = {ratio:g}, T = {rounds}, D = {diversity}, R = {radius} ({still}: 0)",
        (4, 8, 16, 32),
        lambda base, value: base._replace(peers=value, voters=round(value * base.voters / base.peers)),
        epsilon=True,
    ),
}


def compared_on(axis: str) -> tuple[str, ...]:
    """Return the recommenders of an axis unless others are asked for; those for equal settings come first."""
    names = compared_in(axis)
    return tuple(sorted(names, key=lambda name: not recommender_of(name).promised)) if AXES[axis].epsilon else names


def parse_axes(text: str | Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    """Read axes and their values: ``rounds=100,1000,ratio``, or ``{rounds = [100, 1000], ratio = []}``."""
    if text is None:
        return {name: axis.values for name, axis in AXES.items()}
    if isinstance(text, Mapping):
        text = ",".join(f"{name}={','.join(map(str, values))}" if values else name for name, values in text.items())
    axes: dict[str, tuple[int, ...]] = {}
    for piece in re.split(r",\s*(?=[a-z])", text.strip()):
        name, mark, values = piece.partition("=")
        if name not in AXES:
            raise InputError(f"axis is {name!r}; choose among {', '.join(AXES)}")
        if name in axes:
            raise InputError(f"axes is {text!r}; name axis {name} once")
        parts = [part.strip() for part in values.split(",")] if mark else []
        if not all(part.isascii() and part.isdigit() for part in parts) or len(set(parts)) < len(parts):
            raise InputError(f"axis {name} has values {values!r}; write whole numbers, each once, like {name}=4,16")
        axes[name] = tuple(sorted(map(int, parts))) or AXES[name].values
    return axes


def recommenders_of(value: Any, choices: Iterable[str]) -> tuple[str, ...] | None:
    """Return recommenders in their own order; None for None."""
    return None if value is None else names_among(value, choices, "recommender")


PlantedKey = namedtuple("PlantedKey", "recommender rounds objects voters peers diversity radius environment seed")
"""A unit: a recommender, the numbers of an `OnlineSetting`, and a seed."""


PlantedUnits = Mapping[PlantedKey, Values]


def measure_planted(scenario: OnlineScenario, environment: str) -> Values:
    """Serve the client of a planted world."""
    world = WORLDS[environment](scenario)
    run = serve(world.scenario, world)
    (client,) = run.clients
    alive, peers = client.served.alive, client.world.peer[client.served.electors]
    return {
        "loss": client.served.loss,  # Disliked recommendations
        # Largest exact privacy loss of a voter [nats]; of those that are no peers, where there are no more than P. NaN
        # where weights differ, so that it is not computed
        "privacy_loss": report.privacy_losses(client)[0],
        "peers_alive": int(np.count_nonzero(alive & peers)),  # At the end
        "peers_kicked": int(np.count_nonzero(~alive & peers)),
        "survivors": int(np.count_nonzero(alive)),
        "seconds": run.seconds,
        "recommendations_sha256": report.digest(run),  # Equal on every backend
    }


class Point(NamedTuple):
    """One recommender at one value of an axis."""

    axis: str
    x: int
    recommender: str
    setting: OnlineSetting

    def scenario(self, seed: int) -> OnlineScenario:
        """Return what is run."""
        return validated(OnlineScenario, None, {"recommender": self.recommender, "seed": seed, **self.setting.shape()})


class OnlineSweepOptions(BaseModel):
    """What is said beside the keys of an online scenario."""

    model_config = ConfigDict(frozen=True)

    axes: Any = Field(None, description="Some of them, by ',', with values after '=' [all].")
    recommenders: Any = Field(None, description="Some of them, by ',' [each axis' own].")
    seeds: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Runs of every recommender and setting [60; of a file: 1]."
    )
    clients: int | None = Field(None, description="Clients of the file, drawn anew for every seed [50].")


_OF_FILE = ("columns", "duplicates", "bad_lines", "unrated", "like_from")
_SCENARIO = (*OnlineSetting._fields[:-1], "ratings", *_OF_FILE)
_HALVED = compared_in(THEOREM_6)


@dataclass(frozen=True, kw_only=True)
class AxesGrid:
    """Recommenders over planted worlds."""

    base: OnlineSetting  # What an axis does not vary
    axes: dict[str, tuple[int, ...]]  # Values of each axis of `AXES` that is wanted
    recommenders: tuple[str, ...] | None = None  # On all axes, where they apply; None: each axis' own choice
    seeds: int = SEEDS  # Runs of every recommender and setting, seeds 0 and up

    def check(self) -> None:
        """Refuse what cannot be run, before anything runs."""
        for recommender in self.recommenders or ():
            if recommender not in {point.recommender for point in self.points}:
                kind = recommender_of(recommender)
                why = ": it has two objects only" if kind.sharp else "" if kind.promised else ": it needs D = R = 0"
                raise InputError(
                    f"recommender {recommender} applies on none of the axes {', '.join(self.axes)}{why}; leave it out, "
                    "or add an axis"
                )
        for axis in self.axes:
            if axis not in {point.axis for point in self.points}:
                raise InputError(f"axis {axis} has none of the recommenders; leave it out, or add one of its own")
        for point in self.points:
            try:
                scenario = point.scenario(0)
                if point.setting.environment == HALVING:
                    halving_world(scenario)
                bounds.epsilon_proved(point.recommender, **point.setting.shape())
            except InputError as error:
                raise InputError(f"axis {point.axis} at {point.x}: {error}") from None

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points, axis by axis."""
        points = list[Point]()
        for name, value in ((name, value) for name, values in self.axes.items() for value in values):
            axis, setting = AXES[name], AXES[name].at(self.base, value)
            for recommender in self.recommenders or compared_on(name):
                kind = recommender_of(recommender)
                alike = axis.epsilon and not kind.promised
                settings = [setting._replace(diversity=0, radius=0) if alike else setting]
                if axis.halved and recommender in _HALVED and _halves(setting):
                    settings.append(setting._replace(diversity=0, environment=HALVING))
                points += [
                    Point(name, value, recommender, point_setting)
                    for point_setting in settings
                    if kind.serves(point_setting.diversity, point_setting.radius)
                    and not (kind.sharp and point_setting.objects != 2)
                    if kind.bounded or not axis.epsilon  # which is shown where it depends on the setting
                ]
        return tuple(points)

    def content(self) -> dict[str, Any]:
        """Return what makes it another sweep, as JSON values: its base, not which units there are."""
        return {"sweep": "online", **self.base._asdict()}

    def units(self, _: PlantedUnits) -> dict[PlantedKey, Measure[Values]]:
        """Return a unit each point and seed, those of several axes once."""
        return {
            PlantedKey(point.recommender, *point.setting, seed): partial(
                measure_planted, point.scenario(seed), point.setting.environment
            )
            for seed in range(self.seeds)
            for point in self.points
        }

    def result(self, units: PlantedUnits) -> dict[str, Any]:
        """Return what was asked for, what each axis shows (``panels``), and a row for every point."""
        # None: not known, or not proved; "inf": no finite number. ``loss`` is the mean over seeds, with Student's
        # interval; ``loss_bound`` is (L) or what is sharper, ``loss_exact`` the worst case over all worlds,
        # ``loss_lower_bound`` what the adversary of Theorem 6 costs any algorithm. ``epsilon_exact`` is an upper bound
        # before N rounds (``exact_is_bound``); ``epsilon_lower`` is what p-REC's own chain of voters leaks at least,
        # ``epsilon_needed`` what any algorithm needs whose loss is at most ``loss_bound`` (Theorems 7 and 15).
        of: dict[tuple[Any, ...], list[Values]] = {}
        for key, measurement in units.items():
            of.setdefault(key[:-1], []).append(measurement)
        rows = [_point_row(point, of[point.recommender, *point.setting]) for point in self.points]
        panels = {}
        for name in self.axes:
            axis, same = AXES[name], AXES[name].same([row for row in rows if row["axis"] == name])
            panels[name] = {"x": axis.label, "same": same, "epsilon": axis.epsilon}
        grid = {"axes": {name: list(values) for name, values in self.axes.items()}, "seeds": self.seeds}
        return {**self.content(), **grid, "interval": CONFIDENCE, "panels": panels, "points": rows}

    def study(self) -> Study[PlantedKey, Values]:
        """Return what is measured."""
        return Study(
            content=self.content(),
            key=PlantedKey,
            units=self.units,
            result=self.result,
            row_frame=lambda result: rows_table(result["points"]),
            show=show_axes,
        )


def show_axes(console: Console, result: Row, title: str) -> None:
    """Print a table an axis: the loss of every recommender beside its bounds, and what it leaks."""
    remark(console, f"{title}: means over {result['seeds']} seeds")
    for name in result["axes"]:
        rows = [row for row in result["points"] if row["axis"] == name]
        # With a star where it met another environment than most
        stars = {row["environment"]: "" if row["environment"] == rows[0]["environment"] else " *" for row in rows}
        lines: list[Row | None] = []
        for _, group in groupby(rows, lambda row: row["x"]):
            lines += [*({**row, "name": row["recommender"] + stars[row["environment"]]} for row in group), None]
        x: tuple[str, Cell] = (AXES[name].label.rpartition(" ")[2], lambda row: f"{row['x']:,}")
        columns = [x, ("recommender", "name"), *_POINT_COLUMNS]
        show_rows(console, columns, lines[:-1], title=f"{name}: {AXES[name].same(rows)}", **STYLE, names=2)
    remark(
        console,
        "bound (L): proved for any world; Thm 6: no algorithm expects less against Theorem 6's adversary (rows with *)",
        "epsilon: proved; exact: worst case of p-rec-sim by dynamic programme, <= where T < N: an upper bound",
        "at least: what epsilon is at least, by a chain of adjacent voters",
        "leaks: exact privacy loss of a run, mean and largest over seeds [nats]; kicked: peers, all seeds together",
    )


def _halves(setting: OnlineSetting) -> bool:
    """Return whether Theorem 6's adversary fits: N = P 2^k, and T >= R + k."""
    ratio, rest = divmod(setting.voters, setting.peers)
    power = rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0
    return power and setting.radius + ratio.bit_length() - 1 <= setting.rounds


def _point_row(point: Point, every: Sequence[Values]) -> dict[str, Any]:
    losses, leaks = [unit["loss"] for unit in every], np.array([unit["privacy_loss"] for unit in every])
    return {
        "axis": point.axis,
        "x": point.x,
        "recommender": point.recommender,
        **point.setting._asdict(),
        "seeds": len(every),
        **named(mean_interval(losses), "loss"),
        "loss_se": standard_error(losses),
        **_bounds(point.recommender, point.setting),
        "privacy_loss": finite(float(leaks.mean())),
        "privacy_loss_most": finite(float(leaks.max())),
        "peers_alive": float(np.mean([unit["peers_alive"] for unit in every])),
        "peers_kicked": sum(unit["peers_kicked"] for unit in every),
        "seconds": float(np.mean([unit["seconds"] for unit in every])),
    }


def _bounds(recommender: str, setting: OnlineSetting) -> dict[str, Any]:
    shape, kind = setting.shape(), recommender_of(recommender)
    exact, bound = bounds.epsilon_exact(recommender, **shape), bounds.loss_bound(recommender, **shape)
    still = setting.diversity + setting.radius == 0
    # p-REC's own chain, where there is one; p-REC_sim's worst case where the adversary of that very setting is met
    chained = not still and setting.diversity + setting.radius <= setting.rounds and setting.voters >= 2 * setting.peers
    played = still and setting.environment == HALVING and "loss" in kind.exact and setting.objects == 2
    worst = None
    if played and setting.rounds * setting.voters**2 / 2 <= MOST_STEPS:
        worst = bounds.worst_loss_sim(setting.voters, setting.peers, setting.rounds, sharp=kind.sharp)
    return {
        "loss_bound": bound,
        "loss_exact": worst,
        "loss_lower_bound": bounds.loss_lower_bound(
            **{name: value for name, value in shape.items() if name != "diversity"}
        ),
        "epsilon_proved": bounds.epsilon_proved(kind.epsilon_of or recommender, **shape),
        "epsilon_exact": exact,
        "exact_is_bound": "epsilon" in kind.exact and exact is not None and setting.rounds < setting.voters,
        "epsilon_lower": bounds.own_lower_bound(**shape) if chained and kind.bounded else None,
        "epsilon_needed": bounds.epsilon_needed(**shape, loss=bound),
    }


_POINT_COLUMNS: tuple[tuple[str, Cell], ...] = (
    ("loss", "loss"),
    ("s.e.", "loss_se"),
    ("95 %", partial(interval_of, name="loss")),
    ("bound (L)", "loss_bound"),
    ("Thm 6", "loss_lower_bound"),
    ("epsilon", "epsilon_proved"),
    ("exact", lambda row: number(row["epsilon_exact"]) + (" <=" if row["exact_is_bound"] else "")),
    ("at least", "epsilon_lower"),
    ("leaks", "privacy_loss"),
    ("most", "privacy_loss_most"),
    ("peers alive", "peers_alive"),
    ("kicked", lambda row: str(row["peers_kicked"])),
)


def online_study(values: Row) -> Study[Any, Values]:
    """Check a sweep over planted worlds, or on clients of a file."""
    ratings = values.get("ratings")
    wrong: tuple[str, ...] = ("clients", *_OF_FILE)
    why = "ratings files; give --ratings too"
    if ratings is not None:
        wrong = (*OnlineSetting._fields[2:-1], "axes")
        why = f"planted worlds, and {ratings} brings its own; leave it out"
    for name in wrong:
        if values.get(name) is not None:
            raise InputError(f"{name} is {values[name]!r}, which is about {why}")
    options = validated(OnlineSweepOptions, None, values_of(OnlineSweepOptions.model_fields, values))
    grid = (_of_axes if ratings is None else _of_clients)(values_of(_SCENARIO, values), options)
    grid.check()
    return grid.study()


def _of_axes(values: Values, options: OnlineSweepOptions) -> AxesGrid:
    scenario = validated(OnlineScenario, None, values)
    return AxesGrid(
        base=OnlineSetting(*(getattr(scenario, name) for name in OnlineSetting._fields[:-1])),
        axes=parse_axes(options.axes),
        recommenders=recommenders_of(options.recommenders, named_recommenders()),
        seeds=options.seeds or SEEDS,
    )


def _of_clients(values: Values, options: OnlineSweepOptions) -> ClientsGrid:
    path = Path(values["ratings"]).absolute()  # tasks of Ray run in another directory
    clients = CLIENTS if options.clients is None else options.clients
    two = values.get("objects") in (None, 2)
    applicable = tuple(name for name in compared_in(RATINGS) if two or not recommender_of(name).sharp)
    return ClientsGrid(
        base={**values, "ratings": path, "clients": clients},
        sha256=file_sha256(path, "ratings file"),
        recommenders=recommenders_of(options.recommenders, compared_in(RATINGS)) or applicable,
        seeds=options.seeds or 1,
    )


MEANINGS = {
    "points": "a row for each recommender and point of an axis",
    "panels": "what each figure shows",
    "axes": "what varies, with its values",
    "axis": "name of what varies",
    "x": "value of what varies",
    "environment": "who decides what clients and voters like",
    "epsilon_lower": "lower bound of the epsilon of p-REC itself",
    "exact_is_bound": "whether epsilon_exact is an upper bound, as it is before N rounds",
    "loss_exact": "exact expected loss, where it can be computed",
    "loss_lower_bound": "loss that any algorithm has at least",
    "loss_se": "standard error of the loss",
    "privacy_loss": "exact privacy loss, mean over seeds",
    "privacy_loss_most": "the largest one",
    "privacy_loss_any": "the same of any voter, peers included",
    "recommenders": "a row for each recommender, over all clients",
    "distinct_clients": "different persons among the clients",
    "services": "clients that were served",
    "to_plurality": "difference in loss from the plurality of votes",
    "to_plurality_share": "the same difference by the plurality's loss",
    "to_random": "difference in loss from random recommendations",
    "to_random_share": "the same difference by the loss of random recommendations",
    "world": "how the clients' world was made from the file",
    "ratings_sha256": "digest of the file of ratings",
}
KIND = Kind(
    meanings=MEANINGS,
    fields=OnlineSweepOptions.model_fields | {name: OnlineScenario.model_fields[name] for name in _SCENARIO},
    read=online_study,
    help=f"""\
Each panel of the figure is an axis; all else is as in --rounds, --objects, --voters, --peers, --diversity, --radius:

\b
  rounds          loss against T, all recommenders: the table
  ratio           loss against N/P, D = R = 0, the halving adversary of Theorem 6
  radius          loss against R, D = 0
  diversity       loss against D, with m = 3, R = 4, P = 8
  epsilon-rounds  epsilon against T; {", ".join(still_names())} with D = R = 0
  epsilon-peers   epsilon against P at the same N/P; {", ".join(still_names())} with D = R = 0

Worlds are random environments. Theorem 6's lower bound holds against its adversary, who halves the voters: on the
axes rounds and radius {", ".join(_HALVED[:-1])} and {_HALVED[-1]} also run against it where N/P is a power of two.
The table compares the loss with its proved bound (L) and p-REC_sim's exact worst case. It compares the exact privacy
loss of runs with the proved epsilon, the exact one of p-rec-sim (dynamic programme; an upper bound where T < N), and a
lower bound from p-REC's own chain of adjacent voters.

Every axis has its own recommenders; --recommenders names others for all axes where they apply. A round costs about 25
microseconds: the default is 9,360 runs, about 5 minutes on 2 idle cores. Axes take values:

\b
  blindrec sweep online --out compared
  blindrec sweep online --seeds 20 --axes rounds=100,1000,radius=0,8,ratio --out some

With --ratings there are no axes: all recommenders serve the same clients of a ratings file. The table shows the loss,
as a number and as a share of the rounds, with intervals over clients; how it differs, client by client, from
plurality's and from the exact expected loss of random recommendations; the measured P, D and R; and epsilon.

\b
  blindrec sweep online --ratings ratings.csv --clients 50 --out served
""",
)
