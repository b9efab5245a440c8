"""Theorem 15: its separation and its number of users, by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from coordinator.protocol.errors import InputError
from scenarios.theory.bounds import all_bounds
from scenarios.theory.sufficient_users import delta_min, sufficient_users


def test_delta_min_by_hand() -> None:
    like, alpha, beta = [[0.9, 0.1, 0.5], [0.2, 0.3, 0.7]], [0.25, 0.75], [0.5, 0.3, 0.2]
    first = 0.25 * math.exp(-2 * (0.45 + 0.03 + 0.1))
    second = 0.75 * math.exp(-2 * (0.1 + 0.09 + 0.14))
    gaps = [abs(first * x + second * y) for x, y in ((0.8, -0.1), (0.4, -0.5), (-0.4, -0.4))]
    found = delta_min(like=like, user_shares=alpha, cluster_shares=beta, theta=2.0)
    assert found == pytest.approx(min(gaps), rel=1e-12)


def test_sufficient_users_by_hand_and_above_every_lower_bound() -> None:
    users = sufficient_users(items=1000, rated=30, epsilon=1.0, like=[[0.9, 0.1]])
    eps_hat, gap = 2 * (math.e - 1) / (math.e + 1), math.exp(-0.5) * 0.8
    by_hand = 300 * 1e6 * (math.log(2) + 2 * math.log(1000)) / (eps_hat**2 * gap**2 * 30 * (29 / 30) ** 2)
    assert users == pytest.approx(by_hand, rel=1e-12)
    assert users > 12.3e6  # what the paper's decoder needs for even odds
    assert users > max(b.users for b in all_bounds(items=1000, rated=30, epsilon=1.0, clusters=2, ours=True))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"like": [[0.9, 0.1], [0.1, 0.9]]}, "delta_min .*Pairwise-Preference"),
        ({"like": [[0.9, 1.1]]}, "like"),
        ({"like": [0.9]}, "like"),
        ({"theta": 30.0}, "theta 30.0 at rated 30"),
        ({"theta": 0.0}, "theta 0.0"),
        ({"exponent": 0.0}, "exponent"),
        ({"cluster_shares": [0.5, 0.6]}, "cluster_shares"),
        ({"user_shares": [0.5, 0.5]}, "user_shares"),
        ({"epsilon": -1.0}, "epsilon -1.0"),
    ],
)
def test_sufficient_users_refuses(change: dict[str, Any], text: str) -> None:
    values: dict[str, Any] = {"items": 1000, "rated": 30, "epsilon": 1.0, "like": [[0.9, 0.1]]} | change
    with pytest.raises(InputError, match=text):
        sufficient_users(**values)
