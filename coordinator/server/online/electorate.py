"""The coordinator's record of voters: who survives, and everybody's strikes, weights and exposure."""

from __future__ import annotations

import numpy as np

from coordinator.protocol.arrays import Bits, Bools, Floats, Indices
from coordinator.protocol.errors import InputError
from coordinator.server.online import kernels
from coordinator.server.online.rules import NO_LIMIT, Rule


class Electorate:
    """Voters of one service, numbered 0 to n - 1 in the order of their addresses.

    Parameters
    ----------
    voters : int
        Their number n.
    rule : Rule
        The rule for kicking voters out.
    addresses : ndarray of int32, optional
        The voters' addresses, for errors.

    Attributes
    ----------
    first_strikes, second_strikes : ndarray of int32, shape (n,)
        D-strikes ``a`` and R-strikes ``b``, frozen when a voter is kicked out.
    exposure : ndarray of float64, shape (n,)
        ``ln Pr[recommendations so far] - ln Pr'[...]``, where Pr' is the same service without this voter [nats].
    """

    def __init__(self, voters: int, rule: Rule, addresses: Indices | None = None) -> None:
        self._address = np.arange(voters, dtype=np.int32) if addresses is None else addresses
        self.first_strikes = np.zeros(voters, np.int32)
        self.second_strikes = np.zeros(voters, np.int32)
        self.exposure = np.zeros(voters)
        self._rule = np.array(rule, np.int32)
        self._kicks = min(rule) < NO_LIMIT
        self._number = np.arange(voters, dtype=np.int32)
        self._place = self._number.copy()
        self._weight = np.ones(voters)

    @property
    def survivors(self) -> Indices:
        """Voters that survive, ascending; int32."""
        return self._number

    @property
    def alive(self) -> Bools:
        """Which voters survive, bool, shape (n,)."""
        found = np.zeros(self.exposure.size, np.bool_)
        found[self._number] = True
        return found

    def seat(self) -> None:
        """Note that the next votes come in the order of the present survivors."""
        self._place = np.arange(self._number.size, dtype=np.int32)

    def sums(self, votes: Bits, objects: int, round_number: int) -> Floats:
        """Return survivors' votes, by weight, for each of ``objects``.

        Raises
        ------
        InputError
            If a voter votes for no object of the round.
        """
        found = np.empty(objects)
        wrong = kernels.tally(votes, self._place, self._weight, found)
        if wrong >= 0:
            raise InputError(
                f"round {round_number}: voter {self._address[self._number[wrong]]} votes for object "
                f"{votes[self._place[wrong]]}, which is none of {objects}; a vote is one number from 0 to {objects - 1}"
            )
        return found

    def expose(self, votes: Bits, ratios: Floats) -> None:
        """Add this round's log-likelihood ratio of a voter missing, by the object it votes for, to all exposures."""
        kernels.expose(votes, self._place, self._number, ratios, self.exposure)

    def learn(self, votes: Bits, chosen: int, factors: tuple[float, float], *, liked: bool) -> None:
        """Take in the client's answer.

        Parameters
        ----------
        votes : ndarray of uint8
            The round's votes.
        chosen : int
            The object recommended.
        factors : (float, float)
            Factors for the weights of voters who voted for it, and of the others.
        liked : bool
            The client's answer.
        """
        if factors != (1.0, 1.0):
            kernels.reweigh(votes, self._place, self._weight, chosen, *factors)
        if self._kicks:
            kept = kernels.strike(
                votes,
                self._place,
                self._number,
                self._weight,
                self.first_strikes,
                self.second_strikes,
                chosen,
                liked,
                self._rule,
            )
            self._place, self._number = self._place[:kept], self._number[:kept]
            self._weight = self._weight[:kept]
