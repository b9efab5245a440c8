"""How many people like a file's private advice takes, and what to use: what `blindrec plan` and `blindrec data` tell.

Advice is drawn for the file itself, in seconds; `blindrec compare` measures it with devices that answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from coordinator.protocol.budget import Epsilon, as_json, parse_epsilon
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.set import LikedSet
from coordinator.server.mechanisms.subset import subset_rates
from scenarios.compare.forecast import ROWS, Forecast, Reach
from scenarios.compare.laws import mean_of_likers
from scenarios.compare.rows.local import Local
from scenarios.compare.scoring import TOP
from scenarios.compare.settings import Comparison
from scenarios.compare.splitting import Fold
from scenarios.compare.worlds import table_of
from scenarios.data.item_files import read_told

SPLITS = 5
EPSILONS = ("1", "2", "4")
"""Where no epsilon is named."""
WORTH, BEATS = 0.95, 1.05
"""Shares of plain popularity's NDCG that people are told for: keeping it, and beating it beyond doubt."""
NOISE = 0.1
"""Noise over the tenth item's share at which a list keeps some 95 %, by a prototype on MovieLens 1M."""
USEFUL = 0.5
"""Share of plain popularity below which volunteers or a curator serve better than what is local."""
ELSEWHERE = "volunteers or curator"


def needs(
    wanted: Comparison, *, epsilons: Sequence[Epsilon] = (), users: int | None = None, worth: float = WORTH
) -> list[dict[str, Any]]:
    """Return what private advice takes among people like a file's, and what to use.

    Parameters
    ----------
    wanted : Comparison
        The file, and ``seeds`` splits of it.
    epsilons : sequence of Fraction or None
        Privacy of every device [nats]; by default `EPSILONS`.
    users : int, optional
        People there are; default: the file's.
    worth : float
        Share of plain popularity's NDCG to reach.

    Returns
    -------
    list of dict
        One for each epsilon, mechanism and, where the file has public features, with these: ``people`` who suffice for
        ``worth``, ``people_to_beat`` popularity by 5 %, and the share that ``users_here`` reach, ``here``, each with
        its interval of 95 % as ``_low`` and ``_high``, None where nobody has enough people; the epsilon's `by_formula`;
        ``use``: what to use at this epsilon with the people here.

    Raises
    ------
    InputError
        If the file has too few items or likes for lists.
    """
    table, forecast = table_of(wanted), Forecast(wanted)
    if table.count <= 2 * TOP:
        raise InputError(f"the file has {table.count} items; lists of ten say something among more than {2 * TOP}")
    here, found = users or table.users, list[dict[str, Any]]()
    for epsilon in epsilons or tuple(map(parse_epsilon, EPSILONS)):
        thumb = by_formula(forecast.splits[0].world.fold, wanted, epsilon)
        rows = [
            {**_row(forecast, row, epsilon, (here, worth, thumb), features=features), "by_formula": round(thumb)}
            for row in ROWS
            for features in ((False, True) if wanted.features is not None else (False,))
        ]
        best = max(rows, key=lambda row: float(row["here"]))
        use = advice_of(best) if best["here"] >= USEFUL else ELSEWHERE
        found += [{**row, "use": use} for row in rows]
    return found


def needs_or_why(wanted: Comparison, **asked: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return `needs`, or why a file that can be read has none."""
    table = table_of(wanted)
    if wanted.features is not None:
        read_told(wanted.features, table.item_labels)
    try:
        return needs(wanted, **asked), None
    except InputError as error:
        return [], str(error)


def _row(
    forecast: Forecast, row: Local, epsilon: Epsilon, asked: tuple[int, float, float], *, features: bool
) -> dict[str, Any]:
    users, worth, guess = asked
    told: dict[str, Any] = {"epsilon": as_json(epsilon), "mechanism": row.mechanism, "features": features}
    told |= {"worth": worth, "users_here": users}
    for name, share in (("people", worth), ("people_to_beat", BEATS)):
        people = forecast.people(row, epsilon, features=features, share=share, guess=guess)
        guess = guess if people is None else people[0]
        told |= _named(name, people and (round(people[0]), round(people[1]), round(people[2])))
    return told | _named("here", forecast.here(row, epsilon, users, features=features))


def _named(name: str, reach: Reach | None) -> dict[str, float | None]:
    names = (name, f"{name}_low", f"{name}_high")
    return dict(zip(names, reach or (None,) * 3, strict=True))


def by_formula(fold: Fold, wanted: Comparison, epsilon: Epsilon) -> float:
    """Return a rule of thumb for the people that a list by the set mechanism takes: ``v / (0.1 f)^2``.

    v is the variance of one report about the tenth most liked item, whose share of people's sets is f.
    """
    items = fold.liked.count
    rated = min(wanted.likes, items)
    kept = np.minimum(1.0, rated / np.maximum(fold.liked.degrees, 1))
    share = float(np.sort(mean_of_likers(fold, kept))[-TOP])
    design = LikedSet(items=items, rated=rated, padded=rated)
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    spread = float(subset_rates(query).spread(np.array([share]))[0])
    return spread / (NOISE * share) ** 2 if share else math.inf


def advice_of(row: Mapping[str, Any]) -> str:
    """Return the name of advice, such as "set + features"."""
    return f"{row['mechanism']} + features" if row["features"] else str(row["mechanism"])
