"""Attacks on releases of two tiers: private devices complete their vectors with a public model, and answer once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from actors.second_order.cohort import PrivateCohort
from actors.second_order.consent import Consent
from coordinator.protocol.arrays import Bits2, Bools, Floats, Floats2, Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels import LogRatio
from coordinator.protocol.directions import basis_of
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.grid import on_grid
from coordinator.protocol.rows import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_mechanisms import check_mechanism, half_of
from coordinator.protocol.second_order_public import A_RELEASE
from scenarios.scrutiny.bounds import best_event, learned, ordered, parts_of, power_of
from scenarios.scrutiny.mechanism import SECRET
from scenarios.scrutiny.sampling import keys_of
from scenarios.scrutiny.verdicts import Attack, Audit

ITEMS, RANK, BLOCK = 8, 2, 1 << 14
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
MOST = 60_000
"""Releases that an attack looks at, at most: each is a message of its own."""


def model() -> ItemFeatures:
    """Return a small public model: two directions, stars from 1 to 5."""
    world = np.random.default_rng(0)
    vectors = np.linalg.qr(world.normal(size=(ITEMS, RANK)))[0] * np.array([6.0, 4.0])
    return ItemFeatures(
        mean=on_grid(world.normal(3.0, 0.3, ITEMS)),
        vectors=on_grid(np.ascontiguousarray(vectors)),
        kappa=1.0,
        lowest=STARS[0],
        highest=STARS[-1],
        scale=STARS,
        common_h=0.5,
    )


def inputs(features: ItemFeatures) -> Iterator[tuple[str, str, Floats, Floats]]:
    """Yield what is told apart, as ratings of all items; 0 stands for none."""
    first, second = (np.where(features.vectors[:, place] > 0, 5.0, 1.0) for place in (0, 1))
    one, others = np.zeros(ITEMS), np.where(np.arange(ITEMS) > ITEMS // 2, 1.0, 0.0)
    one[0] = 5.0
    yield "worst", "two opposite tastes", first, 6.0 - first
    yield "directions", "tastes of two directions", first, second
    yield "membership", "whether a device rated an item", one + others, others
    yield "attribute", "whether it liked the only item that it rated", one, one / 5


def audited(mechanism: str, epsilon: Fraction, *, releases: int, doubt: float) -> Audit:
    """Attack the releases of a two-tier mechanism.

    Parameters
    ----------
    mechanism : str
        Its name.
    epsilon : Fraction
        Its epsilon, if it has one [nats].
    releases : int
        How many an attack looks at.
    doubt : float
        Probability that one of the bounds is wrong.

    Raises
    ------
    InputError
        If the mechanism cannot be asked at that epsilon.
    """
    half, features = half_of(mechanism), model()
    told = epsilon if half.takes_epsilon else None
    check_mechanism(mechanism, told)
    query = SecondOrderQuery(model=features.digest, mechanism=mechanism, epsilon=told)
    channel = half.channel(query, features)
    coins, cases = np.random.default_rng(20261123), list(inputs(features))
    parts = [True] if told is None or half.epsilon_of == A_RELEASE else [False, True]
    attacks = []
    for whole in parts:
        for name, meaning, one, other in cases:
            words = meaning if whole and len(parts) == 1 else f"{meaning}, {'a release' if whole else half.epsilon_of}"
            shown = _shown(query, features, (one, other), min(releases, MOST), coins)
            found = best_event(*_looks(shown, coins, whole=whole), doubt / len(cases) / len(parts))
            times = ITEMS if whole and len(parts) > 1 else 1
            claimed: Epsilon = None if told is None else times * told
            attacks.append(
                Attack(
                    name=name,
                    meaning=words,
                    times=times,
                    epsilon=claimed,
                    measured=found.nats,
                    right=found.right,
                    plays=found.plays,
                    hits=found.hits,
                    misses=found.misses,
                    by=found.by,
                )
            )
    return Audit(
        design=mechanism,
        guarantee=half.promised(query),
        epsilon=told,
        log_ratio=LogRatio.of(None) if channel is None else channel.log_ratio,
        confidence=1 - doubt,
        attacks=tuple(attacks),
        power=power_of(attacks, doubt / len(attacks)),
    )


class Shown(NamedTuple):
    """What the attacker saw of some devices' releases, and what they hold.

    Attributes
    ----------
    payloads : ndarray of uint8, shape (devices, bytes)
        As they crossed.
    values : ndarray of float64, shape (devices, k)
        What they stand for: a vector, or what a moment says of each of the two tastes.
    tastes : ndarray of float64, shape (2, m)
        Completed vectors with input a, and with b.
    secret : ndarray of bool
        Whether a device holds a.
    """

    payloads: Bits2
    values: Floats2
    tastes: Floats2
    secret: Bools


def _shown(
    query: SecondOrderQuery,
    features: ItemFeatures,
    pair: tuple[Floats, Floats],
    devices: int,
    coins: np.random.Generator,
) -> Shown:
    """Let private devices answer that each hold one of two inputs by a fair coin."""
    secret = coins.random(devices) < 0.5
    rows = _rows(np.where(secret[:, None], *pair))
    consent = Consent(mechanisms=frozenset({query.mechanism}), epsilon=query.epsilon)
    cohort = PrivateCohort(rows, SECRET, 0, consent=consent)
    cohort.pin(query.model, 0, devices)
    releases = [
        release
        for first in range(0, devices, BLOCK)
        for release in cohort.answer(query, features, first, min(first + BLOCK, devices))
    ]
    tastes = residuals(features, _rows(np.stack(pair)))
    payloads = np.frombuffer(b"".join(one.payload for one in releases), np.uint8).reshape(devices, -1)
    if not half_of(query.mechanism).moment:
        return Shown(payloads, np.stack([one.as_vector(features, query) for one in releases]), tastes, secret)
    sides = tastes @ basis_of(features)
    sides /= np.linalg.norm(sides, axis=1)[:, None]
    moments = np.stack([one.as_moment(features, query) for one in releases])
    return Shown(payloads, np.einsum("nij,ki,kj->nk", moments, sides, sides), tastes, secret)


def _rows(ratings: Floats2) -> Rows:
    """Return ratings of all items as those that there are; 0 stands for none."""
    users, items = np.nonzero(ratings)
    starts = np.searchsorted(users, np.arange(len(ratings) + 1))
    return Rows(starts=starts, items=items.astype(np.int32), values=ratings[users, items], count=ITEMS)


def _looks(shown: Shown, coins: np.random.Generator, *, whole: bool) -> tuple[dict[str, Floats], Bools, Ints]:
    """Return the scores of every look at releases, who holds what, and what each release is for."""
    parts, lean = parts_of(shown.secret.size, coins), shown.tastes[0] - shown.tastes[1]
    if not whole:  # the coordinate, or the bit, that the two tastes differ in most
        place = int(np.argmax(np.abs(lean)))
        return {"coordinate": shown.values[:, place] * np.sign(lean[place])}, shown.secret, parts
    by_taste = shown.values if shown.values.shape[1] == lean.size else None
    scores = {} if by_taste is None else {"projection": by_taste @ lean}
    scores["releases"] = ordered(keys_of(shown.payloads), shown.secret, parts)
    return scores | learned(shown.values.astype(np.float32), shown.secret, parts), shown.secret, parts
