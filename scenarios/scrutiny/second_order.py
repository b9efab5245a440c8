"""Attacks on releases of two tiers: private devices complete their vectors with a public model, and answer once."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from actors.second_order.cohort import Consent, PrivateCohort
from coordinator.protocol.arrays import Bits2, Bools, Floats, Floats2, Ints
from coordinator.protocol.channels import LogRatio
from coordinator.protocol.features import ItemFeatures, residuals
from coordinator.protocol.grid import on_grid
from coordinator.protocol.rows import Rows
from coordinator.protocol.second_order import SecondOrderQuery
from coordinator.protocol.second_order_channels import basis_of
from coordinator.protocol.second_order_mechanisms import check_mechanism, half_of
from coordinator.protocol.second_order_public import A_RELEASE
from scenarios.scrutiny.bounds import attack_of, best_event, frequency_scores, learned_scores, parts_of, power_of
from scenarios.scrutiny.laws import keys_of
from scenarios.scrutiny.mechanism import SECRET
from scenarios.scrutiny.verdicts import Audit

ITEMS, RANK, BLOCK = 8, 2, 1 << 14
STARS = (1.0, 2.0, 3.0, 4.0, 5.0)
MOST = 60_000
"""The largest number of releases that an attack inspects: each is a separate message."""


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
    """Yield the pairs of inputs that are distinguished, as ratings of all items; 0 stands for none."""
    first, second = (np.where(features.vectors[:, place] > 0, 5.0, 1.0) for place in (0, 1))
    one, others = np.zeros(ITEMS), np.where(np.arange(ITEMS) > ITEMS // 2, 1.0, 0.0)
    one[0] = 5.0
    yield "worst", "two opposite tastes", first, 6.0 - first
    yield "directions", "tastes of two directions", first, second
    yield "membership", "whether a device rated an item", one + others, others
    yield "attribute", "whether it liked the only item that it rated", one, one / 5


def second_order_audit(mechanism: str, epsilon: Fraction, *, releases: int, doubt: float) -> Audit:
    """Attack the releases of a two-tier mechanism; ``doubt`` is the probability that one of the bounds is wrong."""
    half, features = half_of(mechanism), model()
    claimed = epsilon if half.takes_epsilon else None
    check_mechanism(mechanism, claimed)
    query = SecondOrderQuery(model=features.digest, mechanism=mechanism, epsilon=claimed)
    channel = half.channel(query, features)
    coins, cases = np.random.default_rng(20261123), list(inputs(features))
    parts = [True] if claimed is None or half.epsilon_of == A_RELEASE else [False, True]
    each, attacks = doubt / len(cases) / len(parts), []
    for whole in parts:
        for name, meaning, *pair in cases:
            words = meaning if whole and len(parts) == 1 else f"{meaning}, {'a release' if whole else half.epsilon_of}"
            sample = _sample(query, features, np.stack(pair), min(releases, MOST), coins)
            use = parts_of(sample.secret.size, coins)
            event = best_event(_scores(sample, use, whole=whole), sample.secret, use, each)
            times = ITEMS if whole and len(parts) > 1 else 1
            attacks.append(attack_of(event, name=name, meaning=words, times=times, claimed=claimed))
    return Audit(
        design=mechanism,
        guarantee=half.promised(query),
        epsilon=claimed,
        log_ratio=LogRatio.of(None) if channel is None else channel.log_ratio,
        confidence=1 - doubt,
        attacks=tuple(attacks),
        power=power_of(attacks, doubt / len(attacks)),
    )


class TwoTierSample(NamedTuple):
    """What the attacker observes of some devices' releases, and what they hold."""

    payloads: Bits2  # as they crossed, shape (devices, bytes)
    values: Floats2  # what they stand for: vectors, or what moments say of the two tastes, shape (devices, k)
    tastes: Floats2  # completed vectors with input a, and with b, shape (2, m)
    secret: Bools  # whether a device holds a


def _sample(
    query: SecondOrderQuery, features: ItemFeatures, pair: Floats2, devices: int, coins: np.random.Generator
) -> TwoTierSample:
    """Let private devices answer that each hold one of two inputs by a fair coin."""
    secret = coins.random(devices) < 0.5
    rows = _rows(np.where(secret[:, None], pair[0], pair[1]))
    consent = Consent(mechanisms=frozenset({query.mechanism}), epsilon=query.epsilon)
    cohort = PrivateCohort(rows, SECRET, 0, consent=consent)
    cohort.pin(query.model, 0, devices)
    releases = [
        release
        for first in range(0, devices, BLOCK)
        for release in cohort.answer(query, features, first, min(first + BLOCK, devices))
    ]
    tastes = residuals(features, _rows(pair))
    payloads = np.frombuffer(b"".join(one.payload for one in releases), np.uint8).reshape(devices, -1)
    if not half_of(query.mechanism).moment:
        return TwoTierSample(payloads, np.stack([one.as_vector(features, query) for one in releases]), tastes, secret)
    sides = tastes @ basis_of(features)
    sides /= np.linalg.norm(sides, axis=1)[:, None]
    moments = np.stack([one.as_moment(features, query) for one in releases])
    return TwoTierSample(payloads, np.einsum("nij,ki,kj->nk", moments, sides, sides), tastes, secret)


def _rows(ratings: Floats2) -> Rows:
    """Return ratings of all items as those that there are; 0 stands for none."""
    users, items = np.nonzero(ratings)
    starts = np.searchsorted(users, np.arange(len(ratings) + 1))
    return Rows(starts=starts, items=items.astype(np.int32), values=ratings[users, items], count=ITEMS)


def _scores(sample: TwoTierSample, use: Ints, *, whole: bool) -> dict[str, Floats]:
    """Return scores of releases, by the name of what makes them; ``use`` is what each release is for."""
    lean = sample.tastes[0] - sample.tastes[1]
    if not whole:  # the coordinate, or the bit, that the two tastes differ in most
        place = int(np.argmax(np.abs(lean)))
        return {"coordinate": sample.values[:, place] * np.sign(lean[place])}
    scores = {"projection": sample.values @ lean} if sample.values.shape[1] == lean.size else {}
    scores["releases"] = frequency_scores(keys_of(sample.payloads), sample.secret, use)
    return scores | learned_scores(sample.values.astype(np.float32), sample.secret, use)
