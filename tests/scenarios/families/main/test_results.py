"""Results: the fields that are promised, null where there is no truth, means with intervals, prediction and measure."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import here, of_file, planted_ratings, small, write_movielens

from actors.ratings import BlockRatings
from coordinator.protocol.coins import derive
from scenarios.config.resolve import resolve
from scenarios.data.populations import populate
from scenarios.families.main.main_columns import COLUMNS, record
from scenarios.families.main.run_scores import predict
from scenarios.show.columns import mean_of
from scenarios.store.whole_files import to_json

PROMISED = {
    *("design", "decoder", "items", "rated", "users", "clusters", "epsilon", "seed", "trust_model"),
    *("answered", "refused", "missing", "accuracy", "exact", "ari", "nmi", "accuracy_predicted"),
    *("seconds", "devices_per_second", "releases_sha256"),
    *("guarantee", "neighbours", "delta"),
}
NEEDS_TRUTH = {"accuracy", "exact", "ari", "nmi", "accuracy_predicted"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_movielens(tmp_path / "ratings.csv", planted_ratings(users=60, items=40, each=12))


def test_without_noise_and_with_many_users_everything_is_right_and_epsilon_is_a_word() -> None:
    found = record(here(small(epsilon="inf", users=60_000, like="1,0")))
    assert found["epsilon"] == found["person_epsilon"] == "inf"
    assert found["guarantee"].startswith("none")
    assert (found["neighbours"], found["delta"]) == (None, None)
    right = {name: found[name] for name in ("accuracy", "exact", "ari", "nmi")}
    assert right == {"accuracy": 1, "exact": True, "ari": 1, "nmi": pytest.approx(1)}
    assert found["accuracy_predicted"] > 0.999
    assert found["random_liked"] == 0.5


def test_what_needs_a_truth_is_null_on_files(file: Path) -> None:
    found = record(here(of_file(file, held_out=1)))
    assert set(found) >= PROMISED
    assert {name for name, value in found.items() if value is None} == NEEDS_TRUTH | {
        "unlearned",
        "undecided",
        "policy_error",
        "deadline",
    }
    told = json.loads(to_json(found))
    assert all(told[name] is None for name in NEEDS_TRUTH)
    assert (found["users"], found["items"], found["evaluated"]) == (60, 40, 60)


def test_the_clusters_of_a_planted_file_are_found_and_help_its_users(tmp_path: Path) -> None:
    file = write_movielens(tmp_path / "ratings.csv", planted_ratings(users=400, items=40, each=12))
    run = here(of_file(file, users=200_000, epsilon="inf"))
    assert run.outcome.model.cluster.tolist() == [0] * 20 + [1] * 20
    found = record(run)
    assert found["noiseless_ari"] == 1
    assert found["copies_max"] > 200_000 / 400
    assert found["person_epsilon"] == "inf"
    assert found["hit_rate"] > found["random_hit_rate"] + 3 * found["hit_rate_error"]


@pytest.mark.parametrize(
    "trust", [{"design": "set", "trust": "shuffled"}, {"design": "totals", "trust": "two-servers"}]
)
def test_of_a_person_with_hundreds_of_devices_no_delta_is_left(file: Path, trust: dict[str, str]) -> None:
    """Its exponential is no float: the finished run was lost."""
    values = record(here(of_file(file, users=48_000, epsilon=1, **trust)))
    assert values["copies_max"] > 710
    assert values["person_delta"] == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["curator-items", "curator-pairs"])
def test_a_run_under_either_relation_is_the_other_at_half_or_twice_epsilon(name: str) -> None:
    """The noise for one user added is that for one replaced at twice epsilon, draw by draw; the promise names it."""
    replaced = here(small(design=name, epsilon=2, users=60))
    added = here(small(design=name, epsilon=1, users=60, neighbours="add-remove"))
    same_epsilon = here(small(design=name, epsilon=2, users=60, neighbours="add-remove"))
    assert replaced.outcome.model.score.tolist() == added.outcome.model.score.tolist()
    assert replaced.outcome.model.score.tolist() != same_epsilon.outcome.model.score.tolist()
    found = record(added)
    assert (found["neighbours"], found["delta"]) == ("add-remove", 0.0)
    assert "one user added or removed" in found["guarantee"]
    assert "one user's ratings replaced by any others" in record(replaced)["guarantee"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["curator-items", "curator-pairs"])
def test_a_curators_huge_epsilon_is_a_record_still(name: str) -> None:
    """Refused before anybody is asked, or told as a number that JSON holds; not an error at the end of the run."""
    try:
        scenario = small(design=name, epsilon="1e400", users=50)
    except ValueError:
        return
    json.loads(to_json(record(here(scenario))), parse_constant=pytest.fail)


def test_items_that_users_did_not_suffice_for_are_unlearned() -> None:
    found = record(here(small(design="item-query", users=20, answers_per_item=2)))
    assert found["answered"] == 20
    assert 20 < found["unlearned"] <= 40
    assert found["accuracy_predicted"] is None  # Predictions take every item for learned.
    enough = record(here(small(design="item-query")))
    assert enough["unlearned"] == 0
    assert enough["accuracy_predicted"] is not None


def test_where_all_is_rated_no_advice_is_left_and_that_is_null() -> None:
    found = record(here(small(items=12, rated=12)))
    assert found["advice_liked"] is None
    assert json.loads(to_json(found)) == found


def test_advice_is_scored_by_what_the_advised_would_like() -> None:
    scenario = small(like="1,0;0,1", users=500, epsilon="inf")
    run = here(scenario)
    ratings, truth = populate(scenario).ratings, run.population.truth
    assert isinstance(ratings, BlockRatings)
    assert truth is not None
    secret = derive(scenario.seed, "devices")
    every = np.tile(np.arange(40, dtype=np.int32), (500, 1))
    would = ratings.would_like(secret, every)
    liked = [would[device, item] for device, row in enumerate(run.advice) for item in row if item >= 0]
    assert record(run)["advice_liked"] == pytest.approx(np.mean(liked))


def test_no_prediction_for_another_number_of_clusters_or_without_answers() -> None:
    assert predict(resolve(small(clusters=3)), 1000) is None
    assert predict(resolve(small()), 0) is None


def one(seed: int, **measured: Any) -> dict[str, Any]:
    shared = {"users": 10, "epsilon": 1.0, "copies_max": 1, "person_epsilon": 1.0, "ari": None, "releases_sha256": "00"}
    return {"seed": seed, **shared, **measured}


def test_means_and_intervals_of_known_numbers() -> None:
    """Students's t: 12.706 and 4.303 are its 97.5 % points at one and two degrees of freedom."""
    told = mean_of(COLUMNS, [one(seed, accuracy=value, exact=value > 0.75) for seed, value in enumerate([0.74, 0.76])])
    assert told["accuracy"] == pytest.approx(0.75)
    assert told["intervals"]["accuracy"] == pytest.approx([0.75 - 12.7062 * 0.01, 0.75 + 12.7062 * 0.01], rel=1e-5)
    assert told["exact"] == 0.5
    assert told["intervals"]["exact"] == pytest.approx([0.012579, 0.987421], rel=1e-4)
    three = mean_of(COLUMNS, [one(seed, accuracy=value) for seed, value in enumerate([0.45, 0.5, 0.55])])
    reach = 4.30265 * 0.05 / math.sqrt(3)
    assert three["intervals"] == {"accuracy": pytest.approx([0.5 - reach, 0.5 + reach], rel=1e-5)}
    assert (three["repeat"], three["level"], three["seed"], three["users"]) == (3, 0.95, 0, 10)


def test_columns_say_of_several_seeds_what_they_are_for() -> None:
    """Numbers stay what they can be, the worst loss of a person counts, and what is given or null has no interval."""
    rows = [(0.5, -0.1, None, 3), (1.0, 0.4, 0.2, 5), (0.75, 0.2, 0.4, 4)]
    runs = [
        one(seed, accuracy=right, seconds=right / 10, ari=ari, hit_rate=hits, random_liked=0.5, copies_max=most)
        for seed, (right, ari, hits, most) in enumerate(rows)
    ]
    told = mean_of(COLUMNS, runs)
    assert set(told["intervals"]) == {"accuracy", "seconds", "ari", "hit_rate"}
    assert told["intervals"]["accuracy"][1] == 1
    assert told["intervals"]["seconds"][0] >= 0
    assert told["intervals"]["ari"][0] < 0
    assert told["hit_rate"] == pytest.approx(0.3)
    assert (told["copies_max"], told["random_liked"], told["epsilon"]) == (5, 0.5, 1)
    assert "releases_sha256" not in told
    assert told["runs"] == runs
    assert mean_of(COLUMNS, [one(seed) for seed in range(2)])["ari"] is None
