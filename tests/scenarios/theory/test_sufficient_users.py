"""Theorem 15's users, and the clusters that no number of users tells apart."""

import math
from typing import Any

import pytest
from runs import present

from coordinator.protocol.errors import InputError
from scenarios.config.resolve import resolve
from scenarios.config.scenario import Scenario
from scenarios.theory.bounds import all_bounds
from scenarios.theory.sufficient_users import delta_min, inseparable, sufficient_users, warning


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


CROSSED = ((0.9, 0.1), (0.1, 0.9))
FIRST_ORDER = ["maxsense", "multi-maxsense", "item-query", "full-reveal", "curator-items"]
PAIRED: list[dict[str, object]] = [{"design": design} for design in ("anchor", "curator-pairs", "pairwise")]
PAIRED += [{"design": "pairwise", "agreement": one} for one in ("equal", "positive")]
PAIRED += [{"design": "pairwise", "agreement": one, "rated_items": "public"} for one in ("rated-equal", "positive")]


def scenario(like: tuple[tuple[float, ...], ...], **more: object) -> Scenario:
    return Scenario.model_validate({"items": 40, "rated": 10, "users": 10, "like": like, **more})


def warned(like: tuple[tuple[float, ...], ...], **more: object) -> str:
    return present(warning(resolve(scenario(like, **more))))


@pytest.mark.parametrize("design", FIRST_ORDER)
def test_designs_that_ask_about_single_items_are_blind_where_classes_cancel(design: str) -> None:
    assert inseparable(resolve(scenario(CROSSED, design=design))) == [(0, 1)]
    line = warned(CROSSED, design=design)
    assert f"{design} cannot tell clusters 0 and 1 apart" in line
    assert line.endswith("anchor sensing can (--design anchor)")
    assert warning(resolve(scenario(((0.9, 0.1),), design=design))) is None
    assert warning(resolve(scenario(CROSSED, design=design, class_shares="0.6,0.4"))) is None
    assert inseparable(resolve(scenario(((0.9, 0.5, 0.5),), design=design))) == [(1, 2)]


@pytest.mark.parametrize("more", PAIRED, ids=str)
def test_designs_that_ask_about_pairs_are_not(more: dict[str, object]) -> None:
    assert inseparable(resolve(scenario(CROSSED, **more))) == []
    assert "(--design" not in warned(((0.4, 0.4),), **more)


def test_a_large_catalogue_is_warned_of_without_a_way_that_it_cannot_go() -> None:
    assert warned(CROSSED, items=10_000, rated=100).endswith("(--design anchor)")  # pairs would be too many
    assert warning(resolve(scenario(CROSSED, items=10_000, rated=1))) is not None


def test_asking_about_everything_in_one_set_tells_nothing() -> None:
    for design in ("maxsense", "multi-maxsense"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design=design, theta=10.0))) == [(0, 1)]
    for questions in (1, 5, "auto"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design="multi-maxsense", questions=questions))) == []


@pytest.mark.parametrize("design", ["multi-maxsense", "item-query", "curator-items"])
def test_one_rated_item_makes_no_pair_that_could_help(design: str) -> None:
    assert "(--design" not in warned(CROSSED, design=design, rated=1)


def test_noise_makes_no_clusters_coincide() -> None:
    for design in ("maxsense", "multi-maxsense", "curator-items"):
        assert inseparable(resolve(scenario(((0.9, 0.1),), design=design, epsilon="0.0001"))) == []
    assert inseparable(resolve(scenario(((0.9, 0.1),), design="curator-pairs", epsilon="100"))) == []
