"""What an online sweep compares: recommenders along axes, from one base setting."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from scenarios.online.config import OnlineScenario
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
