"""The number of people at which a curve of worth crosses a height: which numbers to measure, and the interval.

Worth rises with the logarithm of people, and flatly where 95 % of popularity is reached. Between numbers of people ten
apart interpolation was wrong by up to seven; so the place is bracketed by numbers of people within a factor of two.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from coordinator.protocol.arrays import Floats
from scenarios.show.intervals import CONFIDENCE, mean_interval

BRACKET, FLANK = 2.0, 4.0
"""How far apart numbers of people may be, in ratio: those between which the height is reached, and those beside."""
NORMAL = 1.96
TENTH = 10  # The last item of a list
Heights = Mapping[int, Floats]
"""Worth by number of people, float64, shape (splits, 1 + samples): among everybody, and among samples of people."""


def over_seeds_and_people(
    values: Sequence[float], resampled: Sequence[Sequence[float] | Floats]
) -> tuple[float, float, float]:
    """Return a mean and its interval over seeds and people.

    The reaches of Student's interval over seeds and of the normal one over samples of people, each a mean over seeds,
    add up as the sides of a right triangle.
    """
    mean, (_, low, _) = float(np.mean(values)), mean_interval(values)
    samples = np.mean([np.asarray(sample) for sample in resampled], axis=0)
    among_people = float(np.std(samples, ddof=1)) * float(ndtri((1 + CONFIDENCE) / 2))
    reach = math.hypot(0.0 if low is None else mean - low, among_people)
    return mean, mean - reach, mean + reach


def among_files(popularity: Floats, people: int, power: int) -> float:
    """Return how far an interval reaches on the logarithm of people, because the file is a sample of people.

    The number of people goes with ``1 / f^power``, f the share who like the tenth most liked item, itself a share of so
    many people.
    """
    tenth = float(np.sort(popularity)[-TENTH]) / people
    return power * NORMAL * math.sqrt((1 - tenth) / max(tenth * people, 1))


def bracket(heights: Mapping[int, float], height: float) -> tuple[int | None, int | None]:
    """Return the fewest people who reach a height, after the most before them who do not; None where there are none.

    >>> bracket({10: 0.1, 100: 0.3, 1000: 0.5}, 0.2), bracket({10: 0.1}, 0.2), bracket({10: 0.3}, 0.2)
    ((10, 100), (10, None), (None, 10))
    """
    lower = None
    for users in sorted(heights):
        if heights[users] >= height:
            return lower, users
        lower = users
    return lower, None


def is_close(lower: int | None, upper: int | None) -> bool:
    """Return whether a crossing is bracketed within `BRACKET`, or is beyond what was measured."""
    return lower is None or upper is None or upper <= BRACKET * lower or upper - lower <= 1


def next_users(heights: Mapping[int, float], height: float, people: int) -> int | None:
    """Return the number of people to be measured next, or None where the crossing is bracketed closely enough.

    The place is bracketed by numbers of people within `BRACKET` of each other, and the next ones on both sides, which
    single splits need, are within `FLANK` of these. It is sought among the numbers that were measured; below them only
    where these begin above the ``people`` of the file. No number is a multiple of these, which grids have.
    """
    lower, upper = bracket(heights, height)
    if upper is None:
        return None
    if lower is None:
        return people + 1 if upper > people + 1 and upper > BRACKET * people else None
    if upper > BRACKET * lower and upper - lower > 1:
        return _beside(round(math.sqrt(lower * upper)), people, lower, upper)
    users = sorted(heights)
    below, above = users[: users.index(lower)][-1:], users[users.index(upper) + 1 :][:1]
    if above and above[0] > FLANK * upper:
        return _beside(round(BRACKET * upper), people, upper, above[0])
    if below and lower > FLANK * below[0]:
        return _beside(round(lower / BRACKET), people, below[0], lower)
    return None


def _beside(users: int, people: int, lower: int, upper: int) -> int | None:
    users += users % people == 0
    return users if lower < users < upper else None


def refined(grid: Iterable[int], worth: Mapping[int, float | None], height: float, people: int) -> list[int]:
    """Return the numbers of people beside a grid's that bracket a height; the last may have to be measured yet."""
    heights, more = {users: float(worth[users] or 0) for users in grid}, list[int]()
    while (users := next_users(heights, height, people)) is not None:
        more.append(users)
        if (value := worth.get(users)) is None:
            break
        heights[users] = value
    return more


def crossings(curves: Floats, logs: Floats, height: Floats | float) -> Floats:
    """Return where curves reach a height, on the logarithm of people; at the ends where they do beyond these.

    Shapes: ``curves`` (numbers of people, splits, 1 + samples); ``logs`` (numbers of people,); ``height``
    (splits, 1 + samples).
    """
    surplus = np.maximum.accumulate(curves) - height
    return np.apply_along_axis(lambda curve: np.interp(0.0, curve, logs), 0, surplus)


def people_for(heights: Heights, plain: Floats, share: float, file_error: float) -> dict[str, Any]:
    """Return how many people it takes until worth is a share of ``plain`` (splits, 1 + samples), with its interval."""
    users, top = sorted(heights), share * plain
    curves = np.stack([heights[size] for size in users])
    means = dict(zip(users, curves[:, :, 0].mean(axis=1).tolist(), strict=True))
    height = float(top[:, 0].mean())
    lower, upper = bracket(means, height)
    result: dict[str, Any] = {"users": upper, "users_low": None, "users_high": upper, "at_most": lower is None}
    result |= {"few": lower, "many": upper, "least": users[0], "most": users[-1]}
    if lower is None or upper is None:
        return {**result, "at_most": upper is not None}
    along = (height - means[lower]) / (means[upper] - means[lower])
    middle, logs = math.log(lower) + along * math.log(upper / lower), np.log(users)
    crossed = crossings(curves, logs, top)
    mean, low, _ = over_seeds_and_people(crossed[:, 0].tolist(), list(crossed[:, 1:]))
    across = math.hypot(mean - low, file_error)
    ends = math.exp(middle - across), math.exp(middle + across)
    # Where a split crosses the height outside of what was measured, that end is unknown.
    open_low = ends[0] <= users[0] or crossed[:, 0].min() <= logs[0]
    open_high = ends[1] >= users[-1] or crossed[:, 0].max() >= logs[-1]
    return {
        **result,
        "users": rounded(math.exp(middle), supported(math.exp(middle), (ends[1] - ends[0]) / 2)),
        "users_low": None if open_low else rounded(ends[0], 2),
        "users_high": None if open_high else rounded(ends[1], 2),
    }


def supported(value: float, half_width: float) -> int:
    """Return how many digits of a number say something: a step of the last is no wider than half its interval.

    >>> supported(47_351, 22_000), supported(47_351, 4_000), supported(12_400, 5_000), supported(12_400, 40)
    (1, 2, 2, 3)
    """
    first = math.floor(math.log10(value))
    return max(1, min(3, first - math.floor(math.log10(max(half_width, 1e-9))) + 1))


def rounded(value: float, digits: int) -> int:
    """Return a number rounded to so many digits.

    >>> rounded(47_351, 1), rounded(47_351, 2)
    (50000, 47000)
    """
    return int(float(f"{value:.{digits}g}"))
