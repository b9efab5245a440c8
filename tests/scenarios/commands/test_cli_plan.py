"""`blindrec plan` and `blindrec bounds`: what they print, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from runs import Command, planted_ratings, refused, write_movielens

from scenarios.studies.planner import plan as planning
from scenarios.studies.planner.least_users import Candidate, users_needed

pytestmark = pytest.mark.usefixtures("few_draws")
WORLD = ("--items", 40, "--rated", 6, "--epsilon", 4)
HERE = ("--backend", "inprocess", "--workers", 1)


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """A file with two planted clusters."""
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=200, items=12, each=5))


def test_the_table(blindrec: Command, no_pairs: None, tmp_path: Path) -> None:
    shown = blindrec("plan", *WORLD, "--json", tmp_path / "plan.json")
    assert shown.code == 0
    best = json.loads((tmp_path / "plan.json").read_text())["recommended"]
    told = f"{best['users']:,} users at epsilon 4 for all items right with probability 0.95"
    assert shown.words.endswith(f" recommended: maxsense, centred: {told}")
    fails = "any epsilon-LDP learner needs to fail with probability 0.05 at most: fano"
    for words in ("protects all a device holds:", "not private:", "(binds)", "Theorem 15", fails):
        assert words in shown.words
    noiseless = blindrec("plan", *WORLD[:4], "--epsilon", "inf").out
    assert "local, no noise:" in noiseless
    assert "protects all a device holds:" not in noiseless


def test_check_and_cost(blindrec: Command, no_pairs: None) -> None:
    """All right in each of 5 seeds at a planned probability of 0.999: false alarm 0.005."""
    small = ("--items", 20, "--rated", 5, "--epsilon", 4, "--success", 0.999)
    told = blindrec("plan", *small, "--check", "--cost", *HERE, "--seed", 3, "--json", "-")
    check, cost, best = (told.result[name] for name in ("check", "cost", "recommended"))
    assert (check["answered"], check["repeat"], check["seed"]) == (best["users"], 5, 3)
    assert check["design"] == best["design"]
    assert (check["accuracy_predicted"], check["exact_predicted"]) == (best["accuracy"], best["exact"])
    assert (check["accuracy"], check["exact"]) == (1, 1)
    assert cost["core_seconds"] == pytest.approx(best["users"] / cost["devices_per_second_and_core"])
    assert cost["cores_for_an_hour"] == cost["cores_for_a_day"] == 1
    shown = blindrec("plan", *small, "--check", "--repeat", 1, *HERE).out
    assert "the plan's own check" in shown
    assert "to simulate it" not in shown


def test_a_plan_for_a_files_block_model_is_made_on_request_alone(
    blindrec: Command, no_pairs: None, ratings: Path
) -> None:
    """A file has one recommendation: what is worth something to its people, or for a block model of its shape."""
    plan: tuple[object, ...] = ("plan", "--ratings", ratings, "--epsilon", 4)
    forecast = blindrec(*plan)
    assert "nothing can be said: the file has 12 items" in forecast.words
    assert "block model" not in forecast.words
    assert "recommended" not in forecast.words
    assert not {"designs", "bounds", "recommended", "not_for"} & blindrec(*plan, "--json", "-").result.keys()
    plan = (*plan, "--block-model", "--accuracy", 0.9)
    made = blindrec(*plan, "--json", "-").result
    assert "answer" not in made
    assert 0.5 < made["recommended"]["accuracy"] < 1
    assert (made["failure"], made["mistakes"]) == (0.5, 1)
    more = blindrec(*plan, "--users", 10**6, "--json", "-")
    assert more.result["recommended"]["accuracy"] > 0.999
    assert more.result["recommended"]["users"] == made["recommended"]["users"]
    assert made["recommended"]["users_here"] == 200
    assert "12 items" in made["holds_for"]
    assert "nothing of the file itself" in made["not_for"]
    shown = blindrec(*plan).words
    assert "say little" not in shown
    for words in (
        "users needed",
        "with 200",
        "holds for a block model",
        "nothing of the file itself",
        "; 200 users put",
    ):
        assert words in shown


@pytest.mark.thorough
def test_a_file_where_pairs_are_best(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the best design named no agreement, which the name of a pairwise design tells."""
    ratings = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=2000, items=24, each=16))
    settings = {"design": "pairwise", "agreement": "rated-equal", "decoder": "centred"}
    monkeypatch.setattr(planning, "candidates", lambda world, _=None: [Candidate(world=world, settings=settings)])
    shown = blindrec("data", ratings, "--block-model")
    assert shown.code == 0, shown.err
    for words in ("pairwise", "rated-equal", "one label for all", "nothing of the file itself"):
        assert words in shown.words


def test_data_without_a_shape_says_so(blindrec: Command, tmp_path: Path) -> None:
    flat = write_movielens(tmp_path / "flat.csv", [(user, item, 3.0) for user in range(9) for item in range(4)])
    shown = blindrec("data", flat, "--block-model")
    assert shown.code == 0
    assert "too few ratings to say what could be learned" in shown.out
    assert "could be learned" not in blindrec("data", flat).out
    assert "too few to find 2 clusters" in refused(blindrec, "plan", "--ratings", flat, "--block-model")


def test_clusters_that_nothing_tells_apart(blindrec: Command) -> None:
    shown = blindrec("plan", "--like", "0.5,0.5")
    assert shown.code == 0
    assert "blind to clusters 0 and 1" in shown.words
    assert shown.words.endswith(
        "no design that protects all that a device holds reaches all items right with probability 0.95"
    )


def test_no_private_design_has_that_many_users(blindrec: Command, no_pairs: None) -> None:
    assert "more than 10^15 users" in refused(blindrec, "plan", "--items", 60, "--rated", 6, "--epsilon", "1e-9")


def test_a_check_that_cannot_run_is_refused(blindrec: Command, no_pairs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*arguments: Any) -> Any:
        need = users_needed(*arguments)
        return type(need)(users=10**13 if need.users else None, predictor=need.predictor)

    monkeypatch.setattr(planning, "users_needed", slow)
    ended = blindrec("plan", *WORLD, "--check", *HERE)  # which has shown the plan
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "users is 10000000000000" in ended.err


BOUNDS = ("bounds", "--items", 1000, "--rated", 30)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "needs to fail with probability 0.5 at most"),
        (["--failure", "0.05"], "needs to fail with probability 0.05 at most"),
        (["--mistakes", "3"], "needs to have more than 3 items wrong with probability 0.5 at most"),
    ],
)
def test_at_which_failure_bounds_hold_is_told(flags: list[str], words: str, blindrec: Command) -> None:
    assert words in blindrec(*BOUNDS, *flags).words
