"""Who is public and who is private, which ratings are held out, planted ratings; and rank and kappa by validation.

Held-out ratings of public users mislead, since heavy users overfit and noise looks good; users do not. Only what the
server has is used: public ratings. The weight of releases is another matter: see
`coordinator.server.completion.weighing`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from coordinator.protocol.arrays import Floats, Floats2, Indices, Ints, Words
from coordinator.protocol.coins import as_words, derive, significant
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.protocol.hashing import draw, siphash1
from coordinator.protocol.rating_table import Rows, starts_of
from coordinator.server.completion.crowd import local_public_users
from coordinator.server.completion.fitting import Fitting, begin, iterate
from coordinator.server.completion.weighing import Fold, Weighing, squared_errors
from scenarios.backends.session import Backend
from scenarios.data.datasets import RatingTable
from scenarios.data.rating_split import TEST, Split, draw_ratings, hold_out
from scenarios.families.two_tier.two_tier_scenario import PRIVATE, Scale, TwoTier

FEWEST = 20  # Ratings of the least active user, as in MovieLens


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedShape:
    """How much there is of what."""

    users: int = 69_878  # Numbers of users and items
    items: int = 10_677
    ratings: int = 10_000_000  # Ratings in all, about
    rank: int = 8  # Directions of taste, beside the users' and the items' biases
    fewest: int = FEWEST  # Ratings that every user has at least
    taste: float = 0.55  # Standard deviation of what the directions explain of a rating together [stars]
    noise: float = 0.7  # Standard deviation of what nothing explains [stars]


MEAN, USER_BIAS, ITEM_BIAS = 3.5, 0.35, 0.45  # Of ratings, and standard deviations of users' and items' biases [stars]
DECAY = 0.95  # Every direction's size against the one before
ACTIVITY, POPULARITY = 1.0, 2.2  # Standard deviations of the logarithms of users' and items' numbers of ratings
MOST_OF_ITEMS = 0.7  # Share of the items that the most active user rated


def planted_ratings(shape: PlantedShape, seed: int) -> RatingTable:
    """Draw a table of planted ratings."""
    coins = np.random.default_rng(np.frombuffer(derive(seed, "planted ratings"), np.uint32))
    degrees = _degrees(shape, coins)
    popularity = np.exp(POPULARITY * coins.standard_normal(shape.items))
    sizes = DECAY ** np.arange(shape.rank)
    sizes *= np.sqrt(shape.taste / np.sqrt(np.square(np.square(sizes)).sum()))
    tastes = coins.standard_normal((shape.users, shape.rank)) * sizes
    vectors = coins.standard_normal((shape.items, shape.rank)) * sizes
    liked = USER_BIAS * coins.standard_normal(shape.users)
    good = ITEM_BIAS * coins.standard_normal(shape.items)
    starts = starts_of(degrees)
    items = _draw_items(as_words(derive(seed, "planted items")), starts, np.cumsum(popularity) / popularity.sum())
    values = MEAN + shape.noise * coins.standard_normal(items.size)
    _add_tastes(values, starts, items, tastes, vectors, liked, good)
    return RatingTable(
        starts=starts,
        items=items,
        values=np.clip(np.round(values * 2) / 2, 0.5, 5.0),
        count=shape.items,
        user_labels=np.arange(1, shape.users + 1).astype(str).astype(np.object_),
        item_labels=np.arange(1, shape.items + 1).astype(str).astype(np.object_),
        source="planted",
    )


def _degrees(shape: PlantedShape, coins: np.random.Generator) -> Ints:
    """Return users' numbers of ratings, scaled until they add up to about the wanted number."""
    raw, most = np.exp(ACTIVITY * coins.standard_normal(shape.users)), int(MOST_OF_ITEMS * shape.items)
    low, high = 0.0, float(shape.ratings)
    for _ in range(60):
        middle = (low + high) / 2
        total = np.clip(raw * middle, shape.fewest, most).sum()
        low, high = (middle, high) if total < shape.ratings else (low, middle)
    return np.clip(np.round(raw * low), shape.fewest, most).astype(np.int64)


@compiled
def _draw_items(key: Words, starts: Ints, cumulative: Floats) -> Indices:
    """Draw every user's items, in proportion to popularity, each once, ascending."""
    items_drawn, seen = np.empty(starts[-1], np.int32), np.full(cumulative.size, -1, np.int64)
    for user in range(starts.size - 1):
        stream, lane, at = siphash1(key[0], key[1], np.uint64(user)), np.uint64(0), starts[user]
        while at < starts[user + 1]:
            coin = (draw(stream, lane) >> np.uint64(11)) * 2.0**-53
            lane += np.uint64(1)
            item = min(int(np.searchsorted(cumulative, coin, side="right")), cumulative.size - 1)
            if seen[item] != user:
                seen[item] = user
                items_drawn[at] = item
                at += 1
        items_drawn[starts[user] : starts[user + 1]].sort()
    return items_drawn


@compiled
def _add_tastes(
    values: Floats, starts: Ints, items: Indices, tastes: Floats2, vectors: Floats2, liked: Floats, good: Floats
) -> None:
    for user in range(starts.size - 1):
        for at in range(starts[user], starts[user + 1]):
            item = items[at]
            total = liked[user] + good[item]
            for k in range(tastes.shape[1]):
                total += tastes[user, k] * vectors[item, k]
            values[at] += total


OBSERVED = 60  # Ratings that a held-out user shows at most, and never more than half of its own
SHARE, MOST, DRAWS = 0.2, 100, 4
"""Validation users: their share of public users, how many there are at most, and draws of the ratings they show."""


def fold_of(public: Rows, holdout: Ints, seed: int, purpose: str = "two-tier shown ratings") -> Fold:
    """Hold some public users out, given by their numbers; seed and purpose draw which of their ratings are shown."""
    users, rest = public.of(np.sort(holdout)), np.setdiff1d(np.arange(public.users), holdout)
    shown = draw_ratings(users, np.minimum(OBSERVED, users.degrees // 2), seed, purpose)
    return Fold(train=public.of(rest), seen=users.where(shown), targets=users.where(~shown))


def weighing_of(public: Rows, fitting: Fitting, seed: int) -> Weighing:
    """Draw the validation users; a function of the seed and the public ratings."""
    if public.users < 2:
        raise InputError(f"public is {public.users}; validation holds public users out, give --weight")
    coins = np.random.default_rng(as_words(derive(seed, "two-tier validation users")))
    holdout = coins.permutation(public.users)[: min(MOST, max(1, round(SHARE * public.users)))]
    folds = [fold_of(public, holdout, seed, f"two-tier validation ratings {draw}") for draw in range(DRAWS)]
    return Weighing(folds=folds, fitting=fitting)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UserSplit:
    """Users and ratings as one experiment deals them out."""

    train: Rows  # Every user's ratings to learn from, and those held out
    test: Rows
    public: Ints  # Users of both kinds, in the order in which they join; the others only receive the model
    private: Ints
    split: Split | None = None  # How they were held out; None in a comparison, which scores lists itself

    @property
    def public_rows(self) -> Rows:
        """What the server sees."""
        return self.train.of(self.public)


def split_users(table: RatingTable, settings: TwoTier) -> UserSplit:
    """Deal out users and ratings."""
    holdout, seed = settings.holdout, settings.seed
    if holdout >= 1 and table.users and int(table.degrees.min()) < holdout:
        poor = int(np.argmin(table.degrees))
        raise InputError(
            f"user {table.user_labels[poor]!r} has {table.degrees[poor]} ratings, fewer than the {holdout} that are "
            "held out; lower --holdout or leave such users out"
        )
    split = hold_out(
        table,
        held_out=holdout,
        like_from=settings.like_from,
        seed=seed,
        split_by=settings.split_by,
        purpose=TEST,
    )
    rows = train = split.train.valued(split.train.values)
    public_count, private = how_many(settings.public, rows.users), settings.private
    private = max(0, min(PRIVATE, rows.users - public_count)) if private is None else private
    if public_count + private > rows.users:
        raise InputError(f"public is {public_count}, private is {private}, of {rows.users} users; lower one of them")
    order = _order(train, settings.public_by, seed, "two-tier public users")
    rest = _order(train, settings.private_by, seed, "two-tier private users")
    rest = rest[~np.isin(rest, order[:public_count])]
    return UserSplit(split=split, train=train, test=split.test, public=order[:public_count], private=rest[:private])


def how_many(public: float, users: int) -> int:
    """Return the number of public users: a share below 1 of all of them, at least one, or the number itself."""
    return max(1, round(public * users)) if public < 1 else int(public)


def _order(rows: Rows, by: str, seed: int, purpose: str) -> Ints:
    if by == "most":
        return np.argsort(-rows.degrees, kind="stable")
    return np.random.default_rng(as_words(derive(seed, purpose))).permutation(rows.users)


FOLDS = 5
MANY_HELD_OUT = 100  # With so many held-out users no further fold is dealt out
RANKS = (5, 10, 20)
START, STEPS_DOWN, STEPS_UP = 1, -4, 8
"""Kappas are the ratings' spread times a power of 2, from the 1st on downhill within these powers."""
GAIN = 1e-4  # Share of the error that a step lowers at least: by less it only follows the noise of who is held out
ITERATIONS = 8  # EM iterations of a trial: 12 chose the same on five splits of two files


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Trial:
    """One setting on one fold."""

    fold: Fold
    fitting: Fitting
    scale: Scale


def folds_of(public: Rows, seed: int) -> list[Fold]:
    """Deal out public users; a function of the seed and their ratings."""
    if public.users < 2:
        raise InputError(
            f"public is {public.users}; validation holds public users out, give --rank and --regularisation"
        )
    order = np.random.default_rng(as_words(derive(seed, "two-tier folds"))).permutation(public.users)
    folds = list[Fold]()
    for holdout in np.array_split(order, min(FOLDS, public.users)):
        folds.append(fold_of(public, holdout, seed))
        if sum(fold.seen.users for fold in folds) >= MANY_HELD_OUT:
            break
    return folds


def trial_error(trial: Trial) -> float:
    """Return the sum of squared errors of the held-out users' asked ratings."""
    scale, public_users = trial.scale, local_public_users(trial.fold.train)
    model = begin(public_users, trial.fitting, lowest=scale.lowest, highest=scale.highest, scale=scale.levels)
    features = iterate(model, public_users, trial.fitting, ITERATIONS).features
    return float(squared_errors(features, trial.fold.seen, trial.fold.targets).sum())


def choose_fitting(
    folds: Sequence[Fold], fitting: Fitting, scale: Scale, session: Backend, *, rank: int | None, kappa: float | None
) -> tuple[Fitting, list[tuple[int, float, float]]]:
    """Choose rank and kappa on held-out public users."""
    users = min(fold.train.users for fold in folds)
    ranks = [rank] if rank else [candidate for candidate in RANKS if candidate <= users] or [users]
    unit = float(np.std(folds[0].train.values))
    errors: dict[tuple[int, float], float] = {}

    def error(candidate: int, power: int) -> float:
        pair = candidate, kappa or significant(unit * 2.0**power)
        if pair not in errors:
            trial = replace(fitting, rank=candidate, kappa=pair[1])
            sums = dict(session.each(trial_error, [Trial(fold=fold, fitting=trial, scale=scale) for fold in folds]))
            total = np.array([sums[number] for number in range(len(folds))]).sum()
            targets = sum(fold.targets.items.size for fold in folds)
            # On the public grid, where settings that are as good up to last bits tie: what is chosen does not depend on
            # the processor
            errors[pair] = significant(float(np.sqrt(total / max(1, targets))))
        return errors[pair]

    at, least = START, math.inf
    for candidate in ranks:
        if error(candidate, at) >= least * (1 - GAIN):
            break  # more directions would lower it as little
        at = at if kappa else downhill(partial(error, candidate), at)
        least = error(candidate, at)
    best = min(errors, key=lambda pair: (errors[pair], pair))
    return replace(fitting, rank=best[0], kappa=best[1]), [(*pair, rmse) for pair, rmse in sorted(errors.items())]


def downhill(error: Callable[[int], float], start: int) -> int:
    """Return a power beside which no error is lower by `GAIN`: upwards from ``start`` while one is, else downwards."""
    at, least = start, error(start)
    for step in (1, -1):
        while STEPS_DOWN <= at + step <= STEPS_UP and (lower := error(at + step)) < least * (1 - GAIN):
            at, least = at + step, lower
        if at != start:
            break
    return at
