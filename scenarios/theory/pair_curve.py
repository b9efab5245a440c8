"""What Pairwise-Preference should put right, as curves over users that never fall.

The curves are known at rungs of a ladder, four to each doubling of the users: the share of items right, and the
probability that all are. A rung is emulated (`pair_emulation`) in catalogues of at most `MOST_EMULATED` items; the
theory of `spectral_prediction` stands in where the catalogue is larger, and where it resolves what no number of draws
does, as long as the draws do not contradict it. Rungs are looked at from the middle of the ladder towards the users
asked about, each value cut to what its neighbours on either side leave, so that a curve rises by construction whatever
was asked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.server.decoding.threads import one_thread
from coordinator.server.moments.pairs import pair_signal
from scenarios.theory.pair_emulation import emulated_shares
from scenarios.theory.spectral_prediction import Right, predict_signal

MOST_EMULATED = 300
"""Items up to which the decoder is emulated; a draw takes some 5 milliseconds there."""
LEAST_DRAWS, MOST_DRAWS, ERROR = 48, 240, 0.01
"""A rung is drawn until its standard error is that small, at least and at most so many times."""
CERTAIN, GLANCE = 0.9, 16
"""Share of draws with all items right from which the theory may tell a rung's share.

Where theory gives all right that probability, and all of so many draws are, they settle the rung.
"""
REACH = 3
"""Standard errors within which the theory must lie of what is drawn."""
LOST = 0.025
"""Where more than this is cut off, the decoder does worse with more users; then nothing is predicted."""
STEPS = 4  # rungs to a doubling of users
FLAT = 0.002  # neighbours that differ less, and are cut by less, are joined at once
WEAKEST, STRONGEST = (
    0.5,
    32.0,
)  # signal over noise: the strongest cluster's at the first rung, the weakest's at the last
MOST_USERS = 2.0**56  # no rung is higher: counts stay whole numbers
Between = Callable[[float, float, float], float]
"""Values of two rungs, and the part of the way from the first to the second, to the value there."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a curve is about, as a key."""

    rates: tuple[tuple[float, ...], ...]
    sizes: tuple[int, ...]
    decoder: str


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a curve that rises."""

    share: float  # The curve
    cut: float  # By how much it strays from what was found there

    @property
    def told(self) -> bool:
        """Whether the point is a prediction."""
        return self.cut <= LOST


def pair_share(rates: Floats, sizes: Ints, *, users: int, decoder: str) -> CurvePoint:
    """Predict the share of items right of `spectral.decode_pairs`, under the best matching of labels.

    Shapes: ``rates`` (L, L); ``sizes`` (L,).
    """
    if sizes.size == 1:
        return CurvePoint(1.0, 0.0)
    return _curve(_setting(rates, sizes, decoder), users, lambda rung: rung.share, _straight)


def pair_all_right(rates: Floats, sizes: Ints, *, users: int, decoder: str) -> float:
    """Predict the probability that `decode_pairs` puts all items right; see `pair_share`.

    It never falls with users, and never lies above the share of items right.
    """
    if sizes.size == 1:
        return 1.0
    chance = _curve(_setting(rates, sizes, decoder), users, lambda rung: rung.all_right, _like_a_maximum).share
    if chance <= 1 / sizes.size:  # any labels put that share right, under the best matching
        return chance
    return min(chance, pair_share(rates, sizes, users=users, decoder=decoder).share)


def _setting(rates: Floats, sizes: Ints, decoder: str) -> _Setting:
    return _Setting(tuple(map(tuple, np.asarray(rates, float).tolist())), tuple(sizes.tolist()), decoder)


def _curve(setting: _Setting, users: int, tell: Callable[[Right], float], between: Between) -> CurvePoint:
    """Return a curve's point. Users below the first rung have rungs of their own, which do not move those above."""
    first, last = _ladder(setting)

    def value(rung: int) -> float:
        return tell(_rung(setting, first, rung))

    place = STEPS * math.log2(users / first)
    with one_thread():
        if place >= 0:
            return rising(value, min(place, float(last)), last, between)
        start, fewer = rising(value, 0.0, last, between), math.ceil(STEPS * math.log2(first))
        return rising(lambda k: value(k - fewer) if k < fewer else start.share, place + fewer, fewer, between)


def _straight(low: float, high: float, part: float) -> float:
    return low + (high - low) * part


def _like_a_maximum(low: float, high: float, part: float) -> float:
    """Join probabilities straight in ``log(-log p)``, which falls about linearly where many items may each be wrong."""
    start, end = (math.log(-math.log(min(max(p, 1e-300), 1 - 1e-16))) for p in (low, high))
    return min(max(math.exp(-math.exp(_straight(start, end, part))), low), high)


def rising(share: Callable[[int], float], place: float, last: int, between: Between = _straight) -> CurvePoint:
    """Return a curve through the rungs' shares, at a place from 0 to ``last``; it rises whatever the shares are."""
    low, high = 0, last
    above, found = CurvePoint(share(high), 0.0), share(low)
    below = CurvePoint(min(found, above.share), max(0.0, found - above.share))
    while high - low > 1 and (above.share - below.share > FLAT or max(below.cut, above.cut) > FLAT):
        middle = (low + high) // 2
        found = share(middle)
        value = min(max(found, below.share), above.share)
        point = CurvePoint(value, abs(value - found))
        low, below, high, above = (middle, point, high, above) if place >= middle else (low, below, middle, point)
    part = (place - low) / max(1, high - low)
    return CurvePoint(between(below.share, above.share, part), _straight(below.cut, above.cut, part))


@lru_cache(maxsize=4096)
def _ladder(setting: _Setting) -> tuple[float, int]:
    """Return the users of the first rung, and the number of the last."""
    rates, sizes = np.array(setting.rates), np.array(setting.sizes)
    items, root = int(sizes.sum()), np.sqrt(sizes)
    weights = np.outer(sizes, sizes) / items**2
    centre = float((rates * weights).sum())
    square = rates * (1 - centre) ** 2 + (1 - rates) * centre**2 if setting.decoder == "centred" else rates
    strengths = np.abs(np.linalg.eigvalsh(root[:, None] * (rates - centre) * root))
    told = strengths[strengths > 1e-6 * items]
    if not told.size:
        return MOST_USERS, 0
    noise = items * (items - 1) / 2 * items * float((square * weights).sum())
    first = min(max(noise * (WEAKEST / float(told.max())) ** 2, 1.0), MOST_USERS)
    top = min(noise * (STRONGEST / float(told.min())) ** 2, MOST_USERS)
    return first, max(0, math.ceil(STEPS * math.log2(top / first)))


@lru_cache(maxsize=65536)
def _rung(setting: _Setting, first: float, rung: int) -> Right:
    """Return what a rung tells: emulated, or by theory where that is sharper and not contradicted."""
    rates, sizes = np.array(setting.rates), np.array(setting.sizes)
    users = min(first * 2 ** (rung / STEPS), MOST_USERS)
    whole = max(1, round(users))

    theory = predict_signal(pair_signal(rates, sizes, users=whole, decoder=setting.decoder))
    if sizes.sum() > MOST_EMULATED:
        return theory
    generator = np.random.default_rng([rung % 2**32, *setting.sizes])
    shares = emulated_shares(rates, sizes, users=users, decoder=setting.decoder, generator=generator)
    drawn = np.array(list(islice(shares, GLANCE)))
    if (drawn < 1).any() or theory.all_right < CERTAIN:
        drawn = np.append(drawn, list(islice(shares, LEAST_DRAWS - GLANCE)))
        while drawn.size < MOST_DRAWS and drawn.std() > ERROR * math.sqrt(drawn.size):
            drawn = np.append(drawn, list(islice(shares, LEAST_DRAWS)))
    return _settled(drawn, theory, items=int(sizes.sum()))


def _settled(drawn: Floats, theory: Right, *, items: int) -> Right:
    """Choose between the shares drawn and the theory of the share, and of the chance that all are right."""
    share, right, root = float(drawn.mean()), float((drawn == 1).mean()), math.sqrt(drawn.size)
    if right >= CERTAIN:
        error = max(float(drawn.std()), 1 / items) / root
        share = theory.share if abs(theory.share - share) <= REACH * error else share
    wanted = theory.all_right
    error = max(math.sqrt(wanted * (1 - wanted)), 1 / root) / root
    return Right(share, wanted if abs(wanted - right) <= REACH * error else right)
