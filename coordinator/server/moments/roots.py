"""Where a function is 0, without the half second that loading `scipy.optimize` takes."""

from __future__ import annotations

import math
from collections.abc import Callable

from coordinator.protocol.errors import InputError

STEPS = 100
FINEST = 4 * 2.0**-52
"""Relative width of the smallest bracket."""


def root_between(function: Callable[[float], float], low: float, high: float, *, width: float = 2e-12) -> float:
    """Return where a function is 0, by Brent's method, step for step as `scipy.optimize.brentq` does it.

    Parameters
    ----------
    function : callable
        A function of one number.
    low, high : float
        Ends of a bracket, where the function's signs differ or one of which is a root.
    width : float
        How far the result may lie from the root.

    Raises
    ------
    InputError
        If the signs at both ends are the same, or some value is no number.

    References
    ----------
    R. P. Brent, *Algorithms for Minimization Without Derivatives*, 1973, chapter 4.

    Examples
    --------
    >>> round(root_between(lambda x: x * x - 2, 0, 2), 9)
    1.414213562
    """
    before, at_before, here, at_here = low, function(low), high, function(high)
    if at_before == 0:
        return before
    if not (at_here == 0 or at_before < 0 < at_here or at_here < 0 < at_before):
        raise InputError(f"the function is {at_before} at {low} and {at_here} at {high}; its signs must differ")
    across, at_across, last, step = before, at_before, here - before, here - before
    for _ in range(STEPS):
        if at_before != 0 and at_here != 0 and (at_before < 0) != (at_here < 0):
            across, at_across, last, step = before, at_before, here - before, here - before
        if abs(at_across) < abs(at_here):
            before, here, across = here, across, here
            at_before, at_here, at_across = at_here, at_across, at_here
        least, half = (width + FINEST * abs(here)) / 2, (across - here) / 2
        if at_here == 0 or abs(half) < least:
            break
        guess = math.inf
        if abs(last) > least and abs(at_here) < abs(at_before):
            guess = _interpolated(before, at_before, here, at_here, across, at_across)
        good = 2 * abs(guess) < min(abs(last), 3 * abs(half) - least)
        last, step = (step, guess) if good else (half, half)
        before, at_before = here, at_here
        here += step if abs(step) > least else math.copysign(least, half)
        at_here = function(here)
    return here


def _interpolated(
    before: float, at_before: float, here: float, at_here: float, across: float, at_across: float
) -> float:
    """Return the step to the root of the line, or of the inverse parabola, through the points."""
    if before == across:
        return -at_here * (here - before) / (at_here - at_before)
    first, second = (at_before - at_here) / (before - here), (at_across - at_here) / (across - here)
    return -at_here * (at_across * second - at_before * first) / (second * first * (at_across - at_before))
