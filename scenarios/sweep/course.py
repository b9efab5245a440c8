"""The course of an adaptive run: pool, undecided items and labels in error, round by round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from coordinator.protocol.arrays import Indices
from coordinator.server.rounds.learner import Learner
from coordinator.server.rounds.query_rounds import Round
from coordinator.server.rounds.state import ServerState
from scenarios.data.metrics import clustering_scores


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where an adaptive run stood after a round.

    Attributes
    ----------
    users : int
        Answers asked for so far.
    pool : int
        Items that the round asked about.
    undecided, wrong : int
        Items that were not decided after it, and that had a wrong label.
    """

    users: int
    pool: int
    undecided: int
    wrong: int


def steps(
    rounds: Iterable[Round], learner: Learner, *, failure: float, devices: int, truth: Indices
) -> tuple[Standing, ...]:
    """Return where a run stood after each of its rounds: they are absorbed again, one by one."""
    state, found = ServerState(devices=devices), list[Standing]()
    for over in rounds:
        state = learner.absorb(state, over.ask, over.statistic)
        model, posterior = learner.learn(state)
        assert posterior is not None  # adaptive designs have one
        wrong = round((1 - clustering_scores(model.cluster, truth).accuracy) * truth.size)
        found.append(
            Standing(
                users=state.answers_asked,
                pool=truth.size if over.ask.query.pool is None else over.ask.query.pool.size,
                undecided=int((~posterior.decided(failure)).sum()),
                wrong=wrong,
            )
        )
    return tuple(found)
