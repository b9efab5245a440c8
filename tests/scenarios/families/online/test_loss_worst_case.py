"""p-REC_sim's worst-case loss: the check value, a plain search of all clients and votes, and the bound."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

from coordinator.protocol.errors import InputError
from coordinator.server.online.weighting import Weighting
from scenarios.families.online.bounds import loss_bound, loss_lower_bound
from scenarios.families.online.worst_case import worst_loss_sim


def test_check_value_6() -> None:
    assert worst_loss_sim(16, 2, 50) == pytest.approx(2.439543291059, abs=1e-12)


def test_the_specs_example() -> None:
    assert f"{worst_loss_sim(256, 4, 1000):.4f}" == "5.3538"


def plain(voters: int, peers: int, rounds: int) -> float:
    """The most over clients and votes that may depend on what was recommended, voters told apart."""
    weighting = Weighting(rounds=rounds, objects=2)

    def voting(votes: tuple[int, ...], choice: int, among: frozenset[int]) -> frozenset[int]:
        return frozenset(voter for voter in among if votes[voter] == choice)

    @functools.cache
    def worst(left: int, alive: frozenset[int], perfect: frozenset[int]) -> float:
        if left == 0:
            return 0.0
        found = 0.0
        for liked, votes in itertools.product((0, 1), itertools.product((0, 1), repeat=voters)):
            still = voting(votes, liked, perfect)
            if len(still) < peers:
                continue
            sums = np.bincount([votes[voter] for voter in alive], minlength=2).astype(np.float64)
            loss = 0.0
            for chosen, p in enumerate(weighting.chances(sums)):
                agrees = chosen == liked
                after = voting(votes, chosen, alive) if agrees else alive - voting(votes, chosen, alive)
                loss += float(p) * ((not agrees) + worst(left - 1, after, still))
            found = max(found, loss)
        return found

    sizes = [frozenset(range(size)) for size in range(peers, voters + 1)]
    return max(worst(rounds, everybody, everybody) for everybody in sizes)


@pytest.mark.parametrize(("voters", "peers", "rounds"), [(3, 1, 3), (4, 1, 3), (4, 2, 3)])
def test_the_programme_is_the_plain_search(voters: int, peers: int, rounds: int) -> None:
    assert worst_loss_sim(voters, peers, rounds) == pytest.approx(plain(voters, peers, rounds), rel=1e-12)


@pytest.mark.parametrize("sharp", [False, True])
@pytest.mark.parametrize(("voters", "peers", "rounds"), [(64, 1, 100), (100, 7, 1000), (300, 100, 40)])
def test_it_lies_between_the_bounds(voters: int, peers: int, rounds: int, sharp: bool) -> None:
    found = worst_loss_sim(voters, peers, rounds, sharp=sharp)
    upper = loss_bound("p-rec-sharp" if sharp else "p-rec-sim", rounds, 2, voters, peers)
    assert upper is not None
    assert loss_lower_bound(rounds, 2, voters, peers) <= found <= upper


def test_sizes_that_would_not_end() -> None:
    with pytest.raises(InputError, match="at most 5000 voters"):
        worst_loss_sim(5001, 1, 10)
    with pytest.raises(InputError, match="voters is 1, fewer"):
        worst_loss_sim(1, 2, 10)
