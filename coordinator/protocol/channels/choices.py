"""Subset selection: a device names one of the public candidates that suit it best, or, less often, another one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from coordinator.protocol.arrays import Ints
from coordinator.protocol.budget import Epsilon
from coordinator.protocol.channels.channel import COIN, LogRatio, share_of_coins
from coordinator.protocol.errors import InputError


@dataclass(frozen=True, slots=True)
class ChoiceChannel:
    """Subset selection: of ``choices`` ranked answers release one of the best ``kept``, or, less often, of the others.

    Which one of them is uniform. Source: Ye and Barg (2018), with the subset found by ranking public candidates.

    Attributes
    ----------
    choices, kept : int
        Number of answers, and of the best among them.
    misses : int
        Number of the 2**64 coins that release one of the others, rounded up: towards more noise.
    """

    choices: int
    kept: int
    misses: int

    @property
    def probabilities(self) -> tuple[Fraction, Fraction]:
        """Probability of each one of the best answers, and of each one of the others, exact."""
        miss = Fraction(self.misses, COIN)
        return (1 - miss) / self.kept, miss / (self.choices - self.kept)

    @property
    def contrast(self) -> float:
        """By how much a best answer is more probable than another one."""
        best, other = self.probabilities
        return float(best - other)

    @property
    def log_ratio(self) -> LogRatio:
        """Largest log-ratio of two rankings' probabilities of one answer, exact: what the channel really gives away."""
        best, other = self.probabilities
        return LogRatio.of(best / other if other else None)

    @property
    def epsilon(self) -> float:
        """`log_ratio` as the next float [nats]."""
        return float(self.log_ratio)

    def chances(self, private: Ints) -> list[Fraction]:
        """Return the exact probability of every signed vector, given one device's sums; see `Channel.chances`.

        Parameters
        ----------
        private : ndarray of int32, shape (choices / 2,)
            Signed sums, one a sign vector: choices are these and their negatives, ranked by falling sum, and ties are
            broken in every order alike.
        """
        sums = [int(total) for total in private]
        if 2 * len(sums) != self.choices:
            raise InputError(f"{len(sums)} signed sums are no ranking of {self.choices} choices; give half as many")
        best, other = self.probabilities
        signed = [sign * total for sign in (-1, 1) for total in sums]
        found = []
        for total in signed:
            above, tied = sum(one > total for one in signed), signed.count(total)
            among_best = min(max(self.kept - above, 0), tied)
            found.append((among_best * best + (tied - among_best) * other) / tied)
        return found

    @property
    def threshold(self) -> np.uint64:
        """`misses` as the word that a coin is held against."""
        return np.uint64(self.misses)


def choice_channel(epsilon: Epsilon, *, choices: int, kept: int) -> ChoiceChannel:
    """Return the epsilon-differentially private channel of one choice.

    Parameters
    ----------
    epsilon : Fraction or None
        Privacy parameter in nats; None for no noise.
    choices, kept : int
        Number of answers, and of the best among them, which is smaller.

    Raises
    ------
    InputError
        As `bit_channel`; if ``kept`` is not between 1 and ``choices - 1``; or if the number of choices is no power of
        two and epsilon so small that the nearest whole number of coins exceeds it.
    """
    if not 1 <= kept < choices:
        raise InputError(f"kept is {kept}; it must lie between 1 and {choices - 1}, one less than the choices")
    return ChoiceChannel(choices, kept, share_of_coins(epsilon, kept=kept, others=choices - kept))
