"""The margin of a posterior: whatever liars move, what is left of the doubts is no less than honest answers leave."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy

from coordinator.protocol.arrays import Floats, Ints
from coordinator.server.decoding.mixture import Mixture, joint
from coordinator.server.decoding.posterior import Posterior, farthest_gaps
from coordinator.server.mechanisms.sign import SignSensing
from coordinator.server.rounds.setting import most_moved


def mixture_of(*levels: float) -> Mixture:
    many = len(levels)
    return Mixture(levels=np.array(levels), shares=np.full(many, 1 / many), doubts=np.full(many, 0.01), likelihood=0.0)


def doubts(mixture: Mixture, weighted: Floats, information: float, cluster: Ints | None = None) -> tuple[Ints, Floats]:
    """The most probable clusters, or given ones, and the probability that they are wrong."""
    error = np.full(weighted.size, information**-0.5)
    belongs = scipy.special.softmax(joint(mixture, weighted / information, error), axis=1)
    rows, found = np.arange(weighted.size), belongs.argmax(axis=1) if cluster is None else cluster
    belongs[rows, found] = 0
    return found, belongs.sum(axis=1)


@pytest.mark.parametrize("levels", [(0.8, 0.0), (1.0, 0.0, -0.1), (0.9, 0.8, -0.9)])
def test_no_lies_leave_less_doubt_than_honest_answers_do(levels: tuple[float, ...]) -> None:
    """Liars answer alike about an item, up or down, beside honest answers that tell any level; smaller margins fail."""
    mixture, honest, liars = mixture_of(*levels), 200, 20
    design = SignSensing(items=4, rated=4, centred=False)
    query = design.query(round_number=0, public_seed=bytes(16), epsilon=Fraction(4), pool=np.array([0], np.int32))
    rates = design.rates(query)
    rate, value = float(rates[0]), np.linspace(-1, 1, 400)

    def covered(moved: float) -> bool:
        for sign in (-1, 1):
            weighted = rate * honest * value
            cluster, doubt = doubts(mixture, weighted + sign * rate**0.5 * liars, rate * (honest + liars))
            lied = Posterior(cluster=cluster.astype(np.int32), doubt=doubt, expected=value, mixture=mixture, apart=True)
            _, truly = doubts(mixture, weighted, rate * honest, cluster)
            if (lied.withstanding(np.full(value.size, moved)).doubt < truly * (1 - 1e-9)).any():
                return False
        return True

    assert covered(liars * float(most_moved(rates)[0]))
    assert not covered(liars * rate**0.5 / 2)
    if levels == (0.8, 0.0):  # the middle is not 0, so that the sign alone is too little
        assert not covered(liars * rate**0.5)


def test_gaps_to_the_farthest_level() -> None:
    assert farthest_gaps(mixture_of(1.0, 0.0, -0.5)).tolist() == [1.5, 1.0, 1.5]
    assert farthest_gaps(mixture_of(0.3)).tolist() == [0.0]
