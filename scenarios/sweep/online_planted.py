"""Recommenders along axes over planted worlds: points of an online sweep, their units, and what these say."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, recommender_of, still_names
from scenarios.given.settings import validated
from scenarios.online.adversaries import halving_world
from scenarios.online.config import OnlineScenario
from scenarios.online.loss_bounds import loss_bound, loss_lower_bound
from scenarios.online.privacy_bounds import epsilon_needed, epsilon_proved, own_lower_bound
from scenarios.online.results import digest
from scenarios.online.run import build_world, privacy_losses, run_online
from scenarios.online.worlds import World
from scenarios.online.worst_case import epsilon_exact, worst_loss_sim
from scenarios.places.in_process import InProcess
from scenarios.places.worker_threads import stop_if_abandoned
from scenarios.report.intervals import CONFIDENCE, mean_interval, named, standard_error

RANDOM, HALVING = "random", "halving"


class OnlineSetting(NamedTuple):
    """One client's world: T, m, N, P, D, R, and how its votes come about.

    ``random`` is the random environment of `blindrec online`, ``halving`` the adversary of Theorem 6.
    """

    rounds: int
    objects: int
    voters: int
    peers: int
    diversity: int
    radius: int
    environment: str = RANDOM

    def shape(self) -> dict[str, int]:
        """Return the numbers, as bounds take them."""
        rounds, objects, voters, peers, diversity, radius, _ = self
        some = {"rounds": rounds, "objects": objects, "voters": voters, "peers": peers}
        return {**some, "diversity": diversity, "radius": radius}


@dataclass(frozen=True, kw_only=True)
class Axis:
    """An axis, a panel of the figure."""

    label: str  # Of the panel's abscissa
    told: str  # What is the same at all its points
    values: tuple[int, ...]  # Unless others are asked for
    at: Callable[[OnlineSetting, int], OnlineSetting]  # (base, value) to the setting
    # Whether recommenders that Theorem 6's adversary is about meet it there, too, where N/P is a power of two and there
    # are enough rounds
    halved: bool = False
    epsilon: bool = False  # Whether the panel shows epsilon, and not the loss


AXES: dict[str, Axis] = {
    "rounds": Axis(
        label="rounds T",
        told="m = {objects}, N = {voters}, P = {peers}, D = {diversity}, R = {radius}",
        values=(100, 300, 1000, 3000, 10000),
        at=lambda base, value: base._replace(rounds=value),
        halved=True,
    ),
    "ratio": Axis(
        label="voters a peer, N/P",
        told="halving adversary, D = R = 0, m = {objects}, T = {rounds}",
        values=(4, 16, 64, 256),
        at=lambda base, value: base._replace(voters=value * base.peers, diversity=0, radius=0, environment=HALVING),
    ),
    "radius": Axis(
        label="radius R",
        told="D = 0, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        values=(0, 2, 8, 32),
        at=lambda base, value: base._replace(radius=value, diversity=0),
        halved=True,
    ),
    "diversity": Axis(
        label="diversity D",
        told="R = {radius}, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        values=(0, 8, 64),
        at=lambda base, value: base._replace(diversity=value, objects=3, radius=4, peers=8),
    ),
    "epsilon-rounds": Axis(
        label="rounds T",
        told="N = {voters}, P = {peers}, D = {diversity}, R = {radius} ({still}: 0)",
        values=(100, 300, 1000, 3000, 10000),
        at=lambda base, value: base._replace(rounds=value),
        epsilon=True,
    ),
    "epsilon-peers": Axis(
        label="peers P",
        told="N/P = {ratio:g}, T = {rounds}, D = {diversity}, R = {radius} ({still}: 0)",
        values=(4, 8, 16, 32),
        at=lambda base, value: base._replace(peers=value, voters=round(value * base.voters / base.peers)),
        epsilon=True,
    ),
}


def compared_on(axis: str) -> tuple[str, ...]:
    """Return the recommenders of an axis unless others are asked for; where epsilon is shown, in equal settings first.

    Those for ``D = R = 0`` only have another setting there than the others.
    """
    names = compared_in(axis)
    return tuple(sorted(names, key=lambda name: not recommender_of(name).promised)) if AXES[axis].epsilon else names


def same(axis: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return what all points of an axis share."""
    shared = {name: max(row[name] for row in rows) for name in OnlineSetting._fields}
    return AXES[axis].told.format(**shared, ratio=shared["voters"] / shared["peers"], still=", ".join(still_names()))


def parse_axes(told: str | Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    """Read axes and their values: ``rounds=100,1000,ratio`` are two axes, the first with two values of its own.

    A grid file may also have a table of them, ``{rounds = [100, 1000], ratio = []}``.
    """
    if told is None:
        return {name: axis.values for name, axis in AXES.items()}
    if isinstance(told, Mapping):
        pieces = (f"{name}={','.join(map(str, values))}" if values else name for name, values in told.items())
        return parse_axes(",".join(pieces))
    found: dict[str, tuple[int, ...]] = {}
    for piece in re.split(r",\s*(?=[a-z])", told.strip()):
        name, mark, values = piece.partition("=")
        if name not in AXES:
            raise InputError(f"axis is {name!r}; choose among {', '.join(AXES)}")
        if name in found:
            raise InputError(f"axes is {told!r}; name axis {name} once")
        found[name] = _numbers(name, values) if mark else AXES[name].values
    return found


def _numbers(name: str, told: str) -> tuple[int, ...]:
    parts = [part.strip() for part in told.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts) or len(set(parts)) < len(parts):
        raise InputError(f"axis {name} has values {told!r}; write whole numbers, each once, like {name}=4,16")
    return tuple(sorted(map(int, parts)))


WORLDS: dict[str, Callable[[OnlineScenario], World]] = {RANDOM: build_world, HALVING: halving_world}


class PlantedKey(NamedTuple):
    """A unit: a recommender, the numbers of an `OnlineSetting`, and a seed."""

    recommender: str
    rounds: int
    objects: int
    voters: int
    peers: int
    diversity: int
    radius: int
    environment: str
    seed: int

    @property
    def setting(self) -> OnlineSetting:
        """The setting."""
        return OnlineSetting(*self[1:-1])


class PlantedUnit(NamedTuple):
    """What is measured at one go, in one process."""

    scenario: OnlineScenario
    environment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedMeasurement:
    """What one run found."""

    loss: int  # Disliked recommendations
    # Largest exact privacy loss of a voter [nats]; of those that are no peers, where there are no more than P. NaN
    # where weights differ, so that it is not computed
    privacy_loss: float
    peers_alive: int  # At the end
    peers_kicked: int
    survivors: int
    seconds: float
    recommendations_sha256: str  # Equal on every backend


Units = dict[PlantedKey, PlantedMeasurement]


def measure_planted(unit: PlantedUnit) -> PlantedMeasurement:
    """Measure one unit, in this process."""
    world = WORLDS[unit.environment](unit.scenario)
    run = run_online(world.scenario, InProcess(1), world=world, over=lambda _: stop_if_abandoned())
    (client,) = run.clients
    alive, peers = client.served.alive, client.world.peer[client.served.electors]
    return PlantedMeasurement(
        loss=client.served.loss,
        privacy_loss=privacy_losses(client)[0],
        peers_alive=int(np.count_nonzero(alive & peers)),
        peers_kicked=int(np.count_nonzero(~alive & peers)),
        survivors=int(np.count_nonzero(alive)),
        seconds=run.seconds,
        recommendations_sha256=digest(run),
    )


THEOREM_6 = "theorem-6"
"""Recommenders that say they are compared there meet the halving adversary on axes that are halved."""


class Point(NamedTuple):
    """One recommender at one value of an axis."""

    axis: str
    x: int
    recommender: str
    setting: OnlineSetting

    def scenario(self, seed: int) -> OnlineScenario:
        """Return what is run."""
        shape = self.setting._asdict()
        del shape["environment"]
        return validated(OnlineScenario, None, {"recommender": self.recommender, "seed": seed, **shape})


@dataclass(frozen=True, kw_only=True)
class OnlineGrid:
    """A sweep over planted worlds."""

    base: OnlineSetting  # What an axis does not vary
    axes: dict[str, tuple[int, ...]]  # Values of each axis of `AXES` that is wanted
    recommenders: tuple[str, ...] | None  # On all axes, where they apply; None: each axis' own choice
    seeds: int  # Runs of every recommender and setting, seeds 0 and up

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points, axis by axis."""
        return tuple(
            Point(name, value, recommender, setting)
            for name, values in self.axes.items()
            for value in values
            for recommender in self.recommenders or compared_on(name)
            for setting in _settings(self.base, name, value, recommender)
            if _applies(recommender, name, setting)
        )

    def content(self) -> dict[str, Any]:
        """Return what makes it another sweep, as JSON values: its base, not which units there are."""
        return {"sweep": "online", **self.base._asdict()}


def _settings(base: OnlineSetting, axis: str, value: int, recommender: str) -> Iterator[OnlineSetting]:
    """Yield a recommender's setting there, and the same one with the halving adversary where it meets that, too."""
    setting = AXES[axis].at(base, value)
    alike = AXES[axis].epsilon and not recommender_of(recommender).promised
    yield setting._replace(diversity=0, radius=0) if alike else setting
    if AXES[axis].halved and recommender in compared_in(THEOREM_6) and _halves(setting):
        yield setting._replace(diversity=0, environment=HALVING)


def _halves(setting: OnlineSetting) -> bool:
    """Return whether Theorem 6's adversary fits: N = P 2^k, and T >= R + k."""
    ratio, rest = divmod(setting.voters, setting.peers)
    power = rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0
    return power and setting.radius + ratio.bit_length() - 1 <= setting.rounds


def _applies(recommender: str, axis: str, setting: OnlineSetting) -> bool:
    """Return whether a recommender is for such a setting; epsilon is shown where it depends on the setting."""
    named = recommender_of(recommender)
    if not named.serves(setting.diversity, setting.radius) or (named.sharp and setting.objects != 2):
        return False
    return named.bounded or not AXES[axis].epsilon


MOST_STEPS = 2e9
"""Steps of the exact loss' dynamic programme: seconds."""


def summarize_planted(wanted: OnlineGrid, units: Mapping[PlantedKey, PlantedMeasurement]) -> dict[str, Any]:
    """Return what `--json` prints.

    Returns
    -------
    dict
        What was asked for; ``panels``: what each axis shows; ``points``: a row for every axis, value and recommender.
        None: not known, or not proved; "inf": no finite number.

    Notes
    -----
    ``loss`` is the mean over seeds, ``loss_se`` its standard error, ``low`` and ``high`` Student's interval.
    ``loss_bound`` is (L) or what is sharper, ``loss_exact`` the worst case over all worlds, ``loss_lower_bound`` what
    the adversary of Theorem 6 costs any algorithm. ``epsilon_exact`` is exact from N rounds on and an upper bound
    before (``exact_is_bound``); ``epsilon_lower`` is what p-REC's own chain of voters leaks at least;
    ``epsilon_needed`` is what any algorithm needs whose loss is at most ``loss_bound`` (Theorems 7 and 15).
    ``privacy_loss`` is the mean over runs, with ``privacy_loss_most``; ``peers_alive`` the mean,
    ``peers_kicked`` the sum.
    """
    rows = [_row(point, _of(units, point)) for point in wanted.points]
    asked = {"axes": {name: list(values) for name, values in wanted.axes.items()}, "seeds": wanted.seeds}
    panels = {name: _panel(name, [row for row in rows if row["axis"] == name]) for name in wanted.axes}
    return {**wanted.content(), **asked, "interval": CONFIDENCE, "panels": panels, "points": rows}


def _panel(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what an axis is called, what its points share, and whether epsilon is shown, not the loss."""
    return {"x": AXES[name].label, "same": same(name, rows), "epsilon": AXES[name].epsilon}


def _of(units: Mapping[PlantedKey, PlantedMeasurement], point: Point) -> list[PlantedMeasurement]:
    return [one for key, one in units.items() if key[:-1] == (point.recommender, *point.setting)]


def _row(point: Point, every: Sequence[PlantedMeasurement]) -> dict[str, Any]:
    losses = [one.loss for one in every]
    leaks = np.array([one.privacy_loss for one in every])
    return {
        "axis": point.axis,
        "x": point.x,
        "recommender": point.recommender,
        **point.setting._asdict(),
        "seeds": len(every),
        **named(mean_interval(losses), "loss"),
        "loss_se": standard_error(losses),
        **_bounds(point.recommender, point.setting),
        "privacy_loss": json_number(float(leaks.mean())),
        "privacy_loss_most": json_number(float(leaks.max())),
        "peers_alive": float(np.mean([one.peers_alive for one in every])),
        "peers_kicked": sum(one.peers_kicked for one in every),
        "seconds": float(np.mean([one.seconds for one in every])),
    }


def _bounds(recommender: str, setting: OnlineSetting) -> dict[str, Any]:
    shape = setting.shape()
    radius = {name: number for name, number in shape.items() if name != "diversity"}
    mine = recommender_of(recommender)
    proved = epsilon_proved(mine.epsilon_of or recommender, **shape)
    exact = epsilon_exact(recommender, **shape)
    bound = loss_bound(recommender, **shape)
    return {
        "loss_bound": bound,
        "loss_exact": _worst_loss(recommender, setting),
        "loss_lower_bound": loss_lower_bound(**radius),
        "epsilon_proved": proved,
        "epsilon_exact": exact,
        "exact_is_bound": "epsilon" in mine.exact and exact is not None and setting.rounds < setting.voters,
        "epsilon_lower": _lower(recommender, setting._replace(environment=RANDOM)),
        "epsilon_needed": epsilon_needed(**shape, loss=bound),
    }


def _worst_loss(recommender: str, setting: OnlineSetting) -> float | None:
    """Return p-REC_sim's exact worst case where the adversary of that very setting is played against."""
    mine = recommender_of(recommender)
    easy = setting.rounds * setting.voters**2 / 2 <= MOST_STEPS
    if setting.environment != HALVING or "loss" not in mine.exact or setting.objects != 2 or not easy:
        return None
    if setting.diversity + setting.radius > 0:
        return None
    return worst_loss_sim(setting.voters, setting.peers, setting.rounds, sharp=mine.sharp)


def _lower(recommender: str, setting: OnlineSetting) -> float | None:
    """Return what epsilon is at least where D + R > 0, by p-REC's own chain."""
    chained = 0 < setting.diversity + setting.radius <= setting.rounds and setting.voters >= 2 * setting.peers
    return own_lower_bound(**setting.shape()) if chained and recommender_of(recommender).bounded else None


def json_number(value: float) -> float | str | None:
    """Return a number as strict JSON has it: None for NaN, "inf" for infinity."""
    if math.isnan(value):
        return None
    return "inf" if math.isinf(value) else value


def points_table(summary: Mapping[str, Any]) -> pd.DataFrame:
    """Return all points."""
    return rows_table(summary["points"])


def rows_table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of a result as a table; NaN: not known, inf: no finite number."""
    table = pd.DataFrame(rows)
    return table.astype({str(name): float for name in table if table[name].map(lambda value: value == "inf").any()})
