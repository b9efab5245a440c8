"""The share of items right that Pairwise-Preference should reach, as a curve over users that never falls.

The curve is known at rungs of a ladder, four to each doubling of the users. A rung's share is emulated
(`scenarios.pair_emulation`) in catalogues of at most `MOST_EMULATED` items; the theory of `spectral_prediction` stands
in where the catalogue is larger and where emulation hardly finds a mistake, since there it is sharp and resolves what
no number of draws does. Rungs are looked at from the middle of the ladder towards the users asked about, each share cut
to what its neighbours on either side leave, so that the curve rises by construction whatever was asked before.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from coordinator.protocol.arrays import Floats, Ints
from coordinator.threads import one_thread
from scenarios.pair_emulation import emulated_shares
from scenarios.spectral_prediction import spectral_accuracy

MOST_EMULATED = 300
"""Items up to which the decoder is emulated; a draw takes some 5 milliseconds there."""
LEAST_DRAWS, MOST_DRAWS, ERROR = 48, 240, 0.01
"""A rung is drawn until its standard error is that small, at least and at most so many times."""
CERTAIN, GLANCE = 0.9, 16
"""Share of draws with all items right from which the theory tells a rung's share; all of so many settle it at once."""
LOST = 0.025
"""Where more than this is cut off, the decoder does worse with more users; then nothing is predicted."""
STEPS = 4  # rungs to a doubling of users
FLAT = 0.002  # neighbours that differ less are joined by a straight line
WEAKEST, STRONGEST = (
    0.5,
    32.0,
)  # signal over noise: the strongest cluster's at the first rung, the weakest's at the last
MOST_USERS = 2.0**56  # no rung is higher: counts stay whole numbers


@dataclass(frozen=True, slots=True)
class _Setting:
    """What a curve is about, as a key."""

    rates: tuple[tuple[float, ...], ...]
    sizes: tuple[int, ...]
    decoder: str


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a curve that rises.

    Attributes
    ----------
    share : float
        The curve.
    cut : float
        By how much it strays from what was found there.
    """

    share: float
    cut: float

    @property
    def told(self) -> bool:
        """Whether the point is a prediction."""
        return self.cut <= LOST


def pair_share(rates: Floats, sizes: Ints, *, users: int, decoder: str) -> CurvePoint:
    """Predict the share of items right of `coordinator.spectral.decode_pairs`, under the best matching of labels.

    Parameters
    ----------
    rates : array of float, shape (L, L)
        ``P(S = 1)`` by the clusters of the pair, from `coordinator.pair_moments.pair_agreement`.
    sizes : array of int, shape (L,)
        Items in each cluster.
    users : int
        Answers received, U, at least 1.
    decoder : {"centred", "paper"}
        Whether S less its mean rate or S is summed.

    Returns
    -------
    CurvePoint
        Its share, in [0, 1], never falls with users.
    """
    if sizes.size == 1:
        return CurvePoint(1.0, 0.0)
    setting = _Setting(tuple(map(tuple, np.asarray(rates, float).tolist())), tuple(sizes.tolist()), decoder)
    first, last = _ladder(setting)
    place = min(max(STEPS * math.log2(users / first), 0.0), float(last))
    with one_thread():
        return rising(lambda rung: _share(setting, first, rung), place, last)


def rising(share: Callable[[int], float], place: float, last: int) -> CurvePoint:
    """Return a curve through the rungs' shares, at a place from 0 to ``last``; it rises whatever the shares are.

    Parameters
    ----------
    share : callable
        Rung, a whole number from 0 to ``last``, to its share.
    place : float
        Where the curve is wanted.
    last : int
        Last rung.

    Returns
    -------
    CurvePoint
        Rungs are taken by bisection, the last one first; a share outside those of the rungs left and right of it is
        cut to them.
    """
    low, high = 0, last
    above, found = CurvePoint(share(high), 0.0), share(low)
    below = CurvePoint(min(found, above.share), max(0.0, found - above.share))
    while high - low > 1 and (above.share - below.share > FLAT or max(below.cut, above.cut) > LOST):
        middle = (low + high) // 2
        found = share(middle)
        value = min(max(found, below.share), above.share)
        point = CurvePoint(value, abs(value - found))
        low, below, high, above = (middle, point, high, above) if place >= middle else (low, below, middle, point)
    part = (place - low) / max(1, high - low)
    return CurvePoint(below.share + (above.share - below.share) * part, below.cut + (above.cut - below.cut) * part)


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
def _share(setting: _Setting, first: float, rung: int) -> float:
    """Return a rung's share of items right: emulated, or by theory where that is sharper."""
    rates, sizes = np.array(setting.rates), np.array(setting.sizes)
    users = min(first * 2 ** (rung / STEPS), MOST_USERS)

    def theory() -> float:
        return spectral_accuracy(rates, sizes, users=max(1, round(users)), decoder=setting.decoder)

    if sizes.sum() > MOST_EMULATED:
        return theory()
    generator = np.random.default_rng([rung, *setting.sizes])
    shares = emulated_shares(rates, sizes, users=users, decoder=setting.decoder, generator=generator)
    drawn = np.array(list(islice(shares, GLANCE)))
    if (drawn == 1).all():
        return theory()
    drawn = np.append(drawn, list(islice(shares, LEAST_DRAWS - GLANCE)))
    while drawn.size < MOST_DRAWS and drawn.std() > ERROR * math.sqrt(drawn.size):
        drawn = np.append(drawn, list(islice(shares, LEAST_DRAWS)))
    return theory() if (drawn == 1).mean() >= CERTAIN else float(drawn.mean())
