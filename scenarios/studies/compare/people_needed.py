"""What private advice is worth among people like a file's, how many of them it takes, and what to use: a forecast."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, Literal

import numpy as np
from rich.console import Console

from coordinator.protocol.arrays import Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon, as_json, parse_epsilon
from coordinator.protocol.coins import derive
from coordinator.protocol.errors import InputError
from coordinator.server.decoding.threads import one_thread
from coordinator.server.mechanisms.oracles import subset_rates
from coordinator.server.mechanisms.sets import LikedSet
from scenarios.data.rating_split import LikesFold
from scenarios.log import counted_step
from scenarios.show.intervals import named
from scenarios.show.tables import interval, remark, short, show_table
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import LearnedScores, RowRequest
from scenarios.studies.compare.rows.local import MAXSENSE, PAIRS, SET, SUBSET, LocalRow
from scenarios.studies.compare.rows.trusted import chance, popularity
from scenarios.studies.compare.scoring import TOP, ListScores, score
from scenarios.studies.compare.sum_laws import mean_of_likers
from scenarios.studies.compare.summary import epsilon_text, mechanism_of
from scenarios.studies.compare.worlds import (
    FileWorld,
    check_split,
    descriptions,
    left_out,
    sampled,
    table_of,
    versions_of,
    world_of,
)
from scenarios.studies.crossing import REACHED, among_files, crossings, over_seeds_and_people, rounded

RUNGS = 10 ** np.arange(1, 10.25, 0.5)  # Numbers of people that are tried
EVALUATED = 1000  # People of the file whose lists are scored in each split, at most
# Each is worth most in some file at some epsilon; of the others that have a law, `sign` and directions in none
ROWS: tuple[LocalRow, ...] = (SUBSET, MAXSENSE, SET, PAIRS)
IN_COMPARISONS = (SET, PAIRS)  # Of these a comparison, too, takes numbers of people from a forecast
Reach = tuple[float, float, float]
"""A number and the ends of its interval of 95 %, which covers splits, coins and the choice of people."""
NEVER = None, None, None  # What stands for it where no number of people suffices


@dataclass(frozen=True, kw_only=True, eq=False)
class ForecastSplit:
    """A split of the file."""

    seed: int
    world: FileWorld
    people: Ints  # The people who are evaluated
    # shape (1 + samples,); NDCG of plain popularity among them, and among samples of them with replacement
    plain: Floats
    # Plain popularity's worth among all whose lists a comparison scores, and that of random lists
    popular: ListScores
    random: ListScores


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
        random = score(whole, chance(whole, request), request, features=False)
        world = whole.for_lists_of(people)  # all splits are in memory at once
        request = RowRequest(settings=self.settings, epsilon=None, users=world.people, public=0.0, seed=seed)
        plain = _worth(world, popularity(world), request, people, features=False)
        if not plain[0]:
            raise InputError("popularity is worth nothing among this file's people; nothing can be set beside it")
        over()
        plain = np.where(plain > 0, plain, plain[0])
        return ForecastSplit(seed=seed, world=world, people=people, plain=plain, popular=popular, random=random)

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
    return _forecast(settings, versions_of(settings))


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
USABLE = 0.8  # Share of plain popularity that advice is worth at least if it is called usable
FEWEST = 400  # People whose lists can be scored, for a forecast; see docs/explanation/worth.md
RULE = (
    f"rule: usable is what is worth at least {100 * USABLE:g} % of plain popularity with its whole interval of 95 %, "
    "best first; where only a part of an interval reaches that, nothing is advised"
)
Reaches = Literal["yes", "perhaps", "no"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastRow:
    """What a mechanism's advice is worth with some people like a file's, and how many of them it takes."""

    rung: str  # The trust model
    mechanism: str
    features: bool  # Whether devices weigh scores by public features, too
    epsilon: Epsilon  # Of every device [nats]
    people: int  # Who contribute
    worth: Reach  # NDCG with so many people, over plain popularity's
    share: float  # Of plain popularity's NDCG, for which `needed` people are needed
    needed: Reach | None  # In two digits, as `to_beat`; None where no number suffices
    to_beat: Reach | None  # People for `BEATS`
    by_formula: float  # People for `WORTH` with the set mechanism, by a rule of thumb

    @property
    def name(self) -> str:
        """The mechanism, and whether features are used, in words."""
        return mechanism_of({"mechanism": self.mechanism, "features": self.features})

    @property
    def reaches(self) -> Reaches:
        """Whether the worth is `USABLE`, by its interval."""
        _, low, high = self.worth
        return "yes" if low >= USABLE else "perhaps" if high >= USABLE else "no"

    def record(self) -> dict[str, Any]:
        """Return the row as `--json` prints it."""
        return {
            "trust_model": self.rung,
            "epsilon": as_json(self.epsilon),
            "mechanism": self.mechanism,
            "features": self.features,
            "worth": self.share,
            "users_here": self.people,
            **named(self.needed or NEVER, "people"),
            **named(self.to_beat or NEVER, "people_to_beat"),
            **named(self.worth, "here"),
            "by_formula": round(self.by_formula),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MechanismAdvice:
    """Which mechanism to use at an epsilon, by `RULE`."""

    epsilon: Epsilon  # Of every device [nats]
    case: Literal["enough", "undecided", "too few people", "out of reach"]
    use: str | None  # The mechanism's name, where there is one
    words: str

    def record(self) -> dict[str, Any]:
        """Return the advice as `--json` prints it."""
        return {"epsilon": as_json(self.epsilon), "case": self.case, "use": self.use, "words": self.words}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileForecast:
    """A forecast of private advice among people like a file's, at one epsilon or several; or why there is none."""

    rows: tuple[ForecastRow, ...] = ()  # Of one epsilon after the other
    advice: tuple[MechanismAdvice, ...] = ()  # One an epsilon
    popularity: Mapping[str, Any] = field(default_factory=dict)  # What plain popularity is worth, and how it was scored
    why_not: str | None = None

    @property
    def words(self) -> str:
        """What to use at each epsilon, or why nothing can be said."""
        return self.why_not or "; ".join(one.words for one in self.advice)

    def record(self) -> dict[str, Any]:
        """Return the forecast as `--json` prints it."""
        return {
            **self.popularity,
            "worth": [row.record() for row in self.rows],
            "advice": [one.record() for one in self.advice],
            "rule": RULE,
            "worth_not": self.why_not,
        }


def forecast_of(
    settings: Comparison, *, epsilons: Sequence[Epsilon] = (), users: int | None = None, share: float = WORTH
) -> FileForecast:
    """Forecast private advice with so many people, by default as many as are in the file; or say why there is none."""
    table = table_of(settings)  # A file that cannot be read has no forecast that could say so
    descriptions(settings)  # nor has one with features that cannot be
    check_split(settings)  # nor with a split of somebody's own that is of another file
    try:
        forecast = _checked(settings)
        epsilons = epsilons or tuple(map(parse_epsilon, EPSILONS))
        rows = _rows(forecast, epsilons, users or table.users, share)
    except InputError as error:
        return FileForecast(why_not=str(error))
    advice = tuple(advise([row for row in rows if row.epsilon == epsilon]) for epsilon in epsilons)
    return FileForecast(rows=rows, advice=advice, popularity=_popularity_of(forecast))


def _checked(settings: Comparison) -> Forecast:
    """Return the forecast of a file, or raise `InputError` if it would say something of these people alone."""
    table = table_of(settings)
    if table.count <= 2 * TOP:
        raise InputError(f"the file has {table.count} items; lists of ten say something among more than {2 * TOP}")
    _require_people(table.users, "")
    forecast = _forecast_of(settings)
    _require_people(min(split.popular.people for split in forecast.splits), " with likes to hold out")
    scores = [(split.popular, split.random) for split in forecast.splits]
    plain, random = (float(np.mean([one.ndcg for one in of])) for of in zip(*scores, strict=True))
    gaps = [one.ndcg - other.ndcg for one, other in scores]
    resampled = [np.subtract(one.resampled["ndcg"], other.resampled["ndcg"]) for one, other in scores]
    if over_seeds_and_people(gaps, resampled)[1] <= 0:
        raise InputError(
            f"popularity (NDCG {plain:.3f}) is not surely better than random lists ({random:.3f}) among the file's "
            "people; worth is told as shares of popularity's"
        )
    return forecast


def _require_people(people: int, which: str) -> None:
    if people < FEWEST:
        count = f"{people} {'person' if people == 1 else 'people'}{which}"
        raise InputError(f"the file has {count}, and fewer than {FEWEST} say little of people like them")


def _rows(forecast: Forecast, epsilons: Sequence[Epsilon], people: int, share: float) -> tuple[ForecastRow, ...]:
    settings, rows = forecast.settings, list[ForecastRow]()
    fold, features = forecast.splits[0].world.fold, (False, True) if settings.features is not None else (False,)
    with counted_step("forecasting", len(epsilons) * len(ROWS) * len(features)) as over:
        for epsilon in epsilons:
            thumb = by_formula(fold, settings, epsilon)
            for mechanism in ROWS:
                for featured in features:
                    row = _row(forecast, mechanism, epsilon, (people, share, thumb), features=featured)
                    rows.append(row)
                    over()
    return tuple(rows)


def _row(
    forecast: Forecast, row: LocalRow, epsilon: Epsilon, target: tuple[int, float, float], *, features: bool
) -> ForecastRow:
    people, share, thumb = target
    guess, reaches = thumb, list[Reach | None]()
    for height in (share, BEATS):
        needed = forecast.people(row, epsilon, features=features, share=height, guess=guess)
        guess = guess if needed is None else needed[0]
        reaches.append(_in_two_digits(needed))
    return ForecastRow(
        rung=row.trust_model,
        mechanism=row.mechanism,
        features=features,
        epsilon=epsilon,
        people=people,
        worth=forecast.here(row, epsilon, people, features=features),
        share=share,
        needed=reaches[0],
        to_beat=reaches[1],
        by_formula=thumb,
    )


def advise(rows: Sequence[ForecastRow]) -> MechanismAdvice:
    """Return which of the rows of an epsilon to use, by `RULE`, and the reason in words."""
    best_first = sorted(rows, key=lambda row: -row.worth[0])
    best, epsilon = best_first[0], rows[0].epsilon
    begin, people = f"epsilon {epsilon_text(as_json(epsilon))}: ", f"with {best.people:,} people"
    for row in best_first:
        if row.reaches == "yes":
            words = f"{begin}use {row.name}: {percent(row.worth)} of popularity {people}"
            return MechanismAdvice(epsilon=epsilon, case="enough", use=row.name, words=words)
    if perhaps := [f"{row.name} ({percent(row.worth)})" for row in best_first if row.reaches == "perhaps"]:
        words = f"{begin}undecided: {', '.join(perhaps)} may reach {100 * USABLE:g} % of popularity {people}"
        return MechanismAdvice(epsilon=epsilon, case="undecided", use=None, words=words)
    words = f"{begin}nothing is usable: {best.name}, the best, is worth {percent(best.worth)} of popularity {people}"
    least = min((row for row in rows if row.needed), key=lambda row: row.needed or NEVER, default=None)
    if least is None or least.needed is None:
        words += f", and no number of people makes it {100 * best.share:g} %"
        return MechanismAdvice(epsilon=epsilon, case="out of reach", use=None, words=words)
    words += f"; {100 * least.share:g} % take {_people_text(least.needed)} people ({least.name})"
    return MechanismAdvice(epsilon=epsilon, case="too few people", use=None, words=words)


def percent(worth: Reach) -> str:
    """Return a worth with its interval in per cent; with a decimal where rounding would hide its side of `USABLE`.

    >>> percent((0.514, -0.01, 0.6)), percent((0.85, 0.799, 0.9))
    ('51 % [0, 60]', '85 % [79.9, 90]')
    """

    def written(end: float) -> str:
        end = max(end, 0.0)
        return f"{100 * end:.{int((round(100 * end) >= 100 * USABLE) != (end >= USABLE))}f}"

    middle, low, high = map(written, worth)
    return f"{middle} % [{low}, {high}]"


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
        number, low, high = _in_two_digits(people) or NEVER
        place = RUNGS.size if number is None else int(np.searchsorted(RUNGS, number))
        few, many = (round(float(RUNGS[one])) if 0 <= one < RUNGS.size else None for one in (place - 1, place))
        reach = {"users": number, "users_low": low, "users_high": high, "at_most": False, "few": few, "many": many}
        result.append({**row, **reach, "least": round(float(RUNGS[0])), "most": round(float(RUNGS[-1]))})
    return result


def _in_two_digits(people: Reach | None) -> tuple[int, int, int] | None:
    """Return a number of people and its interval, as those that a comparison's own curves say."""
    if people is None:
        return None
    number, low, high = (rounded(one, 2) for one in people)
    return number, low, high


def forecast_row(trust_model: str, mechanism: str) -> LocalRow | None:
    """Return the row of these names, if comparisons forecast its number of people."""
    names = trust_model, mechanism
    return next((row for row in IN_COMPARISONS if (row.trust_model, row.mechanism) == names), None)


def _popularity_of(forecast: Forecast) -> dict[str, Any]:
    """Return what plain popularity is worth, as by every command, mean over splits, and how that was held out."""
    settings, scores = forecast.settings, [split.popular for split in forecast.splits]
    protocol = {"held_out": settings.held_out_name, "split_by": settings.split_by, **left_out(settings)}
    if sampled(settings):
        protocol["people_scored"] = scores[0].people
    names = ("hit_rate", "ndcg")
    means = {f"popularity_{name}": float(np.mean([getattr(one, name) for one in scores])) for name in names}
    return {**protocol, "splits": settings.seeds, **means}


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


def show_forecast(console: Console, forecast: FileForecast) -> None:
    """Print a forecast: its rows, what to use at each epsilon, and by which rule; or why there is none."""
    title = "what private advice takes among people like this file's"
    if not forecast.rows:
        remark(console, f"{title}: nothing can be said; {forecast.why_not}")
        return
    first, cells = forecast.rows[0], list[list[str] | None]()
    for epsilon, group in groupby(forecast.rows, key=lambda row: row.epsilon):
        for place, row in enumerate(group):
            people = map(_people_text, (row.needed, row.to_beat))
            begin = "" if place else epsilon_text(as_json(epsilon))
            cells.append([begin, row.name, *people, percent(row.worth)])
        cells.append(None)
    columns = (
        "epsilon",
        "advice",
        f"people for {100 * first.share:g} %",
        f"for {100 * BEATS:g} %",
        f"with {short(first.people)}",
    )
    show_table(console, columns, cells[:-1], title=f"{title}, in plain popularity's NDCG", words=("advice",), names=2)
    remark(console, *(advice.words for advice in forecast.advice), RULE, HONEST)


def _people_text(people: Reach | None) -> str:
    return "never" if people is None else f"{short(people[0])} {interval(*people[1:], short)}"
