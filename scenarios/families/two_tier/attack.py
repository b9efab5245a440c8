"""What one release reveals: an honest but curious server, calibrated on public users, guesses private ratings."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from actors.private_cohort import PrivateCohort
from coordinator.protocol.agreement import Agreement
from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Ints
from coordinator.protocol.budget import Epsilon, as_json, parse_epsilon
from coordinator.protocol.coins import as_words, derive
from coordinator.protocol.errors import InputError
from coordinator.protocol.features import ItemFeatures, residuals, tastes
from coordinator.protocol.rating_table import Rows
from coordinator.protocol.second_order import SecondOrderQuery, two_tier_mechanism, two_tier_mechanisms

Singles: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.float32]]  # Rows of releases; half the memory
NEARBY = 5  # Ranks of popularity that an unrated item lies away from the rated one that it is held against, at most


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DealtSplit:
    """Users' ratings in random order: an attack may know each user's first ones and guesses the last."""

    rows: Rows = field(repr=False)  # Ratings, every user's in random order
    targets: Ints = field(repr=False)  # Places in ``rows`` of ratings that are guessed
    owner: Ints = field(repr=False)  # The user of every target
    # shape (users,); Ratings of every user before the first target: most that may be known
    most_known: Ints = field(repr=False)
    # For every target an item that the user did not rate, about as popular; -1 where there is none
    decoys: Indices = field(repr=False)

    @property
    def items(self) -> Indices:
        """The targets' items."""
        return self.rows.items[self.targets]

    @property
    def values(self) -> Floats:
        """The targets' ratings."""
        return self.rows.values[self.targets]

    def first(self, count: int) -> Rows:
        """Return what the server knows: the first ``count`` ratings of each user, without targets."""
        rank = np.arange(self.rows.items.size) - np.repeat(self.rows.starts[:-1], self.rows.degrees)
        return self.rows.where(rank < np.repeat(np.minimum(self.most_known, count), self.rows.degrees))


def deal(rows: Rows, popularity: Ints, seed: int, purpose: str, *, targets: int) -> DealtSplit:
    """Deal out users' ratings; ``popularity`` of shape (m,)."""
    coins = np.random.default_rng(as_words(derive(seed, purpose)))
    owners = rows.owners
    order = np.lexsort((coins.random(owners.size), owners))
    mixed = replace(rows, items=rows.items[order], values=rows.values[order])
    most_known = rows.degrees - np.minimum(targets, -(-rows.degrees // 2))
    rank = np.arange(owners.size) - np.repeat(rows.starts[:-1], rows.degrees)
    target_places = np.flatnonzero(rank >= np.repeat(most_known, rows.degrees))
    decoys = _decoys(rows, owners[target_places], mixed.items[target_places], popularity, coins)
    return DealtSplit(
        rows=mixed, targets=target_places, owner=owners[target_places], most_known=most_known, decoys=decoys
    )


def _decoys(rows: Rows, owner: Ints, items: Indices, popularity: Ints, coins: np.random.Generator) -> Indices:
    """Return for every rated item an unrated one of the same user, near in the order of popularity, or -1."""
    order = np.lexsort((coins.random(rows.count), popularity))
    rank = np.empty(rows.count, np.int64)
    rank[order] = np.arange(rows.count)
    taken = np.unique(rows.owners * rows.count + rows.items)
    nearest = np.full(items.size, -1, np.int32)
    steps = np.array([step * sign for step in range(1, NEARBY + 1) for sign in (1, -1)])
    for step in steps[coins.permuted(np.tile(np.arange(steps.size), (items.size, 1)), axis=1)].T:
        target_rank = rank[items] + step
        near = order[np.clip(target_rank, 0, rows.count - 1)]
        free = (
            (nearest < 0) & (target_rank >= 0) & (target_rank < rows.count) & ~np.isin(owner * rows.count + near, taken)
        )
        nearest[free] = near[free]
    return nearest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Seen:
    """Releases of users as rows z, what the server computes from them alone, and the ratings that are guessed."""

    dealt: DealtSplit = field(repr=False)
    rows: Singles = field(repr=False)  # shape (users, m); z
    fits: Floats2 = field(repr=False)  # shape (users, r); Coefficients of z on V, ridge regression with kappa
    # shape (users,); The truth: whether z lies on the completed vector's side. The server has it of public users only
    side: Bools = field(repr=False)
    # shape (users,); Whether z lies on the side of the sum of public users' r', 1 or -1. More than the sign would look
    # better among these users, whose own vectors are in the sum, than it is among others
    prior: Floats = field(repr=False)


def seen(features: ItemFeatures, dealt: DealtSplit, released: Singles, total: Floats) -> Seen:
    """Return what the server sees of some users' releases, of shape (users, m); ``total`` of shape (m,)."""
    vectors, truth = features.vectors, dealt.rows
    gram = vectors.T @ vectors + features.kappa * np.eye(features.rank)
    fits: Floats2 = np.asarray(np.linalg.solve(gram, (released @ vectors).T).T, np.float64)
    side, prior = np.zeros(truth.users, np.bool_), np.zeros(truth.users)
    for user in range(truth.users):
        ratings, row = truth.block(user, user + 1), released[user].astype(np.float64)
        residual = residuals(features, ratings)[0]
        side[user], prior[user] = float(residual @ row) > 0, np.sign(total @ row)
    return Seen(dealt=dealt, rows=released, fits=fits, side=side, prior=prior)


def side_features(features: ItemFeatures, seen: Seen, known_count: int) -> Floats2:
    """Return what shows a release's side: agreement with known ratings, with their completion, and with the prior."""
    known_ratings = seen.dealt.first(known_count)
    centred = known_ratings.values - features.mean[known_ratings.items]
    owners = known_ratings.owners
    agreement = seen.rows[owners, known_ratings.items] * centred
    total = np.bincount(owners, agreement, known_ratings.users)
    size = np.bincount(owners, np.abs(agreement), known_ratings.users)
    taste = tastes(features, known_ratings.starts, known_ratings.items, centred)
    gram = features.vectors.T @ features.vectors
    inner = np.einsum("ua,ab,ub->u", taste, gram + features.kappa * np.eye(features.rank), seen.fits)
    lengths = np.linalg.norm(seen.rows, axis=1) * np.sqrt(np.einsum("ua,ab,ub->u", taste, gram, taste))
    return np.stack(
        [total / np.where(size > 0, size, 1.0), inner / np.where(lengths > 0, lengths, 1.0), seen.prior], axis=1
    )


def rating_features(features: ItemFeatures, seen: Seen, known_count: int, belief: Floats) -> Floats2:
    """Return what shows the targets' ratings, given the side that the server believes in, -1 to 1, a user."""
    dealt, known_ratings = seen.dealt, seen.dealt.first(known_count)
    centred = known_ratings.values - features.mean[known_ratings.items]
    taste = tastes(features, known_ratings.starts, known_ratings.items, centred)
    vectors, owner = features.vectors[dealt.items], dealt.owner
    return np.stack(
        [
            (vectors * taste[owner]).sum(axis=1),
            seen.rows[owner, dealt.items] * belief[owner],
            (vectors * seen.fits[owner]).sum(axis=1) * belief[owner],
            np.abs(belief[owner]),
            features.mean[dealt.items],
        ],
        axis=1,
    )


TREES = {"max_iter": 100, "max_leaf_nodes": 15, "min_samples_leaf": 50, "early_stopping": False, "random_state": 0}
"""Boosted trees, of features to ratings and to rated items."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AttackModel:
    """A server that simulates a mechanism on its public users and learns from them how to guess."""

    features: ItemFeatures
    popularity: Ints = field(repr=False)  # shape (m,); Public ratings of every item
    played: Seen = field(repr=False)  # Of public users; everything in it is known
    sided: bool  # Whether a release may lie on either side of +-r'

    def guess(self, target: Seen, known_count: int) -> dict[str, float | None]:
        """Guess the targets' ratings from the known ratings of each user, and return how well that went."""
        trees, practice = HistGradientBoostingRegressor(**TREES), self.played.dealt
        with threadpool_limits(limits=1):  # sums in one order; and threads do not wait for each other on busy cores
            belief, flip_share = self._beliefs(target, known_count)
            training, asked = (
                rating_features(self.features, of, known_count, sides)
                for of, sides in zip((self.played, target), belief, strict=True)
            )
            trees.fit(training, practice.values - self.features.mean[practice.items])
            guessed = trees.predict(asked)
        return self._score(target.dealt, guessed, flip_share)

    def tells_rated(self, target: Seen) -> float:
        """Return how often a rated item is distinguished from its decoy, ties counted half."""
        rows = self._rated(self.played)
        trees = HistGradientBoostingClassifier(**TREES)
        with threadpool_limits(limits=1):
            trees.fit(np.concatenate(rows), np.repeat([1, 0], len(rows[0])))
            rated, decoy = (trees.decision_function(sample_features) for sample_features in self._rated(target))
        return float((rated > decoy).mean() + (rated == decoy).mean() / 2)

    def _rated(self, of: Seen) -> list[Floats2]:
        """Return what shows that items were rated, of targets and decoys: how far a release lies from its own fit."""
        columns, paired = list[Floats2](), of.dealt.decoys >= 0
        owner = of.dealt.owner[paired]
        for items in (of.dealt.items[paired], of.dealt.decoys[paired]):
            released, popularity = of.rows[owner, items].astype(np.float64), self.popularity[items]
            fit = (self.features.vectors[items] * of.fits[owner]).sum(axis=1)
            parts = [released * fit, np.abs(released - fit), np.abs(released), np.abs(fit), popularity]
            columns.append(np.stack(parts, axis=1))
        return columns

    def _beliefs(self, target: Seen, known_count: int) -> tuple[tuple[Floats, Floats], float | None]:
        """Return the believed side of every played and every target's release, -1 to 1, and the share that is right."""
        if not self.sided:
            return (np.ones(len(self.played.side)), np.ones(len(target.side))), None
        practice, other = (side_features(self.features, of, known_count) for of in (self.played, target))
        size = np.sqrt(np.square(practice).mean(axis=0))
        size[size == 0] = 1.0
        model = LogisticRegression(C=100.0, fit_intercept=False, max_iter=1000)
        sides = self.played.side
        model.fit(np.concatenate([practice, -practice]) / size, np.concatenate([sides, ~sides]))
        believed = tuple(
            2 * model.predict_proba(sample_features / size)[:, 1] - 1 for sample_features in (practice, other)
        )
        right = np.where(believed[1] == 0, 0.5, (believed[1] > 0) == target.side)
        return (believed[0], believed[1]), float(right.mean())

    def _score(self, dealt: DealtSplit, guessed: Floats, flip_share: float | None) -> dict[str, float | None]:
        features, mean = self.features, self.features.mean[dealt.items]
        right = (guessed > 0) == (dealt.values > mean)
        ratings = np.clip(mean + guessed, features.lowest, features.highest)
        exact = None
        if features.scale is not None:
            scale = np.array(features.scale)
            nearest = scale[np.searchsorted((scale[1:] + scale[:-1]) / 2, ratings)]
            exact = float((nearest == dealt.values).mean())
        return {
            "flip_found": flip_share,  # share of releases whose side of +-r' was found; None where they have one only
            "like_right": float(right.mean()),  # share of ratings rightly guessed to be above the item's mean or not
            "like_error": clustered_error(right, dealt.owner),
            "exact_right": exact,  # share of ratings that were guessed exactly; None without a scale
            "rmse": float(np.sqrt(np.square(ratings - dealt.values).mean())),
        }


def clustered_error(right: Bools, owner: Ints) -> float:
    """Return the standard error of a share over ratings, where users are independent and their ratings are not."""
    off = np.bincount(owner, right - right.mean())
    return float(np.sqrt(np.square(off).sum()) / right.size)


NONE = "none"
KNOWN = (0, 1, 5, 20)  # Ratings of the target's user that the server knows
Asked: TypeAlias = tuple[str, Epsilon]  # A mechanism and its epsilon


ATTACKED: tuple[Asked, ...] = (
    (NONE, None),
    *(
        (part.name, parse_epsilon(epsilon) if epsilon else None)
        for part in sorted(
            two_tier_mechanisms().values(), key=lambda part: (part.takes_epsilon, not part.sided, part.name)
        )
        for epsilon in part.attacked or ()
    ),
)
"""Releases that are attacked, mechanism and epsilon: without an epsilon first, then those that have sides; ``"none"``
is what the server guesses without any."""
PLAYED, TARGETS = 1000, 40  # Releases of public users that the server plays, at least; targets a user, at most


def attack(
    features: ItemFeatures,
    public: Rows,
    private: Rows,
    seed: int,
    *,
    attacked: Sequence[Asked] = ATTACKED,
    known_counts: Sequence[int] = KNOWN,
    played: int = PLAYED,
) -> list[dict[str, Any]]:
    """Attack the releases that private devices would let out about one public model: a row for each and k."""
    if not public.items.size or not private.items.size:
        raise InputError(
            f"public users have {public.items.size} ratings and private ones {private.items.size}; an attack needs both"
        )
    copies = -(-played // public.users)
    public_users = public.of(np.tile(np.arange(public.users), copies))
    popularity = public.raters
    total = _total(features, public)
    practice_split = deal(public_users, popularity, seed, "attack played", targets=TARGETS)
    other = deal(private, popularity, seed, "attack private", targets=TARGETS)
    rows = []
    for mechanism, epsilon in attacked:
        practice, target = (
            seen(features, dealt, _released(features, dealt.rows, (mechanism, epsilon), derive(seed, purpose)), total)
            for dealt, purpose in ((practice_split, "attack devices"), (other, "devices"))
        )
        sided = mechanism != NONE and two_tier_mechanism(mechanism).sided
        spy = AttackModel(features=features, popularity=popularity, played=practice, sided=sided)
        attacked_release = {"mechanism": mechanism, "epsilon": None if epsilon is None else as_json(epsilon)}
        # probability that of a rated and an unrated item, as popular, the rated one is recognized by the release alone
        size = {"rated_auc": spy.tells_rated(target), "users": private.users, "targets": int(other.owner.size)}
        rows += [{**attacked_release, "known": count, **spy.guess(target, count), **size} for count in known_counts]
    return rows


def _total(features: ItemFeatures, public: Rows) -> Floats:
    """Return the sum of public users' r': what a release leans to before anything is known of its user."""
    total = np.zeros(features.items)
    for first, stop in public.blocks(64):
        total += residuals(features, public.block(first, stop)).sum(axis=0)
    return total


def _released(features: ItemFeatures, rows: Rows, request: Asked, secret: bytes) -> Singles:
    """Return what devices release, as rows z, float32; zeros of no mechanism."""
    mechanism, epsilon = request
    vectors = np.zeros((rows.users, features.items), np.float32)
    if mechanism == NONE:
        return vectors
    part = two_tier_mechanism(mechanism)
    if part.moment:
        others = ", ".join(name for name, part in two_tier_mechanisms().items() if part.attacked is not None)
        raise InputError(f"mechanism {mechanism} releases no vector; attack one of {others}")
    query = SecondOrderQuery(model=features.digest, mechanism=mechanism, epsilon=epsilon)
    agreement = Agreement(designs=(mechanism,), budget=epsilon, answers=1)
    cohort = PrivateCohort(rows, secret, 0, rows.users, agreement=agreement)
    cohort.announce(query, 0, rows.users)
    for first, stop in rows.blocks(32):
        devices, payloads = query.payloads(cohort.answer(query, features, first, stop), features)
        vectors[devices] = part.rows(payloads, devices, query, features)
    return vectors
