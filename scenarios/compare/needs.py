"""How many people like a file's private advice takes: drawn for more and more people until it is worth enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

import numpy as np
from rich.console import Console

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon, as_json, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedSet
from scenarios.compare.crossing import among_files, crossings, over_seeds_and_people
from scenarios.compare.laws import mean_of_likers
from scenarios.compare.row import Advised, Asked
from scenarios.compare.rows.local import PAIRS, SET, Local
from scenarios.compare.rows.trusted import Popularity
from scenarios.compare.scoring import TOP, score
from scenarios.compare.settings import Comparison
from scenarios.compare.worlds import Fold, World, table_of, world_of
from scenarios.data.item_files import read_told
from scenarios.report.tables import interval_of, remark, short, show_table

RUNGS = 10 ** np.arange(1, 10.25, 0.5)
"""Numbers of people that are looked at; nobody has more than the last."""
EVALUATED = 200
"""People of the file whose lists are scored in each split, at most."""
ROWS: tuple[Local, ...] = (SET, PAIRS)
"""The best that is known of single items, and of pairs of them."""
Reach = tuple[float, float, float]
"""A number and the ends of its interval of 95 %, which covers splits, coins and the choice of people."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """A split of the file."""

    seed: int
    world: World
    people: Ints  # Who is evaluated
    # shape (1 + samples,); NDCG of plain popularity among them, and among samples of them with replacement
    plain: Floats


@dataclass(frozen=True, eq=False)
class Forecast:
    """What private advice is worth among people like a file's, as shares of what plain popularity is worth."""

    wanted: Comparison  # The file, its splits (``seeds``), and public constants; epsilons and scales do not matter

    @cached_property
    def splits(self) -> list[Split]:
        """The splits."""
        found = []
        for seed in range(self.wanted.seed, self.wanted.seed + self.wanted.seeds):
            world = world_of(self.wanted, seed)
            coins = np.random.default_rng(int.from_bytes(derive(seed, "people of a forecast")))
            people = np.sort(coins.permutation(world.fold.evaluated)[:EVALUATED])
            asked = Asked(wanted=self.wanted, epsilon=None, users=world.people, public=0, seed=seed)
            plain = _worth(world, Popularity().advise(world, asked), asked, people, features=False)
            if not plain[0]:
                raise InputError("popularity is worth nothing among this file's people; nothing can be set beside it")
            found.append(Split(seed=seed, world=world, people=people, plain=np.where(plain > 0, plain, plain[0])))
        return found

    def worth(self, row: Local, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
        """Return what advice is worth with so many people, by whether devices use public features."""
        return _drawn(self, row, epsilon, users)

    def here(self, row: Local, epsilon: Epsilon, users: int, *, features: bool) -> Reach:
        """Return what advice is worth with so many people."""
        found = self.worth(row, epsilon, users)[features]
        return over_seeds_and_people(found[:, 0].tolist(), list(found[:, 1:]))

    def people(self, row: Local, epsilon: Epsilon, *, features: bool, share: float, guess: float) -> Reach | None:
        """Return how many people it takes until advice is worth a share of plain popularity; None where none suffice.

        It is sought from a guess on, which only saves time as long as more people never make advice worse.
        Between `RUNGS` it is interpolated on the logarithm of people, split by split and sample by sample. That the
        file's people were chosen, of whom the tenth most liked item has a share f, makes the number uncertain as well:
        it goes with ``1 / f^2``.
        """

        def at(rung: int) -> Floats2:
            return self.worth(row, epsilon, round(float(RUNGS[rung])))[features]

        def enough(rung: int) -> bool:
            return bool(at(rung)[:, 0].mean() >= share)

        if not enough(RUNGS.size - 1):
            return None
        many = min(int(np.searchsorted(RUNGS, guess)), RUNGS.size - 1)
        while many and enough(many - 1):
            many -= 1
        while not enough(many):
            many += 1
        near = range(max(0, many - 2), min(many + 2, RUNGS.size))
        crossed = crossings(np.stack([at(rung) for rung in near]), np.log(RUNGS[near.start : near.stop]), share)
        mean, _, high = over_seeds_and_people(crossed[:, 0].tolist(), list(crossed[:, 1:]))
        world = self.splits[0].world
        reach = math.hypot(high - mean, among_files(world.popularity, world.people, 2))
        return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


@lru_cache(maxsize=1 << 12)
def _drawn(forecast: Forecast, row: Local, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
    wanted = forecast.wanted.model_copy(update={"devices": 0})
    found: dict[bool, list[Floats]] = {}
    for split in forecast.splits:
        asked = Asked(wanted=wanted, epsilon=epsilon, users=users, public=0, seed=split.seed)
        advised = row.advise(split.world, asked)
        for features in (False, True) if split.world.features is not None else (False,):
            worth = _worth(split.world, advised, asked, split.people, features=features)
            found.setdefault(features, []).append(worth / split.plain)
    return {features: np.stack(values) for features, values in found.items()}


def _worth(world: World, advised: Advised, asked: Asked, people: Ints, *, features: bool) -> Floats:
    """Return NDCG at 10 among some people, and among samples of them, shape (1 + samples,)."""
    told = score(world, replace(advised, people=people), asked, features=features)
    return np.array([told.ndcg, *told.resampled["ndcg"]])


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

    ``epsilons`` in nats.
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


HONEST = (
    "drawn from exact laws of what devices would answer, on this file's own split; intervals of 95 % cover splits, "
    "coins and the choice of people, but from few people pairs look easier than they are; blindrec compare "
    "measures it, with volunteers and a curator beside it, who need far fewer people"
)


def show_needs(console: Console, rows: Sequence[Mapping[str, Any]], why: str | None) -> None:
    """Print the rows of `scenarios.compare.needs.needs`, or why there are none."""
    title = "what private advice takes among people like this file's"
    if not rows:
        remark(console, f"{title}: nothing can be told; {why}")
        return
    first, cells = rows[0], list[list[str] | None]()
    for epsilon, group in groupby(rows, key=lambda row: row["epsilon"]):
        for place, row in enumerate(group):
            people = (_reach(row, name) for name in ("people", "people_to_beat"))
            cells.append(["" if place else _epsilon(epsilon), advice_of(row), *people, f"{100 * row['here']:.0f} %"])
        cells.append(None)
    users = int(first["users_here"])
    columns = ("epsilon", "advice", f"people for {first['worth']:.0%}", f"for {BEATS:.0%}", f"with {short(users)}")
    show_table(console, columns, cells[:-1], title=f"{title}, in plain popularity's NDCG", words=("advice",), names=2)
    for use in dict.fromkeys(row["use"] for row in rows):
        named = dict.fromkeys(_epsilon(row["epsilon"]) for row in rows if row["use"] == use)
        remark(console, f"to use with {users:,} people at epsilon {', '.join(named)}: {use}")
    remark(console, HONEST)


def _epsilon(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _reach(row: Mapping[str, Any], name: str) -> str:
    return "never" if row[name] is None else f"{short(row[name])} {interval_of(row, name, short)}"
