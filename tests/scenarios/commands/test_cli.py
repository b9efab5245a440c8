"""The command line, as a stranger uses it: runs, folders, JSON and files of every format."""

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from runs import Command, complains, here, of_file, planted_ratings, refused, small, write_movielens

from coordinator.protocol.mechanisms.maxsense import MultiMaxSense
from coordinator.protocol.moments.blocks import BlockParameters, multi_maxsense_moments
from scenarios.commands import experiment_commands
from scenarios.config.resolve import load_scenario, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate
from scenarios.studies.planner import plan as planning
from scenarios.studies.planner.least_users import Candidate, users_needed

pytestmark = pytest.mark.usefixtures("few_draws")

SMALL = ["--backend", "inprocess", "--workers", "1", "--users", "2000", "--items", "40", "--rated", "5"]
ROWS = planted_ratings(users=25, items=12, each=6)


def test_the_demo(blindrec: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (experiment_commands.DEMO.items, experiment_commands.DEMO.users) == (200, 2_000_000)
    monkeypatch.setattr(experiment_commands, "DEMO", experiment_commands.DEMO.model_copy(update={"users": 40_000}))
    shown = blindrec("demo", "--backend", "inprocess", "--json", tmp_path / "demo.json")
    assert shown.code == 0
    assert shown.out.startswith("blindrec demo, maxsense, inprocess")
    result = json.loads((tmp_path / "demo.json").read_text())
    assert (result["users"], result["answered"], result["trust_model"]) == (40_000, 40_000, "local")
    assert result["accuracy"] > 0.7


def test_data_tells_what_is_in_a_file(blindrec: Command, tmp_path: Path) -> None:
    path, flags = tmp_path / "named.csv", ("--columns", "who,what,how much")
    pd.DataFrame(ROWS, columns=["who", "what", "how much"]).to_csv(path, index=False)
    told = blindrec("data", path, *flags, "--json", "-")
    assert (told.code, told.err) == (0, "")
    assert (told.result["users"], told.result["items"], told.result["ratings"]) == (25, 12, 150)
    assert told.result["density"] == pytest.approx(6 / 12)
    assert told.result["ratings_per_user"]["max"] == 6
    shown = blindrec("data", path, *flags)
    assert shown.out.startswith("blindrec data named.csv")
    assert "above each user's own mean" in shown.out
    likes = blindrec("data", path, *flags, "--like-from", 5, "--json", "-").result
    assert (likes["likes"], likes["like_from"]) == (sum(value == 5 for _, _, value in ROWS), 5)


def test_one_person_behind_several_devices_is_warned_of(blindrec: Command, tmp_path: Path) -> None:
    """With infinite epsilon, or a device each, there is nothing to warn of."""
    path = write_movielens(tmp_path / "ratings.csv", ROWS)
    flags = ("run", "--ratings", path, "--rated", 6, "--epsilon", 2, *SMALL[:4], "--json", "-")
    ended = blindrec(*flags, "--users", 5000)
    most = ended.result["copies_max"]
    assert " ".join(ended.err.split()).startswith(
        f"warning: 5,000 devices are drawn from 25 people, so that one person answers up to {most} times: a person's "
        f"epsilon is {2 * most}, not 2. Leave --users out for a device each; or take the result as that of so many "
        "other people, and nobody in the file as protected"
    )
    assert ended.result["person_epsilon"] == 2 * most
    assert "warning" not in blindrec(*flags).err
    assert "warning" not in blindrec(*flags, "--users", 5000, "--epsilon", "inf").err


# `questions = "auto"`: the number of questions that needs the fewest users, by going through all of them.


def auto(**changes: Any) -> Scenario:
    return small(design="multi-maxsense", questions="auto", **changes).complete()


def best_questions(scenario: Scenario) -> int:
    assert isinstance(scenario.settings, MultiMaxSense)
    return scenario.settings.best_questions(resolve(scenario).world, scenario.decoder)


def in_its_world(scenario: Scenario) -> tuple[int, int]:
    """The number of items in a set, and the most questions."""
    assert isinstance(scenario.settings, MultiMaxSense)
    world = resolve(scenario).world
    return scenario.settings.set_size(world), scenario.settings.full_sets(world)


def users_for(parameters: BlockParameters, scenario: Scenario, questions: int, epsilon: float) -> float:
    """Users that a given contrast between clusters takes, up to a factor: infinite where coins cannot say epsilon."""
    if math.isfinite(epsilon) and epsilon / questions > 30:
        return math.inf
    size, _ = in_its_world(scenario)
    moments = multi_maxsense_moments(parameters, set_size=size, questions=questions, epsilon=epsilon)
    noise = moments.noise_paper if scenario.decoder == "paper" else moments.noise_centred
    return noise / float(moments.sensing * (moments.effect.max() - moments.effect.min())) ** 2


@pytest.mark.parametrize("decoder", ["centred", "paper"])
@pytest.mark.parametrize(
    ("shape", "epsilon"),
    [
        ({}, "1/10"),
        ({}, "1"),
        ({}, "2"),
        ({}, "3"),
        ({}, "5"),
        ({}, "30"),
        ({"rated": 20}, "6"),
        ({"rated": 20}, "12"),
        ({"rated": 20, "theta": 3}, "20"),
        ({"rated": 10, "like": "0.9,0.2;0.4,0.5", "class_shares": "0.7,0.3"}, "8"),
        ({"items": 41, "rated": 7}, "70"),
        ({"rated": 20}, "inf"),
    ],
)
def test_auto_is_the_best_of_all_numbers(shape: dict[str, Any], epsilon: str, decoder: str) -> None:
    scenario = auto(**shape, epsilon=epsilon, decoder=decoder)
    parameters, most = resolve(scenario).block, in_its_world(scenario)[1]
    nats = math.inf if scenario.epsilon is None else float(scenario.epsilon)
    needs = [users_for(parameters, scenario, questions, nats) for questions in range(1, most + 1)]
    assert needs[best_questions(scenario) - 1] == pytest.approx(min(needs), rel=1e-9)


@pytest.mark.parametrize(
    "shape",
    [
        {"items": 10, "rated": 10, "theta": 10},
        {"like": "0,0", "epsilon": "inf"},
        {"like": "1,1", "rated": 40, "epsilon": "inf"},
    ],
    ids=str,
)
def test_where_nothing_can_be_learned_auto_is_some_number_still(shape: dict[str, Any]) -> None:
    """No signal and no noise: 0 / 0 must not end a run that was asked for; the run warns that it learns nothing."""
    scenario = auto(**shape)
    assert 1 <= best_questions(scenario) <= in_its_world(scenario)[1]


@pytest.mark.parametrize("epsilon", ["301", "1000", "1e400"])
def test_an_epsilon_that_no_split_can_express_is_refused_before_anybody_is_asked(epsilon: str) -> None:
    """Five questions at most: 60 nats a question are more than coins can say."""
    with complains("epsilon"):
        load_scenario(None, {"design": "multi-maxsense", "questions": "auto", "rated": 5, "epsilon": epsilon})


def test_a_run_asks_the_number_that_was_settled(tmp_path: Any) -> None:
    run = here(small(design="multi-maxsense", questions="auto", epsilon=9, users=300))
    questions = run.outcome.state.asked[0].query.questions
    assert questions == run.scenario.value("questions") == best_questions(auto(epsilon=9)) > 1
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=40, each=12))
    of = here(of_file(file, design="multi-maxsense", questions="auto", epsilon=9))
    wanted = max(range(1, 10), key=lambda count: count * math.tanh(9 / count / 2) ** 2)
    assert of.outcome.state.asked[0].query.questions == of.scenario.value("questions") == wanted


def test_numbers_stay_and_other_designs_stay() -> None:
    for scenario in (small().complete(), small(design="multi-maxsense", questions=3).complete()):
        assert resolve(scenario).scenario == scenario
    population = populate(small(design="multi-maxsense", epsilon="5/2"))
    chosen = resolve(population.scenario).scenario
    assert (chosen.value("questions"), chosen.epsilon) == (3, Fraction(5, 2))
    assert population.ratings.users == 3001


# `blindrec plan` and `blindrec bounds`: what they print, and what they refuse.


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
