"""`questions = "auto"`: the number of questions that needs the fewest users, by going through all of them."""

import math
from fractions import Fraction
from typing import Any

import pytest
from runs import complains, here, of_file, planted_ratings, small, write_movielens

from coordinator.protocol.mechanisms.maxsense import MultiMaxSense
from coordinator.protocol.moments.blocks import BlockParameters, multi_maxsense_moments
from scenarios.config.resolve import load_scenario, resolve
from scenarios.config.scenario import Scenario
from scenarios.data.populations import populate

pytestmark = pytest.mark.usefixtures("few_draws")


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
