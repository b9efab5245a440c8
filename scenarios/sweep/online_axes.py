"""The axes of an online sweep: what varies, and what a point of it is like."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.online.recommenders import RECOMMENDERS
from coordinator.protocol.errors import InputError

RANDOM, HALVING = "random", "halving"


class Setting(NamedTuple):
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
    """An axis, a panel of the figure.

    Attributes
    ----------
    label : str
        Of the panel's abscissa.
    told : str
        What is the same at all its points.
    values : tuple of int
        Unless others are asked for.
    recommenders : tuple of str
        Unless others are asked for.
    at : callable
        (base, value) to the setting.
    against : tuple of str
        Recommenders that meet the halving adversary, too, where N/P is a power of two and there are enough rounds.
    epsilon : bool
        Whether the panel shows epsilon, and not the loss.
    """

    label: str
    told: str
    values: tuple[int, ...]
    recommenders: tuple[str, ...]
    at: Callable[[Setting, int], Setting]
    against: tuple[str, ...] = ()
    epsilon: bool = False


_RIVALS = ("plurality", "multiplicative-weights", "dsybil")
_AGAINST = ("p-rec", "p-rec-lean", "plurality")
_PRIVATE = ("p-rec", "p-rec-lean", "p-rec-sharp", "p-rec-sim")
AXES: dict[str, Axis] = {
    "rounds": Axis(
        label="rounds T",
        told="m = {objects}, N = {voters}, P = {peers}, D = {diversity}, R = {radius}",
        values=(100, 300, 1000, 3000, 10000),
        recommenders=tuple(name for name in RECOMMENDERS if name != "p-rec-sim"),
        at=lambda base, value: base._replace(rounds=value),
        against=_AGAINST,
    ),
    "ratio": Axis(
        label="voters a peer, N/P",
        told="halving adversary, D = R = 0, m = {objects}, T = {rounds}",
        values=(4, 16, 64, 256),
        recommenders=("p-rec-sim", "p-rec-sharp", *_RIVALS),
        at=lambda base, value: base._replace(voters=value * base.peers, diversity=0, radius=0, environment=HALVING),
    ),
    "radius": Axis(
        label="radius R",
        told="D = 0, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        values=(0, 2, 8, 32),
        recommenders=("p-rec", "p-rec-lean", "p-rec-sharp", "p-rec-literal", *_RIVALS),
        at=lambda base, value: base._replace(radius=value, diversity=0),
        against=_AGAINST,
    ),
    "diversity": Axis(
        label="diversity D",
        told="R = {radius}, m = {objects}, N = {voters}, P = {peers}, T = {rounds}",
        values=(0, 8, 64),
        recommenders=("p-rec", "p-rec-lean", *_RIVALS),
        at=lambda base, value: base._replace(diversity=value, objects=3, radius=4, peers=8),
    ),
    "epsilon-rounds": Axis(
        label="rounds T",
        told="N = {voters}, P = {peers}, D = {diversity}, R = {radius} (p-rec-sim: 0)",
        values=(100, 300, 1000, 3000, 10000),
        recommenders=_PRIVATE,
        at=lambda base, value: base._replace(rounds=value),
        epsilon=True,
    ),
    "epsilon-peers": Axis(
        label="peers P",
        told="N/P = {ratio:g}, T = {rounds}, D = {diversity}, R = {radius} (p-rec-sim: 0)",
        values=(4, 8, 16, 32),
        recommenders=_PRIVATE,
        at=lambda base, value: base._replace(peers=value, voters=round(value * base.voters / base.peers)),
        epsilon=True,
    ),
}


def parse_axes(told: str | None) -> dict[str, tuple[int, ...]]:
    """Read axes and their values: ``rounds=100,1000,ratio`` are two axes, the first with two values of its own.

    Raises
    ------
    InputError
        If there is no such axis, an axis is named twice, or a value is no whole number or stands twice.
    """
    if told is None:
        return {name: axis.values for name, axis in AXES.items()}
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
