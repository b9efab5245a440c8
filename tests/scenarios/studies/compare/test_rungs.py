"""What an answer takes of a comparison: rungs and lists without privacy, and which numbers of people are measured."""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from runs import planted_ratings, write_movielens

from scenarios.studies.compare import rungs
from scenarios.studies.compare.comparison_settings import Comparison
from scenarios.studies.compare.row import Row
from scenarios.studies.compare.rungs import answer_of, why_no_answer
from scenarios.studies.compare.scales import RungScales
from scenarios.studies.compare.scoring import CompareKey, CompareMeasurement, ListScores, rows_of
from scenarios.studies.compare.worlds import table_of, world_of

PEOPLE = 400


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    rows = planted_ratings(users=PEOPLE, items=30, each=5)
    path = write_movielens(tmp_path_factory.mktemp("rungs") / "ratings.csv", rows)
    return Comparison(ratings=path, like_from=4.0, public=(0.2, 0.05), people=10 * PEOPLE)


def unit(ndcg: float, samples: Sequence[float] = (), local: float | None = None) -> CompareMeasurement:
    names = ("hit_rate", "ndcg", "recall")
    resampled = dict.fromkeys(names, tuple(samples or (ndcg,) * 3))
    means: dict[str, Any] = dict.fromkeys(names, ndcg)
    scores = ListScores(features=False, **means, coverage=0.5, people=PEOPLE, resampled=resampled)
    return CompareMeasurement(scores=(scores,), simulated=None, seconds=1.0, epsilon_local=local)


def units_of(rows: Mapping[tuple[str, str, str, int, str], CompareMeasurement]) -> dict[CompareKey, Any]:
    return {CompareKey(*name, seed): of for name, of in rows.items() for seed in range(3)}


def test_popularity_must_be_surely_better_than_random_lists(settings: Comparison) -> None:
    samples = (0.3, 0.35, 0.4, 0.45, 0.5)
    for random, surely in ((0.1, True), (0.38, False)):
        rows = {
            ("none", "popularity", "", PEOPLE, ""): unit(0.4, samples),
            ("none", "chance", "", PEOPLE, ""): unit(random, (random,) * 5),
        }
        assert (why_no_answer(settings, units_of(rows), table_of(settings)) is None) == surely


def test_an_answer_has_the_best_list_among_everybody_and_what_is_left_behind_a_shuffler(
    settings: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = list[dict[str, Any]]()

    def record_inputs(**values: Any) -> Any:
        inputs.append(values)
        return SimpleNamespace(answer=lambda **_: None)

    monkeypatch.setattr(rungs, "AnswerInputs", record_inputs)
    rows = {
        ("none", "popularity", "", PEOPLE, ""): unit(0.4),
        ("none", "EASE", "", PEOPLE, ""): unit(0.5, (0.1, 0.1, 0.1)),
        ("none", "SVD", "", PEOPLE, ""): unit(0.45, (0.49, 0.49, 0.49)),
        ("shuffled", "set", "1", 10 * PEOPLE, ""): unit(0.3, local=5.6),
        ("local", "set", "1", 10 * PEOPLE, ""): unit(0.2, local=1.0),
    }
    answer_of(settings, units_of(rows), table_of(settings))
    (values,) = inputs
    assert values["best_name"] == "EASE"
    assert values["volunteers"] == 0.05
    assert (values["people"], values["items"]) == (10 * PEOPLE, 30)
    left = {curve.rung: curve.device_epsilon for curve in values["curves"]}
    assert left == {"shuffled": {10 * PEOPLE: 5.6}, "local": {10 * PEOPLE: None}}
    # The file's own people are the sample, however many there are to be
    liked = np.sort(world_of(settings, settings.seed).popularity)[-10] / PEOPLE
    assert values["file_error"]["local"] == pytest.approx(2 * 1.96 * math.sqrt((1 - liked) / (liked * PEOPLE)))


class PlannedScales(RungScales):
    """Scales of a rung whose best row reaches the target from a number of people on."""

    enough = 0

    def leader(self, rows: Sequence[Row], users: int) -> tuple[float, Row] | None:
        return (0.6 if users >= self.enough else 0.4), rows[0]


@pytest.mark.parametrize(
    ("enough", "decades"),
    [(200_000, [4000, 40_000, 400_000]), (1000, [4000, 400]), (50, [4000, 400]), (4000, [4000, 400])],
)
def test_people_are_sought_by_tens_towards_the_target(settings: Comparison, enough: int, decades: list[int]) -> None:
    """None are fewer than 50, who are too few for likes that are held out."""
    scales = PlannedScales(settings, PEOPLE, [rows_of(settings)["local: set"]], "1", 0.5, cast("Any", {}))
    scales.enough = enough
    assert scales.decades() == decades
