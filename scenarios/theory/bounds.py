"""How many users any learner needs: every lower bound for one problem, and which of them binds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from scenarios.theory import lower_bounds, scarce_bounds
from scenarios.theory.hypotheses import LearningProblem
from scenarios.theory.lower_bounds import OutOfRangeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A lower bound on the number of users.

    Parameters
    ----------
    name : str
        Short name, one a row of the table.
    users : float
        Users needed; 0 where the bound says nothing, or where its range does not hold.
    valid : bool
        Whether its range of validity holds at this setting.
    range : str
        The range, in words.
    source : str
        Theorem or lemma of The Price of Privacy, or "ours".
    """

    name: str
    users: float
    valid: bool
    range: str
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    users: Callable[[LearningProblem], float]
    range: str
    source: str
    adaptive: bool = False  # whether it also holds where a query may depend on earlier answers


_LDP = "any epsilon-LDP learner"
_ROWS = {
    "fano": _Row(users=lower_bounds.fano, range=_LDP, source="Lemmas 5 and 6, Theorem 7", adaptive=True),
    "fano-tanh": _Row(users=lower_bounds.fano_tanh, range=_LDP, source="Theorem 7, sharper", adaptive=True),
    "capacity": _Row(users=lower_bounds.capacity, range=_LDP, source="Theorem 7, exact capacity", adaptive=True),
    "distortion": _Row(users=lower_bounds.distortion, range=_LDP, source="Lemma 20, Theorem 23", adaptive=True),
    "distortion-paper": _Row(
        users=lower_bounds.distortion_paper,
        range=f"{_LDP}, 1 < (1 - mistakes/items) clusters <= 2; drops constants, never said to bind",
        source="Theorem 23 as printed",
        adaptive=True,
    ),
    "one-bit": _Row(
        users=scarce_bounds.one_bit,
        range="one bit per user, private or not; rated = 1; not adaptive",
        source="Theorem 10",
    ),
    "weak-scarce": _Row(
        users=scarce_bounds.weak_scarce,
        range=f"{_LDP}, not adaptive; rated = o(items), read as rated < items",
        source="Theorem 13",
    ),
    "scarce": _Row(
        users=scarce_bounds.scarce,
        range=f"{_LDP}, not adaptive; epsilon < ln 2, rated = o(items^(1/3)), read as rated^3 < items",
        source="Theorem 14",
    ),
    "adaptive": _Row(
        users=scarce_bounds.adaptive, range=f"{_LDP}, adaptive or not; rated = 1", source="Theorem 17", adaptive=True
    ),
}
_OURS = {
    "ratings": _Row(users=lower_bounds.ratings, range="any learner, private or not", source="ours", adaptive=True),
    "contraction": _Row(users=scarce_bounds.contraction, range=f"{_LDP}, not adaptive; any rated", source="ours"),
}


def all_bounds(
    *,
    items: int,
    rated: int,
    epsilon: float,
    clusters: int,
    failure: float = 0.5,
    mistakes: int = 0,
    adaptive_queries: bool = False,
    ours: bool = False,
) -> list[Bound]:
    """Every lower bound on the users that a learner needs, in the order of the table.

    Parameters
    ----------
    items, rated, epsilon, clusters, failure, mistakes
        As in `LearningProblem`: N up to 10^9 and more, w, epsilon [nats] or inf, L, and what counts as success.
    adaptive_queries : bool
        Whether a query may depend on other users' answers; bounds for non-adaptive learners are then invalid.
    ours : bool
        Add the two bounds that are not in the paper, `ratings` and `contraction`.

    Returns
    -------
    list of Bound
        At epsilon = inf the private bounds hold and say nothing: `users` is 0.

    Raises
    ------
    InputError
        A value is outside of its range. A bound outside of its own is marked `valid=False` instead.

    Examples
    --------
    >>> found = all_bounds(items=1000, rated=30, epsilon=1.0, clusters=2)
    >>> best = binding(found)
    >>> best.name, round(best.users)
    ('capacity', 2802)
    """
    problem = LearningProblem(
        items=items, rated=rated, epsilon=epsilon, clusters=clusters, failure=failure, mistakes=mistakes
    )
    rows = {**_ROWS, **(_OURS if ours else {})}
    return [_bound(name, row, problem, adaptive_queries=adaptive_queries) for name, row in rows.items()]


def _bound(name: str, row: _Row, problem: LearningProblem, *, adaptive_queries: bool) -> Bound:
    try:
        users, valid = row.users(problem), True
    except OutOfRangeError:
        users, valid = 0.0, False
    if adaptive_queries and not row.adaptive:
        users, valid = 0.0, False
    return Bound(name=name, users=users, valid=valid, range=row.range, source=row.source)


def binding(bounds: Sequence[Bound]) -> Bound | None:
    """Return the largest valid bound (the first, where several are equal); None where none says anything.

    `distortion-paper` is left out: it drops additive constants, so that for a handful of items it may claim more
    than is proved.
    """
    speaking = [bound for bound in bounds if bound.valid and bound.users > 0 and bound.name != "distortion-paper"]
    return max(speaking, key=lambda bound: bound.users, default=None)


def bounds_rows(bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """Return bounds as a table's rows, ``name, users, valid, binds, range, source``, one row a bound."""
    best = binding(bounds)
    return [
        {
            "name": bound.name,
            "users": bound.users,
            "valid": bound.valid,
            "binds": best is not None and bound.name == best.name,
            "range": bound.range,
            "source": bound.source,
        }
        for bound in bounds
    ]
