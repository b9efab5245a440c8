"""What an online sweep compares: recommenders along axes, from one base setting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from coordinator.server.online.recommenders import compared_in, recommender_of
from scenarios.given.validation import validated
from scenarios.online.config import OnlineScenario
from scenarios.sweep.online_axes import AXES, HALVING, OnlineSetting, compared_on

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
    """A sweep over planted worlds.

    Attributes
    ----------
    base : OnlineSetting
        What an axis does not vary.
    axes : dict of str to tuple of int
        Values of each axis of `AXES` that is wanted.
    recommenders : tuple of str or None
        On all axes, where they apply; None: each axis' own choice.
    seeds : int
        Runs of every recommender and setting, seeds 0 and up.
    """

    base: OnlineSetting
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
