"""Inverse questions: known numbers of users, and that what is found is the smallest that meets the target."""

import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from runs import present

from coordinator.protocol.errors import InputError
from scenarios.config.scenario import Scenario
from scenarios.studies.planner import least_users
from scenarios.studies.planner.least_users import (
    Candidate,
    Simulated,
    Target,
    epsilon_needed,
    predicted_users,
    users_needed,
)
from scenarios.theory.emulated_runs import MOST_USERS
from scenarios.theory.predictors import Predictor, predictor

STANDARD = Scenario(items=1000, rated=30)
HALF = Target(success=None, accuracy=0.9)
SURE = Target(success=0.95, accuracy=None)


def candidate(design: str, world: Scenario = STANDARD, **settings: Any) -> Candidate:
    return Candidate(world=world, settings={"design": design, **settings})


def needed(one: Candidate, epsilon: Any, target: Target) -> int:
    return present(users_needed(one, epsilon, target).users)


ABLE = [("curator-items", {}), *(("maxsense", {"decoder": one}) for one in ("centred", "paper"))]
ABLE += [("multi-maxsense", {"questions": one}) for one in ("ceil", "auto")]


@pytest.mark.parametrize("target", [SURE, Target(success=0.5, accuracy=0.9)])
@pytest.mark.parametrize(("design", "settings"), ABLE)
def test_users_found_meet_the_target_and_fewer_do_not(design: str, settings: dict[str, Any], target: Target) -> None:
    one = candidate(design, Scenario(items=60, rated=6), **settings)
    users = needed(one, Fraction(2), target)
    prediction = present(predictor(one.at(Fraction(2))))
    assert target.met(prediction, users)
    assert not target.met(prediction, math.floor(users * 0.999) - 1)


@pytest.mark.few(2)
@pytest.mark.parametrize(("design", "settings"), ABLE)
def test_epsilon_found_meets_the_target_and_less_does_not(design: str, settings: dict[str, Any]) -> None:
    one, users = candidate(design, Scenario(items=60, rated=6), **settings), 60_000

    def met(epsilon: Fraction) -> bool:
        found = predictor(one.at(epsilon))
        return found is not None and SURE.met(found, users)

    epsilon = present(epsilon_needed(one, SURE, users))
    assert met(epsilon)
    assert not met(epsilon * Fraction(999, 1000))
    assert not any(met(epsilon * Fraction(part, 20)) for part in range(2, 20))


def test_no_smaller_epsilon_is_skipped_where_the_need_jumps() -> None:
    """ceil(epsilon) questions: for users between the needs at 2 and just above it, 2 is not passed over."""
    one = candidate("multi-maxsense", Scenario(items=60, rated=6), questions="ceil")
    at, above = (needed(one, epsilon, SURE) for epsilon in (Fraction(2), Fraction(2001, 1000)))
    assert above > 1.05 * at
    least = present(epsilon_needed(one, SURE, (at + above) // 2))
    assert least < 2


def planted(middle: float) -> tuple[Predictor, list[int]]:
    """Predictions 0.9 where users are ``middle``, and the users that were asked about."""
    asked: list[int] = []

    def share(users: int) -> float:
        asked.append(users)
        return users / (users + middle / 9)

    return Predictor(accuracy=share, exact=share), asked


@pytest.mark.parametrize("middle", [1.5, 2.5, 49.5, 12_344.5, 3e9, 7e14])
def test_a_planted_need_comes_back(middle: float) -> None:
    found, asked = planted(middle)
    assert predicted_users(found, HALF) == pytest.approx(math.ceil(middle), rel=2e-4)
    assert len(asked) < 80
    assert predicted_users(planted(middle)[0], HALF) == predicted_users(found, HALF)


def test_more_than_anybody_has_is_said_at_once() -> None:
    for middle in (1.01 * MOST_USERS, 1e40, math.inf):
        found, asked = planted(middle)
        assert predicted_users(found, HALF) is None
        assert len(asked) < 80
    nothing = users_needed(candidate("maxsense"), Fraction(1, 10**9), SURE)
    assert nothing.users is None


def test_item_queries_ask_for_as_many_yeses_as_the_target_wants() -> None:
    one = candidate("item-query", Scenario(items=40, rated=8), decoder="shares")
    rough, fine = (users_needed(one, None, Target(success=p, accuracy=None)) for p in (0.5, 0.99))
    answers, users, (low, high) = present(fine.answers), present(fine.users), present(fine.interval)
    assert 1 < present(rough.answers) < answers
    assert answers % 2 == 1
    assert present(present(fine.estimate).chance)(answers) >= 0.99
    assert present(fine.predictor).exact(1) >= 0.9  # of some 40 draws, each of which is right with a chance of .99
    assert low <= users <= (high or math.inf)
    assert users == pytest.approx(2 * 40**2 / 8 * answers, rel=0.05)


def test_anchor_sensing_takes_more_users_the_surer_all_labels_must_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubts of a 20 thousand-millionth instead of a 40th take 23.7 nats instead of 3.7; pairs' users are the same."""
    monkeypatch.setattr("scenarios.theory.predictors.PLAYED", 2)
    anchor = candidate("anchor", Scenario(items=20, rated=8, like=((0.9, 0.1), (0.1, 0.9))))
    rough, fine = (needed(anchor, Fraction(2), Target(success=p, accuracy=None)) for p in (0.5, 1 - 1e-9))
    assert fine > 1.2 * rough


@pytest.mark.parametrize("right", [0.98, 1.0])
def test_runs_may_have_as_many_wrong_items_as_chance_makes_of_half_as_many_again_and_a_hundredth(
    right: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quantile of 1 - 1e-6 of 200 items' binomial law, summed in fractions: a class passes at it, and not above."""
    error = Fraction(3, 2) * (1 - Fraction(str(right))) + Fraction(1, 100)
    laws = [math.comb(200, wrong) * error**wrong * (1 - error) ** (200 - wrong) for wrong in range(201)]
    most = next(wrong for wrong in range(201) if sum(laws[wrong + 1 :]) <= Fraction(1, 10**6))
    truth = np.repeat([0, 1], 100)

    def shortage(wrong: int) -> str:
        model = SimpleNamespace(cluster=np.where(np.arange(200) < wrong, 1, truth))
        ran = SimpleNamespace(population=SimpleNamespace(truth=truth), outcome=SimpleNamespace(model=model))
        monkeypatch.setattr(least_users, "run", lambda *_: ran)
        prediction = Predictor(accuracy=lambda _: right, exact=lambda _: right)
        return least_users.shortfall(Scenario(items=200, rated=20), prediction, users=100)

    assert not shortage(most)
    assert f"where {right:.3g} is predicted" in shortage(most + 1)


@pytest.mark.parametrize("name", ["success", "accuracy"])
@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, math.inf])
def test_targets_lie_between_0_and_1(name: str, value: float) -> None:
    with pytest.raises(InputError, match=rf"{name} is .*{value}.* above 0 and below 1"):
        Target(**{"success": None, "accuracy": None, name: value})


def test_targets_in_words() -> None:
    words = "all items right with probability 0.5 and a share of 0.99 of the items right"
    assert Target(success=0.5, accuracy=0.99).description == words


@pytest.mark.few(1)
@pytest.mark.parametrize(("design", "rated"), [("pairwise", 40), ("curator-pairs", 20)])
def test_an_epsilon_that_is_emulated_is_the_inverse_of_the_users(design: str, rated: int) -> None:
    """Users at epsilon 3/2 meet the target again near it; both are estimates, with intervals of some 20 %."""
    decoder = "centred" if design == "pairwise" else "totals"
    one = candidate(design, Scenario(items=40, rated=rated), decoder=decoder)
    least = present(least_users.estimated_epsilon(one, SURE, needed(one, Fraction(3, 2), SURE)))
    assert least.high is not None
    assert least.low / 1.15 < 1.5 < least.high * 1.15
    assert least.high < 1.6 * least.low
    assert least_users.estimated_epsilon(one, SURE, 1) is None
    assert (least_users.to_epsilon(0), least_users.to_epsilon(100)) == (Fraction(1, 10**6), Fraction(30))


def test_users_go_with_the_inverse_square_of_a_measured_contrast() -> None:
    simulation = Simulated(contrast=0.1, low=0.05, high=0.2, seeds=3)
    assert simulation.users(100) == (25, 400)
    assert Simulated(contrast=0.1, low=-0.05, high=0.2, seeds=3).users(100) == (25, None)
