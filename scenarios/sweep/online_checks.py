"""What is wrong with an online sweep is told in one line, before anybody votes."""

from __future__ import annotations

from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import found, recommender_of
from scenarios.online.adversaries import halving_world
from scenarios.online.privacy_bounds import epsilon_proved
from scenarios.sweep.online_axes import HALVING
from scenarios.sweep.online_settings import OnlineSweep, Point


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
    return tuple(name for name in found() if name in names)
