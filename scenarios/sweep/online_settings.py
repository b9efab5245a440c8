"""What an online sweep compares: recommenders along axes, from one base setting; checked before anybody votes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from coordinator.online.recommenders import RECOMMENDERS
from coordinator.protocol.errors import InputError
from scenarios.online.adversaries import halving_world
from scenarios.online.config import OnlineScenario
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.sweep.online_axes import AXES, HALVING, Setting
from scenarios.validation import validated

SIM, SHARP = "p-rec-sim", "p-rec-sharp"
BY_WEIGHT = ("p-rec", "p-rec-wide", "p-rec-lean", SHARP, SIM)
"""Recommenders whose epsilon depends on the setting; others have none, or one that they are given."""


class Point(NamedTuple):
    """One recommender at one value of an axis."""

    axis: str
    x: int
    recommender: str
    setting: Setting

    def scenario(self, seed: int) -> OnlineScenario:
        """Return what is run."""
        shape = self.setting._asdict()
        del shape["environment"]
        return validated(OnlineScenario, None, {"recommender": self.recommender, "seed": seed, **shape})


@dataclass(frozen=True, kw_only=True)
class OnlineSweep:
    """A sweep over planted worlds.

    Attributes
    ----------
    base : Setting
        What an axis does not vary.
    axes : dict of str to tuple of int
        Values of each axis of `AXES` that is wanted.
    recommenders : tuple of str or None
        On all axes, where they apply; None: each axis' own choice.
    seeds : int
        Runs of every recommender and setting, seeds 0 and up.
    """

    base: Setting
    axes: dict[str, tuple[int, ...]]
    recommenders: tuple[str, ...] | None
    seeds: int

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """All points, axis by axis."""
        return tuple(
            Point(name, value, recommender, setting)
            for name, values in self.axes.items()
            for value in values
            for recommender in self.recommenders or AXES[name].recommenders
            for setting in _settings(self.base, name, value, recommender)
            if _applies(recommender, name, setting)
        )

    def content(self) -> dict[str, Any]:
        """Return what makes it another sweep, as JSON values: its base, not which units there are."""
        return {"sweep": "online", **self.base._asdict()}

    @property
    def digest(self) -> str:
        """Digest of `content`: sweeps with the same one share their finished units."""
        return digest_of(self.content())


def digest_of(content: dict[str, Any]) -> str:
    """Return SHA-256 of JSON values, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _settings(base: Setting, axis: str, value: int, recommender: str) -> Iterator[Setting]:
    """Yield a recommender's setting there, and the same one with the halving adversary where it meets that, too."""
    setting = AXES[axis].at(base, value)
    alike = recommender == SIM and AXES[axis].epsilon
    yield setting._replace(diversity=0, radius=0) if alike else setting
    if recommender in AXES[axis].against and _halves(setting):
        yield setting._replace(diversity=0, environment=HALVING)


def _halves(setting: Setting) -> bool:
    """Return whether Theorem 6's adversary fits: N = P 2^k, and T >= R + k."""
    ratio, rest = divmod(setting.voters, setting.peers)
    power = rest == 0 and ratio > 0 and ratio & (ratio - 1) == 0
    return power and setting.radius + ratio.bit_length() - 1 <= setting.rounds


def _applies(recommender: str, axis: str, setting: Setting) -> bool:
    if recommender == SIM and setting.diversity + setting.radius > 0:
        return False
    if recommender == SHARP and setting.objects != 2:
        return False
    return recommender in BY_WEIGHT or not AXES[axis].epsilon


def check_sweep(wanted: OnlineSweep) -> None:
    """Refuse what cannot be run, before anything runs.

    Raises
    ------
    InputError
        One line that names the value and the remedy.
    """
    check_seeds(wanted.seeds)
    for recommender in wanted.recommenders or ():
        if recommender not in {point.recommender for point in wanted.points}:
            why = "needs D = R = 0" if recommender == SIM else "has two objects only" if recommender == SHARP else ""
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


def check_seeds(seeds: int) -> None:
    """Refuse fewer than one seed."""
    if seeds < 1:
        raise InputError(f"seeds is {seeds}; it must be at least 1")


def recommenders_of(told: str | None, known: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return recommenders in their own order; None for None.

    Raises
    ------
    InputError
        If there is no such recommender here.
    """
    if told is None:
        return None
    names = [part.strip() for part in told.split(",")]
    for name in names:
        if name not in known:
            raise InputError(f"recommender is {name!r}; choose among {', '.join(known)}")
    return tuple(name for name in RECOMMENDERS if name in names)
