"""How many people like a file's private advice takes: simulated for more and more people until its worth suffices."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedSet
from scenarios.data.datasets import version_of
from scenarios.data.populations import read_descriptions
from scenarios.data.rating_split import LikesFold
from scenarios.log import counted_step
from scenarios.show.intervals import named
from scenarios.show.tables import interval_of, remark, short, show_table
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest
from scenarios.studies.compare.rows.local import PAIRS, SET, LocalRow
from scenarios.studies.compare.rows.trusted import popularity
from scenarios.studies.compare.scoring import TOP, ListScores, score
from scenarios.studies.compare.sum_laws import mean_of_likers
from scenarios.studies.compare.summary import epsilon_text, mechanism_of
from scenarios.studies.compare.worlds import FileWorld, left_out, sampled, table_of, world_of
from scenarios.studies.crossing import REACHED, among_files, crossings, over_seeds_and_people, rounded

RUNGS = 10 ** np.arange(1, 10.25, 0.5)  # Numbers of people that are tried
EVALUATED = 1000  # People of the file whose lists are scored in each split, at most
ROWS: tuple[LocalRow, ...] = (SET, PAIRS)  # The best local mechanisms for single items and for pairs of them
Reach = tuple[float, float, float]
"""A number and the ends of its interval of 95 %, which covers splits, coins and the choice of people."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastSplit:
    """A split of the file."""

    seed: int
    world: FileWorld
    people: Ints  # The people who are evaluated
    # shape (1 + samples,); NDCG of plain popularity among them, and among samples of them with replacement
    plain: Floats
    popular: ListScores  # Plain popularity's worth among all whose lists a comparison scores


@dataclass(frozen=True, eq=False)
class Forecast:
    """The worth of private advice among people like a file's, as shares of plain popularity's."""

    settings: Comparison  # The file, its splits (``seeds``), and public constants; epsilons and scales do not matter

    @cached_property
    def splits(self) -> list[ForecastSplit]:
        """The splits."""
        seeds = range(self.settings.seed, self.settings.seed + self.settings.seeds)
        with counted_step("splitting", len(seeds)) as over:
            return [self._split(seed, over) for seed in seeds]

    def _split(self, seed: int, over: Callable[[], None]) -> ForecastSplit:
        whole = world_of(self.settings, seed)
        coins = np.random.default_rng(int.from_bytes(derive(seed, "people of a forecast")))
        people = np.sort(coins.permutation(whole.fold.evaluated)[:EVALUATED])
        request = RowRequest(settings=self.settings, epsilon=None, users=whole.people, public=0.0, seed=seed)
        popular = score(whole, popularity(whole), request, features=False)
        world = whole.for_lists_of(people)  # all splits are in memory at once
        request = RowRequest(settings=self.settings, epsilon=None, users=world.people, public=0.0, seed=seed)
        plain = _worth(world, popularity(world), request, people, features=False)
        if not plain[0]:
            raise InputError("popularity is worth nothing among this file's people; nothing can be set beside it")
        over()
        plain = np.where(plain > 0, plain, plain[0])
        return ForecastSplit(seed=seed, world=world, people=people, plain=plain, popular=popular)

    def worth(self, row: LocalRow, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
        """Return the worth of advice with this many people, by whether devices use public features."""
        return _shares(self, row, epsilon, users)

    def here(self, row: LocalRow, epsilon: Epsilon, users: int, *, features: bool) -> Reach:
        """Return the worth of advice with this many people, with its interval."""
        shares = self.worth(row, epsilon, users)[features]
        return over_seeds_and_people(shares[:, 0].tolist(), list(shares[:, 1:]))

    def people(self, row: LocalRow, epsilon: Epsilon, *, features: bool, share: float, guess: float) -> Reach | None:
        """Return how many people it takes until advice is worth a share of plain popularity; None where none suffice.

        The search starts at a guess, which only saves time as long as more people never make advice worse.
        Between `RUNGS` it interpolates on the logarithm of people, split by split and sample by sample. That the
        file's people are a sample, whose tenth most liked item has a share f, makes the number uncertain as well:
        it goes with ``1 / f^2``.
        """

        def at(rung: int) -> Floats2:
            return self.worth(row, epsilon, round(float(RUNGS[rung])))[features]

        def enough(rung: int) -> bool:
            return bool(at(rung)[:, 0].mean() >= share)

        if not enough(RUNGS.size - 1):
            return None
        first = min(int(np.searchsorted(RUNGS, guess)), RUNGS.size - 1)
        while first and enough(first - 1):
            first -= 1
        while not enough(first):
            first += 1
        near = range(max(0, first - 2), min(first + 2, RUNGS.size))
        crossed = crossings(np.stack([at(rung) for rung in near]), np.log(RUNGS[near.start : near.stop]), share)
        mean, _, high = over_seeds_and_people(crossed[:, 0].tolist(), list(crossed[:, 1:]))
        world = self.splits[0].world
        reach = math.hypot(high - mean, among_files(world.popularity, world.people, 2))
        return math.exp(mean), math.exp(mean - reach), math.exp(mean + reach)


def _forecast_of(settings: Comparison) -> Forecast:
    return _forecast(settings, version_of(settings.ratings), version_of(settings.features))


@lru_cache(maxsize=1)
def _forecast(settings: Comparison, *_: tuple[int, ...]) -> Forecast:
    return Forecast(settings)


@lru_cache(maxsize=1 << 12)
def _shares(forecast: Forecast, row: LocalRow, epsilon: Epsilon, users: int) -> Mapping[bool, Floats2]:
    settings = forecast.settings.model_copy(update={"devices": 0})

    def in_split(split: ForecastSplit) -> list[Floats]:
        request = RowRequest(settings=settings, epsilon=epsilon, users=users, seed=split.seed)
        learned = row.advise(split.world, request)
        variants = (False, True) if split.world.features is not None else (False,)
        return [_worth(split.world, learned, request, split.people, features=one) / split.plain for one in variants]

    splits = forecast.splits
    with one_thread(), ThreadPoolExecutor(os.cpu_count()) as threads:
        variants = zip(*threads.map(in_split, splits), strict=True)
        return dict(zip((False, True), map(np.stack, variants), strict=False))


def _worth(world: FileWorld, learned: LearnedScores, request: RowRequest, people: Ints, *, features: bool) -> Floats:
    """Return NDCG at 10 among some people, and among samples of them, shape (1 + samples,)."""
    scores = score(world, replace(learned, people=people), request, features=features)
    return np.array([scores.ndcg, *scores.resampled["ndcg"]])


SPLITS = 5
EPSILONS = ("1", "2", "4")  # The epsilons where none is named
WORTH, BEATS = REACHED, 1.05
"""Shares of plain popularity's NDCG for which numbers of people are reported: to keep it, and to beat it clearly."""
NOISE = 0.1  # Noise over the tenth item's share at which a list keeps some 95 %, by a prototype on MovieLens 1M
USEFUL = 0.5  # Share of plain popularity below which volunteers or a curator serve better than local mechanisms
ELSEWHERE = "volunteers or curator"


def needs(
    settings: Comparison, *, epsilons: Sequence[Epsilon] = (), users: int | None = None, worth: float = WORTH
) -> list[dict[str, Any]]:
    """Return how many people private advice takes, among people like a file's, and which advice to use."""
    table, forecast = table_of(settings), _forecast_of(settings)
    if table.count <= 2 * TOP:
        raise InputError(f"the file has {table.count} items; lists of ten say something among more than {2 * TOP}")
    here, forecasts, fold = users or table.users, list[dict[str, Any]](), forecast.splits[0].world.fold
    epsilons = epsilons or tuple(map(parse_epsilon, EPSILONS))
    variants = [
        (row, featured) for row in ROWS for featured in ((False, True) if settings.features is not None else (False,))
    ]
    with counted_step("forecasting", len(epsilons) * len(variants)) as over:
        for epsilon in epsilons:
            thumb, rows = by_formula(fold, settings, epsilon), list[dict[str, Any]]()
            for row, features in variants:
                one = _row(forecast, row, epsilon, (here, worth, thumb), features=features)
                rows.append({**one, "by_formula": round(thumb)})
                over()
            best = max(rows, key=lambda row: float(row["here"]))
            use = mechanism_of(best) if best["here"] >= USEFUL else ELSEWHERE
            forecasts += [{**row, "use": use} for row in rows]
    return forecasts


def as_forecast(settings: Comparison, rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a comparison's numbers of people, those of `ROWS` as `needs` has them: one number, whatever its grid."""
    # Nobody's worth is shown by groups here
    forecast, result = Forecast(settings.model_copy(update={"by": ()})), list[dict[str, Any]]()
    for row in rows:
        mechanism = forecast_row(row["trust_model"], row["mechanism"])
        if mechanism is None:
            result.append(row)
            continue
        epsilon = parse_epsilon(row["epsilon"])
        try:
            guess = by_formula(forecast.splits[0].world.fold, settings, epsilon)
        except InputError:  # popularity is worth nothing
            return [*rows]
        share, features = row["share"], row["features"]
        people = forecast.people(mechanism, epsilon, features=features, share=share, guess=guess)
        number, low, high = _in_two_digits(people)
        place = RUNGS.size if number is None else int(np.searchsorted(RUNGS, number))
        few, many = (round(float(RUNGS[one])) if 0 <= one < RUNGS.size else None for one in (place - 1, place))
        reach = {"users": number, "users_low": low, "users_high": high, "at_most": False, "few": few, "many": many}
        result.append({**row, **reach, "least": round(float(RUNGS[0])), "most": round(float(RUNGS[-1]))})
    return result


def _in_two_digits(people: Reach | None) -> tuple[int | None, int | None, int | None]:
    """Return a number of people and its interval, as those that a comparison's own curves say."""
    if people is None:
        return None, None, None
    number, low, high = (rounded(one, 2) for one in people)
    return number, low, high


def forecast_row(trust_model: str, mechanism: str) -> LocalRow | None:
    """Return the row of these names, if `data` and `plan` forecast it."""
    return next((row for row in ROWS if (row.trust_model, row.mechanism) == (trust_model, mechanism)), None)


def popularity_of(settings: Comparison) -> dict[str, Any]:
    """Return what plain popularity is worth, as by every command, mean over splits, and how that was held out."""
    scores = [split.popular for split in _forecast_of(settings).splits]
    protocol = {"held_out": settings.held_out, "split_by": settings.split_by, **left_out(settings)}
    if sampled(settings):
        protocol["people_scored"] = scores[0].people
    names = ("hit_rate", "ndcg")
    means = {f"popularity_{name}": float(np.mean([getattr(one, name) for one in scores])) for name in names}
    return {**protocol, "splits": settings.seeds, **means}


def needs_or_why(settings: Comparison, **options: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Return `needs`, or the reason why a readable file has none."""
    table = table_of(settings)
    if settings.features is not None:
        read_descriptions(settings.features, table.item_labels)
    try:
        return needs(settings, **options), None
    except InputError as error:
        return [], str(error)


def _row(
    forecast: Forecast, row: LocalRow, epsilon: Epsilon, target: tuple[int, float, float], *, features: bool
) -> dict[str, Any]:
    users, worth, guess = target
    columns: dict[str, Any] = {"epsilon": as_json(epsilon), "mechanism": row.mechanism, "features": features}
    columns |= {"worth": worth, "users_here": users}
    for name, share in (("people", worth), ("people_to_beat", BEATS)):
        people = forecast.people(row, epsilon, features=features, share=share, guess=guess)
        guess = guess if people is None else people[0]
        number, low, high = _in_two_digits(people)
        columns |= named((number, low, high), name)
    return columns | named(forecast.here(row, epsilon, users, features=features), "here")


def by_formula(fold: LikesFold, settings: Comparison, epsilon: Epsilon) -> float:
    """Return a rule of thumb for the people that a list by the set mechanism takes: ``v / (0.1 f)^2``.

    v is the variance of one report about the tenth most liked item, whose share of people's sets is f.
    """
    items = fold.liked.count
    rated = min(settings.likes, items)
    inclusion = np.minimum(1.0, rated / np.maximum(fold.liked.degrees, 1))
    share = float(np.sort(mean_of_likers(fold, inclusion))[-TOP])
    design = LikedSet(items=items, rated=rated, padded=rated)
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=epsilon)
    spread = float(subset_rates(query).spread(np.array([share]))[0])
    return spread / (NOISE * share) ** 2 if share else math.inf


HONEST = (
    "drawn from exact laws of what devices would answer, on this file's own split; intervals of 95 % cover splits, "
    "coins and the choice of people, but from few people pairs look easier than they are; blindrec compare "
    "measures it, with volunteers and a curator beside it, who need far fewer people"
)


def show_needs(console: Console, rows: Sequence[Mapping[str, Any]], why: str | None) -> None:
    """Print the rows of `needs`, or why there are none."""
    title = "what private advice takes among people like this file's"
    if not rows:
        remark(console, f"{title}: nothing can be said; {why}")
        return
    first, cells = rows[0], list[list[str] | None]()
    for epsilon, group in groupby(rows, key=lambda row: row["epsilon"]):
        for place, row in enumerate(group):
            people = (_reach(row, name) for name in ("people", "people_to_beat"))
            share = f"{100 * row['here']:.0f} %"
            cells.append(["" if place else epsilon_text(epsilon), mechanism_of(row), *people, share])
        cells.append(None)
    users = int(first["users_here"])
    columns = ("epsilon", "advice", f"people for {first['worth']:.0%}", f"for {BEATS:.0%}", f"with {short(users)}")
    show_table(console, columns, cells[:-1], title=f"{title}, in plain popularity's NDCG", words=("advice",), names=2)
    for use in dict.fromkeys(row["use"] for row in rows):
        epsilons = dict.fromkeys(epsilon_text(row["epsilon"]) for row in rows if row["use"] == use)
        remark(console, f"to use with {users:,} people at epsilon {', '.join(epsilons)}: {use}")
    remark(console, HONEST)


def _reach(row: Mapping[str, Any], name: str) -> str:
    return "never" if row[name] is None else f"{short(row[name])} {interval_of(row, name, short)}"
