"""Rounds of anchor sensing as the server stores them: what was asked, and what came back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coordinator.protocol.arrays import Floats2
from coordinator.server.rounds.state import AnchorRound


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The rounds so far, by what they are good for."""

    pairs: tuple[AnchorRound, ...]  # All rounds about pairs; they have one pool
    given_up: int  # Users who had answered about pairs when turned signs were last given up; 0 if they never were
    turned: tuple[AnchorRound, ...]  # Rounds of turned signs since then
    plain: tuple[AnchorRound, ...] = ()  # Rounds of first-order signs

    @property
    def paired_users(self) -> int:
        """Users who answered about pairs."""
        return sum(anchor_round.statistic.answered for anchor_round in self.pairs)

    @property
    def turned_users(self) -> int:
        """Users who answered with turned signs since these were last given up."""
        return sum(anchor_round.statistic.answered for anchor_round in self.turned)

    @property
    def agreements(self) -> Floats2:
        """Sum of ``Q_ij S`` over users, a symmetric matrix of the pool's items with zeros on its diagonal."""
        pool = self.pairs[0].query.pool
        assert pool is not None  # pairs are those of a pool
        matrix, places = np.zeros((pool.size, pool.size)), np.triu_indices(pool.size, 1)
        matrix[places] = sum(
            2 * anchor_round.statistic.pairs - anchor_round.statistic.answered for anchor_round in self.pairs
        )
        return matrix + matrix.T


def course_of(rounds: Sequence[AnchorRound]) -> Course:
    """Return the rounds by what they are good for: where pairs are asked again, turned signs before them are void."""
    plain = tuple(anchor_round for anchor_round in rounds if anchor_round.plain)
    rounds = [anchor_round for anchor_round in rounds if not anchor_round.plain]
    places = [place for place, anchor_round in enumerate(rounds) if not anchor_round.turned]
    last = places[-1] if places else -1
    voided = [place for place, anchor_round in enumerate(rounds[: last + 1]) if anchor_round.turned]
    before = rounds[: voided[-1]] if voided else ()
    return Course(
        pairs=tuple(rounds[place] for place in places),
        given_up=sum(anchor_round.statistic.answered for anchor_round in before if not anchor_round.turned),
        turned=tuple(rounds[last + 1 :]),
        plain=plain,
    )
