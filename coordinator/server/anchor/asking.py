"""What rounds of turned signs ask, given tables of like rates: who serves the guess, and what ratings count."""

from __future__ import annotations

import itertools

import numpy as np

from coordinator.protocol.arrays import Bools, Floats, Floats2, Indices, Indices2
from coordinator.server.anchor.reading import GUESS_UNIT
from coordinator.server.anchor.sensing import SENSING_LEVELS, Tables

OPEN = 0.6
"""How often an open item is sensed that says most of the class, where all say as much."""
COUNT_UNIT, MOST_UNITS = 64, 8
"""Steps of the root mean square of what ratings count, and how many times that one may count."""
PROBES, CONTROL_PART = 0.05, 8
"""Share of open items that count by random signs of the guess, and by what part less controls count."""
LEAST_RATE = 0.02


def turned_tables(
    known: Floats2, table: Floats2, shares: Floats, decided: Bools, *, control: int, coins: np.random.Generator
) -> Tables:
    """Return the arrays of a round about turned signs.

    Each open item carries a pair of clusters that it may well be of. A like then counts by how much more the class
    that was guessed likes one of them than the other, over how much it likes the item; a dislike the other way round.
    That centres ratings, turns them and uses first order at once. Some items and all decided ones count by a random
    sign of each class instead, which lets the tables be told apart. Decided ones count so little that they matter only
    to devices that sense no open one.

    Parameters
    ----------
    known : ndarray of float64, shape (N, L)
        Probability of every item's cluster.
    table : ndarray of float64, shape (K, L)
        Like rates given the guess.
    shares : ndarray of float64, shape (K,)
        Shares of the guesses.
    decided : ndarray of bool, shape (N,)
        Items that serve the guess.
    control : int
        How often, of `SENSING_LEVELS`, decided items are sensed.
    coins : Generator
        Public coins.
    """
    items, (classes, _) = len(known), table.shape
    rates = np.clip(table @ known.T, LEAST_RATE, 1 - LEAST_RATE)
    guess = np.empty((2 * classes, items))
    guess[0::2], guess[1::2] = np.log1p(-rates), np.log(rates)
    gap = table @ _pairs(known, coins)
    counts = np.empty_like(guess)
    counts[0::2], counts[1::2] = -gap / (1 - rates), gap / rates
    squares = shares @ (rates * counts[1::2] ** 2 + (1 - rates) * counts[0::2] ** 2)
    counts /= np.sqrt(max(float(squares.mean()), 1e-12))
    patterns = np.array([(1, *rest) for rest in itertools.islice(itertools.product((1, -1), repeat=classes - 1), 64)])
    chosen = patterns[coins.integers(len(patterns), size=items)].T
    probes = decided | (coins.random(items) < PROBES)
    signs = np.where(decided, 1 / CONTROL_PART, 1.0) * chosen
    counts[0::2, probes], counts[1::2, probes] = -signs[:, probes], signs[:, probes]
    return Tables(
        prior=np.zeros(classes, np.int32),
        guess=_whole(GUESS_UNIT * guess),
        counts=_whole(np.clip(COUNT_UNIT * counts, -MOST_UNITS * COUNT_UNIT, MOST_UNITS * COUNT_UNIT)),
        lean=np.zeros(classes, np.int32),
        sensed=_sensed(rates, shares, decided, control),
    )


def _pairs(known: Floats2, coins: np.random.Generator) -> Floats2:
    """Return +1 and -1 at two clusters of each item, drawn by how probable they are, shape (L, N)."""
    items, clusters = known.shape
    pairs = np.zeros((clusters, items))
    if clusters == 2:
        pairs[0], pairs[1] = 1, -1
        return pairs
    drawn = np.argsort(-(np.log(np.sqrt(known) + 0.02) + coins.gumbel(size=known.shape)), axis=1)
    pairs[drawn[:, 0], np.arange(items)], pairs[drawn[:, 1], np.arange(items)] = 1, -1
    return pairs


def _sensed(rates: Floats2, shares: Floats, decided: Bools, control: int) -> Indices:
    """Return how often items are sensed: the less, the more they say of the class; always, if hardly any are open.

    Where only the pool is known, it hardly does anything but serve the guess: a device rated few of its items, and
    guesses by fewer yet confuse two classes, of three until nothing tells them apart any more.
    """
    apart = shares @ (rates - shares @ rates) ** 2
    most, open_share = max(float(apart.max()), 1e-12), 1 - float(decided.mean())
    alike = OPEN * float(apart.mean()) / most
    least = alike + (1 - alike) * max(0.0, 1 - 2 * open_share)
    often = 1 - (1 - least) * np.sqrt(apart / most)
    return np.where(decided, control, np.rint(SENSING_LEVELS * often)).astype(np.int32)


def asked_guess(tables: Tables, k: int) -> Tables:
    """Return the arrays of a round that asks whether class k was guessed, by the same guess."""
    lean = np.where(np.arange(tables.lean.size) == k, 1, -1).astype(np.int32)
    return Tables(
        prior=tables.prior, guess=tables.guess, counts=np.zeros_like(tables.counts), lean=lean, sensed=tables.sensed
    )


def plain_tables(pool: Indices, items: int, levels: int) -> Tables:
    """Return the arrays of a round of first-order signs of a pool: there is one class, and every rating is sensed."""
    sensed, none = np.zeros(items, np.int32), np.zeros((2, items), np.int32)
    sensed[pool] = levels
    counts = np.repeat(np.array([[-1], [1]], np.int32), items, axis=1)
    return Tables(prior=none[0, :1], guess=none, counts=counts, lean=none[0, :1], sensed=sensed)


def _whole(values: Floats2) -> Indices2:
    found: Indices2 = np.rint(values).astype(np.int32)
    return found
