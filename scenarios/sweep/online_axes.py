"""The axes of an online sweep: what varies, and what a point of it is like."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import compared_in, recommender_of, still_names

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
    """An axis, a panel of the figure.

    Attributes
    ----------
    label : str
        Of the panel's abscissa.
    told : str
        What is the same at all its points.
    values : tuple of int
        Unless others are asked for.
    at : callable
        (base, value) to the setting.
    halved : bool
        Whether recommenders that Theorem 6's adversary is about meet it there, too, where N/P is a power of two and
        there are enough rounds.
    epsilon : bool
        Whether the panel shows epsilon, and not the loss.
    """

    label: str
    told: str
    values: tuple[int, ...]
    at: Callable[[OnlineSetting, int], OnlineSetting]
    halved: bool = False
    epsilon: bool = False


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

    Raises
    ------
    InputError
        If there is no such axis, an axis is named twice, or a value is no whole number or stands twice.
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
