"""The coordinator's record of voters: who survives, and everybody's strikes, weights and exposure; compiled."""

import numpy as np

from coordinator.protocol.arrays import Bits, Bools, Floats, Indices
from coordinator.protocol.compiled import compiled
from coordinator.protocol.errors import InputError
from coordinator.server.online.recommenders import NO_LIMIT, Rule


@compiled
def tally(votes: Bits, place: Indices, weight: Floats, sums: Floats) -> int:
    """Sum survivors' weights by the object, of m, that they vote for; return the first without such a vote, or -1."""
    sums[:] = 0.0
    for k in range(place.size):
        vote = votes[place[k]]
        if vote >= sums.size:
            return k
        sums[vote] += weight[k]
    return -1


@compiled
def strike(
    votes: Bits,
    place: Indices,
    number: Indices,
    weight: Floats,
    first: Indices,
    second: Indices,
    recommendation: int,
    liked: bool,
    rule: Indices,
) -> int:
    """Give survivors their strikes and close the ranks of those that survive them; return how many these are."""
    survivors = 0
    for k in range(place.size):
        voter = number[k]
        agrees = votes[place[k]] == recommendation
        if liked and not agrees:
            first[voter] += 1
        elif agrees and not liked:
            second[voter] += 1
        a, b = np.int64(first[voter]), np.int64(second[voter])
        if b <= rule[0] and a <= rule[1] and a + b <= rule[2]:
            place[survivors], number[survivors], weight[survivors] = place[k], voter, weight[k]
            survivors += 1
    return survivors


@compiled
def reweigh(votes: Bits, place: Indices, weight: Floats, recommendation: int, inside: float, outside: float) -> None:
    """Multiply the weights of those that vote for ``recommendation`` by ``inside``, all others' by ``outside``."""
    for k in range(place.size):
        weight[k] *= inside if votes[place[k]] == recommendation else outside


@compiled
def expose(votes: Bits, place: Indices, number: Indices, ratios: Floats, exposure: Floats) -> None:
    """Add to every survivor's exposure the log-likelihood ratio that its vote makes in this round."""
    for k in range(place.size):
        exposure[number[k]] += ratios[votes[place[k]]]


class Electorate:
    """Voters of one service, numbered 0 to n - 1 in the order of their addresses.

    Shapes: ``first_strikes``, ``second_strikes``: shape (n,); D-strikes ``a`` and R-strikes ``b``, frozen when a
    voter is kicked out; ``exposure``: shape (n,); ``ln Pr[recommendations so far] - ln Pr'[...]``, where Pr' is
    the same service without this voter [nats].
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
        survivors = np.zeros(self.exposure.size, np.bool_)
        survivors[self._number] = True
        return survivors

    def seat(self) -> None:
        """Note that the next votes come in the order of the present survivors."""
        self._place = np.arange(self._number.size, dtype=np.int32)

    def sums(self, votes: Bits, objects: int, round_number: int) -> Floats:
        """Return survivors' votes, by weight, for each of ``objects``."""
        totals = np.empty(objects)
        wrong = tally(votes, self._place, self._weight, totals)
        if wrong >= 0:
            raise InputError(
                f"round {round_number}: voter {self._address[self._number[wrong]]} votes for object "
                f"{votes[self._place[wrong]]}, which is none of {objects}; a vote is one number from 0 to {objects - 1}"
            )
        return totals

    def expose(self, votes: Bits, ratios: Floats) -> None:
        """Add this round's log-likelihood ratio of a voter missing, by the object it votes for, to all exposures."""
        expose(votes, self._place, self._number, ratios, self.exposure)

    def learn(self, votes: Bits, recommendation: int, factors: tuple[float, float], *, liked: bool) -> None:
        """Take in the client's answer."""
        if factors != (1.0, 1.0):
            reweigh(votes, self._place, self._weight, recommendation, *factors)
        if self._kicks:
            ranks, strikes = (self._place, self._number, self._weight), (self.first_strikes, self.second_strikes)
            survivors = strike(votes, *ranks, *strikes, recommendation, liked, self._rule)
            self._place, self._number = self._place[:survivors], self._number[:survivors]
            self._weight = self._weight[:survivors]
