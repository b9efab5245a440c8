"""Several seeds together: worst cases, counts, words, infinity, and what is missing."""

from __future__ import annotations

import math

import pytest

from scenarios.show.columns import Average, Column, mean_of

COLUMNS = [Column(name=one.name.lower(), words=one.name, average=one) for one in Average]


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("worst", [1.0, 3.0, 2.0], 3.0),
        ("worst", [1.0, "inf"], "inf"),
        ("worst", [1.0, None], None),
        ("count", [5, 5], 5),
        ("count", [5, 6], 5.5),
        ("formula", [0.5, 0.7], 0.6),
        ("share", [True, False, False, False], 0.25),
        ("first", [1, 2], 1),
        ("joined", ["a", "a"], "a"),
        ("joined", ["a", "b"], "differs"),
        ("joined", [[1], [2]], "differs"),
        ("joined", [1.0, None], None),
        ("mean", [1.0, "inf"], "inf"),
        ("mean", [None, None], None),
        ("unknown", [1, 2], 1.5),
    ],
)
def test_each_average_says_what_it_promises(name: str, values: list[object], told: object) -> None:
    found = mean_of(COLUMNS, [{name: value} for value in values])
    assert found[name] == (pytest.approx(told) if isinstance(told, float) else told)
    intervals = {"mean", "share"} | ({"count"} if isinstance(told, float) else set())
    assert (name in found["intervals"]) == (name in intervals and isinstance(told, float))


def test_a_digest_of_one_seed_stands_for_no_others() -> None:
    assert "nothing" not in mean_of(COLUMNS, [{"nothing": "00"}, {"nothing": "11"}])


def test_an_interval_is_cut_to_what_numbers_can_be() -> None:
    """A mean of .5 and 1 has a Student interval of .75 +- 3.18: no share is below 0 or above 1, no loss below 0."""
    columns = [Column(name="share", average=Average.MEAN, most=1), Column(name="loss", average=Average.MEAN)]
    found = mean_of(columns, [{"share": 0.5, "loss": 0.5}, {"share": 1.0, "loss": 1.0}])["intervals"]
    assert found["share"] == [0, 1]
    assert found["loss"] == [0, pytest.approx(0.75 + 12.7062 * 0.25, rel=1e-5)]
    below = mean_of(columns, [{"loss": -0.5}, {"loss": 1.0}])["intervals"]["loss"]
    assert below[0] == -1
    assert math.isfinite(below[1])


def test_a_column_is_left_out_where_another_says_it_better() -> None:
    column = Column(name="policy", words="policy", unless_one="rounds", unless_known="accuracy")
    assert column.shown({"policy": "fixed", "rounds": 2})
    assert not column.shown({"policy": "fixed", "rounds": 1})
    assert not column.shown({"policy": "fixed", "rounds": 2, "accuracy": 0.5})
    assert not column.shown({"rounds": 2})
    assert not Column(name="policy").shown({"policy": "fixed"})
