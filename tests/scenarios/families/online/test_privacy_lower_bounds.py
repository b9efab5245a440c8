"""Lower bounds on epsilon: by hand, and none above what is proved."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.protocol.errors import InputError
from scenarios.families.online.bounds import (
    PAPER_SHARE,
    conjecture,
    epsilon_needed,
    epsilon_proved,
    loss_bound,
    own_lower_bound,
    theorem_7,
    theorem_15,
)


def divergence(p: float, q: float) -> float:
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def test_theorem_7() -> None:
    assert theorem_7(1000, 2, 20, 10, 5) == pytest.approx(math.log(100) / 10)
    assert theorem_7(1000, 2, 20, 10, 600) == 0


def test_what_is_needed_is_the_larger_of_both_theorems() -> None:
    """At T = 1,000 and a loss of 1 Theorem 7's is larger; with D + R = 250 and a loss of 14 Theorem 15's."""
    assert (
        epsilon_needed(1000, 2, 20, 10, 3, 4, 1) == theorem_7(1000, 2, 20, 10, 1) > theorem_15(1000, 2, 20, 10, 3, 4, 1)
    )
    wide = (1000, 2, 20, 1, 250, 0)
    assert epsilon_needed(*wide, 14.49) == max(theorem_7(*wide[:4], 14.49), theorem_15(*wide, 14.49))
    assert epsilon_needed(10**6, 2, 20, 1, 2000, 0, 10**6 / 69) == pytest.approx(0.0061 * 2000)
    assert epsilon_needed(1000, 2, 19, 10, 0, 0, 1) is None
    assert epsilon_needed(1000, 2, 20, 10, 0, 0, None) is None


def test_the_papers_thresholds() -> None:
    assert pytest.approx(3 / 32 * divergence(3 / 4, 1 / 2) / 2, abs=5e-5) == PAPER_SHARE
    assert theorem_15(1000, 2, 20, 10, 3, 4, 14) == pytest.approx(0.0061 * 7 / 10)
    assert theorem_15(1000, 2, 20, 10, 3, 4, 15) == 0
    assert theorem_15(20, 2, 20, 10, 3, 4, 0.1) == 0
    assert theorem_15(1000, 2, 20, 10, 0, 0, 14) == 0


def test_the_specs_example_of_the_conjecture() -> None:
    """T = 10^9, D = 32, R = 8, P = 64 with the lean rule: 0.33 against 233; the spec's N is taken to be 4P."""
    loss = loss_bound("p-rec-lean", 10**9, 2, 256, 64, 32, 8)
    assert loss is not None
    assert f"{conjecture(10**9, 2, 256, 64, 32, 8, loss):.2f}" == "0.33"


def test_the_conjecture_is_vacuous_for_few_rounds_and_counts_a_small_loss_as_more() -> None:
    assert conjecture(1000, 2, 20, 10, 3, 4, 30) == 0
    assert conjecture(10**6, 2, 20, 10, 0, 0, 5) == 0
    floor = 0.03 * 7 * math.log(10**6)
    assert conjecture(10**6, 2, 20, 10, 3, 4, floor / 2) == conjecture(10**6, 2, 20, 10, 3, 4, floor)


def test_p_recs_own() -> None:
    assert own_lower_bound(8, 2, 6, 3, 2, 1) == pytest.approx(3 * math.log(15) / 6)
    assert own_lower_bound(1000, 3, 20, 10, 2, 1) == pytest.approx(3 * math.log(2998) / 20)
    with pytest.raises(InputError, match="D \\+ R <= T"):
        own_lower_bound(8, 2, 6, 3, 8, 1)


@given(
    name=st.sampled_from(["p-rec", "p-rec-lean", "p-rec-sharp", "p-rec-wide"]),
    rounds=st.sampled_from([200, 10**4, 10**8]),
    peers=st.integers(1, 60),
    ratio=st.integers(2, 50),
    d=st.integers(0, 20),
    r=st.integers(0, 20),
)
def test_no_lower_bound_is_above_the_proved_epsilon(
    name: str, rounds: int, peers: int, ratio: int, d: int, r: int
) -> None:
    size = (rounds, 2, ratio * peers, peers, d, r)
    proved, loss = epsilon_proved(name, *size), loss_bound(name, *size)
    assert proved is not None
    assert loss is not None
    assert own_lower_bound(*size) <= proved
    assert max(theorem_15(*size, loss), conjecture(*size, loss)) <= proved
    assert theorem_7(*size[:4], loss) <= proved


def test_two_groups_of_peers_must_fit() -> None:
    with pytest.raises(InputError, match="voters is 19 and peers 10"):
        theorem_7(1000, 2, 19, 10, 5)
    with pytest.raises(InputError, match="loss is 0"):
        theorem_15(1000, 2, 20, 10, 1, 1, 0)
